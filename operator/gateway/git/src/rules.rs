//! Push rules. Pure: the commits as values in, violations out. The commits are received in
//! [`quarantine`](super::quarantine).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;

use codebutler_crds::wire::has_ci_words;
use codebutler_gateway_core::redact::SecretRedactor;

use super::commit_text::{BroughtBack, harmless, short_id};
use super::guard::{GuardedReason, PathGuard};

/// Internal addresses belong into a repository's own configuration: they are no secret there.
const HARMLESS_IN_FILES: &str = "internal-address";
/// Most that is told of one push.
const MOST_TOLD: usize = 8;

/// A file that a commit changes against one of its parents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileChange {
    /// Path of the file, as far as it is text.
    pub path: String,
    /// Object id of the content; None if the file is deleted.
    pub blob: Option<String>,
    /// Its object ids in the parents that had it.
    pub before: Vec<String>,
}

/// A commit that the remote does not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NewCommit {
    pub id: String,
    /// The whole object: people, message and whatever else is in its head.
    pub text: String,
    /// Files that differ from at least one parent; commits with the same changes share the list.
    pub changes: Arc<[FileChange]>,
    /// Parents of a merge that are neither new nor on the base branch nor on this one.
    pub foreign: Vec<String>,
    /// Guarded files among them that are as in a version which people have accepted.
    pub accepted: BTreeSet<String>,
}

/// Everything that a push would bring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IncomingPush {
    /// True if all commits of the branch stay on it.
    pub fast_forward: bool,
    /// New commits, parents first.
    pub commits: Vec<NewCommit>,
    /// Commits that people removed from the branch, and that would be on it again.
    pub back: Vec<BroughtBack>,
    /// Sizes in bytes of the contents that the remote does not have.
    pub blobs: BTreeMap<String, u64>,
}

/// Rules for the pushes of this caller.
pub(crate) struct PushRules {
    pub branch: String,
    /// The role may take back what is on the branch.
    pub rewrite: bool,
    /// The largest file, in MiB.
    pub max_file_mib: u32,
    pub guard: PathGuard,
    pub redactor: Arc<SecretRedactor>,
}

/// Something that a push may not do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PushViolation {
    /// The push would remove commits from the branch.
    Rewrite,
    /// The push would put back a commit that people removed.
    Removed(BroughtBack),
    /// A merge brings in another branch than the base branch: the merge's short id and the other side's.
    Foreign(String, String),
    /// A file that it may not touch.
    File(GuardedReason, String),
    /// A file's path and size in MiB, rounded up.
    Large(String, u64),
    /// A secret in a file: path, line (from 1), and what it is.
    Secret(String, usize, String),
    /// A secret in the name of a file (masked), and what it is.
    SecretName(String, String),
    /// A secret in a commit's message or head: the commit's short id, and what it is.
    SecretMessage(String, String),
    /// The message of this commit keeps the checks from running: its short id.
    MutesChecks(String),
}

