//! Last message of a Thread: what was done, where that is, and what it has cost, a line each. The rest is on the Thread's
//! page. Pure.

use std::fmt::Write as _;

use codebutler_gateway_core::github::{GitHubPull, text};
use codebutler_slack::show_line;

/// Longest title that is shown, in characters.
const MAX_TITLE: usize = 120;

/// Composes it. `how` says how the Thread has ended; `title` is that of its pull request, masked.
pub(crate) fn write_report(
    how: &str,
    pull: Option<(&GitHubPull, &str)>,
    page: Option<&str>,
    cost: &str,
) -> String {
    let mut report = how.to_owned();
    let title = pull.map(|(_, title)| text::one_line(title, MAX_TITLE)).unwrap_or_default();
    if !title.is_empty() {
        let _ = write!(report, ": {}", show_line(&title));
    }
    let pull = pull.map(|(pull, _)| format!("[Pull request #{}]({})", pull.number, pull.html_url));
    let page = page.map(|page| format!("[{}]({page})", codebutler_pages::HAPPENED));
    let links: Vec<String> = pull.into_iter().chain(page).collect();
    if !links.is_empty() {
        let _ = write!(report, "\n{}", links.join(" · "));
    }
    let _ = write!(report, "\n{cost}.");
    report
}

/// A line for a branch that GitHub does not let be deleted; empty for one that is gone.
pub(crate) fn tell_kept(branch: &str, is_gone: bool) -> String {
    if is_gone {
        return String::new();
    }
    format!("\nThe branch `{branch}` stays: rules of the repository do not let it be deleted.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pull() -> GitHubPull {
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": "closed", "head": {"sha": "abc"},
        });
        serde_json::from_value(pull).unwrap()
    }

    #[test]
    fn a_report_is_three_lines() {
        let (pull, cost) = (pull(), "Cost $0.25, 2 model calls");
        let report = |title, page| write_report("Merged #7", Some((&pull, title)), page, cost);
        assert_eq!(
            report("Fix the total", Some("https://p/team/a")),
            "Merged #7: Fix the total\n[Pull request #7](https://h/7) · [What happened](https://p/team/a)\n\
             Cost $0.25, 2 model calls."
        );
        assert_eq!(
            report("", None),
            "Merged #7\n[Pull request #7](https://h/7)\nCost $0.25, 2 model calls."
        );
        let none = write_report("Closed without merging", None, None, cost);
        assert_eq!(none, "Closed without merging\nCost $0.25, 2 model calls.");
    }

    #[test]
    fn a_title_is_one_line_without_markup_and_not_long() {
        let pull = pull();
        let report = |title| write_report("Merged #7", Some((&pull, title)), None, "Cost $0.00");
        let lines = |title| report(title).lines().count();
        assert_eq!(lines("a\nb\r\nc\u{2028}d"), 3);
        let linked = report("[click](https://evil.test) `x`");
        assert!(linked.contains(r"\[click\]\(https\:\/\/evil\.test\) \`x\`"), "{linked}");
        let long = report(&"x".repeat(500));
        assert!(long.contains("… \\[cut\\]\n") && long.len() < 250, "{long}");
    }
}
