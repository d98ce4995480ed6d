//! The page of `.codebutler/journals/` that a conversation leaves in the repository for people who were not there.
//! The harness writes it, and no model but for its retrospective.

use std::fmt::Write as _;

use codebutler_wire::{NanoUsd, PullRequest, SlackTs, TokenUsage};

use crate::memory::LearningMarks;
use codebutler_guides::text::clip_text;

/// Longest plan that is kept, in characters.
const MAX_PLAN: usize = 8_000;

/// Name of the line in a journal's head that holds people's first request, and limit on its length, in characters.
const ASKED: &str = "Asked";
const MAX_ASKED: usize = 300;
/// Number of lines at the beginning of a journal in which its head is looked for.
const MAX_HEAD: usize = 40;

/// Contents of a journal, but for usage, history and retrospective.
#[derive(Clone, Debug, Default)]
pub struct JournalFacts {
    /// The conversation's first message.
    pub root: Option<SlackTs>,
    pub link: Option<String>,
    /// Request with which people began the conversation.
    pub asked: Option<String>,
    /// The approved plan, if there is one.
    pub plan: Option<String>,
    /// Display name of the person who approved the plan.
    pub approved_by: Option<String>,
    pub pull_request: Option<PullRequest>,
    /// Fate of the team's learnings in the conversation.
    pub marks: LearningMarks,
}

impl JournalFacts {
    /// The page below `.codebutler/`.
    pub fn page(&self, thread: &str) -> String {
        let root = self.root.as_ref().map_or(thread, SlackTs::as_str);
        format!("journals/thread-{}.md", root.replace('.', "-"))
    }
}

/// The page: plan, what each role did, what it cost, and the retrospective.
pub(crate) fn write_journal(
    facts: &JournalFacts,
    usage: &[(String, TokenUsage)],
    history: &str,
    retrospective: &str,
) -> String {
    let JournalFacts { link, asked, plan, approved_by, pull_request, marks, .. } = facts;
    let title = plan.as_deref().and_then(|plan| plan.lines().find(|line| !line.trim().is_empty()));
    let mut out = format!(
        "# {}\n\n",
        clip_text(title.unwrap_or("A conversation").trim_start_matches(['#', ' ']), 100)
    );
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(out, "- {name}: {value}");
        }
    };
    line(ASKED, asked.as_deref().and_then(one_line));
    line("Thread", link.clone());
    line("Pull request", pull_request.as_ref().map(|pull| pull.url.clone()));
    line("Plan approved by", approved_by.clone());
    let total = usage.iter().fold(0_u64, |sum, (_, usage)| sum.saturating_add(usage.cost.0));
    line("Cost until the retrospective", Some(format!("${}", NanoUsd(total))));
    out.push_str(&marks.render());
    if let Some(plan) = plan {
        let _ = write!(out, "\n## Plan\n\n{}\n", lower_headings(&clip_text(plan.trim(), MAX_PLAN)));
    }
    let _ = write!(out, "\n## Behind the scenes\n\n{}\n", lower_headings(history.trim()));
    let _ = write!(
        out,
        "\n{}\n",
        lower_headings(retrospective.trim()).replacen("**Retrospective**", "## Retrospective", 1)
    );
    out
}

/// Somebody's words on one line, which nothing in them can leave.
fn one_line(text: &str) -> Option<String> {
    let plain = |c: char| if c.is_control() || c.is_whitespace() { ' ' } else { c };
    let text: String = text.chars().take(4 * MAX_ASKED).map(plain).collect();
    let words: Vec<&str> = text.split_whitespace().collect();
    (!words.is_empty()).then(|| clip_text(&words.join(" "), MAX_ASKED))
}

/// Request with which people began a conversation, from the head of its journal.
pub(crate) fn find_asked(journal: &str) -> Option<&str> {
    let mut head = journal.lines().take(MAX_HEAD).take_while(|line| !line.starts_with("## "));
    head.find_map(|line| line.strip_prefix("- ")?.strip_prefix(ASKED)?.strip_prefix(": "))
}

/// Lowers the headings of a text below the page's own.
fn lower_headings(text: &str) -> String {
    let lower = |line: &str| match line.trim_start_matches('#') {
        title if title.len() < line.len() => format!("###{title}"),
        _ => line.to_owned(),
    };
    text.lines().map(lower).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_tells_what_was_planned_done_and_learned() {
        let facts = JournalFacts {
            root: Some("1764000000.000100".parse().unwrap()),
            link: Some("https://acme.slack.com/archives/C1/p1764000000000100".to_owned()),
            asked: Some("raise\n- Thread: mine\n\nthe price".to_owned()),
            plan: Some("Plan: raise the price.\n# Why\nIt is too low.".to_owned()),
            approved_by: Some("Ana".to_owned()),
            pull_request: None,
            marks: LearningMarks::default(),
        };
        let usage = [(
            "coder".to_owned(),
            TokenUsage { cost: NanoUsd(250_000_000), ..TokenUsage::default() },
        )];
        assert_eq!(facts.page("shop-1"), "journals/thread-1764000000-000100.md");
        assert_eq!(
            write_journal(
                &facts,
                &usage,
                "## coder\n2 runs",
                "**Retrospective**\n\n**Went well**\n1. All"
            ),
            "# Plan: raise the price.\n\n- Asked: raise - Thread: mine the price\n- Thread: https://acme.slack.com/archives/C1/p1764000000000100\n- Plan \
             approved by: Ana\n- Cost until the retrospective: $0.25\n\n## Plan\n\nPlan: raise the price.\n### \
             Why\nIt is too low.\n\n## Behind the scenes\n\n### coder\n2 runs\n\n## Retrospective\n\n**Went \
             well**\n1. All\n"
        );
    }
}
