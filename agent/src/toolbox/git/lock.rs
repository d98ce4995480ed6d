//! Locks on the volume, which pods of a thread's roles share: each wait has an end.

use std::fs::{File, OpenOptions, TryLockError};
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
