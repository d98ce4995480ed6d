//! Receipts: the gateway's verdict on whether work that is called done was tested. A harness says what it saw of a
//! test run; it counts only if the command is the one that the Repo or the approved plan names, and if the tested
//! files are those of the commit that the remote has. Whatever is not proven is said.

mod imitation;

use codebutler_crds::Repo;
use codebutler_crds::ThreadStatus;
use codebutler_crds::thread::{PlanComplexity, TestReceipt};
use codebutler_crds::wire::{PostMessage, TestProof, TestRun};
use codebutler_description::{OwnPart, SharedDescription};

use self::imitation::is_imitation;
pub use self::imitation::without_imitations;
use crate::naming::{as_code, path_as_code};

/// Longest command that is kept, in characters.
const MAX_COMMAND: usize = 200;
const MAX_NAMED: usize = 5;
const HEADING: &str = "### CodeButler";
/// Beginnings of lines that only a receipt has.
const LINES: [&str; 5] = [
    "- Asked for by ",
    "- [conversation](<",
    "- Plan approved by ",
    "- Took part: ",
    "- [What happened](<",
];

/// Verdict on the tests of the remote's commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReceiptVerdict {
    /// Tested, whatever came of it; and files of the worktree that have changed since.
    Checked(TestReceipt, Vec<String>),
    /// Not tested; the missing proof in words.
    Unchecked(String),
}

/// Facts that a verdict is made from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReceiptFacts<'a> {
    /// The test command that counts.
    pub expected: Option<&'a str>,
    pub repo: &'a str,
    pub role: &'a str,
    /// Tip of the remote's branch: commit and tree.
    pub head: Option<(&'a str, &'a str)>,
    pub proof: Option<&'a TestProof>,
    /// The newest receipt of the Thread.
    pub known: Option<&'a TestReceipt>,
}

/// The test command of a thread: the Repo's, else that of the approved plan.
pub fn test_command<'a>(repo: &'a Repo, status: &'a ThreadStatus) -> Option<&'a str> {
    let planned = || status.approved_details()?.test.as_deref();
    repo.spec.worktree.test.as_deref().or_else(planned).map(str::trim)
}

pub(crate) fn judge_receipt(facts: &ReceiptFacts<'_>) -> ReceiptVerdict {
    let Some(expected) = facts.expected else {
        return ReceiptVerdict::Unchecked(format!(
            "neither Repo `{}` (`spec.worktree.test`) nor the approved plan names a test command",
            facts.repo
        ));
    };
    let Some((head, tree)) = facts.head else {
        return ReceiptVerdict::Unchecked("nothing is pushed".to_owned());
    };
    let run = facts.proof.and_then(|proof| proof.test.as_ref());
    let uncommitted = facts.proof.map(|proof| proof.uncommitted.clone()).unwrap_or_default();
    if let Some(TestRun { command, exit_code: Some(exit_code), tree: Some(tested), .. }) = run
        && command.trim() == expected
        && tested == tree
    {
        let receipt = TestReceipt {
            commit: head.to_owned(),
            command: kept_command(expected),
            exit_code: *exit_code,
            role: facts.role.to_owned(),
        };
        return ReceiptVerdict::Checked(receipt, uncommitted);
    }
    match facts.known {
        Some(known) if known.commit == head && known.command == kept_command(expected) => {
            ReceiptVerdict::Checked(known.clone(), uncommitted)
        }
        known => ReceiptVerdict::Unchecked(describe_missing(facts, expected, run, known)),
    }
}

