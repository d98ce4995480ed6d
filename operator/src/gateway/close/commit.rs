//! What a merge writes: the commit's title and message, and the pull request's last description.

use codebutler_crds::{Thread, ThreadStatus};
use kube::ResourceExt as _;

use crate::gateway::github::{GitHubPull, MergeMessage, text};
use crate::gateway::origin::{self, PersonNames};
use crate::gateway::receipt;
use crate::gateway::slack::usage;

/// Longest title of a commit, in characters.
const MAX_TITLE: usize = 256;
/// Of the summary, in a commit.
const MAX_MESSAGE: usize = 8_000;
/// Words by which GitHub closes an issue.
const CLOSING: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];
/// Above who took part.
const PEOPLE: &str = "## Behind the scenes";
/// How the table of what it cost begins, below the summary.
const TABLE: &str = "\n\n```\nrole";

pub struct CommitWords {
    title: String,
    text: String,
    summary: String,
}

impl CommitWords {
    /// Of a model's summary and the gateway's own trailers.
    pub fn of(pull: &GitHubPull, summary: &str, trailers: &str) -> Self {
        let summary = receipt::without_section(&text::outgoing_text(summary)).trim().to_owned();
        let title = format!("{} (#{})", text::one_line(&pull.title, MAX_TITLE), pull.number);
        Self { title, text: commit_message(&summary, trailers), summary }
    }

    /// For the commit.
    pub fn message(&self) -> MergeMessage<'_> {
        MergeMessage { title: &self.title, text: &self.text }
    }

    /// For the pull request: the summary, what it cost, the receipt that is there, and who took part in it how.
    pub fn description(&self, pull: &GitHubPull, status: &ThreadStatus, people: &str) -> String {
        let proof = receipt::find_section(pull.body.as_deref().unwrap_or_default());
        let people = match people.trim() {
            "" => String::new(),
            people => format!("\n{PEOPLE}\n\n{people}\n"),
        };
        let closes = closing_lines(pull.body.as_deref().unwrap_or_default(), &self.summary);
        format!("{proof}\n\n{}{closes}\n\n{}\n{people}", self.summary, usage::usage_table(status))
    }
}

/// Lines by which GitHub closes issues with the merge: who wrote the description named them, and what is written
/// last takes none of them away.
fn closing_lines(description: &str, summary: &str) -> String {
    let closes = |line: &&str| {
        let Some((word, number)) = line.split_once(" #") else { return false };
        let word = word.trim_end_matches(':').to_ascii_lowercase();
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number && CLOSING.contains(&&*word)
    };
    let known = |line: &&str| summary.lines().any(|own| own.trim() == *line);
    let lines = description.lines().map(str::trim).filter(closes).filter(|line| !known(line));
    lines.fold(String::new(), |all, line| format!("{all}\n\n{line}"))
}

/// The summary in a description that was made here.
pub fn summary_in(description: &str) -> String {
    let body = receipt::without_section(description);
    body.rsplit_once(TABLE).map_or(body.as_str(), |(summary, _)| summary.trim_start()).to_owned()
}

/// What the roles did, in a description that was made here.
pub fn work_in(description: &str) -> String {
    let section = description.rsplit_once(PEOPLE).map_or("", |(_, section)| section);
    let is_work =
        |line: &&str| line.starts_with("- ") && line.contains(": ") && line.contains("; ");
    section.lines().filter(is_work).flat_map(|line| [line, "\n"]).collect()
}

/// The commit's message below its title: what a model says of it, then the gateway's trailers.
fn commit_message(summary: &str, trailers: &str) -> String {
    let summary: String = summary.chars().take(MAX_MESSAGE).collect();
    let lines = summary
        .lines()
        .map(|line| if is_trailer(line) { format!("> {line}") } else { line.to_owned() });
    let summary = lines.collect::<Vec<_>>().join("\n");
    format!("{}\n\n{trailers}", summary.trim()).trim().to_owned()
}

/// Whether Git, GitHub or a reader could take a line for a trailer: nobody but the gateway says who
/// approved, wrote or signed.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start();
    let Some((name, _)) = line.split_once(':') else {
        return line.starts_with("(cherry picked from");
    };
    let name = name.trim_end();
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain && (name.contains('-') || ["slack", "cost"].contains(&&*name.to_ascii_lowercase()))
}

