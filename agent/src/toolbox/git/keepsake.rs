//! Snapshots of index and worktree, kept before a command that could throw work away.
//!
//! Each is a commit under [`REFS`]: its tree is the worktree with what Git does not know yet, its parents
//! are HEAD, the index, stashes and other branches, so that nothing of them can be collected. No branch
//! leads there, so it is never pushed. Git's own index is not believed, since commands can write it: what
//! is known of files lies beside the worktree.

mod files;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use git2::{Commit, Oid, Repository, Signature};

use super::GitSite;
use super::worktree::WorktreeScanner;
use crate::toolbox::ToolError;
use crate::toolbox::protocol::KeptSnapshot;
use files::{FoundWork, find_work};

pub(super) const REFS: &str = "refs/codebutler/snap/";
/// Number of snapshots that are kept: the newest.
const KEPT: usize = 20;
/// Stashes and branches that are held on to.
const MAX_OTHERS: usize = 32;

/// Keeps what there is, unless the newest snapshot holds exactly that.
pub fn keep_work(place: &GitSite) -> Result<KeptSnapshot, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    refuse_links(&place.tree().join(".git"))?;
    let head = repo.head().ok().and_then(|head| head.peel_to_commit().ok());
    let known = known_snapshots(&repo)?;
    let newest = known.last().and_then(|(_, name)| {
        let found = repo.find_reference(name).and_then(|found| found.peel_to_commit()).ok()?;
        Some((name, found))
    });
    let last = newest.as_ref().map(|(_, commit)| commit.tree_id());
    let FoundWork { tree, staged, left_out, at_risk } =
        find_work(place, &repo, head.as_ref(), last)?;
    let others = other_refs(&repo, head.as_ref().map(Commit::id));
    let message = snapshot_message(head.as_ref(), staged, &others);
    if let Some((name, newest)) = newest
        && newest.tree_id() == tree
        && newest.message() == Ok(message.as_str())
    {
        return Ok(KeptSnapshot { name: name.clone(), left_out, at_risk });
    }
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let commit = |tree: Oid, message: &str, parents: &[Commit<'_>]| -> Result<Oid, git2::Error> {
        let parents: Vec<&Commit<'_>> = parents.iter().collect();
        repo.commit(None, &signature, &signature, message, &repo.find_tree(tree)?, &parents)
    };
    let mut parents: Vec<Commit<'_>> = head.into_iter().collect();
    if let Some(staged) = staged {
        let index = commit(staged, "The index of a snapshot", &parents)?;
        parents.push(repo.find_commit(index)?);
    }
    parents.extend(others.iter().filter_map(|(_, id)| repo.find_commit(*id).ok()));
    let kept = commit(tree, &message, &parents)?;
    let number = known.last().map_or(1, |(number, _)| number + 1);
    let name = format!("{REFS}{number}");
    repo.reference(&name, kept, false, "before a command")?;
    for (_, old) in known.iter().rev().skip(KEPT - 1) {
        if let Ok(mut old) = repo.find_reference(old) {
            old.delete()?;
        }
    }
    Ok(KeptSnapshot { name, left_out, at_risk })
}

/// Returns true if a snapshot holds a file of the worktree as it is now: those of ignored folders, and large ones,
/// are in none.
pub fn holds_file(place: &GitSite, snapshot: &KeptSnapshot, path: &str) -> Result<bool, ToolError> {
    let repo = place.open()?;
    let tree = repo.find_reference(&snapshot.name)?.peel_to_tree()?;
    let now = WorktreeScanner::new(&repo, &place.work).entry_of(path.as_bytes())?;
    let now = now.and_then(Result::ok).map(|entry| entry.id);
    let kept = tree.get_path(Path::new(path)).ok().map(|entry| entry.id());
    Ok(now.is_some() && now == kept)
}

/// The snapshots there are, oldest first.
fn known_snapshots(repo: &Repository) -> Result<Vec<(u64, String)>, ToolError> {
    let all = repo.references_glob(&format!("{REFS}*"))?;
    let names = all.flatten().filter_map(|found| found.name().ok().map(str::to_owned));
    let mut known: Vec<(u64, String)> =
        names.filter_map(|name| Some((name.strip_prefix(REFS)?.parse().ok()?, name))).collect();
    known.sort_unstable();
    Ok(known)
}

/// A command may have put a link to somewhere else where this writes.
fn refuse_links(git: &Path) -> Result<(), ToolError> {
    for part in ["objects", "refs", "refs/codebutler", "refs/codebutler/snap"] {
        if git.join(part).symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Err(ToolError::refused(format!("`.git/{part}` is a link: undo that first")));
        }
    }
    Ok(())
}

/// Stashes and branches that nothing else may hold in a moment.
fn other_refs(repo: &Repository, head: Option<Oid>) -> Vec<(String, Oid)> {
    let mut out: Vec<(String, Oid)> = Vec::new();
    if let Ok(stashes) = repo.reflog("refs/stash") {
        let stashes = stashes.iter().enumerate();
        out.extend(stashes.map(|(at, entry)| (format!("stash@{{{at}}}"), entry.id_new())));
    }
    let branches = repo.references_glob("refs/heads/*").into_iter().flatten().flatten();
    let named = branches.filter_map(|found| Some((found.name().ok()?.to_owned(), found.target()?)));
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    out.extend(named);
    out.retain(|(_, id)| Some(*id) != head && repo.find_commit(*id).is_ok());
    let mut seen = HashSet::new();
    out.retain(|(_, id)| seen.insert(*id));
    out.truncate(MAX_OTHERS);
    out
}

/// Says what is in it: the same for the same.
fn snapshot_message(
    head: Option<&Commit<'_>>,
    staged: Option<Oid>,
    others: &[(String, Oid)],
) -> String {
    let mut out = "Snapshot before a command\n\n".to_owned();
    if let Some(head) = head {
        let _ = writeln!(out, "HEAD {}", head.id());
    }
    if let Some(staged) = staged {
        let _ = writeln!(out, "index {staged}");
    }
    for (name, id) in others {
        let _ = writeln!(out, "{name} {id}");
    }
    out
}

#[cfg(test)]
mod tests;
