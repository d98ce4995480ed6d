//! The cells of one sheet, read as they come: a sheet is too large for a tree.

use std::collections::{BTreeMap, BTreeSet};

use quick_xml::Reader;
use quick_xml::XmlVersion;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::formats::NumberForm;
use crate::DocumentError;

/// Limit on the number of cells in a sheet.
const MAX_CELLS: usize = 2_000_000;
/// Limit on the number of links of a sheet.
const MAX_LINKS: usize = 5_000;
/// Longest text of one cell, in bytes.
const MAX_CELL: usize = 32 * 1024;

/// A cell with something in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Index of the column, from 0.
    pub column: u32,
    /// Value as it is displayed.
    pub text: String,
    /// Formula of the cell, if it has one of its own.
    pub formula: String,
}

/// Cells of a sheet, and what is known of its layout.
#[derive(Debug, Default)]
pub(crate) struct SheetCells {
    /// Cells by row, which is counted from 1.
    pub rows: BTreeMap<u32, Vec<Cell>>,
    pub hidden_rows: BTreeSet<u32>,
    /// Columns that are hidden, first and last, counted from 0.
    pub hidden_columns: Vec<(u32, u32)>,
    /// Merged cells, such as `A1:C1`.
    pub merged: Vec<String>,
    /// Cells with links, and the ids of the relations that have the addresses.
    pub links: Vec<(String, String)>,
    /// Headers and footers of the printed page.
    pub printed: Vec<String>,
    /// True if the sheet has more cells than are read.
    pub cut: bool,
}

/// Texts and styles that cells refer to.
pub(crate) struct CellContext<'a> {
    /// Shared strings, by index.
    pub strings: &'a [String],
    /// Number formats, by index of the style.
    pub forms: &'a [NumberForm],
    /// Days are counted from 1904.
    pub is_1904: bool,
}

/// The cell that is being read.
#[derive(Default)]
struct OpenCell {
    row: u32,
    column: u32,
    kind: String,
    style: usize,
    value: String,
    formula: String,
    inline: String,
}

/// The element that text belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CellElement {
    None,
    Value,
    Formula,
    Inline,
    Printed,
}

/// Parses a sheet's XML into its cells.
pub(crate) fn read_cells(
    xml: &str,
    context: &CellContext<'_>,
) -> Result<SheetCells, DocumentError> {
    let mut reader = Reader::from_str(xml);
    let mut state = CellReader {
        context,
        sheet: SheetCells::default(),
        open: None,
        place: CellElement::None,
        row: 0,
        column: 0,
        cells: 0,
        phonetic: 0,
    };
    loop {
        match reader.read_event().map_err(DocumentError::damaged)? {
            Event::Start(start) => state.begin(&start, false),
            Event::Empty(start) => state.begin(&start, true),
            Event::End(end) => state.end(end.local_name().as_ref()),
            Event::Text(text) => state.add(&text.xml10_content()),
            Event::CData(text) => state.add(&text.xml10_content()),
            Event::GeneralRef(reference) => state.add(&resolve(&reference)),
            Event::DocType(_) => {
                return Err(DocumentError::Damaged(
                    "its XML defines entities of its own".to_owned(),
                ));
            }
            Event::Eof => break,
            _ => {}
        }
        if state.sheet.cut {
            break;
        }
    }
    Ok(state.sheet)
}

/// An attribute's value by its local name.
pub(crate) fn attribute(start: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = start
        .attributes()
        .flatten()
        .find(|attribute| attribute.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
}

/// The character of an entity: only those that every document knows.
pub(crate) fn resolve(reference: &BytesRef<'_>) -> String {
    if let Ok(Some(c)) = reference.resolve_char_ref() {
        return c.to_string();
    }
    match &*reference.xml10_content() {
        "amp" => "&".to_owned(),
        "lt" => "<".to_owned(),
        "gt" => ">".to_owned(),
        "quot" => "\"".to_owned(),
        "apos" => "'".to_owned(),
        other => format!("&{other};"),
    }
}

struct CellReader<'a> {
    context: &'a CellContext<'a>,
    sheet: SheetCells,
    open: Option<OpenCell>,
    place: CellElement,
    row: u32,
    column: u32,
    cells: usize,
    phonetic: usize,
}

