//! Locks on the volume, which pods of a thread's roles share: each wait has an end.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::fcntl::OFlag;

use crate::toolbox::{ToolError, modes};

/// Time that another pod's work is waited for.
pub(super) const WAIT: Duration = Duration::from_secs(30);
/// The same at the start of a run, when another pod may be cloning.
pub(super) const WAIT_AT_START: Duration = Duration::from_secs(90);
const LOOK: Duration = Duration::from_millis(20);
/// A lock file of Git that nobody touched for this long belongs to a process that died.
const STALE: Duration = Duration::from_secs(5);

/// Released when dropped or when the process dies.
pub(super) fn take_lock(path: &Path, wait: Duration) -> Result<File, ToolError> {
    let fail = |e: io::Error| ToolError::Failed(format!("{} can't be locked: {e}", path.display()));
    let file = modes::with_rights(path, || open_lock(path)).map_err(fail)?;
    let deadline = Instant::now() + wait;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOOK);
            }
            Err(TryLockError::WouldBlock) => {
                return Err(ToolError::Failed(format!(
                    "the repository is locked by another role's pod, and was not released within {} s ({}): try \
                     again, and delete that pod if it stays so",
                    wait.as_secs(),
                    path.display()
                )));
            }
            Err(TryLockError::Error(error)) => return Err(fail(error)),
        }
    }
}

fn open_lock(path: &Path) -> io::Result<File> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    OpenOptions::new().write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

/// Removes what a killed Git operation left locked. A lock in use is waited for: it moves on.
pub(super) fn remove_stale_locks(git: &Path) {
    for name in ["index.lock", "HEAD.lock", "config.lock", "packed-refs.lock"] {
        let path = git.join(name);
        let deadline = Instant::now() + STALE;
        while path.exists() {
            let age =
                path.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
            if age.is_some_and(|age| age > STALE) || Instant::now() > deadline {
                tracing::warn!(name, "stale_lock_removed");
                let _ = fs::remove_file(&path);
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    // Branch locks sit beside the branch, at any depth.
    remove_lock_files(&git.join("refs"));
}

fn remove_lock_files(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_lock_files(&path);
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            let _ = fs::remove_file(&path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_not_released_is_given_up_on_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".git.lock");
        let held = take_lock(&path, WAIT).unwrap();
        let began = Instant::now();
        let error = take_lock(&path, Duration::from_millis(300)).unwrap_err().to_string();
        assert!(error.contains("locked by another role's pod"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(20));
        drop(held);
        take_lock(&path, Duration::from_secs(10)).unwrap();
    }
}
