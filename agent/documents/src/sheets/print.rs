//! A sheet as text: a table where it is one, and addresses where cells lie far apart.

use std::fmt::Write as _;

use super::cells::{Cell, SheetCells, column_name};
use crate::sink::{TextSink, table_cell, table_row};

/// Columns that are printed side by side.
const MAX_COLUMNS: u32 = 60;
/// Longest formula that is shown.
const MAX_FORMULA: usize = 120;
/// Things of a kind that are named.
const NAMED: usize = 20;

/// Prints a sheet as a table.
pub(crate) fn print_sheet(sink: &mut TextSink, title: &str, sheet: &SheetCells) {
    let columns = || sheet.rows.values().flatten().map(|cell| cell.column);
    let (Some(first), Some(last)) = (columns().min(), columns().max()) else {
        sink.begin(title);
        sink.line("[no cells]");
        return;
    };
    let rows = (sheet.rows.keys().next(), sheet.rows.keys().next_back());
    let (top, bottom) = (rows.0.copied().unwrap_or(1), rows.1.copied().unwrap_or(1));
    sink.begin(&format!("{title} ({}{top}:{}{bottom})", column_name(first), column_name(last)));
    for note in describe_sheet(sheet) {
        sink.line(&format!("[{note}]"));
    }
    let is_wide = last - first >= MAX_COLUMNS;
    if !is_wide {
        let names: Vec<String> = (first..=last).map(column_name).collect();
        sink.line(&table_row(std::iter::once("").chain(names.iter().map(String::as_str))));
    }
    for (number, cells) in &sheet.rows {
        if sink.is_full() {
            return;
        }
        let mark = if sheet.hidden_rows.contains(number) {
            format!("{number} hidden")
        } else {
            number.to_string()
        };
        if is_wide {
            let shown = cells
                .iter()
                .map(|cell| format!("{}{number}={}", column_name(cell.column), show_cell(cell)));
            let shown: Vec<String> = std::iter::once(mark).chain(shown).collect();
            sink.line(&table_row(shown.iter().map(String::as_str)));
            continue;
        }
        let mut row = vec![String::new(); (last - first + 1) as usize];
        for cell in cells {
            if let Some(slot) = row.get_mut((cell.column - first) as usize) {
                *slot = show_cell(cell);
            }
        }
        sink.line(&table_row(std::iter::once(mark.as_str()).chain(row.iter().map(String::as_str))));
    }
    if sheet.cut {
        sink.line("[the sheet has more cells; the rest is left out]");
    }
}

fn show_cell(cell: &Cell) -> String {
    let mut text = table_cell(&cell.text);
    if !cell.formula.is_empty() {
        let formula: String = table_cell(&cell.formula).chars().take(MAX_FORMULA).collect();
        let never = if cell.text.is_empty() { "not calculated yet" } else { "" };
        let _ = write!(text, "{never} [={formula}]");
    }
    text
}

/// Things that a table can't show.
fn describe_sheet(sheet: &SheetCells) -> Vec<String> {
    let mut notes = Vec::new();
    if !sheet.hidden_rows.is_empty() {
        let hidden = sheet.hidden_rows.iter().filter(|row| sheet.rows.contains_key(row)).count();
        notes.push(format!("{hidden} rows with cells are hidden, and marked so"));
    }
    if !sheet.hidden_columns.is_empty() {
        let named = sheet.hidden_columns.iter().map(|(first, last)| {
            if first == last {
                return column_name(*first);
            }
            format!("{} to {}", column_name(*first), column_name(*last))
        });
        notes.push(format!("hidden columns: {}", list(named.collect())));
    }
    if !sheet.merged.is_empty() {
        notes.push(format!(
            "merged cells, with their value at the top left: {}",
            list(sheet.merged.clone())
        ));
    }
    for printed in sheet.printed.iter().filter(|text| !text.is_empty()) {
        notes.push(format!("printed with each page: {}", plain_header(printed)));
    }
    notes
}

fn list(names: Vec<String>) -> String {
    let more = names.len().saturating_sub(NAMED);
    let mut out = names.into_iter().take(NAMED).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(out, " and {more} more");
    }
    out
}

/// A header without its codes of places, fonts and sizes.
fn plain_header(text: &str) -> String {
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(c) = letters.next() {
        if c != '&' {
            out.push(c);
            continue;
        }
        match letters.next() {
            Some('L' | 'C' | 'R') => out.push(' '),
            Some('P') => out.push_str("(page)"),
            Some('N') => out.push_str("(pages)"),
            Some('D') => out.push_str("(date)"),
            Some('T') => out.push_str("(time)"),
            Some('A') => out.push_str("(sheet)"),
            Some('F') => out.push_str("(file)"),
            Some('"') => drop(letters.by_ref().find(|c| *c == '"')),
            Some('&') => out.push('&'),
            Some(digit) if digit.is_ascii_digit() => {
                while letters.peek().is_some_and(char::is_ascii_digit) {
                    letters.next();
                }
            }
            _ => {}
        }
    }
    crate::sink::one_line(&out)
}
