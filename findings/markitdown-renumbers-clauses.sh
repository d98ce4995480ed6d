#!/usr/bin/env bash
# The converter of documents for models (PyPI markitdown 0.1.9, on mammoth) numbers the clauses of a Word file anew: a list that begins at 7 begins at 1, one of
# letters has numbers, and the number that Word shows before a heading is gone. "See clause 8" then names nothing, or another clause, and a model that
# is asked for clause 2 quotes the eighth. npm mammoth 1.13.0 does the same in HTML, and its messages are empty. Exits non-zero if that changes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
npm install --silent --no-audit --no-fund --ignore-scripts mammoth@1.13.0 >/dev/null
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check 'markitdown[docx]==0.1.9' python-docx==1.2.0
cat >convert.py <<'PYTHON'
from importlib.metadata import version

from docx import Document
from docx.oxml import parse_xml
from docx.oxml.ns import nsdecls
from markitdown import MarkItDown

FORMS = {"7": (7, "decimal", "%1."), "8": (1, "lowerLetter", "(%1)"), "9": (3, "upperRoman", "Part %1")}
document = Document()
numbering = document.part.numbering_part.element
for name, (start, form, text) in FORMS.items():
    level = f'<w:lvl w:ilvl="0"><w:start w:val="{start}"/><w:numFmt w:val="{form}"/><w:lvlText w:val="{text}"/></w:lvl>'
    numbering.insert(0, parse_xml(f'<w:abstractNum {nsdecls("w")} w:abstractNumId="9{name}">{level}</w:abstractNum>'))
    numbering.append(parse_xml(f'<w:num {nsdecls("w")} w:numId="9{name}"><w:abstractNumId w:val="9{name}"/></w:num>'))


def add(text, name, style=None):
    number = f'<w:numPr {nsdecls("w")}><w:ilvl w:val="0"/><w:numId w:val="9{name}"/></w:numPr>'
    document.add_paragraph(text, style)._p.get_or_add_pPr().append(parse_xml(number))


add("Terms", "9", "Heading 1")
add("Payment is due in 30 days.", "7")
add("Late payment ends the contract.", "7")
document.add_paragraph("Exceptions to clause 8:")
add("holidays", "8")
add("strikes", "8")
document.save("terms.docx")
text = MarkItDown().convert("terms.docx").text_content
print(f"markitdown {version('markitdown')}\n{text}")
assert [line for line in text.splitlines() if line] == [
    "# Terms",  # Part III Terms
    "1. Payment is due in 30 days.",  # 7.
    "2. Late payment ends the contract.",  # 8.
    "Exceptions to clause 8:",
    "1. holidays",  # (a)
    "2. strikes",  # (b)
], text
PYTHON
venv/bin/python -W ignore convert.py
node -e '
require("mammoth").convertToHtml({ path: "terms.docx" }).then(({ value, messages }) => {
  console.log("mammoth 1.13.0", value, messages);
  const list = "<ol><li>Payment is due in 30 days.</li><li>Late payment ends the contract.</li></ol>";
  if (!value.includes(list) || !value.includes("<h1>Terms</h1>") || messages.length > 0) process.exit(1);
});'
