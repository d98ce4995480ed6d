//! Outputs of a notebook's cells, as text. Pictures are named only.

use serde_json::Value;

use super::literal::with_finite_numbers;

/// Outputs of one cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellOutput {
    /// The line of the view, counted from 1, behind which it is shown.
    pub line: usize,
    /// Texts of the outputs that have any.
    pub texts: Vec<String>,
}

/// The outputs of all cells, of which the last lines are given.
pub(super) fn read_outputs(json: &str, last_lines: Vec<usize>) -> Vec<CellOutput> {
    let Ok(notebook) = serde_json::from_str::<Value>(&with_finite_numbers(json)) else {
        return Vec::new();
    };
    let sheets =
        notebook["worksheets"].as_array().into_iter().flatten().map(|sheet| &sheet["cells"]);
    let cells =
        std::iter::once(&notebook["cells"]).chain(sheets).filter_map(Value::as_array).flatten();
    let output = |(cell, line): (&Value, usize)| {
        let outputs = cell["outputs"].as_array().into_iter().flatten();
        let texts: Vec<String> =
            outputs.map(show_output).filter(|text| !text.trim().is_empty()).collect();
        (!texts.is_empty()).then_some(CellOutput { line, texts })
    };
    cells.zip(last_lines).filter_map(output).collect()
}

fn show_output(output: &Value) -> String {
    if let Some(name) = output["ename"].as_str() {
        return format!("{name}: {}", output["evalue"].as_str().unwrap_or_default());
    }
    let text = join_lines(&output["text"]);
    if !text.is_empty() {
        return text;
    }
    let plain = join_lines(&output["data"]["text/plain"]);
    let others = output["data"].as_object().into_iter().flatten();
    let pictures = others
        .filter(|(kind, _)| kind.starts_with("image/"))
        .map(|(kind, _)| format!("[{kind}]\n"));
    pictures.collect::<String>() + &plain
}

/// Notebooks write text as one string or as a list of lines.
fn join_lines(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect(),
        _ => String::new(),
    }
}
