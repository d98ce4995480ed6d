//! Where commands of a role that may not change the worktree work: a copy of it, with build folders of its
//! own, under `copy/<role>` on the Thread's volume.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::ToolError;
use super::git::{self, Brought, Place};

/// Why such a role runs no commands.
pub const NEEDS_LANDLOCK: &str = "this role works in a copy of the worktree (`workspace.worktree: readOnly`), and only \
    Landlock keeps its commands in there: it can't run any with `workspace.sandbox: runtime`";

/// See the module.
#[derive(Debug)]
pub struct Copy {
    root: PathBuf,
    last: Mutex<Option<Brought>>,
    told: Mutex<bool>,
}

impl Copy {
    /// The copy of a role.
    pub fn of(work: &Path, role: &str) -> Self {
        Self { root: work.join("copy").join(role), last: Mutex::default(), told: Mutex::default() }
    }

    /// Its folder. Commands write to none of the files in it, but to the two folders.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files.
    pub fn tree(&self) -> PathBuf {
        self.root.join("tree")
    }

    /// Where builds put what they make.
    pub fn build(&self) -> PathBuf {
        self.root.join("build")
    }

    /// Brings it to what the worktree is now; with `whole`, without what commands have changed in it.
    pub fn bring(&self, place: &Place, whole: bool) -> Result<(), ToolError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let known = last.take().filter(|_| !whole);
        *last = Some(git::bring(place, &self.tree(), known.as_ref())?);
        Ok(())
    }

    /// What is told with the first command.
    pub fn note(&self) -> String {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut *told, true) {
            return String::new();
        }
        format!(
            "[CodeButler] You may not change the worktree: your commands run in a copy of it (`{}`), which follows it. \
             Nothing that they write there is committed or seen by others.\n",
            self.tree().display()
        )
    }
}
