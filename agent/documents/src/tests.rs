//! Documents that are made here, the hostile ones among them. Those of real writers are read by the product's tests.

mod hostile;
mod mutated;
mod readable;

use std::io::{Cursor, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use super::{DocumentContent, DocumentError, DocumentText, read_document};

const TYPES: &str = r#"<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>"#;
const SPACES: &str = r#"xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" xmlns:wps="wps" xmlns:mc="mc" xmlns:v="v""#;
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0";

/// A ZIP file of these members.
pub(crate) fn zip_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Deflated);
    for (name, bytes) in members {
        if name.ends_with('/') {
            writer.add_directory(*name, options).unwrap();
        } else {
            writer.start_file(*name, options).unwrap();
            writer.write_all(bytes).unwrap();
        }
    }
    writer.finish().unwrap().into_inner()
}

/// Relations with ids from `r1` on: kind and target, outside where it has a scheme.
pub(crate) fn relations(all: &[(&str, &str)]) -> String {
    let entries = all.iter().enumerate().map(|(index, (kind, target))| {
        let mode = if target.contains("://") { r#" TargetMode="External""# } else { "" };
        format!(
            r#"<Relationship Id="r{}" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/{kind}" Target="{target}"{mode}/>"#,
            index + 1
        )
    });
    format!(
        r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{}</Relationships>"#,
        entries.collect::<Vec<_>>().concat()
    )
}

/// A DOCX with this body, and further parts.
pub(crate) fn docx(body: &str, own: &[(&str, &str)], more: &[(&str, &[u8])]) -> Vec<u8> {
    let root = relations(&[("officeDocument", "word/document.xml")]);
    let document = format!("<w:document {SPACES}><w:body>{body}</w:body></w:document>");
    let own = relations(own);
    let mut members: Vec<(&str, &[u8])> = vec![
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", root.as_bytes()),
        ("word/document.xml", document.as_bytes()),
        ("word/_rels/document.xml.rels", own.as_bytes()),
    ];
    members.extend(more);
    zip_of(&members)
}

/// An XLSX with one sheet of this XML, and further parts.
pub(crate) fn xlsx(sheet: &str, more: &[(&str, &[u8])]) -> Vec<u8> {
    let root = relations(&[("officeDocument", "/xl/workbook.xml")]);
    let own = relations(&[
        ("worksheet", "worksheets/sheet1.xml"),
        ("sharedStrings", "sharedStrings.xml"),
        ("styles", "styles.xml"),
    ]);
    let book = format!(
        r#"<workbook {SPACES}><workbookPr/><sheets><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>"#
    );
    let mut members: Vec<(&str, &[u8])> = vec![
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", root.as_bytes()),
        ("xl/workbook.xml", book.as_bytes()),
        ("xl/_rels/workbook.xml.rels", own.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet.as_bytes()),
    ];
    members.extend(more);
    zip_of(&members)
}

/// A PPTX of slides with these shapes.
pub(crate) fn pptx(slides: &[&str]) -> Vec<u8> {
    let root = relations(&[("officeDocument", "ppt/presentation.xml")]);
    let targets: Vec<String> = (1..=slides.len()).map(|n| format!("slides/slide{n}.xml")).collect();
    let own: Vec<(&str, &str)> = targets.iter().map(|target| ("slide", target.as_str())).collect();
    let own = relations(&own);
    let ids = (1..=slides.len())
        .map(|n| format!(r#"<p:sldId id="{}" r:id="r{n}"/>"#, 255 + n))
        .collect::<Vec<_>>()
        .concat();
    let main = format!("<p:presentation {SPACES}><p:sldIdLst>{ids}</p:sldIdLst></p:presentation>");
    let texts: Vec<String> = slides
        .iter()
        .map(|shapes| {
            format!("<p:sld {SPACES}><p:cSld><p:spTree>{shapes}</p:spTree></p:cSld></p:sld>")
        })
        .collect();
    let names: Vec<String> = targets.iter().map(|target| format!("ppt/{target}")).collect();
    let mut members: Vec<(&str, &[u8])> = vec![
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", root.as_bytes()),
        ("ppt/presentation.xml", main.as_bytes()),
        ("ppt/_rels/presentation.xml.rels", own.as_bytes()),
    ];
    members.extend(names.iter().zip(&texts).map(|(name, text)| (name.as_str(), text.as_bytes())));
    zip_of(&members)
}

/// A PDF of these objects, the first of which is the catalog.
pub(crate) fn pdf_of(objects: &[String]) -> Vec<u8> {
    let mut out = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n".to_vec();
    let mut offsets = Vec::new();
    for (index, object) in objects.iter().enumerate() {
        offsets.push(out.len());
        out.extend(format!("{} 0 obj\n{object}\nendobj\n", index + 1).into_bytes());
    }
    let start = out.len();
    out.extend(format!("xref\n0 {}\n0000000000 65535 f \n", objects.len() + 1).into_bytes());
    for offset in offsets {
        out.extend(format!("{offset:010} 00000 n \n").into_bytes());
    }
    let trailer = format!(
        "trailer\n<< /Size {} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n",
        objects.len() + 1
    );
    out.extend(trailer.into_bytes());
    out
}

/// A PDF with one page for each text.
pub(crate) fn pdf(pages: &[&str]) -> Vec<u8> {
    let kids = (0..pages.len()).map(|n| format!("{} 0 R ", 4 + 2 * n)).collect::<Vec<_>>().concat();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", pages.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
            .to_owned(),
    ];
    for (n, text) in pages.iter().enumerate() {
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R >> >> /Contents {} 0 R >>",
            5 + 2 * n
        ));
        let shown = if text.is_empty() {
            String::new()
        } else {
            format!("BT /F1 12 Tf 72 700 Td ({text}) Tj ET")
        };
        objects.push(format!("<< /Length {} >>\nstream\n{shown}\nendstream", shown.len()));
    }
    pdf_of(&objects)
}

pub(crate) fn text_of(bytes: Vec<u8>, name: &str) -> DocumentText {
    match read_document(bytes, name, None) {
        Ok(DocumentContent::Text(text)) => text,
        other => panic!("{name}: {other:?}"),
    }
}

pub(crate) fn why(bytes: Vec<u8>, part: Option<&str>) -> DocumentError {
    read_document(bytes, "file", part).unwrap_err()
}
