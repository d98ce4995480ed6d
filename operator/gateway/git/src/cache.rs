//! Disk budget of the copies of repositories. When space gets short, the least recently used copies are evicted; an
//! evicted copy is fetched again on the next request.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use super::mirror::{GONE, RepoMirrors};

/// One part in so many of the disk budget stays free, for the next fetch.
const SPARE: u64 = 10;

impl RepoMirrors {
    /// Takes copies away that nobody uses until there is room again; what all take now, in bytes.
    /// Reads the disk: not to be called where others wait.
    pub fn make_room(&self) -> u64 {
        let mut taken = folder_size(self.root());
        let Some(limit) = self.limit else { return taken };
        let most = limit - limit / SPARE;
        if taken <= most {
            return taken;
        }
        for folder in self.unused() {
            if taken <= most {
                break;
            }
            let size = folder_size(&folder);
            let Some(gone) = self.take_away(&folder) else { continue };
            match std::fs::remove_dir_all(&gone) {
                Ok(()) => taken = taken.saturating_sub(size),
                Err(error) => tracing::warn!(%error, "mirror_removal_failed"),
            }
        }
        if taken > most {
            tracing::warn!(taken, limit, "git_cache_full");
        }
        taken
    }

    /// Folders of copies that nobody works with: those of an earlier process first, then the others
    /// in the order in which they were last asked for.
    fn unused(&self) -> Vec<PathBuf> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = std::fs::read_dir(self.root()).into_iter().flatten().flatten();
        let mut folders: Vec<_> = entries
            .map(|entry| entry.path())
            // Folders of pushes lie beside the copies and must not be evicted here.
            .filter(|path| path.extension() == Some(OsStr::new("git")))
            .filter_map(|path| match known.values().find(|mirror| mirror.git().dir() == path) {
                Some(mirror) if Arc::strong_count(mirror) > 1 => None,
                Some(mirror) => Some((mirror.used.load(Ordering::Relaxed), path)),
                None => Some((0, path)),
            })
            .collect();
        folders.sort();
        folders.into_iter().map(|(_, path)| path).collect()
    }

    /// Moves a copy away, so that nobody finds it any more, unless somebody has begun to work with it; returns its
    /// new place.
    fn take_away(&self, folder: &Path) -> Option<PathBuf> {
        let gone = folder.with_file_name(format!("{GONE}{:016x}", rand::random::<u64>()));
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = known.values().any(|m| m.git().dir() == folder && Arc::strong_count(m) > 1);
        if busy || std::fs::rename(folder, &gone).is_err() {
            return None;
        }
        known.retain(|_, mirror| mirror.git().dir() != folder);
        tracing::info!("mirror_evicted");
        Some(gone)
    }
}

/// Bytes of the files in a folder. What goes away meanwhile counts as nothing.
fn folder_size(path: &Path) -> u64 {
    let Ok(meta) = path.symlink_metadata() else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| folder_size(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::repo;

    #[test]
    fn what_nobody_asks_for_goes_first_and_what_is_used_stays() {
        let root = tempfile::tempdir().unwrap();
        let mirrors = RepoMirrors::new(root.path().to_owned()).within(Some(1000), None);
        let make = |name: &str| {
            let mirror = mirrors.of(&repo(name));
            let pack = mirror.git().dir().join("objects/pack");
            std::fs::create_dir_all(&pack).unwrap();
            std::fs::write(pack.join("a.pack"), [0; 300]).unwrap();
            mirror
        };
        let (first, second) = (make("a"), make("b"));
        std::fs::create_dir_all(root.path().join("push-1")).unwrap();
        drop(second);
        drop(make("c"));
        assert_eq!(mirrors.make_room(), 900);
        // Asked for again, so that another one is the oldest.
        drop(mirrors.of(&repo("b")));
        drop(make("d"));
        assert_eq!(mirrors.make_room(), 900);
        let is_there = |name: &str| mirrors.of(&repo(name)).git().dir().exists();
        assert_eq!(["a", "b", "c", "d"].map(is_there), [true, true, false, true]);
        // The copy is in use, and that of an earlier process goes first.
        let left = root.path().join(format!("{}.git", "0".repeat(24)));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("HEAD"), [0; 10]).unwrap();
        assert_eq!(mirrors.make_room(), 900);
        assert!(!left.exists() && first.git().dir().exists());
        assert!(root.path().join("push-1").exists());
        let open = RepoMirrors::new(root.path().to_owned());
        assert_eq!(open.make_room(), 900);
    }

    #[test]
    fn nothing_in_use_goes_however_little_room_there_is() {
        let root = tempfile::tempdir().unwrap();
        let mirrors = RepoMirrors::new(root.path().to_owned()).within(Some(100), None);
        let mirror = mirrors.of(&repo("a"));
        std::fs::create_dir_all(mirror.git().dir()).unwrap();
        std::fs::write(mirror.git().dir().join("HEAD"), [0; 300]).unwrap();
        assert_eq!(mirrors.make_room(), 300);
        drop(mirror);
        assert_eq!(mirrors.make_room(), 0);
        assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
