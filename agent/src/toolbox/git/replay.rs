//! Puts commits on top of another one without touching index or files: what conflicts has changed nothing.

use git2::{MergeOptions, Oid, Repository, Signature};

use super::worktree::conflicting_files;
use codebutler_wire::break_ci_words;

/// Result of replaying commits.
pub(super) enum Replayed {
    To(Oid),
    /// These files conflict, in the commit with this id.
    Conflict(Vec<String>, Oid),
    /// A commit that is a merge, of something that the new base lacks.
    Merge(Oid),
}

/// Puts `commits` on top of `onto`, oldest first; what is there already is left out.
pub(super) fn replay_commits(
    repo: &Repository,
    onto: Oid,
    commits: &[Oid],
    committer: &Signature<'_>,
) -> Result<Replayed, git2::Error> {
    let mut options = MergeOptions::new();
    options.find_renames(true);
    let mut tip = repo.find_commit(onto)?;
    for id in commits {
        let commit = repo.find_commit(*id)?;
        if commit.parent_count() > 1 {
            let mut others = commit.parent_ids().skip(1);
            let is_there = |other: Oid| {
                other == onto || repo.graph_descendant_of(onto, other).unwrap_or(false)
            };
            if others.all(is_there) {
                continue;
            }
            return Ok(Replayed::Merge(*id));
        }
        let mut index = repo.cherrypick_commit(&commit, &tip, 0, Some(&options))?;
        if index.has_conflicts() {
            return Ok(Replayed::Conflict(conflicting_files(&index)?, *id));
        }
        let tree = index.write_tree_to(repo)?;
        if tree == tip.tree_id() {
            continue;
        }
        let message = String::from_utf8_lossy(commit.message_raw_bytes()).into_owned();
        let message = break_ci_words(&message);
        let tree = repo.find_tree(tree)?;
        let made = repo.commit(None, &commit.author(), committer, &message, &tree, &[&tip])?;
        tip = repo.find_commit(made)?;
    }
    Ok(Replayed::To(tip.id()))
}
