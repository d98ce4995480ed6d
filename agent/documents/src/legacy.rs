//! XLS, XLSB and ODS, as calamine reads them.

use std::io::Cursor;

use calamine::{Data, Range, Reader as _, SheetVisible, Sheets, open_workbook_auto_from_rs};

use super::kind::DocumentKind;
use super::sheets::cells::{Cell, SheetCells};
use super::sheets::formats::show_date;
use super::sheets::print::print_sheet;
use super::sink::{TextSink, one_line};
use super::{DocumentContent, DocumentError};

/// Most cells of a sheet, empty ones included: they are held side by side.
const MAX_CELLS: usize = 20_000_000;

/// Reads all sheets of a workbook as text.
pub(crate) fn read_old_workbook(
    kind: DocumentKind,
    bytes: Vec<u8>,
    part: Option<&str>,
) -> Result<DocumentContent, DocumentError> {
    if part.is_some() {
        return Err(DocumentError::Unsupported(format!(
            "is of a kind ({kind}) whose pictures can't be taken out here"
        )));
    }
    let mut workbook =
        open_workbook_auto_from_rs(Cursor::new(bytes)).map_err(|error| explain(&error))?;
    let (mut sink, mut notes, mut hidden) = (TextSink::default(), Vec::new(), Vec::new());
    for sheet in workbook.sheets_metadata().to_vec() {
        if sink.is_full() {
            break;
        }
        let name = one_line(&sheet.name);
        let mark = if sheet.visible == SheetVisible::Visible { "" } else { ", hidden" };
        if !mark.is_empty() {
            hidden.push(name.clone());
        }
        let title = format!("Sheet {name}{mark}");
        match workbook.worksheet_range(&sheet.name) {
            Ok(range) => {
                print_sheet(&mut sink, &title, &read_range(&mut workbook, &sheet.name, &range)?);
            }
            Err(error) => {
                sink.begin(&title);
                sink.line("[this sheet can't be read]");
                notes.push(format!("sheet {name} can't be read: {}", explain(&error)));
            }
        }
    }
    if !hidden.is_empty() {
        notes.push(format!("hidden sheets: {}", hidden.join(", ")));
    }
    notes.push("hidden rows and columns are among the others in this kind of workbook".to_owned());
    Ok(sink.finish(notes, Vec::new()))
}

fn read_range(
    workbook: &mut Sheets<Cursor<Vec<u8>>>,
    name: &str,
    range: &Range<Data>,
) -> Result<SheetCells, DocumentError> {
    let (height, width) = range.get_size();
    if height.saturating_mul(width) > MAX_CELLS {
        return Err(DocumentError::TooLarge(format!(
            "a sheet spans {height} rows and {width} columns"
        )));
    }
    let (top, left) = range.start().unwrap_or_default();
    let mut sheet = SheetCells::default();
    for (row, column, value) in range.used_cells() {
        let cell =
            Cell { column: left + narrow(column), text: show_value(value), formula: String::new() };
        if !cell.text.is_empty() {
            sheet.rows.entry(top + narrow(row) + 1).or_default().push(cell);
        }
    }
    // Values without formulas are worth more than nothing.
    if let Ok(formulas) = workbook.worksheet_formula(name) {
        let (top, left) = formulas.start().unwrap_or_default();
        for (row, column, formula) in formulas.used_cells() {
            let (row, column) = (top + narrow(row) + 1, left + narrow(column));
            let cells = sheet.rows.entry(row).or_default();
            match cells.binary_search_by_key(&column, |cell| cell.column) {
                Ok(at) => formula.clone_into(&mut cells[at].formula),
                Err(at) if !formula.is_empty() => {
                    cells
                        .insert(at, Cell { column, text: String::new(), formula: formula.clone() });
                }
                Err(_) => {}
            }
        }
    }
    Ok(sheet)
}

fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX / 4)
}

fn show_value(value: &Data) -> String {
    match value {
        Data::Empty => String::new(),
        Data::String(text) | Data::DurationIso(text) => text.clone(),
        Data::Bool(true) => "TRUE".to_owned(),
        Data::Bool(false) => "FALSE".to_owned(),
        Data::Int(number) => number.to_string(),
        Data::Float(number) => {
            super::sheets::formats::NumberForm::Plain.show(&number.to_string(), false)
        }
        Data::DateTime(date) if date.is_duration() => {
            super::sheets::formats::NumberForm::Duration.show(&date.as_f64().to_string(), false)
        }
        // The date's own Display prints the bare number.
        Data::DateTime(date) => match date.as_datetime() {
            Some(at) if date.as_f64() >= 1.0 => {
                at.format("%Y-%m-%d %H:%M:%S").to_string().replace(" 00:00:00", "")
            }
            _ => show_date(date.as_f64(), (false, true), false)
                .unwrap_or_else(|| date.as_f64().to_string()),
        },
        Data::DateTimeIso(text) => text.trim_end_matches("T00:00:00").to_owned(),
        Data::Error(error) => error.to_string(),
    }
}

fn explain(error: &calamine::Error) -> DocumentError {
    let said = error.to_string();
    if said.to_ascii_lowercase().contains("password") {
        return DocumentError::Locked;
    }
    DocumentError::damaged(said)
}
