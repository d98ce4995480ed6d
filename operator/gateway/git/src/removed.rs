//! Commits that people removed from a branch: found when the branch has moved, kept in the Thread's status, and
//! looked for in what a role pushes.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use codebutler_crds::thread::{MOST_REMOVED, RemovedCommit};
use codebutler_gateway_core::redact::SecretRedactor;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use sha2::{Digest as _, Sha256};

use super::command::{CommandError, GitRepository};
use super::commit_text::{BroughtBack, NamedCommit, harmless};
use super::rules::NewCommit;

/// New commits that removed ones are looked for in, on either side.
const MOST_COMPARED: usize = 256;
/// Commits of a push that removed ones are looked for among by their ids.
const MOST_LISTED: usize = 20_000;
/// Hex digits of a patch's digest.
const DIGEST: usize = 32;
/// Git's own line in the message of a commit that somebody made again on purpose (`git cherry-pick -x`).
const ON_PURPOSE: &str = "(cherry picked from commit ";

/// Commits that a branch lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BranchLoss {
    /// Commits that were lost, newest first.
    pub commits: Vec<RemovedCommit>,
    /// Number of all lost commits; None where the copy does not have them.
    pub count: Option<usize>,
    /// Ids of lost commits whose change is on the branch under another id.
    pub moved: BTreeSet<String>,
}

/// Commits up to `from` that none of `but` leads to, newest first.
pub(crate) async fn commits_apart(
    git: &GitRepository,
    (from, but): (&str, &[&str]),
    most: usize,
    redactor: &SecretRedactor,
) -> Result<Vec<NamedCommit>, CommandError> {
    let most = format!("--max-count={most}");
    let head = ["log", &most, "--topo-order", "--no-show-signature", "--no-color", "-z"];
    let arguments = [&head[..], &["--format=%H%n%an%n%s", from, "--not"], but].concat();
    let said = git.run(&arguments, b"").await?;
    let read = |commit: &[u8]| {
        let text = String::from_utf8_lossy(commit).into_owned();
        let mut lines = text.splitn(3, '\n');
        let (id, author, subject) = (lines.next()?, lines.next()?, lines.next()?);
        // Masked before it is cut: of half a secret nothing is known.
        let told = |text: &str| harmless(&redactor.mask(text));
        let (subject, author) = (told(subject), told(author));
        Some(NamedCommit { id: id.to_owned(), subject, author })
    };
    Ok(said.split(|byte| *byte == 0).filter_map(read).collect())
}

/// Finds the commits that are no longer on a branch that was at `before` and is at `now`. Commits on the base branch
/// are not lost.
pub(crate) async fn find_loss(
    git: &GitRepository,
    (before, now): (&str, &str),
    base: Option<&str>,
    (redactor, noticed): (&SecretRedactor, Timestamp),
) -> Result<BranchLoss, CommandError> {
    let removed = |named: NamedCommit, patch| RemovedCommit {
        commit: named.id,
        patch,
        subject: named.subject,
        author: named.author,
        noticed: Time(noticed),
    };
    if !super::graft::is_known(git, before).await? {
        // A copy that was made anew: its newest commit is known by its id alone.
        let (id, subject, author) = (before.to_owned(), String::new(), String::new());
        let only = removed(NamedCommit { id, subject, author }, None);
        return Ok(BranchLoss { commits: vec![only], ..BranchLoss::default() });
    }
    let elsewhere: Vec<&str> = std::iter::once(now).chain(base).collect();
    let range = [&["rev-list", "--count", before, "--not"], &elsewhere[..]].concat();
    let count = super::graft::git_line(git, &range).await?.parse().ok();
    let gone = commits_apart(git, (before, &elsewhere), MOST_REMOVED, redactor).await?;
    let came: Vec<&str> = std::iter::once(before).chain(base).collect();
    let mut there = BTreeSet::new();
    if !gone.is_empty() {
        for commit in commits_apart(git, (now, &came), MOST_COMPARED, redactor).await? {
            there.extend(patch_digest(git, &commit.id).await?);
        }
    }
    let mut loss = BranchLoss { count, ..BranchLoss::default() };
    for commit in gone {
        let patch = patch_digest(git, &commit.id).await?;
        let is_moved = patch.as_ref().is_some_and(|patch| there.contains(patch));
        if is_moved {
            loss.moved.insert(commit.id.clone());
        }
        // Under another id it is on the branch still, and may stay there.
        loss.commits.push(removed(commit, patch.filter(|_| !is_moved)));
    }
    Ok(loss)
}

