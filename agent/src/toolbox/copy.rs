//! The worktree copy in which commands of a role run that may not change the worktree: with build folders of its own,
//! under `copy/<role>` on the Thread's volume.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::ToolError;
use super::command::CommandShell;
use super::git::{self, CopyState, GitSite};
use super::protocol::SetUpEnd;
use super::setup::ToolboxSite;
use codebutler_guides::text::clip_text;

/// Seconds that a set-up may take.
const SET_UP_SECONDS: u32 = 900;

/// Reason that such a role can run no commands without Landlock.
pub(super) const NEEDS_LANDLOCK: &str = "this role works in a copy of the worktree (`workspace.worktree: ReadOnly`), and only \
    Landlock keeps its commands in there: it can't run any with `workspace.sandbox: Runtime`";

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[derive(Debug)]
pub(super) struct WorktreeCopy {
    root: PathBuf,
    last: Mutex<Option<CopyState>>,
    told: Mutex<bool>,
    /// The Repo's own set-up, as it was told last.
    command: Mutex<Option<String>>,
    /// A set-up that failed, and is not tried again by this process.
    failed: Mutex<Option<String>>,
}

impl WorktreeCopy {
    pub(super) fn of(work: &Path, role: &str) -> Self {
        Self {
            root: work.join("copy").join(role),
            last: Mutex::default(),
            told: Mutex::default(),
            command: Mutex::default(),
            failed: Mutex::default(),
        }
    }

    /// Folder of the copy. Commands write to none of the files in it, but to the two folders.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// Folder for build outputs.
    pub(super) fn build(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Brings it to what the worktree is now; with `whole`, without what commands have changed in it.
    pub(super) fn bring(&self, place: &GitSite, whole: bool) -> Result<(), ToolError> {
        let mut last = lock(&self.last);
        let known = last.take().filter(|_| !whole);
        *last = Some(git::bring_copy(place, &self.tree(), known.as_ref())?);
        Ok(())
    }

    /// Takes down how the Repo sets a worktree up. Nothing is done about it before a command needs it: most
    /// runs of such a role only look.
    pub(super) fn set_up_with(&self, command: Option<String>) {
        *lock(&self.command) = command;
    }

    /// Sets the copy up if it has not been. Answers with what is told of it.
    pub(super) async fn set_up(
        &self,
        site: ToolboxSite,
        shell: &Arc<CommandShell>,
    ) -> Result<Option<String>, ToolError> {
        let command = lock(&self.command).clone();
        let Some(plan) = site.plan(command.as_deref()) else { return Ok(None) };
        let tried = lock(&self.failed).as_deref() == Some(plan.fingerprint.as_str());
        if tried || plan.ended.as_ref().is_some_and(SetUpEnd::is_success) {
            return Ok(None);
        }
        let named = clip_text(&plan.command.replace('`', "'").replace('\n', " "), 200);
        if let Some(program) = &plan.missing {
            *lock(&self.failed) = Some(plan.fingerprint.clone());
            return Ok(Some(format!(
                "The copy is not set up: `{named}` needs `{program}`, which is not here."
            )));
        }
        let done = site.perform(shell, &plan, SET_UP_SECONDS).await?;
        let ended = done.ended.unwrap_or_default();
        if ended.is_success() {
            return Ok(Some(format!(
                "The copy was set up first, with `{named}` ({} s).",
                ended.seconds
            )));
        }
        *lock(&self.failed) = Some(done.fingerprint);
        Ok(Some(format!(
            "Setting the copy up with `{named}` failed ({}): look at `{}` with Read.",
            clip_text(&ended.verdict, 100),
            done.log
        )))
    }

    /// Note for the model, with the first command only.
    pub(super) fn note(&self) -> Option<String> {
        let mut told = lock(&self.told);
        let told = std::mem::replace(&mut *told, true);
        (!told).then(|| format!(
            "You may not change the worktree: your commands run in a copy of it (`{}`), which follows it. \
             Nothing that they write there is committed or seen by others.",
            self.tree().display()
        ))
    }
}
