//! Clones that are no thread's yet, of pods that wait for one. A mark beside the worktree, where no command can write,
//! says so. It also names the commit at which a set-up began: from then on such a clone is trusted no more than one in
//! which roles work.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use git2::{Oid, Repository};
use nix::fcntl::OFlag;

use super::GitSite;
use super::lock::remove_stale_locks;
use crate::toolbox::ToolError;

const MARK: &str = ".unclaimed";
/// Beginning of the names of clones that are being removed.
const DISCARDED: &str = "tree.old-";
/// Result of the last set-up, as the toolbox keeps it beside the worktree.
const SET_UP: &str = ".setup.json";

/// The state of a clone as its mark says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloneMark {
    /// A thread works in it, or there is no clone yet.
    Claimed,
    /// No thread works in it, and no command has run in it.
    Untouched,
    /// No thread works in it, and a set-up began in it while it was at this commit.
    SetUp(Oid),
}

impl CloneMark {
    /// A mark that can't be read names no commit, so that its clone is made anew.
    pub(super) fn read(work: &Path) -> Self {
        let nowhere = || Self::SetUp(Oid::ZERO_SHA1);
        match fs::read_to_string(work.join(MARK)) {
            Ok(text) if text.is_empty() => Self::Untouched,
            Ok(text) => Oid::from_str(text.trim()).map_or_else(|_| nowhere(), Self::SetUp),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::Claimed,
            Err(_) => nowhere(),
        }
    }

    /// Replaced as a whole, so that a kill leaves the old or the new.
    pub(super) fn write(self, work: &Path) -> Result<(), ToolError> {
        let (path, next) = (work.join(MARK), work.join(".unclaimed.next"));
        let written = match self {
            Self::Claimed => unless_missing(fs::remove_file(&path)),
            Self::Untouched => fs::write(&next, "").and_then(|()| fs::rename(&next, &path)),
            Self::SetUp(at) => {
                fs::write(&next, at.to_string()).and_then(|()| fs::rename(&next, &path))
            }
        };
        written.map_err(|e| ToolError::Failed(format!("the volume can't be written: {e}")))
    }
}

fn unless_missing(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// True while no thread works here.
pub fn is_unclaimed(place: &GitSite) -> bool {
    CloneMark::read(&place.work) != CloneMark::Claimed
}

/// Notes that a set-up begins in a clone that no thread works in. Called before its command is started.
pub fn note_set_up(place: &GitSite) -> Result<(), ToolError> {
    let _lock = place.lock()?;
    match CloneMark::read(&place.work) {
        CloneMark::Claimed => Err(ToolError::refused("a thread works here")),
        CloneMark::SetUp(_) => Ok(()),
        CloneMark::Untouched => {
            let at = place.open()?.head()?.peel_to_commit()?.id();
            CloneMark::SetUp(at).write(&place.work)
        }
    }
}

/// Opens a clone in which a set-up began at this commit, if it still is there and on no branch.
pub(super) fn open_at(place: &GitSite, at: Oid) -> Option<Repository> {
    remove_stale_locks(&place.tree().join(".git"));
    let repo = place.open().ok()?;
    let head = repo.head().ok()?.target();
    let is_there = repo.head_detached().ok()? && head == Some(at);
    is_there.then_some(repo)
}

/// Removes a clone in which only a set-up has worked, with the result of that.
pub(super) fn discard_clone(place: &GitSite) -> Result<(), ToolError> {
    let fail = |e: io::Error| ToolError::Failed(format!("the clone can't be made anew: {e}"));
    // First: the next clone has nothing of what this result is about.
    unless_missing(fs::remove_file(place.work.join(SET_UP))).map_err(fail)?;
    unless_missing(fs::rename(place.tree(), swept_folder(&place.work))).map_err(fail)?;
    fs::create_dir(place.tree()).map_err(fail)?;
    sweep_discarded(&place.work);
    CloneMark::Untouched.write(&place.work)
}

/// A new path beside the worktree for what goes with discarded clones, should this process die before it has removed it.
pub(super) fn swept_folder(work: &Path) -> PathBuf {
    work.join(format!("{DISCARDED}{:016x}", rand::random::<u64>()))
}

/// Removes discarded clones, also those of a pod that ended before it had. They may be many files, for which nobody has
/// to wait.
pub(super) fn sweep_discarded(work: &Path) -> Option<JoinHandle<()>> {
    let found = fs::read_dir(work).ok()?.flatten();
    let old = found.filter(|entry| entry.file_name().to_string_lossy().starts_with(DISCARDED));
    let old: Vec<_> = old.map(|entry| entry.path()).collect();
    if old.is_empty() {
        return None;
    }
    let remove = move || {
        for folder in old {
            let _ = fs::remove_dir_all(folder);
        }
    };
    Some(std::thread::spawn(remove))
}

/// Sets the branch's upstream for `git` on the command line; the toolbox itself does not read it. Commands can have
/// written to the file, so it is only added to, and not through a link.
pub(super) fn append_upstream(place: &GitSite) {
    let text = format!(
        "\n[branch \"{}\"]\n\tremote = origin\n\tmerge = {}\n",
        place.hello.branch,
        place.local()
    );
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let path = place.tree().join(".git/config");
    let file = OpenOptions::new().append(true).custom_flags(flags).open(path);
    // A branch without an upstream is a small loss.
    let _ = file.and_then(|mut file| file.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_pod_had_no_time_to_remove_is_removed_later() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("tree.old-dead/deps")).unwrap();
        fs::create_dir(dir.path().join("tree")).unwrap();
        sweep_discarded(dir.path()).unwrap().join().unwrap();
        assert!(!dir.path().join("tree.old-dead").exists() && dir.path().join("tree").exists());
        assert!(sweep_discarded(dir.path()).is_none(), "nothing is left");
    }

    #[test]
    fn a_mark_that_can_not_be_read_never_says_that_a_clone_is_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let (work, at) = (dir.path(), Oid::from_str(&"ab".repeat(20)).unwrap());
        assert_eq!(CloneMark::read(work), CloneMark::Claimed);
        for mark in [CloneMark::Untouched, CloneMark::SetUp(at), CloneMark::Claimed] {
            mark.write(work).unwrap();
            assert_eq!(CloneMark::read(work), mark);
        }
        CloneMark::Claimed.write(work).unwrap();
        let nowhere = CloneMark::SetUp(Oid::ZERO_SHA1);
        fs::write(work.join(MARK), "no commit").unwrap();
        assert_eq!(CloneMark::read(work), nowhere);
        fs::write(work.join(MARK), [0xff]).unwrap();
        assert_eq!(CloneMark::read(work), nowhere);
        fs::remove_file(work.join(MARK)).unwrap();
        fs::create_dir(work.join(MARK)).unwrap();
        assert_eq!(CloneMark::read(work), nowhere);
    }
}