/// The removed commits that a push would put back: those themselves, and new ones that make the same change and do
/// not say that they do it on purpose. `place`: the commit that would be the branch's, and those that are there
/// already.
pub(crate) async fn find_brought_back(
    git: &GitRepository,
    (new, there): (&str, &[&str]),
    removed: &[RemovedCommit],
    commits: &[NewCommit],
) -> Result<Vec<BroughtBack>, CommandError> {
    if removed.is_empty() {
        return Ok(Vec::new());
    }
    let named = |id: &str, removed: &RemovedCommit, text: Option<&NewCommit>| {
        let mut known = NamedCommit::from(removed);
        if let Some(commit) = text.filter(|_| known.subject.is_empty()) {
            first_line(&commit.text).clone_into(&mut known.subject);
        }
        let noticed = removed.noticed.0.strftime("%Y-%m-%d %H:%M UTC").to_string();
        BroughtBack { id: id.to_owned(), removed: known, noticed }
    };
    let most = format!("--max-count={MOST_LISTED}");
    let range = [&["rev-list", &most, new, "--not"], there].concat();
    let said = git.run(&range, b"").await?;
    let said = String::from_utf8_lossy(&said);
    let range: HashSet<&str> = said.lines().collect();
    let mut back = BTreeMap::new();
    for one in removed.iter().filter(|one| range.contains(&*one.commit)) {
        let text = commits.iter().find(|commit| commit.id == one.commit);
        back.insert(one.commit.clone(), named(&one.commit, one, text));
    }
    let patches: BTreeMap<&str, &RemovedCommit> =
        removed.iter().rev().filter_map(|one| Some((one.patch.as_deref()?, one))).collect();
    if !patches.is_empty() {
        for commit in commits.iter().rev().take(MOST_COMPARED) {
            if back.contains_key(&commit.id) {
                continue;
            }
            let Some(patch) = patch_digest(git, &commit.id).await? else { continue };
            let Some(one) = patches.get(&*patch) else { continue };
            let marked = format!("{ON_PURPOSE}{})", one.commit);
            if !commit.text.contains(&marked) {
                back.insert(commit.id.clone(), named(&commit.id, one, None));
            }
        }
    }
    Ok(back.into_values().collect())
}

/// A digest of what a commit changes, wherever in the files that stands; nothing for a merge, for one that changes
/// nothing, and for one that is too large to be read.
async fn patch_digest(git: &GitRepository, commit: &str) -> Result<Option<String>, CommandError> {
    let arguments = [
        "diff-tree",
        "--root",
        "--no-commit-id",
        "-r",
        "-p",
        "-U3",
        "--text",
        "--full-index",
        "--no-renames",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        commit,
        "--",
    ];
    match git.run(&arguments, b"").await {
        Ok(patch) if patch.is_empty() => Ok(None),
        Ok(patch) => Ok(Some(digest_patch(&patch))),
        Err(error @ (CommandError::Run(_) | CommandError::TooLong(_))) => Err(error),
        Err(CommandError::TooMuch(_) | CommandError::Failed { .. }) => Ok(None),
    }
}

/// Each line byte for byte, but for where a change stands and which objects it makes: that differs on top of others.
fn digest_patch(patch: &[u8]) -> String {
    let mut digest = Sha256::new();
    let mut index: &[u8] = b"";
    for line in patch.split_inclusive(|byte| *byte == b'\n') {
        // Hunk headers can't be mistaken for content, whose lines begin with a sign or a blank.
        if line.starts_with(b"@@ ") {
            digest.update(b"@\n");
        } else if line.starts_with(b"index ") {
            index = line;
        } else {
            if line.starts_with(b"Binary files ") {
                digest.update(index);
            }
            digest.update(line);
        }
    }
    hex::encode(digest.finalize()).chars().take(DIGEST).collect()
}

/// Adds to what is known to be removed, newest first, and forgets what is on the branch again.
pub(crate) fn remember_removed(
    known: &mut Vec<RemovedCommit>,
    lost: &[RemovedCommit],
    there: &BTreeSet<String>,
) {
    let fresh = lost.iter().filter(|one| !known.iter().any(|old| old.commit == one.commit));
    let mut all: Vec<RemovedCommit> = fresh.cloned().collect();
    for mut old in known.drain(..) {
        // The commit was moved before, and is lost now.
        if let Some(again) = lost.iter().find(|one| one.commit == old.commit) {
            old.patch = old.patch.or_else(|| again.patch.clone());
        }
        all.push(old);
    }
    all.retain(|one| !there.contains(&one.commit));
    all.truncate(MOST_REMOVED);
    *known = all;
}

fn first_line(text: &str) -> &str {
    let message = text.split_once("\n\n").map_or("", |(_, message)| message);
    message.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
