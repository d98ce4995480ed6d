//! Documents as text, with the remarks on them.

use super::*;

fn p(text: &str) -> String {
    format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")
}

/// A paragraph in a list.
fn item(list: u32, level: u32, text: &str) -> String {
    format!(
        r#"<w:p><w:pPr><w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="{list}"/></w:numPr></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"#
    )
}

/// The text of a document with these lists and paragraphs.
fn numbered(lists: &str, body: &[String]) -> String {
    let numbering = format!("<w:numbering {SPACES}>{lists}</w:numbering>");
    let file = docx(
        &body.concat(),
        &[("numbering", "numbering.xml")],
        &[("word/numbering.xml", numbering.as_bytes())],
    );
    text_of(file, "a.docx").text
}

#[test]
fn everything_in_a_paragraph_is_text() {
    let body = r#"<w:p><w:r><w:t xml:space="preserve">a </w:t><w:tab/><w:t>b</w:t></w:r>
        <w:smartTag><w:r><w:t> tagged</w:t></w:r></w:smartTag>
        <w:sdt><w:sdtPr><w:alias w:val="no"/></w:sdtPr><w:sdtContent><w:r><w:t> controlled</w:t></w:r></w:sdtContent></w:sdt>
        <w:ins><w:r><w:t> new</w:t></w:r></w:ins><w:del><w:r><w:delText> old</w:delText></w:r></w:del>
        <w:hyperlink r:id="r1"><w:r><w:t> link</w:t></w:r></w:hyperlink>
        <w:r><w:fldChar w:fldCharType="begin"/><w:instrText>PAGE</w:instrText><w:fldChar w:fldCharType="separate"/><w:t> 7</w:t><w:fldChar w:fldCharType="end"/></w:r>
        <w:r><w:rPr><w:vanish/></w:rPr><w:t>secret</w:t></w:r>
        <m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath><w:r><w:footnoteReference w:id="2"/></w:r></w:p>"#;
    let notes = format!(
        r#"<w:footnotes {SPACES}><w:footnote w:type="separator" w:id="0"><w:p/></w:footnote><w:footnote w:id="2">{}</w:footnote></w:footnotes>"#,
        p("the note")
    );
    let file = docx(
        body,
        &[("hyperlink", "https://example.com/x"), ("footnotes", "footnotes.xml")],
        &[("word/footnotes.xml", notes.as_bytes())],
    );
    let text = text_of(file, "a.docx");
    assert_eq!(
        text.text,
        "a \tb tagged controlled new[deleted: old] link (https://example.com/x) 7[hidden: secret]E=mc[^2]\n\n\
         == Footnotes ==\n[^2] the note\n"
    );
    assert_eq!(text.kind, "Word document");
    assert!(text.notes.iter().any(|note| note.contains("tracked changes")), "{:?}", text.notes);
}

#[test]
fn text_boxes_are_read_once_and_tables_keep_their_cells() {
    let boxed = |text: &str| format!("<w:txbxContent>{}</w:txbxContent>", p(text));
    let body = format!(
        r#"<w:p><w:r><mc:AlternateContent><mc:Choice><w:drawing><wps:txbx>{0}</wps:txbx></w:drawing></mc:Choice>
        <mc:Fallback><w:pict>{0}</w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>
        <w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="2"/></w:tcPr>{1}</w:tc></w:tr>
        <w:tr><w:tc><w:tcPr><w:vMerge w:val="restart"/></w:tcPr>{2}{3}</w:tc><w:tc><w:tbl><w:tr><w:tc>{4}</w:tc></w:tr></w:tbl></w:tc></w:tr>
        <w:tr><w:tc><w:tcPr><w:vMerge/></w:tcPr><w:p/></w:tc><w:tc>{5}</w:tc></w:tr></w:tbl>"#,
        boxed("in a box"),
        p("wide"),
        p("one"),
        p("two"),
        p("inner"),
        p("a|b"),
    );
    let text = text_of(docx(&body, &[], &[]), "a.docx").text;
    assert_eq!(
        text,
        "\n[text box: in a box]\n| wide | < |\n| --- | --- |\n| one / two | [inner] |\n| ^ | a\\|b |\n"
    );
}

