//! Texts of a merge: the commit's title and message, and the pull request's last description.

use codebutler_crds::{Thread, ThreadStatus};
use codebutler_description::{FittedDescription, OwnPart};
use codebutler_gateway_core::github::{GitHubPull, MergeMessage, text};
use codebutler_slack::usage;
use kube::ResourceExt as _;

use crate::origin::{self, PersonNames};
use crate::receipt;

/// Longest title of a commit, in characters.
const MAX_TITLE: usize = 256;
/// Maximum characters of the summary in a commit.
const MAX_MESSAGE: usize = 8_000;
/// Heading above the list of those who took part.
const PEOPLE: &str = "## Behind the scenes";
/// Beginning of the table of costs, below the summary.
const TABLE: &str = "```\nrole";

pub(super) struct CommitWords {
    title: String,
    text: String,
    summary: String,
}

impl CommitWords {
    /// Composes the texts from a model's summary and the gateway's own trailers.
    pub(super) fn of(pull: &GitHubPull, summary: &str, trailers: &str) -> Self {
        let summary = receipt::without_imitations(&text::outgoing_text(summary)).trim().to_owned();
        let title = format!("{} (#{})", text::commit_title(&pull.title, MAX_TITLE), pull.number);
        Self { title, text: commit_message(&summary, trailers), summary }
    }

    /// Title and message of the commit.
    pub(super) fn message(&self) -> MergeMessage<'_> {
        MergeMessage { title: &self.title, text: &self.text }
    }

    /// Description of the pull request: the present one, and at its end the summary, the costs, and who took part in
    /// it how. Nothing if people's words leave no room.
    pub(super) fn description(
        &self,
        pull: &GitHubPull,
        status: &ThreadStatus,
        people: &str,
    ) -> Option<FittedDescription> {
        let mut description = receipt::read_description(pull.body.as_deref().unwrap_or_default());
        let people = match people.trim() {
            "" => String::new(),
            people => format!("\n\n{PEOPLE}\n\n{people}"),
        };
        let tail = format!("{}{people}", usage::usage_table(status));
        description.put(OwnPart::Summary, &self.summary, &tail);
        description.fitted()
    }
}

/// The summary in a description, as a person left it; without one what the description says.
pub(super) fn summary_in(description: &str) -> String {
    let read = receipt::read_description(description);
    let summary = read.part(OwnPart::Summary);
    let said = summary.unwrap_or_else(|| {
        let words = read.part(OwnPart::Words).unwrap_or_default();
        format!("{words}\n\n{}", read.people()).trim().to_owned()
    });
    said.rsplit_once(TABLE).map_or(said.as_str(), |(summary, _)| summary).trim().to_owned()
}

/// The section on the roles' work, of a description that was made here.
pub(super) fn work_in(description: &str) -> String {
    let read = receipt::read_description(description);
    let said = read.part(OwnPart::Summary).unwrap_or_else(|| description.to_owned());
    let section = said.rsplit_once(PEOPLE).map_or("", |(_, section)| section);
    let is_work =
        |line: &&str| line.starts_with("- ") && line.contains(": ") && line.contains("; ");
    section.lines().filter(is_work).flat_map(|line| [line, "\n"]).collect()
}

/// The commit's message below its title: what a model says of it, then the gateway's trailers.
fn commit_message(summary: &str, trailers: &str) -> String {
    let summary: String = summary.chars().take(MAX_MESSAGE).collect();
    let lines = summary.lines().map(|line| {
        if is_trailer(line) || is_divider(line) { format!("> {line}") } else { line.to_owned() }
    });
    let summary = lines.collect::<Vec<_>>().join("\n");
    format!("{}\n\n{trailers}", summary.trim()).trim().to_owned()
}

