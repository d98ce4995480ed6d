//! Tables, costs and ages for a terminal, without characters that a terminal would obey.

use codebutler_crds::NanoUsd;
use jiff::Timestamp;

/// Takes out what a terminal would obey: names and sentences of objects were written by others.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Columns as wide as their longest cell.
pub(crate) fn format_table(head: &[&str], rows: &[Vec<String>]) -> Vec<String> {
    let head: Vec<String> = head.iter().map(|name| (*name).to_owned()).collect();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&head).chain(&rows).filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&head).chain(&rows).map(line).collect()
}

pub(crate) fn format_usd(cost: NanoUsd) -> String {
    cost.in_cents()
}

/// Formats an age in the largest unit that fits.
pub(crate) fn format_age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.as_second().saturating_sub(since.as_second()).max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_obeys_nothing_that_an_object_says() {
        let rows =
            [vec!["a\u{1b}[2Jb".to_owned(), "x".to_owned()], vec!["c".to_owned(), "\n".to_owned()]];
        assert_eq!(format_table(&["NAME", "Y"], &rows), ["NAME    Y", "a [2Jb  x", "c"]);
    }

    #[test]
    fn an_age_is_as_kubectl_has_it() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        for (seconds, shown) in
            [(5, "5s"), (600, "10m"), (10_000, "2h"), (200_000, "2d"), (-5, "0s")]
        {
            let since = Timestamp::from_second(1_000_000 - seconds).unwrap();
            assert_eq!(format_age(since, now), shown);
        }
    }
}
