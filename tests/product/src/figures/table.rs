//! All figures of a run in one table, beside what they were at the last release. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde_json::Value;

/// The mark of a figure that is not within its limit, or has no value.
const RED: &str = "  RED";

/// The figures of a run, for people.
#[derive(Debug)]
pub struct FigureTable {
    /// The table; see [`render_table`].
    pub text: String,
    /// True if every figure is within its limit.
    pub holds: bool,
}

/// The table: a line for each figure in the order in which they were measured, marked where a limit is
/// passed. Then those that the last release had and this run lacks, of what was measured at all: marked, too.
/// `measured` and `released` hold one JSON object a line; other lines are left out.
#[must_use]
pub fn render_table(measured: &str, released: &str) -> FigureTable {
    let before: BTreeMap<String, f64> = read_figures(released)
        .filter_map(|figure| Some((figure["name"].as_str()?.to_owned(), figure["value"].as_f64()?)))
        .collect();
    let mut rows = vec![["figure", "value", "limit", "ratio", "last release"].map(str::to_owned)];
    rows.extend(read_figures(measured).map(|figure| make_row(&figure, &before)));
    let names: BTreeSet<String> = rows.iter().skip(1).map(|row| row[0].clone()).collect();
    let groups: BTreeSet<&str> = names.iter().map(|name| group_of(name)).collect();
    let lost = before
        .iter()
        .filter(|(name, _)| groups.contains(group_of(name)) && !names.contains(name.as_str()));
    rows.extend(lost.map(|(name, value)| {
        let none = || "–".to_owned();
        [name.clone(), format!("not measured{RED}"), none(), none(), show_number(*value)]
    }));
    let holds = rows.len() > 1 && !rows.iter().any(|row| row[1].ends_with(RED));
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
    FigureTable { text: table, holds }
}

/// The part of a figure's name that says which measurement it belongs to.
fn group_of(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
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
    let mark = if kept && value.is_some() { "" } else { RED };
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
        let table = render_table(&lines, released);
        assert_eq!(columns(&table.text), columns(expected));
        assert!(!table.holds);
    }

    #[test]
    fn a_table_holds_only_with_all_that_the_last_release_measured() {
        let kept =
            |name| serde_json::json!(MeasuredFigure::at_most(name, 1.0, "ms", 2.0)).to_string();
        let released = [kept("pages.event_p95"), kept("pages.performance"), kept("wake.cold")];
        let released = released.join("\n");
        let all = format!("{}\n{}", kept("pages.event_p95"), kept("pages.performance"));
        // Nobody asked for `wake`.
        let table = render_table(&all, &released);
        assert!(table.holds && !table.text.contains("wake"), "{}", table.text);
        let table = render_table(&kept("pages.event_p95"), &released);
        let line = table.text.lines().find(|line| line.starts_with("pages.performance")).unwrap();
        assert!(!table.holds && line.contains("not measured  RED"), "{}", table.text);
        let line = r#"{"name": "wake", "value": null, "unit": "not measured"}"#;
        let table = render_table(line, &released);
        let red = table.text.lines().filter(|line| line.contains("RED")).count();
        assert!(!table.holds && red == 2, "{}", table.text);
        assert!(!render_table("", &released).holds, "a run that measured nothing");
    }
}