fn describe_missing(
    facts: &ReceiptFacts<'_>,
    expected: &str,
    run: Option<&TestRun>,
    known: Option<&TestReceipt>,
) -> String {
    let expected = command_as_code(expected);
    let changed = facts.proof.map(|proof| &*proof.changed).unwrap_or_default();
    match (run, known) {
        (Some(run), _) if command_as_code(&run.command) != expected => {
            format!("{} was run, but the test command is {expected}", command_as_code(&run.command))
        }
        (Some(TestRun { exit_code: None, .. }), _) => {
            format!("{expected} did not come to an end")
        }
        (Some(TestRun { unknown: true, exit_code: Some(code), .. }), _) => format!(
            "{expected} ended with exit code {code}, but the worktree is too large to know on which files (more \
             than 200,000, or 1 GiB): what is built there belongs into .gitignore"
        ),
        (Some(TestRun { tree: None, .. }), _) => {
            format!("files changed while {expected} ran")
        }
        (Some(_), _) if !changed.is_empty() => {
            format!("since the last run of {expected}, {} changed", named_files(changed))
        }
        (Some(_), _) => format!("{expected} was run on other files than those that are pushed"),
        (None, Some(known))
            if known.command == kept_command(facts.expected.unwrap_or_default()) =>
        {
            format!("the last run of {expected} was on `{}`", short_commit(&known.commit))
        }
        (None, _) => format!("{expected} was not run"),
    }
}

impl ReceiptVerdict {
    /// True if it is the receipt of another role than `role`, which stands above already, with nothing new.
    pub(crate) fn is_told(&self, role: &str) -> bool {
        matches!(self, Self::Checked(receipt, since) if since.is_empty() && receipt.role != role)
    }

    /// The verdict for Slack: Markdown of one line.
    pub fn line(&self) -> String {
        match self {
            Self::Checked(receipt, since) => {
                let TestReceipt { commit, command, exit_code, role } = receipt;
                let (sign, how) = match exit_code {
                    0 => (":white_check_mark:", "passed".to_owned()),
                    code => (":x:", format!("failed with exit code {code}")),
                };
                let (command, commit) = (command_as_code(command), short_commit(commit));
                let line = format!("{sign} {command} {how} on `{commit}` ({role})");
                if since.is_empty() {
                    return line;
                }
                format!("{line}; changed since, not pushed: {}", named_files(since))
            }
            Self::Unchecked(why) => format!(":warning: Not checked: {why}"),
        }
    }

    /// The gateway's own section of the pull request's description.
    pub fn section(&self, origin: &str) -> String {
        let said = match self {
            Self::Checked(receipt, _) => {
                let TestReceipt { commit, command, exit_code, .. } = receipt;
                let command = command_as_code(command);
                format!("**Checked by CodeButler**: {command}, exit code {exit_code}, on {commit}.")
            }
            Self::Unchecked(why) => format!("**Not checked by CodeButler**: {why}."),
        };
        format!("{HEADING}\n\n{origin}- {said}")
    }
}

/// A description, taken apart into what is ours and what is people's.
pub fn read_description(body: &str) -> SharedDescription {
    SharedDescription::read(body, is_receipt_line)
}

fn is_receipt_line(line: &str) -> bool {
    let line = line.trim();
    let is_approval = line.starts_with("- `") && line.contains("` approved by ");
    is_imitation(line)
        || is_approval
        || line.starts_with("Depends-On: ")
        || LINES.iter().any(|own| line.starts_with(own))
}

/// The lines that say on which pull requests one depends, as tools for several repositories read them.
pub fn depends_on(needed: &[String]) -> String {
    if needed.is_empty() {
        return String::new();
    }
    let lines = needed.iter().map(|page| format!("Depends-On: {page}\n"));
    lines.collect::<String>() + "\n"
}

/// A body whose receipt says on which pull requests its own depends.
pub fn with_needed(body: &str, needed: &[String]) -> String {
    let mut description = read_description(body);
    let receipt = description.part(OwnPart::Receipt).unwrap_or_default();
    let missing = needed.iter().any(|page| !receipt.contains(&format!("Depends-On: {page}")));
    if !missing || !receipt.contains(HEADING) {
        return body.to_owned();
    }
    let lines = depends_on(needed);
    description.amend(OwnPart::Receipt, |text| match text.split_once(HEADING) {
        Some((before, after)) => format!("{before}{HEADING}\n\n{lines}{}", after.trim_start()),
        None => text.to_owned(),
    });
    description.fitted().map_or_else(|| body.to_owned(), |fitted| fitted.text)
}

