//! Checks that this machine has room for a demo, before anything is started.

use std::path::Path;

use codebutler_start::{RUN_DISK_MB, free_disk, free_memory};

/// MB of memory that the world, the product and four roles at work take (the scenario `bugfix`).
const MEMORY_MB: u64 = 700;

/// A shortage for which it is better not to begin.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoom {
    /// Too little memory is free.
    #[error(
        "{free} MB of memory are free, and the demo needs {MEMORY_MB}: end other programs, or give this machine or \
         container more"
    )]
    Memory {
        /// Free memory in MB.
        free: u64,
    },
    /// Too little disk space is free.
    #[error(
        "{free} MB are free in {place}, and the demo needs {needed}: make room there, or name another folder with \
         TMPDIR (--state for one that is kept)"
    )]
    Disk {
        /// Free disk space in MB.
        free: u64,
        /// Needed disk space in MB.
        needed: u64,
        /// Folder that the space is needed in.
        place: String,
    },
}

/// Looks at memory, and at the disk of the folder in which the demo is going to write.
///
/// # Errors
/// A sentence that says what to do.
pub(super) fn look_for_room(dir: &Path) -> Result<(), NoRoom> {
    judge_room(free_memory(), free_disk(dir), dir)
}

fn judge_room(memory: Option<u64>, disk: Option<u64>, dir: &Path) -> Result<(), NoRoom> {
    if let Some(free) = memory.filter(|free| *free < MEMORY_MB) {
        return Err(NoRoom::Memory { free });
    }
    if let Some(free) = disk.filter(|free| *free < RUN_DISK_MB) {
        let place = dir.display().to_string();
        return Err(NoRoom::Disk { free, needed: RUN_DISK_MB, place });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_is_too_small_gets_a_sentence() {
        let dir = Path::new("/tmp/demo");
        let judge = |memory, disk| judge_room(memory, disk, dir).map_err(|no| no.to_string());
        assert_eq!(judge(Some(4000), Some(9000)), Ok(()));
        assert_eq!(judge(None, None), Ok(()), "what can't be known is no reason");
        let told = judge(Some(200), Some(9000)).unwrap_err();
        assert!(told.starts_with("200 MB of memory are free, and the demo needs"), "{told}");
        let told = judge(Some(4000), Some(20)).unwrap_err();
        assert!(
            told.starts_with("20 MB are free in /tmp/demo") && told.contains("TMPDIR"),
            "{told}"
        );
    }
}