#[test]
fn list_items_have_the_numbers_that_word_prints() {
    let lists = r#"<w:abstractNum w:abstractNumId="0">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl>
        <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlText w:val="%1.%2)"/></w:lvl></w:abstractNum>
        <w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
        <w:num w:numId="2"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0"><w:startOverride w:val="1"/></w:lvlOverride></w:num>"#;
    let body = [
        item(1, 0, "a"),
        item(1, 1, "b"),
        item(1, 1, "c"),
        item(1, 0, "d"),
        item(1, 1, "e"),
        item(2, 0, "f"),
    ];
    assert_eq!(numbered(lists, &body), "1. a\n  1.a) b\n  1.b) c\n2. d\n  2.a) e\n1. f\n");
}

/// As contracts are numbered: clauses go on across articles, and sections show the number of theirs in digits.
#[test]
fn clauses_of_a_contract_have_the_numbers_that_word_prints() {
    let lists = r#"<w:abstractNum w:abstractNumId="0"><w:styleLink w:val="Contract"/>
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="upperRoman"/><w:lvlText w:val="Article %1"/></w:lvl>
        <w:lvl w:ilvl="1"><w:start w:val="1"/><w:numFmt w:val="decimalZero"/><w:isLgl/><w:lvlText w:val="Section %1.%2"/></w:lvl>
        <w:lvl w:ilvl="2"><w:start w:val="1"/><w:numFmt w:val="lowerLetter"/><w:lvlRestart w:val="0"/><w:lvlText w:val="(%3)"/></w:lvl>
        <w:lvl w:ilvl="3"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlRestart w:val="1"/><w:lvlText w:val="%4)"/></w:lvl></w:abstractNum>
        <w:abstractNum w:abstractNumId="1"><w:numStyleLink w:val="Contract"/></w:abstractNum>
        <w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>
        <w:num w:numId="2"><w:abstractNumId w:val="1"/></w:num>
        <w:num w:numId="3"><w:abstractNumId w:val="0"/><w:lvlOverride w:ilvl="0">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="Annex %1"/></w:lvl></w:lvlOverride></w:num>"#;
    let body = [
        item(1, 0, "a"),
        item(1, 1, "b"),
        item(1, 2, "c"),
        item(1, 3, "d"),
        item(1, 2, "e"),
        item(1, 3, "f"),
        item(1, 0, "g"),
        item(1, 1, "h"),
        item(1, 2, "i"),
        item(1, 3, "j"),
        item(3, 0, "k"),
        item(2, 0, "l"),
    ];
    assert_eq!(
        numbered(lists, &body),
        "Article I a\n  Section 1.01 b\n    (a) c\n      1) d\n    (b) e\n      2) f\n\
         Article II g\n  Section 2.01 h\n    (c) i\n      1) j\nAnnex 3 k\nArticle I l\n"
    );
}

#[test]
fn an_empty_item_of_a_list_has_a_number_unless_it_is_deleted() {
    let lists = r#"<w:abstractNum w:abstractNumId="0">
        <w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/><w:lvlText w:val="%1."/></w:lvl></w:abstractNum>
        <w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num>"#;
    let gone = |how: &str| {
        item(1, 0, "").replace("</w:pPr>", &format!("<w:rPr><w:{how}/></w:rPr></w:pPr>"))
    };
    let body = [
        item(1, 0, "a"),
        item(1, 0, ""),
        item(1, 0, "b"),
        gone("del"),
        gone("moveFrom"),
        gone("vanish"),
        item(1, 0, "c"),
    ];
    assert_eq!(numbered(lists, &body), "1. a\n\n3. b\n\n\n\n4. c\n");
}

