//! Detects rewrites of the thread's branch by people on the remote: force-pushed, rebased, squashed or deleted.

use std::collections::HashSet;
use std::fmt::Write as _;

use git2::{Oid, Repository, Sort};

use super::patch::{PatchKey, is_contained, patch_key};
use super::sealed::is_descendant;
use super::seen::{KEPT, keep_commit, last_seen};
use super::{GitSite, RemoteBranches, short_id};
use crate::toolbox::ToolError;
use codebutler_guides::text::{clip_text, plain_text};

/// Commits that are compared on either side.
const MAX_COMPARED: usize = 200;
/// Limit on the number of commits that are named.
const MAX_NAMED: usize = 10;

/// The remote's branch no longer leads to what it was.
pub(super) struct BranchRewrite {
    known: Oid,
    remote: Oid,
    /// Commits that the branch had and whose changes are not in it now.
    gone: Vec<Oid>,
    /// Commits whose changes are in its files, in no commit of their own.
    contained: Vec<Oid>,
    /// Commits that it has under another id.
    moved: Vec<Oid>,
    /// The commit that has all of what was there, as one.
    squashed: Option<Oid>,
    /// The changes that are gone, whichever commit makes them.
    patches: HashSet<PatchKey>,
}

/// Compares what the remote had when this worktree took it over with what it has now.
pub(super) fn find_rewrite(
    place: &GitSite,
    repo: &Repository,
    remote: Oid,
) -> Result<Option<BranchRewrite>, ToolError> {
    let Some(known) = last_seen(place, repo) else { return Ok(None) };
    if known == remote || is_descendant(place, remote, known)? {
        return Ok(None);
    }
    let newest = |commits: Vec<Oid>| {
        let more = commits.len().saturating_sub(MAX_COMPARED);
        commits.into_iter().skip(more).collect::<Vec<_>>()
    };
    // The sealed repository shows the commits themselves, whatever a command wrote beside them.
    let repo = &place.open_sealed()?;
    // Commits of the base branch are still there, whatever happens to this branch.
    let base = super::base::base_commit(place).ok().filter(|id| repo.find_commit(*id).is_ok());
    let elsewhere: Vec<Oid> = std::iter::once(remote).chain(base).collect();
    let before = newest(commits_apart(repo, known, &elsewhere)?);
    let after = newest(commits_apart(repo, remote, &[known])?);
    let there: HashSet<PatchKey> = after.iter().filter_map(|id| patch_key(repo, *id)).collect();
    let tree = repo.find_commit(known)?.tree_id();
    let squashed = after.iter().rev().copied();
    let mut squashed =
        squashed.filter(|id| repo.find_commit(*id).is_ok_and(|commit| commit.tree_id() == tree));
    let is_moved = |id: &Oid| patch_key(repo, *id).is_some_and(|patch| there.contains(&patch));
    let (moved, gone): (Vec<Oid>, Vec<Oid>) = before.into_iter().partition(is_moved);
    let squashed = if gone.is_empty() { None } else { squashed.next() };
    let now = repo.find_commit(remote)?.tree()?;
    let is_there = |id: &Oid| squashed.is_some() || is_contained(repo, *id, &now);
    let (contained, gone): (Vec<Oid>, Vec<Oid>) = gone.into_iter().partition(is_there);
    let patches = gone.iter().filter_map(|id| patch_key(repo, *id)).collect();
    Ok(Some(BranchRewrite { known, remote, gone, contained, moved, squashed, patches }))
}

/// Commits that `from` leads to and none of `but` does, oldest first.
pub(super) fn commits_apart(
    repo: &Repository,
    from: Oid,
    but: &[Oid],
) -> Result<Vec<Oid>, git2::Error> {
    let mut walk = repo.revwalk()?;
    walk.set_sorting(Sort::TOPOLOGICAL | Sort::REVERSE)?;
    walk.push(from)?;
    for id in but {
        walk.hide(*id)?;
    }
    walk.collect()
}

impl BranchRewrite {
    /// The commits up to `own` that the remote never had, oldest first: those that no person has taken away, and
    /// those that make a change again which somebody took away.
    pub(super) fn own_commits(
        &self,
        repo: &Repository,
        own: Oid,
    ) -> Result<(Vec<Oid>, Vec<Oid>), git2::Error> {
        let commits = commits_apart(repo, own, &[self.known, self.remote])?;
        let is_again =
            |id: &Oid| patch_key(repo, *id).is_some_and(|patch| self.patches.contains(&patch));
        let (again, kept) = commits.into_iter().partition(is_again);
        Ok((kept, again))
    }

