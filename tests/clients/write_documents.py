"""Writes documents with the libraries that people use, into the folder that is named."""

import datetime
import io
import sys
from pathlib import Path

import docx
import msoffcrypto
import openpyxl
import pptx
import xlsxwriter
import xlwt
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from odf.opendocument import OpenDocumentSpreadsheet, OpenDocumentText
from odf.table import Table, TableCell, TableRow
from odf.text import H, P, Note, NoteBody, NoteCitation
from PIL import Image
from pptx.util import Inches
from pypdf import PdfReader, PdfWriter
from reportlab.lib.pagesizes import A4
from reportlab.pdfgen import canvas

target = Path(sys.argv[1])
MARCH = datetime.date(2026, 3, 1)


def picture(color):
    data = io.BytesIO()
    Image.new("RGB", (64, 48), color).save(data, "PNG")
    data.seek(0)
    return data


def write_word():
    document = docx.Document()
    section = document.sections[0]
    section.header.paragraphs[0].text = "Confidential draft"
    section.footer.paragraphs[0].text = "Shop GmbH"
    document.add_heading("Returns", level=1)
    paragraph = document.add_paragraph("Customers send goods back within ")
    run = paragraph.add_run("30 days")
    run.bold = True
    paragraph.add_run(".\tAlways.")
    document.add_comment(runs=run, text="Was 14 days", author="Ana", initials="A")
    document.add_paragraph("First", style="List Number")
    document.add_paragraph("Second", style="List Number")
    document.add_paragraph("A point", style="List Bullet")
    table = document.add_table(rows=3, cols=3)
    for row in range(3):
        for column in range(3):
            table.cell(row, column).text = f"r{row}c{column}"
    table.cell(0, 0).merge(table.cell(0, 1)).text = "wide"
    table.cell(1, 2).merge(table.cell(2, 2)).text = "tall"
    document.add_picture(picture("red"), width=Inches(1))
    document.add_page_break()
    document.add_heading("Fees", level=2)
    document.add_paragraph("None.")
    document.save(target / "returns.docx")


def write_workbooks():
    book = xlsxwriter.Workbook(target / "sales.xlsx")
    sheet = book.add_worksheet("Sales")
    date = book.add_format({"num_format": "yyyy-mm-dd"})
    moment = book.add_format({"num_format": "dd.mm.yyyy hh:mm"})
    percent = book.add_format({"num_format": "0.0%"})
    sheet.write_row("A1", ["Day", "Amount", "Share", "When", "Sum"])
    sheet.write_datetime("A2", datetime.datetime(2026, 3, 1), date)
    sheet.write_number("B2", 0.1 + 0.2)
    sheet.write_number("C2", 0.125, percent)
    sheet.write_datetime("D2", datetime.datetime(2026, 3, 1, 14, 30), moment)
    sheet.write_formula("E2", "=SUM(B2:B3)", None, 12.3)
    sheet.write_number("B3", 12)
    sheet.set_row(2, None, None, {"hidden": True})
    sheet.set_column("C:C", None, None, {"hidden": True})
    sheet.merge_range("A5:C5", "Total of all")
    sheet.write_comment("B2", "Checked by Ana")
    sheet.set_header("&CQuarter 1")
    sheet.insert_image("G1", "logo.png", {"image_data": picture("blue")})
    sheet.write_rich_string("A6", "plain ", book.add_format({"bold": True}), "bold")
    hidden = book.add_worksheet("Costs")
    hidden.write("A1", "Rent")
    hidden.hide()
    book.close()

    book = xlsxwriter.Workbook(target / "old-mac.xlsx", {"date_1904": True})
    sheet = book.add_worksheet("Days")
    sheet.write_datetime("A1", datetime.datetime(2026, 3, 1), book.add_format({"num_format": 14}))
    book.close()

    # openpyxl writes formulas without their values.
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Never opened"
    sheet.append([1, 2, "=A1+B1", MARCH])
    book.save(target / "formulas.xlsx")

    book = xlwt.Workbook()
    sheet = book.add_sheet("Old")
    sheet.write(0, 0, "Name")
    sheet.write(1, 0, MARCH, xlwt.easyxf(num_format_str="YYYY-MM-DD"))
    sheet.write(1, 1, 42)
    book.save(target / "old.xls")


def write_slides():
    deck = pptx.Presentation()
    slide = deck.slides.add_slide(deck.slide_layouts[1])
    slide.shapes.title.text = "Roadmap"
    body = slide.placeholders[1].text_frame
    body.text = "Ship the cart"
    point = body.add_paragraph()
    point.text = "with prices in cents"
    point.level = 1
    slide.notes_slide.notes_text_frame.text = "Mention the refund"
    slide = deck.slides.add_slide(deck.slide_layouts[6])
    table = slide.shapes.add_table(2, 2, Inches(1), Inches(1), Inches(4), Inches(1)).table
    for row in range(2):
        for column in range(2):
            table.cell(row, column).text = f"t{row}{column}"
    slide.shapes.add_picture(picture("green"), Inches(1), Inches(3))
    slide._element.set("show", "0")
    deck.save(target / "roadmap.pptx")


def write_pdfs():
    page = canvas.Canvas(str(target / "invoice.pdf"), pagesize=A4)
    page.drawString(72, 750, "Invoice 4711")
    page.drawString(72, 730, "Total: 0.30 EUR, the first of the office")
    page.showPage()
    page.showPage()
    page.drawString(72, 750, "Terms on the third page")
    page.acroForm.textfield(name="customer", value="Ben", x=72, y=600)
    page.save()

    page = canvas.Canvas(str(target / "scan.pdf"), pagesize=A4)
    with_pixels = Image.new("RGB", (200, 300), "white")
    data = target / "pixels.png"
    with_pixels.save(data)
    page.drawImage(str(data), 0, 0, 595, 842)
    page.save()
    data.unlink()

    for name, password in [("locked.pdf", "secret"), ("owner.pdf", "")]:
        writer = PdfWriter(clone_from=PdfReader(target / "invoice.pdf"))
        writer.encrypt(user_password=password, owner_password="owner", algorithm="AES-256")
        writer.write(target / name)


def write_open_documents():
    document = OpenDocumentText()
    document.text.addElement(H(outlinelevel=1, text="Chapter"))
    paragraph = P(text="With a note")
    note = Note(noteclass="footnote", id="n1")
    note.addElement(NoteCitation(text="1"))
    body = NoteBody()
    body.addElement(P(text="said below"))
    note.addElement(body)
    paragraph.addElement(note)
    document.text.addElement(paragraph)
    document.save(target / "chapter.odt")

    book = OpenDocumentSpreadsheet()
    table = Table(name="Stock")
    row = TableRow()
    cell = TableCell(valuetype="string")
    cell.addElement(P(text="Apples"))
    row.addElement(cell)
    row.addElement(TableCell(valuetype="float", value="12"))
    row.addElement(TableCell(valuetype="date", datevalue="2026-03-01"))
    table.addElement(row)
    book.spreadsheet.addElement(table)
    book.save(target / "stock.ods")


def lock_word():
    with open(target / "returns.docx", "rb") as plain, open(target / "locked.docx", "wb") as locked:
        msoffcrypto.OfficeFile(plain).encrypt("secret", locked)


write_word()
write_workbooks()
write_slides()
write_pdfs()
write_open_documents()
lock_word()