#[test]
fn a_sheet_says_what_it_hides() {
    let sheet = r#"<worksheet><cols><col min="2" max="3" hidden="1"/></cols><sheetData>
        <row r="1"><c r="A1" t="inlineStr"><is><t>Name</t></is></c><c r="C1" t="inlineStr"><is><t>When</t></is></c></row>
        <row r="3" hidden="1"><c r="A3" t="b"><v>1</v></c><c r="B3" s="1"><v>46082</v></c><c r="C3"><f>1/0</f><v></v></c></row>
        </sheetData><mergeCells><mergeCell ref="A1:B1"/></mergeCells><headerFooter><oddHeader>&amp;L&amp;"Arial"Draft &amp;P</oddHeader></headerFooter></worksheet>"#;
    let styles =
        r#"<styleSheet><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/></cellXfs></styleSheet>"#;
    let text = text_of(xlsx(sheet, &[("xl/styles.xml", styles.as_bytes())]), "a.xlsx").text;
    assert_eq!(
        text,
        "== Sheet One (A1:C3) ==\n[1 rows with cells are hidden, and marked so]\n[hidden columns: B to C]\n\
         [merged cells, with their value at the top left: A1:B1]\n[printed with each page: Draft (page)]\n\
         |  | A | B | C |\n| 1 | Name |  | When |\n| 3 hidden | TRUE | 2026-03-01 | not calculated yet [=1/0] |\n"
    );
}

#[test]
fn what_lies_on_a_sheet_is_read_with_the_addresses_behind_its_cells() {
    let sheet = r#"<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>Spec</t></is></c></row></sheetData>
        <hyperlinks xmlns:r="r"><hyperlink ref="A1" r:id="r1"/><hyperlink ref="B1" location="Two!A1"/></hyperlinks></worksheet>"#;
    let own = relations(&[
        ("hyperlink", "https://example.com/spec"),
        ("drawing", "../drawings/drawing1.xml"),
    ]);
    let drawing = format!(
        "<xdr:wsDr xmlns:xdr=\"xdr\" {SPACES}><xdr:sp><xdr:txBody><a:p><a:r><a:t>Ask </a:t></a:r><a:r><a:t>Ana</a:t></a:r></a:p>\
         <a:p><a:r><a:t>first</a:t></a:r></a:p></xdr:txBody></xdr:sp></xdr:wsDr>"
    );
    let drawn = relations(&[("chart", "../charts/chart1.xml")]);
    let chart = format!(
        "<c:chart xmlns:c=\"c\" {SPACES}><c:title><a:t>Sales</a:t></c:title><c:v>12</c:v></c:chart>"
    );
    let file = xlsx(
        sheet,
        &[
            ("xl/worksheets/_rels/sheet1.xml.rels", own.as_bytes()),
            ("xl/drawings/drawing1.xml", drawing.as_bytes()),
            ("xl/drawings/_rels/drawing1.xml.rels", drawn.as_bytes()),
            ("xl/charts/chart1.xml", chart.as_bytes()),
        ],
    );
    assert_eq!(
        text_of(file, "a.xlsx").text,
        "== Sheet One (A1:A1) ==\n|  | A |\n| 1 | Spec |\n[link A1] https://example.com/spec\n\
         [text box: Ask Ana / first]\n[chart: Sales]\n"
    );
}

#[test]
fn a_drawing_that_can_not_be_read_takes_no_cell_with_it() {
    let sheet = r#"<worksheet><sheetData><row r="1"><c r="A1" t="inlineStr"><is><t>Spec</t></is></c></row></sheetData></worksheet>"#;
    let own = relations(&[("drawing", "../drawings/drawing1.xml")]);
    let drawn = relations(&[("chart", "../charts/chart1.xml")]);
    // Names without their namespace, as some programs write them.
    let (odd, plain) = ("<xdr:wsDr><xdr:sp/></xdr:wsDr>", "<wsDr/>");
    for (drawing, said) in
        [(odd, "[a drawing, which can't be read]"), (plain, "[chart, which can't be read]")]
    {
        let file = xlsx(
            sheet,
            &[
                ("xl/worksheets/_rels/sheet1.xml.rels", own.as_bytes()),
                ("xl/drawings/drawing1.xml", drawing.as_bytes()),
                ("xl/drawings/_rels/drawing1.xml.rels", drawn.as_bytes()),
                ("xl/charts/chart1.xml", b"<c:chart/>"),
            ],
        );
        let text = text_of(file, "a.xlsx").text;
        assert!(text.contains("| 1 | Spec |") && text.contains(said), "{text}");
    }
}