impl PushViolation {
    /// Short reason that Git shows beside the ref.
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Rewrite => "non-fast-forward".to_owned(),
            Self::Removed(back) => {
                format!("{} was removed from the branch", short_id(&back.removed.id))
            }
            Self::Foreign(id, other) => {
                format!("{id} merges {other}, which is not on the base branch")
            }
            Self::File(GuardedReason::Protected, path) => format!("protected file {path}"),
            Self::File(GuardedReason::NotAllowed, path) => format!("not this role's file: {path}"),
            Self::Large(path, _) => format!("file too large: {path}"),
            Self::Secret(path, line, what) => format!("{what} in {path}:{line}"),
            Self::SecretName(path, what) => format!("{what} in the name of {path}"),
            Self::SecretMessage(id, what) => format!("{what} in the message of {id}"),
            Self::MutesChecks(id) => format!("words that switch off CI in the message of {id}"),
        }
    }

    fn explain(&self, rules: &PushRules) -> String {
        let branch = &rules.branch;
        match self {
            Self::Rewrite => format!(
                "this role may not take back what is on {branch}: fetch, and put your commits on top"
            ),
            Self::Removed(BroughtBack { id, removed, noticed }) => {
                let (what, again) = (removed.describe(), short_id(id));
                let again = if *id == removed.id {
                    String::new()
                } else {
                    format!(", and {again} makes the same change")
                };
                format!("{what} was removed from {branch} by somebody (noticed {noticed}){again}")
            }
            Self::Foreign(id, other) => format!(
                "{id} merges {other}, which is on another branch: only the base branch may be merged in \
                 (GitUpdate does that), as people have accepted it"
            ),
            Self::File(GuardedReason::Protected, path) => {
                format!("{path} is protected in this repository: a person has to change it")
            }
            Self::File(GuardedReason::NotAllowed, path) => {
                format!("{path} is not among the files that this role may push")
            }
            Self::Large(path, mib) => {
                let most = rules.max_file_mib;
                format!("{path} has {mib} MiB; a file may have {most}")
            }
            Self::Secret(path, line, what) => {
                format!("{path}:{line} looks like a secret ({what}): take it out of the commit")
            }
            Self::SecretName(path, what) => {
                format!(
                    "the name of {path} holds what looks like a secret ({what}): choose another"
                )
            }
            Self::SecretMessage(id, what) => {
                format!("the message of {id} holds what looks like a secret ({what}): reword it")
            }
            Self::MutesChecks(id) => format!(
                "the message of {id} has words that switch off CI (such as `[skip ci]`): whether the checks run is for \
                 people to decide, so reword it"
            ),
        }
    }
}

/// The message for whoever pushed.
pub(crate) fn explain_violations(violations: &[PushViolation], rules: &PushRules) -> String {
    let told = violations.iter().take(MOST_TOLD);
    let lines = told.map(|violation| format!("\n  {}", violation.explain(rules)));
    let more = violations.len().saturating_sub(MOST_TOLD);
    let more = if more > 0 { format!("\n  and {more} more") } else { String::new() };
    let again = "Secrets, large and protected files must be in no commit of the push: amend or \
                 rebase those that hold them.";
    let is_of_branch = |violation: &&PushViolation| {
        matches!(violation, PushViolation::Rewrite | PushViolation::Removed(_))
    };
    let again = if violations.iter().all(|one| is_of_branch(&one)) { "" } else { again };
    let removed = violations.iter().find_map(|violation| match violation {
        PushViolation::Removed(back) => Some(format!(
            "\nWhat people removed stays away: GitUpdate takes their branch over and puts your own commits on top. If somebody \
             asks in the thread to have it back, they push it themselves, or you make it again on top of the branch with \
             `git cherry-pick -x {}`.",
            short_id(&back.removed.id)
        )),
        _ => None,
    });
    format!(
        "CodeButler refused the push of {}:{}{more}\n{again}{}",
        rules.branch,
        lines.collect::<String>(),
        removed.unwrap_or_default()
    )
}

/// Files that a push may not change, but for those that are as people have accepted them: by commit.
pub(crate) fn guarded_files<'c>(
    commit: &'c NewCommit,
    guard: &PathGuard,
) -> Vec<(&'c str, GuardedReason)> {
    let paths = commit.changes.iter().map(|change| change.path.as_str());
    paths.filter_map(|path| Some((path, guard.why(path)?))).collect()
}