    /// Describes the rewrite, with names and commits, and which commits up to `own` are left out; what is gone is
    /// kept under references.
    pub(super) fn describe(
        &self,
        place: &GitSite,
        repo: &Repository,
        own: Oid,
    ) -> Result<String, ToolError> {
        let mut out = format!(
            "people rewrote `{}` on the remote: it was at {} and is at {}",
            place.hello.branch,
            name_commit(repo, self.known),
            name_commit(repo, self.remote)
        );
        if let Some(squashed) = self.squashed {
            let squashed = name_commit(repo, squashed);
            let _ = write!(out, ". {} became one, {squashed}", name_commits(repo, &self.contained));
        } else if !self.contained.is_empty() {
            let contained = name_commits(repo, &self.contained);
            let _ = write!(out, ". Squashed, so still in it: {contained}");
        }
        if !self.gone.is_empty() {
            let _ = write!(out, ". No longer in it: {}", name_commits(repo, &self.gone));
        }
        if !self.moved.is_empty() {
            let _ = write!(out, ". In it under other ids: {}", name_commits(repo, &self.moved));
        }
        let (_, again) = self.own_commits(&place.open_sealed()?, own)?;
        if !again.is_empty() {
            for id in &again {
                keep_commit(repo, *id)?;
            }
            let _ = write!(
                out,
                ". Of your own, left out because they make a change again that was taken away: {} (each is kept \
                 as `{KEPT}` and its id; `git cherry-pick -x` brings it back if somebody asks for it)",
                name_commits(repo, &again)
            );
        }
        let kept = keep_commit(repo, self.known)?;
        let _ = write!(
            out,
            ". What it was is kept here as `{kept}`; a push does not bring it back, so don't make these changes \
             again unless somebody asks for them"
        );
        Ok(out)
    }

    /// Command that puts the own commits on the new branch by hand.
    pub(super) fn remedy(&self, place: &GitSite) -> String {
        format!("git rebase --onto origin/{} {}", place.hello.branch, short_id(self.known))
    }
}

/// A branch that the remote had and has no longer.
pub(super) fn describe_missing(
    place: &GitSite,
    repo: &Repository,
    known: Oid,
    branches: &RemoteBranches,
) -> String {
    let branch = &place.hello.branch;
    let same = branches.others.iter().filter(|(_, id)| *id == known);
    let same: Vec<_> =
        same.take(MAX_NAMED).map(|(name, _)| format!("`{}`", harmless(name))).collect();
    let renamed = match same.as_slice() {
        [] => String::new(),
        names => format!(" ({} is at that commit: it may have been renamed)", names.join(", ")),
    };
    format!(
        "the remote has no branch `{branch}` any more, which was at {}{renamed}: somebody deleted or renamed it. \
         It is not made again by itself, and your commits stay here: ask in the thread whether to go on; after a \
         yes, `git push origin HEAD:refs/heads/{branch}` in Bash makes it again",
        name_commit(repo, known)
    )
}

/// A branch that the remote has no longer, for a worktree that never had it.
pub(super) fn describe_lost(place: &GitSite) -> String {
    format!(
        "`{}` was deleted on the remote, and this volume never had it: work goes on from `{}`, and the branch is made \
         again when a role pushes",
        place.hello.branch, place.hello.base_branch
    )
}

fn name_commits(repo: &Repository, commits: &[Oid]) -> String {
    let named = commits.iter().rev().take(MAX_NAMED).map(|id| name_commit(repo, *id));
    let named = named.collect::<Vec<_>>().join(", ");
    let more = commits.len().saturating_sub(MAX_NAMED);
    if more > 0 { format!("{named} and {more} more") } else { named }
}

/// Short id and subject of a commit, made harmless.
fn name_commit(repo: &Repository, id: Oid) -> String {
    let commit = repo.find_commit(id).ok();
    let summary = commit.as_ref().and_then(|commit| commit.summary_bytes());
    let summary =
        summary.map(|bytes| harmless(&String::from_utf8_lossy(bytes))).unwrap_or_default();
    format!("`{} {summary}`", short_id(id))
}

fn harmless(text: &str) -> String {
    clip_text(&plain_text(text).replace(['`', '\n'], "'"), 80)
}

#[cfg(test)]
mod tests;
