//! Takes over what the remote's branch has become: the own commits on top, and of those only the ones that the
//! remote never had.

use git2::{Oid, Repository, Signature};

use super::clean::is_clean;
use super::replay::{Replayed, replay_commits};
use super::rewrite::{BranchRewrite, commits_apart};
use super::seen::note_seen;
use super::worktree::{MoveOutcome, WorktreeScanner, move_files};
use super::{GitSite, short_id};
use crate::toolbox::ToolError;
use codebutler_wire::has_ci_words;

/// Files in conflict that are named.
const MAX_NAMED: usize = 10;

/// Result of taking the remote's branch over.
pub(super) enum TakenOver {
    /// The branch and its files are at this commit.
    To(Oid),
    /// These files conflict; nothing was changed.
    Conflict(Vec<String>, String),
}

/// Puts the own commits on top of `remote`, and the worktree with them.
pub(super) fn put_on_top(
    place: &GitSite,
    repo: &Repository,
    (own, remote): (Oid, Oid),
    rewrite: Option<&BranchRewrite>,
) -> Result<TakenOver, ToolError> {
    let branch = &place.hello.branch;
    let sealed = place.open_sealed()?;
    let commits = match rewrite {
        Some(rewrite) => rewrite.own_commits(&sealed, own)?.0,
        None => commits_apart(&sealed, own, &[remote])?,
    };
    // The own commits may stand on the remote's branch already, put there by hand.
    let all = commits_apart(&sealed, own, &[remote])?;
    if all == commits && super::sealed::is_descendant(place, own, remote)? {
        note_seen(place, repo, remote)?;
        return Ok(TakenOver::To(own));
    }
    if !is_clean(place, repo)? {
        return Err(ToolError::refused(format!(
            "the remote's `{branch}` has commits that you don't have: commit your changes, then push \
             again, and they are put on top"
        )));
    }
    let by_hand = rewrite
        .map_or_else(|| format!("git rebase origin/{branch}"), |rewrite| rewrite.remedy(place));
    let signature = Signature::now(&place.hello.author.name, &place.hello.author.email)?;
    let to = match replay_commits(repo, remote, &commits, &signature)? {
        Replayed::To(to) => to,
        Replayed::Merge(_) if rewrite.is_none() => {
            return Err(ToolError::refused(format!(
                "the remote's `{branch}` has commits that you don't have, and yours contain a merge: bring both \
                 together with `git merge origin/{branch}` in Bash, then push again"
            )));
        }
        Replayed::Merge(id) => {
            return Err(ToolError::refused(format!(
                "people rewrote the remote's `{branch}`, and your {0} is a merge, which can't be put on top of it: do \
                 that with `{by_hand}` in Bash, bring back what that leaves out (`git diff {0}`: what was settled in \
                 the merge is in no other commit), then push again",
                short_id(id)
            )));
        }
        Replayed::Conflict(files, id) => {
            let files: Vec<String> = files
                .into_iter()
                .take(MAX_NAMED)
                .map(|file| file.replace(char::is_control, "?"))
                .collect();
            let why = format!(
                "the remote's `{branch}` has commits that conflict with yours in {} (your commit {}). Nothing was \
                 changed. Resolve it with `{by_hand}` in Bash, then push again",
                files.join(", "),
                short_id(id)
            );
            return Ok(TakenOver::Conflict(files, why));
        }
    };
    settle_on(place, repo, own, to)?;
    note_seen(place, repo, remote)?;
    Ok(TakenOver::To(to))
}

/// Breaks words that switch off CI in messages of commits that were made with `git` on the command line, before
/// they are pushed; the commit that the branch is at then. Their trees stay as they are.
pub(super) fn break_own_messages(
    place: &GitSite,
    repo: &Repository,
    own: Oid,
    remote: Option<Oid>,
) -> Result<Oid, ToolError> {
    let base = super::base::base_commit(place).ok();
    let known: Vec<Oid> = remote.into_iter().chain(base).collect();
    let commits = commits_apart(repo, own, &known)?;
    let is_muted = |id: &Oid| {
        repo.find_commit(*id).is_ok_and(|commit| {
            let is_own = commit.author().name_bytes() == place.hello.author.name.as_bytes();
            is_own && has_ci_words(&String::from_utf8_lossy(commit.message_raw_bytes()))
        })
    };
    let Some(first) = commits.iter().position(is_muted) else { return Ok(own) };
    let base = repo.find_commit(commits[first])?.parent_id(0)?;
    let signature = Signature::now(&place.hello.author.name, &place.hello.author.email)?;
    match replay_commits(repo, base, &commits[first..], &signature)? {
        Replayed::To(to) if repo.find_commit(to)?.tree_id() == repo.find_commit(own)?.tree_id() => {
            repo.reference(&place.local(), to, true, "messages without words that switch off CI")?;
            Ok(to)
        }
        _ => Err(ToolError::refused(format!(
            "the message of your commit {} has words that switch off CI (such as `[skip ci]`): reword it with \
             `git rebase -i` or `git commit --amend` in Bash, then push again",
            short_id(commits[first])
        ))),
    }
}

/// Moves the branch and the files of the worktree from one commit to another.
pub(super) fn settle_on(
    place: &GitSite,
    repo: &Repository,
    from: Oid,
    to: Oid,
) -> Result<(), ToolError> {
    let before = repo.find_commit(from)?.tree()?;
    let scanner = WorktreeScanner::new(repo, &place.work);
    match move_files(&scanner, repo, &before, &repo.find_commit(to)?)? {
        MoveOutcome::Done => {}
        MoveOutcome::InTheWay(files) => {
            return Err(ToolError::refused(format!(
                "files in the worktree would be overwritten: {}. Commit them or move them away, then try again",
                files.join(", ")
            )));
        }
    }
    repo.reference(&place.local(), to, true, "on top of the remote")?;
    Ok(())
}