#[test]
fn forms_and_charts_of_a_document_have_their_values() {
    let field = |form: &str| {
        format!(
            r#"<w:r><w:fldChar w:fldCharType="begin"><w:ffData>{form}</w:ffData></w:fldChar></w:r>
            <w:r><w:instrText>FORM</w:instrText></w:r><w:r><w:fldChar w:fldCharType="end"/></w:r>"#
        )
    };
    let body = format!(
        r#"<w:p>{}{}{}<w:r><w:t> end</w:t></w:r></w:p><w:p><w:r><w:drawing><c:chart xmlns:c="c" r:id="r1"/></w:drawing></w:r></w:p>"#,
        field("<w:checkBox><w:default w:val=\"0\"/><w:checked/></w:checkBox>"),
        field("<w:checkBox><w:default w:val=\"0\"/></w:checkBox>"),
        field(
            "<w:ddList><w:result w:val=\"1\"/><w:listEntry w:val=\"red\"/><w:listEntry w:val=\"blue\"/></w:ddList>"
        ),
    );
    let chart = "<c:chart xmlns:c=\"c\"><c:t>Sales</c:t><c:v>12</c:v></c:chart>";
    let file = docx(
        &body,
        &[("chart", "charts/chart1.xml")],
        &[("word/charts/chart1.xml", chart.as_bytes())],
    );
    assert_eq!(
        text_of(file, "a.docx").text,
        "[x][ ]blue end\n[chart]\n\n== Charts and diagrams ==\n[chart: Sales; 12]\n"
    );
}

#[test]
fn a_dynamic_form_is_told_from_its_only_page() {
    let page = "Please wait... If this message is not eventually replaced by the proper contents";
    let notes = text_of(pdf(&[page]), "a.pdf").notes;
    assert!(notes.iter().any(|note| note.contains("XFA")), "{notes:?}");
}

