//! Files that are made to do harm: each ends in a sentence, and soon.

use std::time::{Duration, Instant};

use super::*;

/// Limit that no file here exceeds: the process that reads is killed far later.
const SOON: Duration = Duration::from_secs(50);

fn soon(bytes: Vec<u8>, part: Option<&str>) -> String {
    let began = Instant::now();
    let said = why(bytes, part).to_string();
    assert!(began.elapsed() < SOON, "{:?}: {said}", began.elapsed());
    assert!(!said.contains('\n') && said.len() < 400, "{said}");
    said
}

#[test]
fn a_part_that_unpacks_to_far_more_is_not_unpacked() {
    let bomb = vec![b' '; 97 * 1024 * 1024];
    let file = docx("", &[("numbering", "bomb.xml")], &[("word/bomb.xml", &bomb)]);
    assert!(file.len() < 1024 * 1024);
    assert!(soon(file, None).contains("more than 96 MiB"));
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&bomb[..bomb.len() / 3]).unwrap();
    // Gzip members one behind the other are one file.
    let bombs = gz.finish().unwrap().repeat(9);
    assert!(soon(bombs, None).contains("more than 256 MiB"));
}

#[test]
fn entities_of_a_files_own_are_refused() {
    let dtd = "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY own \"word\">]>";
    let document = format!(
        "{dtd}<w:document {SPACES}><w:body><w:p><w:r><w:t>&own;</w:t></w:r></w:p></w:body></w:document>"
    );
    let root = relations(&[("officeDocument", "word/document.xml")]);
    let file = zip_of(&[
        ("[Content_Types].xml", b"<Types/>"),
        ("_rels/.rels", root.as_bytes()),
        ("word/document.xml", document.as_bytes()),
    ]);
    assert!(soon(file, None).contains("entities"));
    let sheet = format!(
        "{dtd}<worksheet><sheetData><row><c t=\"str\"><v>&own;</v></c></row></sheetData></worksheet>"
    );
    assert!(soon(xlsx(&sheet, &[]), None).contains("entities"));
    // An entity that would fetch a file.
    let outside = "<!DOCTYPE x [<!ENTITY e SYSTEM \"file:///etc/passwd\">]><worksheet><sheetData/></worksheet>";
    assert!(soon(xlsx(outside, &[]), None).contains("entities"));
}

#[test]
fn what_nests_too_deep_is_refused_or_cut() {
    let deep = "<w:sdt><w:sdtContent>".repeat(2_600);
    assert!(soon(docx(&deep, &[], &[]), None).contains("nests too deep"));
    let (open, close) = ("<w:tbl><w:tr><w:tc>".repeat(1500), "</w:tc></w:tr></w:tbl>".repeat(1500));
    let file = docx(&format!("<w:p><w:r><w:t>top</w:t></w:r></w:p>{open}<w:p/>{close}"), &[], &[]);
    assert!(text_of(file, "a.docx").text.starts_with("top\n"));
}

#[test]
fn one_cell_far_away_costs_no_more_than_one_cell() {
    let sheet = r#"<worksheet><sheetData><row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="XFD1048576"><v>2</v></c></row></sheetData></worksheet>"#;
    let text = text_of(xlsx(sheet, &[]), "a.xlsx").text;
    assert_eq!(text, "== Sheet One (A1:XFD1048576) ==\n| 1 | A1=1 |\n| 1048576 | XFD1048576=2 |\n");
}

#[test]
fn a_pdf_whose_parts_refer_to_each_other_ends() {
    let page = |more: &str| format!("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 9 9] {more} >>");
    let own = "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 2 >>";
    let catalog = "<< /Type /Catalog /Pages 2 0 R >>".to_owned();
    soon(pdf_of(&[catalog.clone(), own.to_owned()]), None);
    let form = "<< /Type /XObject /Subtype /Form /BBox [0 0 9 9] /Resources << /XObject << /X 4 0 R >> >> /Length 5 >>\nstream\n/X Do\nendstream";
    let kids = "<< /Type /Pages /Kids [3 0 R] /Count 1 >>";
    let page = page("/Resources << /XObject << /X 4 0 R >> >> /Contents 5 0 R");
    let content = "<< /Length 5 >>\nstream\n/X Do\nendstream";
    soon(pdf_of(&[catalog, kids.to_owned(), page, form.to_owned(), content.to_owned()]), None);
}

#[test]
fn what_is_cut_off_or_empty_is_said() {
    let whole = docx("<w:p><w:r><w:t>x</w:t></w:r></w:p>", &[], &[]);
    assert!(soon(whole[..whole.len() / 2].to_vec(), None).contains("damaged"));
    assert!(soon(docx("", &[], &[]), None).contains("has no text: it is empty"));
    assert!(soon(b"%PDF-1.7\n".to_vec(), None).contains("damaged"));
    assert!(soon(b"\x1f\x8b\x08\0\0\0\0\0\0\xff".to_vec(), None).contains("damaged"));
    assert!(soon(b"\xfd7zXZ\0\0\x04".to_vec(), None).contains("damaged"));
    assert!(soon(b"\x28\xb5\x2f\xfd\xff".to_vec(), None).contains("damaged"));
    assert!(soon(b"Rar!\x1a\x07\x01\0".to_vec(), None).contains("Bash"));
    assert!(soon(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), None).contains("OLE"));
}

#[test]
fn names_in_an_archive_move_no_cursor() {
    let file = zip_of(&[("a\u{1b}[2J\u{202e}txt.exe", b"x"), ("../../etc/cron.d/x", b"y")]);
    let listing = text_of(file.clone(), "a.zip");
    assert_eq!(listing.parts[0].name, "a[2Jtxt.exe");
    assert_eq!(listing.parts[1].name, "../../etc/cron.d/x");
}
