//! Checks that this machine has room for a demo, before anything is started.

use std::path::Path;

use nix::sys::statvfs::statvfs;

/// MB of memory that the world, the product and four roles at work take (the scenario `bugfix`).
const MEMORY_MB: u64 = 700;
/// MB of disk that they write before anybody's repository is in it.
const DISK_MB: u64 = 300;
/// Mount point of the cgroup file system, which has the limits of this container.
const CONTAINER: &str = "/sys/fs/cgroup";

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
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let memory = free_memory(read);
    let there = dir.ancestors().find(|path| path.exists());
    let disk = there.and_then(|path| statvfs(path).ok());
    let disk = disk.map(|disk| (disk.blocks_available() * disk.fragment_size()) >> 20);
    judge_room(memory, disk, dir)
}

fn judge_room(memory: Option<u64>, disk: Option<u64>, dir: &Path) -> Result<(), NoRoom> {
    if let Some(free) = memory.filter(|free| *free < MEMORY_MB) {
        return Err(NoRoom::Memory { free });
    }
    if let Some(free) = disk.filter(|free| *free < DISK_MB) {
        let place = dir.display().to_string();
        return Err(NoRoom::Disk { free, needed: DISK_MB, place });
    }
    Ok(())
}

/// MB that this machine has, or that its container may still take, if that is less.
fn free_memory(read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let machine = read("/proc/meminfo").and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.map(|kib| kib >> 10);
    let figure = |name: &str| read(&format!("{CONTAINER}/{name}"))?.trim().parse::<u64>().ok();
    let container = figure("memory.max").zip(figure("memory.current")).map(|(limit, used)| {
        let stat = read(&format!("{CONTAINER}/memory.stat")).unwrap_or_default();
        // Copies of files go when room is needed, also those that were read more than once, such as by a build.
        let files = ["inactive_file", "active_file", "slab_reclaimable"].iter();
        let spare = files.filter_map(|name| field(&stat, name)).fold(0, u64::saturating_add);
        limit.saturating_sub(used.saturating_sub(spare)) >> 20
    });
    machine.into_iter().chain(container).min()
}

/// The figure behind a name, in a list of them by line.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next() == Some(name)).then(|| words.next()?.parse().ok())?)
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

    #[test]
    fn a_container_counts_with_what_it_may_still_take() {
        let machine = "MemTotal: 16000000 kB\nMemAvailable:    8192000 kB\n";
        let of = |container: &[(&str, &str)]| {
            free_memory(|path| {
                if path == "/proc/meminfo" {
                    return Some(machine.to_owned());
                }
                let name = path.rsplit('/').next()?;
                let found = container.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(of(&[]), Some(8000));
        assert_eq!(of(&[("memory.max", "max\n"), ("memory.current", "5\n")]), Some(8000));
        let small = [
            ("memory.max", "1073741824\n"),
            ("memory.current", "943718400\n"),
            ("memory.stat", "anon 1\ninactive_file 209715200\n"),
        ];
        assert_eq!(of(&small), Some(324));
        let stat = "inactive_file 209715200\nactive_file 419430400\nslab_reclaimable 104857600\n";
        let built = [small[0], small[1], ("memory.stat", stat)];
        assert_eq!(of(&built), Some(824), "a build has read much");
    }
}