#[test]
fn an_exponent_is_no_digit_of_its_base() {
    let plain = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
    let raised = |pieces: &str| {
        format!(r#"<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr>{pieces}</w:r>"#)
    };
    let body = [
        "<w:p>".to_owned(),
        plain("10"),
        raised("<w:t>6</w:t>"),
        plain(" of 10"),
        raised("<w:noBreakHyphen/>"),
        raised("<w:t>1</w:t>"),
        raised("<w:t>2</w:t>"),
        plain(" m"),
        raised("<w:t>n</w:t>"),
        plain(", the 1"),
        raised("<w:t>st</w:t>"),
        plain(" of 3 "),
        raised("<w:t>4</w:t>"),
        "</w:p>".to_owned(),
    ];
    let text = text_of(docx(&body.concat(), &[], &[]), "a.docx").text;
    assert_eq!(text, "10^6 of 10^-12 m^n, the 1st of 3 4\n");

    let shape = r#"<p:sp><p:txBody><a:p><a:r><a:t>10</a:t></a:r><a:r><a:rPr baseline="30000"/><a:t>6</a:t></a:r>
        <a:r><a:t> H</a:t></a:r><a:r><a:rPr baseline="-25000"/><a:t>2</a:t></a:r></a:p></p:txBody></p:sp>"#;
    let text = text_of(pptx(&[shape]), "a.pptx").text;
    assert!(text.contains("10^6 H2"), "{text}");
}

#[test]
fn slides_come_in_their_order_with_their_tables() {
    let title = r#"<p:sp><p:nvSpPr><p:nvPr><p:ph type="title"/></p:nvPr></p:nvSpPr><p:txBody><a:p><a:r><a:t>Plan</a:t></a:r></a:p></p:txBody></p:sp>"#;
    let table = r#"<p:grpSp><p:graphicFrame><a:graphic><a:graphicData><a:tbl><a:tr><a:tc><a:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></a:txBody></a:tc><a:tc hMerge="1"/></a:tr></a:tbl></a:graphicData></a:graphic></p:graphicFrame></p:grpSp>"#;
    let text = text_of(pptx(&[title, table]), "a.pptx");
    assert_eq!(text.text, "== Slide 1 of 2 ==\n# Plan\n\n== Slide 2 of 2 ==\n| x | < |\n");
    assert_eq!(text.places[1].line, 4);
}

#[test]
fn pages_of_a_pdf_are_named_and_those_without_text_said() {
    let text = text_of(pdf(&["Invoice 0.30", "", "The end"]), "a.pdf");
    assert_eq!(
        text.text,
        "== Page 1 of 3 ==\nInvoice 0.30\n\n== Page 2 of 3 ==\n\n== Page 3 of 3 ==\nThe end\n"
    );
    assert!(text.notes.iter().any(|note| note.ends_with("or empty): 2")), "{:?}", text.notes);
}

#[test]
fn a_pdf_without_any_text_says_so() {
    let said = why(pdf(&["", ""]), None).to_string();
    assert!(said.starts_with("has no text: its 2 pages are empty"), "{said}");
}

#[test]
fn a_name_that_promises_something_else_is_told() {
    let notes = |name| text_of(pdf(&["x"]), name).notes;
    assert!(
        notes("a.docx")[0].contains("ends with .docx, but its content is a PDF"),
        "{:?}",
        notes("a.docx")
    );
    assert_eq!(notes("a.pdf"), Vec::<String>::new());
    assert_eq!(notes("F01"), Vec::<String>::new());
}

#[test]
fn archives_are_listed_and_their_members_read() {
    let inner = zip_of(&[("deep.txt", b"deep")]);
    let deeper = zip_of(&[("inner.zip", &inner)]);
    let files: &[(&str, &[u8])] = &[
        ("docs/", b""),
        ("docs/a.txt", b"hello"),
        ("inner.zip", &inner),
        ("deeper.zip", &deeper),
        ("report.pdf", &pdf(&["In an archive"])),
    ];
    let file = zip_of(files);
    let listing = text_of(file.clone(), "a.zip");
    let names: Vec<_> =
        listing.parts.iter().map(|part| (part.name.as_str(), part.about.as_str())).collect();
    assert_eq!(names[0], ("docs/a.txt", "5 bytes"));
    assert_eq!(names.len(), 4);
    let read = |part: &str| read_document(file.clone(), "a.zip", Some(part));
    assert_eq!(
        read("docs/a.txt"),
        Ok(DocumentContent::Part { name: "docs/a.txt".into(), bytes: b"hello".into() })
    );
    assert_eq!(
        read("inner.zip/deep.txt"),
        Ok(DocumentContent::Part { name: "deep.txt".into(), bytes: b"deep".into() })
    );
    match read("report.pdf").unwrap() {
        DocumentContent::Text(text) => {
            assert!(text.text.contains("In an archive"));
            assert_eq!(text.kind, "PDF");
        }
        other @ DocumentContent::Part { .. } => panic!("{other:?}"),
    }
    assert!(
        read("deeper.zip/inner.zip/deep.txt")
            .unwrap_err()
            .to_string()
            .contains("archive in an archive")
    );
    assert_eq!(read("docs/b.txt").unwrap_err(), DocumentError::NoPart("docs/b.txt".into()));
    assert_eq!(read("../docs/a.txt").unwrap_err(), DocumentError::NoPart("../docs/a.txt".into()));
}

#[test]
fn a_member_that_is_compressed_in_another_way_is_not_called_damaged() {
    let mut file = zip_of(&[("a.txt", b"hello")]);
    // The method in the member's own header, and in the directory: LZMA.
    let directory = file.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    (file[8], file[directory + 10]) = (14, 14);
    let said = why(file, Some("a.txt")).to_string();
    assert!(said.contains("compressed in a way") && said.contains("if you have Bash"), "{said}");
}

#[test]
fn compressed_archives_of_all_kinds_are_read() {
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(3);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append_data(&mut header, "src/a.txt", &b"abc"[..]).unwrap();
    let mut link = tar::Header::new_gnu();
    link.set_entry_type(tar::EntryType::Symlink);
    link.set_size(0);
    builder.append_link(&mut link, "link", "/etc/passwd").unwrap();
    let plain = builder.into_inner().unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&plain).unwrap();
    for (name, bytes) in [("a.tar", plain), ("a.tar.gz", gz.finish().unwrap())] {
        let listing = text_of(bytes.clone(), name);
        assert_eq!(listing.parts[0].name, "src/a.txt", "{name}");
        assert_eq!(listing.parts[1].about, "0 bytes, a link");
        let part = read_document(bytes.clone(), name, Some("src/a.txt"));
        assert_eq!(
            part,
            Ok(DocumentContent::Part { name: "src/a.txt".into(), bytes: b"abc".into() })
        );
        assert!(why(bytes, Some("link")).to_string().contains("`/etc/passwd`"), "{name}");
    }
}