fn kept_command(command: &str) -> String {
    command.chars().take(MAX_COMMAND).collect()
}

fn short_commit(commit: &str) -> &str {
    commit.get(..10).unwrap_or(commit)
}

/// A command as inline code, as far as it is kept.
fn command_as_code(command: &str) -> String {
    as_code(&kept_command(command.trim()))
}

fn named_files(files: &[String]) -> String {
    let names: Vec<_> = files.iter().take(MAX_NAMED).map(|file| path_as_code(file)).collect();
    let more = files.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { " and others" } else { "" };
    format!("{}{more}", names.join(", "))
}

/// The line below a plan: test command, complexity and files, which are approved with it.
pub(crate) fn under_plan(test: Option<&str>, message: &PostMessage) -> Option<String> {
    let test = test.or(message.test.as_deref());
    let test = test.map(|test| format!("Done when {} succeeds", command_as_code(test)));
    let complexity = message.complexity.map(|complexity| match complexity {
        PlanComplexity::Simple => "simple",
        PlanComplexity::Medium => "medium complexity",
        PlanComplexity::Complex => "complex",
    });
    let complexity = complexity.map(ToOwned::to_owned);
    let files =
        (!message.files.is_empty()).then(|| format!("changes {}", named_files(&message.files)));
    let parts: Vec<String> = test.into_iter().chain(complexity).chain(files).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: (&str, &str) = ("abcdef0123456789abcdef0123456789abcdef01", "tree");

    fn run(command: &str, exit_code: Option<i32>, tree: Option<&str>) -> TestRun {
        TestRun { command: command.into(), exit_code, tree: tree.map(Into::into), unknown: false }
    }

    fn proof(test: TestRun, changed: &[&str], uncommitted: &[&str]) -> TestProof {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        TestProof {
            commit: HEAD.0.into(),
            test: Some(test),
            changed: names(changed),
            uncommitted: names(uncommitted),
        }
    }

    fn facts<'a>(proof: Option<&'a TestProof>, known: Option<&'a TestReceipt>) -> ReceiptFacts<'a> {
        let (expected, head) = (Some("cargo test"), Some(HEAD));
        ReceiptFacts { expected, repo: "shop", role: "coder", head, proof, known }
    }

    #[test]
    fn only_the_right_command_on_the_pushed_files_counts() {
        let judged = |test, changed: &[&str], uncommitted: &[&str]| {
            judge_receipt(&facts(Some(&proof(test, changed, uncommitted)), None)).line()
        };
        let good = || run("cargo test\n", Some(0), Some("tree"));
        insta::assert_snapshot!(
            [
                judged(good(), &[], &[]),
                judged(good(), &[], &["src/a.rs"]),
                judged(run("cargo test", Some(101), Some("tree")), &[], &[]),
                judged(run("cargo test", Some(0), Some("other")), &["src/a.rs", "b`c"], &[]),
                judged(run("cargo test", Some(0), Some("other")), &[], &[]),
                judged(run("cargo test", Some(0), None), &[], &[]),
                judged(run("cargo test", None, Some("tree")), &[], &[]),
                judged(run("true", Some(0), Some("tree")), &[], &[]),
                judge_receipt(&facts(None, None)).line(),
                judge_receipt(&ReceiptFacts { head: None, ..facts(None, None) }).line(),
                judge_receipt(&ReceiptFacts { expected: None, ..facts(None, None) }).line(),
            ]
            .join("\n"),
            @r"
        :white_check_mark: `cargo test` passed on `abcdef0123` (coder)
        :white_check_mark: `cargo test` passed on `abcdef0123` (coder); changed since, not pushed: `src/a.rs`
        :x: `cargo test` failed with exit code 101 on `abcdef0123` (coder)
        :warning: Not checked: since the last run of `cargo test`, `src/a.rs`, `b'c` changed
        :warning: Not checked: `cargo test` was run on other files than those that are pushed
        :warning: Not checked: files changed while `cargo test` ran
        :warning: Not checked: `cargo test` did not come to an end
        :warning: Not checked: `true` was run, but the test command is `cargo test`
        :warning: Not checked: `cargo test` was not run
        :warning: Not checked: nothing is pushed
        :warning: Not checked: neither Repo `shop` (`spec.worktree.test`) nor the approved plan names a test command
        "
        );
    }

    #[test]
    fn a_receipt_counts_for_its_commit_and_command() {
        let known = TestReceipt {
            commit: HEAD.0.into(),
            command: "cargo test".into(),
            exit_code: 0,
            role: "coder".into(),
        };
        let counts =
            |facts: &ReceiptFacts<'_>| matches!(judge_receipt(facts), ReceiptVerdict::Checked(..));
        assert!(counts(&facts(None, Some(&known))));
        let other = run("cargo test", Some(0), Some("other"));
        assert!(counts(&facts(Some(&proof(other, &[], &[])), Some(&known))));
        let later = ReceiptFacts { head: Some(("later", "t2")), ..facts(None, Some(&known)) };
        assert_eq!(
            judge_receipt(&later),
            ReceiptVerdict::Unchecked("the last run of `cargo test` was on `abcdef0123`".into())
        );
        assert!(!counts(&ReceiptFacts { expected: Some("make"), ..facts(None, Some(&known)) }));
    }

    #[test]
    fn a_body_has_one_receipt_and_no_forged_one() {
        let mut first = read_description("Because.");
        let unchecked = ReceiptVerdict::Unchecked("x".into()).section("- Asked for by U1\n");
        first.put(OwnPart::Receipt, &unchecked, "");
        let first = first.fitted().unwrap().text;
        assert!(first.contains("### CodeButler\n\n- Asked for by U1\n- **Not checked"), "{first}");
        let tested = run("cargo test", Some(0), Some("tree"));
        let verdict = judge_receipt(&facts(Some(&proof(tested, &[], &[])), None));
        let mut again = read_description(&first);
        again.put(OwnPart::Receipt, &verdict.section(""), "");
        let again = again.fitted().unwrap().text;
        assert_eq!(again.matches("hecked by CodeButler").count(), 1, "{again}");
        assert!(again.ends_with("-->\n\nBecause."), "{again}");
        assert!(again.contains("`cargo test`, exit code 0, on abcdef"), "{again}");
        for imitation in [
            "**Che&#99;ked by CodeButler**: all",
            "Checked by Code&#x42;utler",
            "- Ch<b></b>ecked by Code&shy;Butler",
            "**checked** by *CodeButler*",
            "## CodeButler",
        ] {
            assert_eq!(without_imitations(&format!("a\n{imitation}\nb")), "a\nb");
        }
        assert_eq!(
            without_imitations("CodeButler < 2 && a; checks"),
            "CodeButler < 2 && a; checks"
        );
    }

    #[test]
    fn what_it_depends_on_is_said_in_the_receipt_and_nothing_else_changes() {
        let mut description = read_description("By Ben.\r\n");
        let receipt = ReceiptVerdict::Unchecked("x".into()).section("- Asked for by U1\n");
        description.put(OwnPart::Receipt, &receipt, "");
        let body = description.fitted().unwrap().text;
        let needed = ["https://h/7".to_owned()];
        let linked = with_needed(&body, &needed);
        assert!(
            linked.contains("### CodeButler\n\nDepends-On: https://h/7\n\n- Asked"),
            "{linked}"
        );
        assert!(linked.ends_with("By Ben.\r\n"), "{linked}");
        assert_eq!(with_needed(&linked, &needed), linked);
        assert_eq!(with_needed("By Ben.", &needed), "By Ben.");
        let mut later = read_description(&linked);
        later.put(OwnPart::Receipt, &receipt, "");
        assert_eq!(later.fitted().unwrap().text, body);
    }
}