impl CellReader<'_> {
    fn begin(&mut self, start: &BytesStart<'_>, empty: bool) {
        match start.local_name().as_ref() {
            "row" => {
                // A row without a number is the next one.
                let number = attribute(start, "r").and_then(|row| row.parse().ok());
                self.row = number.unwrap_or(self.row.saturating_add(1));
                self.column = 0;
                if is_on(attribute(start, "hidden").as_deref()) {
                    self.sheet.hidden_rows.insert(self.row);
                }
            }
            "col" if is_on(attribute(start, "hidden").as_deref()) => {
                let bound = |name| attribute(start, name).and_then(|at| at.parse::<u32>().ok());
                if let (Some(min), Some(max)) = (bound("min"), bound("max")) {
                    self.sheet.hidden_columns.push((min.saturating_sub(1), max.saturating_sub(1)));
                }
            }
            "c" if !empty => {
                let place = attribute(start, "r").and_then(|place| parse_place(&place));
                let (column, row) = place.unwrap_or((self.column, self.row));
                self.column = column.saturating_add(1);
                self.open = Some(OpenCell {
                    row,
                    column,
                    kind: attribute(start, "t").unwrap_or_default(),
                    style: attribute(start, "s").and_then(|style| style.parse().ok()).unwrap_or(0),
                    ..OpenCell::default()
                });
            }
            "c" => {
                let place = attribute(start, "r").and_then(|place| parse_place(&place));
                self.column = place.map_or(self.column, |place| place.0).saturating_add(1);
            }
            "v" if !empty => self.place = CellElement::Value,
            "f" if !empty => self.place = CellElement::Formula,
            "t" if !empty && self.open.is_some() && self.phonetic == 0 => {
                self.place = CellElement::Inline;
            }
            "rPh" if !empty => self.phonetic += 1,
            "hyperlink" if self.sheet.links.len() < MAX_LINKS => {
                self.sheet.links.extend(attribute(start, "ref").zip(attribute(start, "id")));
            }
            "mergeCell" => self.sheet.merged.extend(attribute(start, "ref")),
            "oddHeader" | "oddFooter" | "evenHeader" | "evenFooter" | "firstHeader"
            | "firstFooter"
                if !empty =>
            {
                self.sheet.printed.push(String::new());
                self.place = CellElement::Printed;
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        let into = match (self.place, &mut self.open) {
            (CellElement::Value, Some(open)) => &mut open.value,
            (CellElement::Formula, Some(open)) => &mut open.formula,
            (CellElement::Inline, Some(open)) => &mut open.inline,
            (CellElement::Printed, _) => match self.sheet.printed.last_mut() {
                Some(last) => last,
                None => return,
            },
            _ => return,
        };
        let end = text.floor_char_boundary(MAX_CELL.saturating_sub(into.len()));
        into.push_str(&text[..end]);
    }

    fn end(&mut self, name: &str) {
        match name {
            "v" | "f" | "t" | "oddHeader" | "oddFooter" | "evenHeader" | "evenFooter"
            | "firstHeader" | "firstFooter" => {
                self.place = CellElement::None;
            }
            "rPh" => self.phonetic = self.phonetic.saturating_sub(1),
            "c" => {
                let Some(open) = self.open.take() else { return };
                let cell = self.finish(&open);
                if cell.text.is_empty() && cell.formula.is_empty() {
                    return;
                }
                self.cells += 1;
                self.sheet.cut = self.cells > MAX_CELLS;
                self.sheet.rows.entry(open.row).or_default().push(cell);
            }
            _ => {}
        }
    }

    fn finish(&self, open: &OpenCell) -> Cell {
        let value = open.value.as_str();
        let text = match open.kind.as_str() {
            // A cell of a shared text without a number has none.
            "s" => value
                .trim()
                .parse::<usize>()
                .ok()
                .and_then(|index| self.context.strings.get(index).cloned()),
            "inlineStr" => Some(open.inline.clone()),
            "b" => Some(if value.trim() == "1" { "TRUE".to_owned() } else { "FALSE".to_owned() }),
            "str" | "e" => Some(unescape_controls(value)),
            "d" => Some(value.trim_end_matches("T00:00:00").to_owned()),
            _ if value.trim().is_empty() => None,
            _ => {
                let form = self.context.forms.get(open.style).unwrap_or(&NumberForm::Plain);
                Some(form.show(value, self.context.is_1904))
            }
        };
        Cell {
            column: open.column,
            text: text.unwrap_or_default(),
            formula: open.formula.trim().to_owned(),
        }
    }
}

/// `_x000D_` stands for a control character.
pub(crate) fn unescape_controls(text: &str) -> String {
    if !text.contains("_x") {
        return text.to_owned();
    }
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("_x") {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 2..at + 6).filter(|_| rest.as_bytes().get(at + 6) == Some(&b'_'));
        let found = code
            .filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|code| u32::from_str_radix(code, 16).ok())
            .and_then(char::from_u32);
        if let Some(c) = found {
            out.push(c);
            rest = &rest[at + 7..];
        } else {
            out.push_str("_x");
            rest = &rest[at + 2..];
        }
    }
    out.push_str(rest);
    out
}