#[test]
fn a_file_that_is_only_compressed_is_what_is_in_it() {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"line 1\nline 2\n").unwrap();
    let read = read_document(gz.finish().unwrap(), "app.log.gz", None);
    assert_eq!(
        read,
        Ok(DocumentContent::Part { name: "app.log".into(), bytes: b"line 1\nline 2\n".into() })
    );
}

#[test]
fn pictures_are_listed_and_handed_out_by_number() {
    let body = r#"<w:p><w:r><w:drawing><wp:inline xmlns:wp="wp"><wp:docPr descr="A red button"/><a:blip r:embed="r1"/></wp:inline></w:drawing></w:r></w:p>"#;
    let file = docx(body, &[("image", "media/image1.png")], &[("word/media/image1.png", PNG)]);
    let text = text_of(file.clone(), "a.docx");
    assert_eq!(
        (text.parts[0].name.as_str(), text.parts[0].about.as_str()),
        ("picture-1", "image1.png: A red button")
    );
    let picture = read_document(file.clone(), "a.docx", Some("picture-1"));
    assert_eq!(picture, Ok(DocumentContent::Part { name: "image1.png".into(), bytes: PNG.into() }));
    for other in ["picture-0", "picture-2", "picture-x", "word/document.xml"] {
        assert_eq!(why(file.clone(), Some(other)), DocumentError::NoPart(other.into()));
    }
}

#[test]
fn a_log_that_unpacks_to_more_than_is_handed_out_shows_both_its_ends() {
    let lines = (0..900_000).map(|n| format!("{n} GET /cart 200 all is well\n"));
    let log = lines.collect::<Vec<_>>().concat();
    assert!(log.len() > crate::MAX_PART, "{}", log.len());
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(log.as_bytes()).unwrap();
    let zip = zip_of(&[("logs/build.log", log.as_bytes())]);
    for (bytes, name, part) in
        [(gz.finish().unwrap(), "build.log.gz", None), (zip, "all.zip", Some("logs/build.log"))]
    {
        let shown = match read_document(bytes, name, part) {
            Ok(DocumentContent::Text(text)) => text,
            other => panic!("{name}: {other:?}"),
        };
        assert!(shown.notes[0].contains("build.log` in it has "), "{:?}", shown.notes);
        let places: Vec<&str> = shown.places.iter().map(|place| place.title.as_str()).collect();
        assert_eq!(places, ["Its beginning", "Its end"]);
        let lines: Vec<&str> = shown.text.lines().collect();
        assert_eq!(lines[1], "0 GET /cart 200 all is well");
        assert_eq!(lines.last(), Some(&"899999 GET /cart 200 all is well"));
        // No line is cut in two.
        let is_whole = |line: &&str| line.ends_with("all is well") || line.starts_with("==");
        assert!(lines.iter().filter(|line| !line.is_empty()).all(is_whole), "{name}");
    }
    // A binary file has no ends to show: it is refused.
    let binary = vec![0_u8; crate::MAX_PART + 1];
    let error = why(zip_of(&[("disk.img", &binary)]), Some("disk.img"));
    assert!(matches!(error, DocumentError::TooLarge(_)), "{error:?}");
}

#[test]
fn a_document_of_apples_programs_is_told_as_what_it_is() {
    let members: &[(&str, &[u8])] = &[("Index/Document.iwa", b"x"), ("preview.jpg", b"x")];
    let text = text_of(zip_of(members), "Offer.pages");
    let said = text.notes.iter().find(|note| note.contains("Keynote")).unwrap();
    assert!(said.ends_with("`preview.jpg` in it is a picture of its beginning"), "{said}");
    let plain = text_of(zip_of(&members[1..]), "all.zip");
    assert!(!plain.notes.iter().any(|note| note.contains("Keynote")), "{:?}", plain.notes);
}
