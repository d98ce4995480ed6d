//! All Git of a pod, with libgit2, through the relay.
//!
//! Commands can write `.git`, so nothing in it is trusted to be more than data: the repository's
//! own configuration is not used, hooks and external filters do not exist in libgit2, and a
//! worktree that points elsewhere is refused. Pods of a thread's other roles share the volume: a
//! lock in it lets one of them at a time change the repository.

mod base;
mod blame;
mod cases;
mod clean;
mod colliding;
mod commit;
pub(super) mod control;
mod copy;
mod guide_fallback;
mod history;
mod hooks;
mod image;
mod journals;
mod keepsake;
pub mod learn;
mod leftover;
mod libgit;
mod lock;
mod markers;
mod memory;
mod opening;
mod patch;
mod prepare;
mod proof;
mod pruning;
mod push;
mod replay;
mod research;
mod rewrite;
mod sealed;
mod seen;
mod show;
mod skills;
mod sparse;
mod staging;
mod surroundings;
mod taking;
mod templates;
mod tracked;
mod unclaimed;
mod update;
mod worktree;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use git2::{
    AutotagOption, FetchOptions, Oid, RemoteHead, RemoteRedirect, Repository, RepositoryOpenFlags,
};

use super::protocol::ToolboxHello;
use super::{ToolError, modes};

pub use base::{BaseCommit, base_guide, read_conventions};
pub use blame::blame_lines;
pub use commit::commit_files;
pub use copy::{CopyState, bring_copy};
pub use guide_fallback::usable_guide;
pub use history::{show_diff, show_log};
pub use hooks::ToldHooks;
pub use image::{commit_image, make_file};
pub use journals::past_requests;
pub use keepsake::{holds_file, keep_work};
pub use learn::{UNDER_WAY, branch_page, check_citations, commit_learnings, quote_citation};
pub use leftover::{keep_leftover, take_back};
pub use libgit::init_libgit;
pub use memory::read_memory;
pub use prepare::{begin_worktree, prepare_base, prepare_worktree};
pub use proof::{TOO_LARGE, find_standing, snapshot_tree, touched_files, unchanged_tree};
pub use pruning::find_stale_learnings;
pub use push::{PushOutcome, push_branch};
pub use research::known_research;
pub use show::show_commit;
pub use skills::read_skills;
pub use sparse::add_planned;
pub use surroundings::find_surroundings;
pub use templates::read_templates;
pub(super) use tracked::tracked_made;
pub use unclaimed::{is_unclaimed, note_set_up};
pub use update::{UpdateOutcome, update_branch, update_key};

/// The volume's folder, with the branches, author and remote that Git works with.
#[derive(Clone, Debug)]
pub struct GitSite {
    /// The volume's part of the toolbox; the worktree is in `tree/`.
    pub work: PathBuf,
    /// Branches, author and remote.
    pub hello: ToolboxHello,
    /// Commit of the base branch, as the remote told it.
    pub base: BaseCommit,
    pub hooks: ToldHooks,
}

impl From<git2::Error> for ToolError {
    fn from(error: git2::Error) -> Self {
        Self::Refused(format!("Git: {}", error.message()))
    }
}

impl GitSite {
    pub fn tree(&self) -> PathBuf {
        self.work.join("tree")
    }

    /// The worktree's repository, without the configuration that lies in it but for what says how files are stored.
    fn open(&self) -> Result<Repository, ToolError> {
        let tree = self.tree();
        control::check_git(&tree.join(".git"))?;
        let nothing: [&Path; 0] = [];
        let repo = Repository::open_ext(&tree, RepositoryOpenFlags::NO_SEARCH, nothing)
            .map_err(|error| opening::explain_unopened(&error))?;
        let same = |path: Option<&Path>, expected: &Path| {
            path.and_then(|path| path.canonicalize().ok()) == expected.canonicalize().ok()
        };
        if !same(repo.workdir(), &tree) || !same(Some(repo.path()), &tree.join(".git")) {
            return Err(ToolError::refused(
                "this repository's configuration points outside its worktree; undo that first",
            ));
        }
        worktree::carry_settings(&repo, &self.work)?;
        self.lend_sealed(&repo)?;
        Ok(repo)
    }