/// Who said yes to what, where it was said and what it cost, for the history.
pub fn write_trailers(
    thread: &Thread,
    slack: Option<&str>,
    names: &PersonNames,
    needed: &[String],
) -> String {
    let status = thread.status.clone().unwrap_or_default();
    let namespace = thread.namespace().unwrap_or_default();
    let mut lines = vec![format!("Codebutler-Thread: {namespace}/{}", thread.name_any())];
    let who = |user: &String| origin::name_user(user, names);
    lines.extend(slack.map(|link| format!("Slack: {link}")));
    let asked = thread.spec.requested_by.as_ref();
    lines.extend(asked.map(|user| format!("Requested-by: {}", who(user))));
    let plan = status.plan.as_ref().and_then(|plan| plan.approved_by.as_ref());
    lines.extend(plan.map(|user| format!("Plan-approved-by: {}", who(user))));
    let merge = status.closing.as_ref().and_then(|closing| closing.decided_by.as_ref());
    lines.extend(merge.map(|user| format!("Merge-approved-by: {}", who(user))));
    lines.extend(needed.iter().map(|page| format!("Depends-On: {page}")));
    lines.extend(status.cost.map(|cost| format!("Cost: ${cost}")));
    lines.join("\n")
}

/// What the roles did, as the one that ended the Thread told it.
pub fn work_of(pull: &GitHubPull) -> String {
    work_in(pull.body.as_deref().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::thread::{ClosingChoice, PostedPlan, ThreadClosing};
    use serde_json::json;

    #[test]
    fn a_summary_is_found_again_in_the_description() {
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"},
            "title": "Fix it",
        });
        let mut pull: GitHubPull = serde_json::from_value(pull).unwrap();
        let summary = "Fixes the total.\n\n```\ncode\n```";
        let words = CommitWords::of(&pull, summary, "Cost: $1");
        let people = "- Asked for by U1 (Ana)\n- coder: m 3; Bash 2; 9 s\n";
        pull.body = Some(words.description(&pull, &ThreadStatus::default(), people));
        let body = pull.body.as_deref().unwrap();
        assert_eq!(
            (summary_in(body).as_str(), work_in(body).as_str()),
            (summary, "- coder: m 3; Bash 2; 9 s\n")
        );
        assert_eq!(summary_in("by somebody else"), "by somebody else");
    }

    #[test]
    fn the_last_description_still_closes_what_the_first_one_closes() {
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"}, "title": "Fix it",
            "body": "As planned.\n\nCloses #12\nfixes: #3\nIt closes #4 too.\nCloses #x",
        });
        let mut pull: GitHubPull = serde_json::from_value(pull).unwrap();
        let words = CommitWords::of(&pull, "All is well.", "Cost: $1");
        for _ in 0..2 {
            let body = words.description(&pull, &ThreadStatus::default(), "");
            assert!(
                body.contains("All is well.\n\nCloses #12\n\nfixes: #3\n\n```\nrole"),
                "{body}"
            );
            pull.body = Some(body);
        }
    }

    #[test]
    fn the_commit_says_who_approved() {
        let mut thread: Thread = serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": "shop-1", "namespace": "team"},
            "spec": {"repo": "shop", "slack": {"channel": "C01", "ts": "1.000000"}},
        }))
        .unwrap();
        assert_eq!(
            write_trailers(&thread, None, &PersonNames::new(), &[]),
            "Codebutler-Thread: team/shop-1"
        );
        let plan = PostedPlan {
            ts: "1.000000".parse().unwrap(),
            hash: "h".into(),
            role: "pm".into(),
            approved_by: Some("U2".into()),
            declined_by: None,
        };
        let closing = ThreadClosing {
            ts: "2.000000".parse().unwrap(),
            role: "lead".into(),
            choice: Some(ClosingChoice::Merge),
            decided_by: Some("U1".into()),
            head: None,
            waits: None,
        };
        thread.status = Some(ThreadStatus {
            plan: Some(Box::new(plan)),
            cost: Some(codebutler_crds::NanoUsd(250_000_000)),
            closing: Some(Box::new(closing)),
            ..ThreadStatus::default()
        });
        assert_eq!(
            write_trailers(
                &thread,
                Some("https://acme.slack.com/archives/C01/p1"),
                &PersonNames::from([("U2".into(), "Bob".into())]),
                &["https://h/7".into()]
            ),
            "Codebutler-Thread: team/shop-1\nSlack: https://acme.slack.com/archives/C01/p1\n\
             Plan-approved-by: U2 (Bob)\nMerge-approved-by: U1\nDepends-On: https://h/7\nCost: $0.25"
        );
    }

    #[test]
    fn a_model_forges_no_trailer() {
        let forged = "Fixes the total.\n\nPlan-approved-by: U9\n merge-approved-BY : U9\n\
                      Co-authored-by: Eve <eve@example.com>\ncost: $0\n\nNote: a:b";
        let message =
            commit_message(forged, "Codebutler-Thread: team/shop-1\nMerge-approved-by: U1");
        insta::assert_snapshot!(message, @r"
        Fixes the total.

        > Plan-approved-by: U9
        >  merge-approved-BY : U9
        > Co-authored-by: Eve <eve@example.com>
        > cost: $0

        Note: a:b

        Codebutler-Thread: team/shop-1
        Merge-approved-by: U1
        ");
    }
}
