//! All figures of a run in one table, beside what they were at the last release. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

/// The table: a line for each figure in the order in which they were measured, marked where a limit is
/// passed. `measured` and `released` hold one JSON object a line; other lines are left out.
#[must_use]
pub fn render_table(measured: &str, released: &str) -> String {
    let before: BTreeMap<String, f64> = read_figures(released)
        .filter_map(|figure| Some((figure["name"].as_str()?.to_owned(), figure["value"].as_f64()?)))
        .collect();
    let mut rows = vec![["figure", "value", "limit", "ratio", "last release"].map(str::to_owned)];
    rows.extend(read_figures(measured).map(|figure| make_row(&figure, &before)));
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut table = String::new();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(table, "{}", line.trim_end());
    }
    table
}

fn read_figures(lines: &str) -> impl Iterator<Item = Value> {
    lines
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|figure| figure["name"].is_string())
}

fn make_row(figure: &Value, before: &BTreeMap<String, f64>) -> [String; 5] {
    let name = figure["name"].as_str().unwrap_or_default();
    let unit = figure["unit"].as_str().unwrap_or_default();
    let (value, limit) = (figure["value"].as_f64(), figure["limit"].as_f64());
    let (sign, kept) = match figure["bound"].as_str() {
        Some("min") => ("≥", value >= limit),
        _ => ("≤", value <= limit),
    };
    let show = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), show_number);
    // A measurement that is no number keeps no promise.
    let mark = if kept && value.is_some() { "" } else { "  RED" };
    [
        name.to_owned(),
        format!("{} {unit}{mark}", show(value)),
        format!("{sign} {}", show(limit)),
        show(figure["ratio"].as_f64()),
        show(before.get(name).copied()),
    ]
}

/// Shows three significant digits.
fn show_number(number: f64) -> String {
    let digits = match number.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{number:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::MeasuredFigure;

    #[test]
    fn a_broken_promise_is_marked_and_the_last_release_stands_beside() {
        let lines = [
            MeasuredFigure::ratio("snapshot.unchanged", 12.0, 10.0, 1.3),
            MeasuredFigure::at_least("proxy.throughput", 2900.0, "1/s", 3000.0),
            MeasuredFigure::at_most("a.lost", f64::NAN, "count", 0.0),
        ]
        .map(|figure| serde_json::json!(figure).to_string())
        .join("\nnot a figure\n");
        let released = r#"{"name": "snapshot.unchanged", "value": 1.1}"#;
        let expected = "\
figure              value         limit   ratio  last release
snapshot.unchanged  1.20 x        ≤ 1.30  1.20   1.10
proxy.throughput    2900 1/s  RED  ≥ 3000  –      –
a.lost              – count  RED  ≤ 0.000  –      –
";
        let columns = |table: &str| -> Vec<Vec<String>> {
            let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
            table.lines().map(cells).collect()
        };
        assert_eq!(columns(&render_table(&lines, released)), columns(expected));
    }
}
