//! Documents with some bytes changed: whatever comes of it, no reader of ours panics.

use super::*;

/// Number of changed copies of each document.
const COPIES: u64 = 250;

/// A generator that gives the same numbers each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most.max(1)
    }
}

fn mutate(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    for _ in 0..=numbers.below(6) {
        let at = numbers.below(changed.len());
        match numbers.below(5) {
            0 => changed[at] = u8::try_from(numbers.below(256)).unwrap(),
            1 => changed[at] ^= 1 << numbers.below(8),
            2 => drop(changed.remove(at)),
            3 => {
                let end = (at + numbers.below(40)).min(changed.len());
                let piece = changed[at..end].to_vec();
                let to = numbers.below(changed.len());
                changed.splice(to..to, piece);
            }
            _ => changed.truncate(at.max(16)),
        }
    }
    changed
}

fn check(name: &str, bytes: Vec<u8>, seed: u64) {
    if super::super::sniff_kind(&bytes).is_none() {
        return;
    }
    if let Err(DocumentError::Damaged(why)) = read_document(bytes, name, None) {
        assert!(!why.contains("gave up"), "{name}, seed {seed}: a reader panicked");
    }
}

#[test]
fn changed_bytes_of_a_file() {
    let table = "<w:tbl><w:tr><w:tc><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr></w:tbl>";
    let sheet = r#"<worksheet><sheetData><row r="1"><c r="A1" s="1"><v>46082</v></c></row></sheetData></worksheet>"#;
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&[7; 5000]).unwrap();
    let files = [
        ("a.docx", docx(table, &[], &[])),
        ("a.xlsx", xlsx(sheet, &[])),
        ("a.pptx", pptx(&["<p:sp><p:txBody><a:p><a:r><a:t>x</a:t></a:r></a:p></p:txBody></p:sp>"])),
        ("a.zip", zip_of(&[("a/b.txt", b"hello"), ("c", b"d")])),
        ("a.gz", gz.finish().unwrap()),
        ("a.pdf", pdf(&["one", "two"])),
    ];
    for (name, bytes) in files {
        for seed in 0..COPIES {
            check(name, mutate(&bytes, &mut Numbers(seed)), seed);
        }
    }
}

#[test]
fn changed_xml_in_a_whole_file() {
    let body = r#"<w:p><w:pPr><w:numPr><w:ilvl w:val="3"/><w:numId w:val="1"/></w:numPr></w:pPr><w:r><w:t>x_x000D_</w:t><w:sym w:char="F0B7"/></w:r></w:p><w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val="99999999"/><w:vMerge/></w:tcPr><w:p/></w:tc></w:tr></w:tbl>"#;
    let numbering = r#"<n><abstractNum abstractNumId="0"><lvl ilvl="3"><start val="4294967295"/><numFmt val="upperRoman"/><lvlText val="%4%9"/></lvl></abstractNum><num numId="1"><abstractNumId val="0"/></num></n>"#;
    let sheet = r#"<worksheet><cols><col min="1" max="4294967295" hidden="1"/></cols><sheetData><row r="4294967295"><c s="9999999999" r="ZZZZZZ4294967295"><v>1e308</v></c><c s="1"><v>-1</v></c></row></sheetData></worksheet>"#;
    let styles = r#"<s><numFmts><numFmt numFmtId="200" formatCode="[h]:mm;\"/></numFmts><cellXfs><xf numFmtId="200"/><xf numFmtId="22"/></cellXfs></s>"#;
    for seed in 0..COPIES {
        let mut numbers = Numbers(seed);
        let text = |xml: &str, numbers: &mut Numbers| {
            String::from_utf8_lossy(&mutate(xml.as_bytes(), numbers)).into_owned()
        };
        let changed = text(numbering, &mut numbers);
        let file = docx(
            &text(body, &mut numbers),
            &[("numbering", "n.xml")],
            &[("word/n.xml", changed.as_bytes())],
        );
        check("a.docx", file, seed);
        let changed = text(styles, &mut numbers);
        check(
            "a.xlsx",
            xlsx(&text(sheet, &mut numbers), &[("xl/styles.xml", changed.as_bytes())]),
            seed,
        );
        check("b.xlsx", xlsx(sheet, &[("xl/styles.xml", styles.as_bytes())]), seed);
    }
}
