//! The table of what holds where.

use std::any::Any;
use std::fmt::Write as _;

use super::Behaviour;

/// Result of a behaviour on a server.
pub(super) enum Verdict {
    Holds,
    /// The server is known to differ.
    Differs,
    Fails(String),
}

/// One server's verdicts, in the order of the behaviours.
pub(super) struct Column {
    pub title: String,
    pub verdicts: Vec<Verdict>,
}

/// Message of a failed assertion.
pub(super) fn reason(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("failed").to_owned()
}

/// The table, and below it what failed.
pub(super) fn of<'a>(
    behaviours: impl Iterator<Item = &'a Behaviour>,
    columns: &[Column],
) -> String {
    let mut text = String::new();
    let titles: Vec<&str> = columns.iter().map(|c| c.title.as_str()).collect();
    let _ = writeln!(text, "\n{:10} {:<72} {}", "", "behaviour", titles.join("  "));
    let mut failures = String::new();
    let mut area = "";
    for (row, behaviour) in behaviours.enumerate() {
        let shown = if behaviour.area == area { "" } else { behaviour.area };
        area = behaviour.area;
        let _ = write!(text, "{shown:10} {:<72}", behaviour.says);
        for column in columns {
            let mark = match &column.verdicts[row] {
                Verdict::Holds => "✓",
                Verdict::Differs => "gap",
                Verdict::Fails(why) => {
                    let (title, says) = (&column.title, behaviour.says);
                    let _ = writeln!(failures, "✗ {area}: {says} ({title})\n    {why}");
                    "✗"
                }
            };
            let _ = write!(text, " {mark:<width$}", width = column.title.chars().count() + 1);
        }
        text.push('\n');
    }
    for column in columns {
        let good = column.verdicts.iter().filter(|v| matches!(v, Verdict::Holds)).count();
        let _ = writeln!(text, "{}: {good} of {}", column.title, column.verdicts.len());
    }
    text.push_str(&failures);
    text
}