/// True if Git, GitHub or a reader could take a line for a trailer: nobody but the gateway says who approved, wrote
/// or signed.
fn is_trailer(line: &str) -> bool {
    let line = line.trim_start();
    let Some((name, _)) = line.split_once(':') else {
        return line.starts_with("(cherry picked from");
    };
    let name = name.trim_end();
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    plain && (name.contains('-') || ["slack", "cost"].contains(&&*name.to_ascii_lowercase()))
}

/// True for a line at which `git interpret-trailers --parse` and `git am` take a message for ended: they would see none
/// of the trailers below a Markdown rule.
fn is_divider(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Trailers for the Git history: the requester, approvers, link to Slack, dependencies and cost.
pub(super) fn write_trailers(
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

/// The roles' work, as the role that ended the Thread told it.
pub(super) fn work_of(pull: &GitHubPull) -> String {
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
        let described = words.description(&pull, &ThreadStatus::default(), people).unwrap();
        pull.body = Some(described.text.replace('\n', "\r\n"));
        let body = pull.body.as_deref().unwrap();
        assert_eq!(
            (summary_in(body).as_str(), work_in(body).as_str()),
            (summary, "- coder: m 3; Bash 2; 9 s\n")
        );
        let edited = body.replace("Fixes the total.", "Fixes the total, and the tax.");
        assert!(summary_in(&edited).starts_with("Fixes the total, and the tax."));
        assert_eq!(summary_in("by somebody else"), "by somebody else");
    }

    #[test]
    fn the_last_description_keeps_all_that_stands_there() {
        let theirs = "As planned.\r\n\r\nCloses #12\r\n## Checklist (by Ben)\r\n- [x] SHOP-77\r\n";
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"}, "title": "Fix it",
            "body": theirs,
        });
        let mut pull: GitHubPull = serde_json::from_value(pull).unwrap();
        for summary in ["Nearly well.", "All is well."] {
            let words = CommitWords::of(&pull, summary, "Cost: $1");
            let body = words.description(&pull, &ThreadStatus::default(), "").unwrap().text;
            assert!(body.starts_with(theirs), "{body:?}");
            assert!(body.contains(&format!("-->\n\n{summary}\n\n```\nrole")), "{body}");
            pull.body = Some(body);
        }
        assert!(!pull.body.unwrap().contains("Nearly well."));
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
    fn neither_a_title_nor_a_summary_switches_off_ci() {
        let pull = json!({
            "number": 7, "html_url": "https://h/7", "state": "open", "head": {"sha": "abc"},
            "title": "Fix it [skip ci]",
        });
        let pull: GitHubPull = serde_json::from_value(pull).unwrap();
        let summary = "README says hello. [skip ci] is not wanted here.\n\nskip-checks: true";
        let words = CommitWords::of(&pull, summary, "Cost: $1");
        let MergeMessage { title, text } = words.message();
        assert!(
            ![title, text].into_iter().any(codebutler_crds::wire::has_ci_words),
            "{title}\n{text}"
        );
        assert!(text.replace('\u{200b}', "").contains("hello. [skip ci] is not wanted"), "{text}");
        let body = words.description(&pull, &ThreadStatus::default(), "").unwrap().text;
        assert!(!codebutler_crds::wire::has_ci_words(&body), "{body}");
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

    #[test]
    fn a_rule_in_a_summary_hides_no_trailer() {
        let summary =
            "---\nFixes the total.\nClue: none\n\n---\n\n--- a/price.txt\n---- four\n ---";
        let trailers = "Codebutler-Thread: team/shop-1\nMerge-approved-by: U1";
        let message = commit_message(summary, trailers);
        let mut git = std::process::Command::new("git")
            .args(["interpret-trailers", "--parse"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let whole = format!("Fix it (#7)\n\n{message}\n");
        std::io::Write::write_all(&mut git.stdin.take().unwrap(), whole.as_bytes()).unwrap();
        let read = git.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&read).trim(), trailers, "{whole}");
        assert!(
            message.contains("\n\n> ---\n\n> --- a/price.txt\n---- four\n ---\n\n"),
            "{message}"
        );
    }
}