/// Finds violations of the rules in a push, except in the contents of its files.
pub(crate) fn judge_rules(incoming: &IncomingPush, rules: &PushRules) -> BTreeSet<PushViolation> {
    let mut wrong = BTreeSet::new();
    if !incoming.fast_forward && !rules.rewrite {
        wrong.insert(PushViolation::Rewrite);
    }
    for back in &incoming.back {
        let mut back = back.clone();
        back.removed.subject = harmless(&rules.redactor.mask(&back.removed.subject));
        wrong.insert(PushViolation::Removed(back));
    }
    let most = u64::from(rules.max_file_mib) << 20;
    let short = |id: &str| id.chars().take(10).collect::<String>();
    for commit in &incoming.commits {
        wrong.extend(
            commit
                .foreign
                .iter()
                .map(|other| PushViolation::Foreign(short(&commit.id), short(other))),
        );
        for (path, why) in guarded_files(commit, &rules.guard) {
            if !commit.accepted.contains(path) {
                wrong.insert(PushViolation::File(why, show_path(rules, path)));
            }
        }
        if let Some(found) = rules.redactor.find(&commit.text).into_iter().next() {
            let id = commit.id.chars().take(10).collect();
            wrong.insert(PushViolation::SecretMessage(id, found.name.into_owned()));
        }
        // Commits that people pushed themselves are on the host already, and so not among the new ones.
        if commit.text.split_once("\n\n").is_some_and(|(_, message)| has_ci_words(message)) {
            wrong.insert(PushViolation::MutesChecks(short(&commit.id)));
        }
        for change in commit.changes.iter() {
            let size = change.blob.as_ref().and_then(|blob| incoming.blobs.get(blob));
            if let Some(size) = size.filter(|size| **size > most) {
                wrong.insert(PushViolation::Large(
                    show_path(rules, &change.path),
                    size.div_ceil(1 << 20),
                ));
            }
            let new = change.blob.is_some() && change.before.is_empty();
            let found = if new { rules.redactor.find(&change.path) } else { Vec::new() };
            if let Some(found) = found.into_iter().find(|found| found.name != HARMLESS_IN_FILES) {
                let name = found.name.into_owned();
                wrong.insert(PushViolation::SecretName(show_path(rules, &change.path), name));
            }
        }
    }
    wrong
}

/// A path as it may be told.
pub(crate) fn show_path(rules: &PushRules, path: &str) -> String {
    rules.redactor.mask(path).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// Text in a file that looks like a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LeakedSecret {
    /// Its lines, counted from 0.
    pub lines: RangeInclusive<usize>,
    pub name: String,
}

/// Everything in a file that looks like a secret, old or new.
pub(crate) fn find_leaks(redactor: &SecretRedactor, text: &str) -> Vec<LeakedSecret> {
    let found = redactor.find(text);
    let secret = found.into_iter().filter(|found| found.name != HARMLESS_IN_FILES);
    let line = |at: usize| memchr::memchr_iter(b'\n', &text.as_bytes()[..at]).count();
    let leak = secret.map(|found| LeakedSecret {
        lines: line(found.range.start)..=line(found.range.end.saturating_sub(1)),
        name: found.name.into_owned(),
    });
    leak.collect()
}

/// The first leak that is not a line of `before` already, if there is one: its line from 1.
pub(crate) fn new_leak<'l>(
    leaks: &'l [LeakedSecret],
    text: &str,
    before: &[String],
) -> Option<(usize, &'l str)> {
    let old: HashSet<&str> = before.iter().flat_map(|text| text.lines()).collect();
    let lines: Vec<&str> = text.lines().collect();
    let is_new = |leak: &&LeakedSecret| {
        let touched = lines.get(leak.lines.clone()).unwrap_or_default();
        touched.iter().any(|line| !old.contains(line))
    };
    leaks.iter().find(is_new).map(|leak| (leak.lines.start() + 1, leak.name.as_str()))
}

/// The texts that a file's bytes can be read as: zeros between letters hide nothing.
pub(crate) fn possible_texts(bytes: &[u8]) -> Vec<String> {
    let mut texts = vec![String::from_utf8_lossy(bytes).into_owned()];
    if bytes.contains(&0) {
        let shown: Vec<u8> = bytes.iter().copied().filter(|b| *b != 0).collect();
        texts.push(String::from_utf8_lossy(&shown).into_owned());
    }
    texts
}

impl fmt::Display for PushViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason())
    }
}

#[cfg(test)]
mod tests;
