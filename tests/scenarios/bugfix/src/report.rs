//! Sums by project, and how they are printed.

use std::collections::BTreeMap;

use crate::entry::Entry;

/// Minutes by project.
pub fn totals(entries: &[Entry]) -> BTreeMap<String, u32> {
    let mut totals = BTreeMap::new();
    for entry in entries {
        *totals.entry(entry.project.clone()).or_default() += entry.minutes();
    }
    totals
}

/// One line for each project and one for all of them.
pub fn render(totals: &BTreeMap<String, u32>) -> String {
    let width = totals.keys().map(String::len).chain([5]).max().unwrap_or(5) + 2;
    let line = |name: &str, minutes: u32| format!("{name:width$} {}\n", hours(minutes));
    let mut report: String = totals
        .iter()
        .map(|(project, minutes)| line(project, *minutes))
        .collect();
    report.push_str(&line("total", totals.values().sum()));
    report
}

fn hours(minutes: u32) -> String {
    format!("{}:{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::parse;

    #[test]
    fn a_report_has_a_line_for_each_project() {
        let log = "2025-03-03 09:00-12:30 website\n\
                   2025-03-03 13:15-17:00 website\n\
                   2025-03-04 09:00-10:00 support\n";
        let report = render(&totals(&parse(log).unwrap()));
        assert_eq!(report, "support   1:00\nwebsite   7:15\ntotal     8:15\n");
    }
}