fn is_on(value: Option<&str>) -> bool {
    matches!(value, Some("1" | "true" | "on"))
}

/// `BC12` as column from 0 and row from 1.
fn parse_place(place: &str) -> Option<(u32, u32)> {
    let digits = place.find(|c: char| c.is_ascii_digit())?;
    let (letters, row) = place.split_at(digits);
    let mut column: u32 = 0;
    for letter in letters.bytes().filter(|b| *b != b'$') {
        if !letter.is_ascii_alphabetic() {
            return None;
        }
        column = column
            .checked_mul(26)?
            .checked_add(u32::from(letter.to_ascii_uppercase() - b'A') + 1)?;
    }
    Some((column.checked_sub(1)?, row.trim_start_matches('$').parse().ok()?))
}

/// Letters of a column, such as `AB`, from its index.
pub(crate) fn column_name(mut column: u32) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(char::from(b'A' + u8::try_from(column % 26).unwrap_or_default()));
        if column < 26 {
            break;
        }
        column = column / 26 - 1;
    }
    letters.iter().rev().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_letters() {
        for (column, name) in
            [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA"), (16_383, "XFD")]
        {
            assert_eq!(column_name(column), name);
            assert_eq!(parse_place(&format!("{name}7")), Some((column, 7)));
        }
        assert_eq!(parse_place("7"), None);
        assert_eq!(parse_place("AAAAAAAAAAAAAA1"), None);
    }

    #[test]
    fn control_characters_are_written_as_codes() {
        assert_eq!(unescape_controls("a_x000D_b _x12 _xZZZZ_ _x005F_"), "a\rb _x12 _xZZZZ_ _");
    }

    #[test]
    fn a_shared_text_without_a_number_is_no_text() {
        let strings = ["first".to_owned(), String::new()];
        let context = CellContext { strings: &strings, forms: &[], is_1904: false };
        let xml = r#"<worksheet><sheetData><row r="2"><c t="s"><v/></c><c t="s"><v>0</v></c><c t="s"><v>1</v></c>
            <c><f>SUM(A1:A2)</f><v>3</v></c><c r="XFD2" t="inlineStr"><is><r><t>a &amp; </t></r><r><t>b</t></r><rPh><t>kana</t></rPh></is></c>
            </row></sheetData></worksheet>"#;
        let sheet = read_cells(xml, &context).unwrap();
        let row: Vec<_> = sheet.rows[&2]
            .iter()
            .map(|c| (c.column, c.text.as_str(), c.formula.as_str()))
            .collect();
        assert_eq!(row, [(1, "first", ""), (3, "3", "SUM(A1:A2)"), (16_383, "a & b", "")]);
    }
}
