//! Check of a JSON text against the rules that Jupyter's published schema has for notebooks and their cells.

use std::collections::HashSet;

use serde_json::Value;

use super::cells::NotebookFault;
use super::literal::with_finite_numbers;

/// Limit on the length of a cell's id.
const MAX_ID: usize = 64;

/// Checks a notebook that is to be written as a whole.
pub fn check_notebook(json: &str) -> Result<(), NotebookFault> {
    let fault = |text: String| Err(NotebookFault(text));
    let book: Value = match serde_json::from_str(&with_finite_numbers(json)) {
        Ok(book) => book,
        Err(error) => return fault(format!("is no JSON: {error}")),
    };
    let Some(format) = book["nbformat"].as_u64() else {
        return fault("has no `nbformat`".to_owned());
    };
    if !book["metadata"].is_object() {
        return fault("has no `metadata`".to_owned());
    }
    let sheets: Vec<&Value> = match format {
        4.. => vec![&book],
        _ => book["worksheets"].as_array().into_iter().flatten().collect(),
    };
    let with_ids = format == 4 && book["nbformat_minor"].as_u64().is_some_and(|minor| minor >= 5);
    let mut ids = HashSet::new();
    let mut number = 0;
    for sheet in sheets {
        let Some(cells) = sheet["cells"].as_array() else {
            return fault("has no list `cells`".to_owned());
        };
        for cell in cells {
            number += 1;
            if let Some(wrong) = cell_fault(cell, format) {
                return fault(format!("has a cell, number {number}, {wrong}"));
            }
            if with_ids && !cell["id"].as_str().is_some_and(|id| is_id(id) && ids.insert(id)) {
                return fault(format!(
                    "has a cell, number {number}, without an `id` of its own (letters, digits, `-` and `_`)"
                ));
            }
        }
    }
    Ok(())
}

fn is_id(id: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    (1..=MAX_ID).contains(&id.len()) && id.chars().all(fits)
}

fn cell_fault(cell: &Value, format: u64) -> Option<&'static str> {
    let is_text = |value: &Value| match value {
        Value::String(_) => true,
        Value::Array(lines) => lines.iter().all(Value::is_string),
        _ => false,
    };
    let is_code = cell["cell_type"] == "code";
    let source = if is_code && format < 4 { "input" } else { "source" };
    let kinds: &[&str] = match format {
        4.. => &["code", "markdown", "raw"],
        _ => &["code", "markdown", "raw", "heading", "html"],
    };
    if !cell["cell_type"].as_str().is_some_and(|kind| kinds.contains(&kind)) {
        Some("whose `cell_type` is not `code`, `markdown` or `raw`")
    } else if !is_text(&cell[source]) {
        Some("whose `source` is neither text nor a list of lines")
    } else if format >= 4 && !cell["metadata"].is_object() {
        Some("without `metadata`")
    } else if is_code && !cell["outputs"].is_array() {
        Some("of code without a list `outputs`")
    } else if is_code && format >= 4 && cell.get("execution_count").is_none() {
        Some("of code without `execution_count`, which may be null")
    } else {
        None
    }
}