    /// Held while the repository is changed; released when dropped or when the process dies.
    fn lock(&self) -> Result<File, ToolError> {
        self.lock_within(lock::WAIT)
    }

    fn lock_within(&self, wait: Duration) -> Result<File, ToolError> {
        modes::restore_own(&self.work);
        lock::take_lock(&self.work.join(".git.lock"), wait)
    }

    fn local(&self) -> String {
        format!("refs/heads/{}", self.hello.branch)
    }

    fn remote_branch(&self) -> String {
        tracking_ref(&self.hello.branch)
    }

    /// Brings `origin/<branch>` and `origin/<base>` up to date. Answers with the branches of the remote; one
    /// that is gone there is gone here too.
    fn fetch(&self, repo: &Repository) -> Result<RemoteBranches, ToolError> {
        let mut remote = repo.remote_anonymous(&self.hello.relay_url)?;
        let mut options = FetchOptions::new();
        options.download_tags(AutotagOption::None).follow_redirects(RemoteRedirect::None);
        options.update_fetchhead(false);
        let spec = |branch: &str| format!("+refs/heads/{branch}:{}", tracking_ref(branch));
        let specs = [spec(&self.hello.branch), spec(&self.hello.base_branch)];
        seen::remember_tracked(self, repo)?;
        for branch in [&self.hello.branch, &self.hello.base_branch] {
            colliding::make_room(repo, &tracking_ref(branch))?;
        }
        remote.fetch(&specs, Some(&mut options), None)?;
        let mut branches = RemoteBranches::default();
        for head in remote.list()? {
            let Some(name) = read_name(|| head_name(head)) else { continue };
            let Some(name) = name.strip_prefix("refs/heads/") else { continue };
            if name == self.hello.base_branch {
                self.base.set(head.oid());
            }
            if name == self.hello.branch {
                branches.own = Some(head.oid());
            } else {
                branches.others.push((name.to_owned(), head.oid()));
            }
        }
        if branches.own.is_none()
            && let Ok(mut tracked) = repo.find_reference(&self.remote_branch())
        {
            tracked.delete()?;
        }
        Ok(branches)
    }

    /// HEAD's commit, if HEAD is on the thread's branch.
    fn head_on_branch(&self, repo: &Repository) -> Result<Oid, ToolError> {
        let head = repo.head()?;
        let branch = &self.hello.branch;
        if head.name_bytes() != self.local().as_bytes() {
            return Err(ToolError::refused(format!(
                "HEAD is on `{}`, not on this thread's branch: go back with `git checkout {branch}`",
                String::from_utf8_lossy(head.shorthand_bytes())
            )));
        }
        Ok(head.peel_to_commit()?.id())
    }
}

fn head_name(head: &RemoteHead<'_>) -> String {
    head.name().to_owned()
}

/// The name of a remote's reference. Git's names are bytes, and the library panics on those that are no UTF-8: such
/// a branch is none that this thread works with.
fn read_name(read: impl FnOnce() -> String) -> Option<String> {
    catch_unwind(AssertUnwindSafe(read)).ok()
}

/// Tips of the remote's branches.
#[derive(Debug, Default)]
struct RemoteBranches {
    /// Tip of the thread's branch, if the remote has it.
    own: Option<Oid>,
    others: Vec<(String, Oid)>,
}

/// The commit that HEAD is at.
pub fn head_commit(place: &GitSite) -> Result<String, ToolError> {
    let repo = place.open()?;
    Ok(place.head_on_branch(&repo)?.to_string())
}

fn tracking_ref(branch: &str) -> String {
    format!("refs/remotes/origin/{branch}")
}

fn short_id(id: Oid) -> String {
    id.to_string().chars().take(10).collect()
}

#[cfg(test)]
mod differential;
#[cfg(test)]
mod distrust;
#[cfg(test)]
pub(super) mod fixture;
#[cfg(test)]
mod push_differential;
