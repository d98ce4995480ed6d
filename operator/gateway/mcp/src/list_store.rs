//! A folder with the lists of tools that servers gave last, for the process that comes after this one: it offers them
//! without asking or starting a server. What is lost of it is read from the servers again.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;

/// Name of the folder in the gateway's cache.
const FOLDER: &str = "tool-lists";
/// Bytes of a list, and of all lists together.
const LARGEST: usize = 2 << 20;
const ROOM: u64 = 64 << 20;
/// Number of lists that are kept.
const MOST: usize = 1024;
/// Ending of the name of a list's file.
const LIST: &str = "json";

/// Lists by name. Cheap to clone; clones share it, and the default one keeps nothing.
#[derive(Clone, Debug, Default)]
pub struct ListStore(Option<Arc<ListFolder>>);

#[derive(Debug)]
struct ListFolder {
    path: PathBuf,
    /// The number of versions so far.
    versions: AtomicU64,
    /// Versions that were written last, by name. Held while one is written.
    written: Mutex<RecentMap<String, ListVersion>>,
}

/// Place of a list among all that are given to be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListVersion(u64);

impl ListStore {
    /// Keeps the lists in a folder of the gateway's cache, which is made when it is needed.
    #[must_use]
    pub fn in_cache(cache: &Path) -> Self {
        Self(Some(Arc::new(ListFolder {
            path: cache.join(FOLDER),
            versions: AtomicU64::new(0),
            written: Mutex::new(RecentMap::new(MOST)),
        })))
    }

    /// True if lists are kept.
    pub(crate) const fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Version of a list that is given now: later than those of all lists before it.
    pub(crate) fn next_version(&self) -> ListVersion {
        let before = self.0.as_ref().map(|folder| folder.versions.fetch_add(1, Ordering::SeqCst));
        before.map_or_else(ListVersion::default, |before| ListVersion(before + 1))
    }

    /// Reads the list of this name. Blocks on the disk.
    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        let path = list_path(&self.0.as_ref()?.path, name);
        let size = fs::metadata(&path).ok()?.len();
        if size > u64::try_from(LARGEST).unwrap_or(u64::MAX) {
            return None;
        }
        fs::read(path).ok()
    }

    /// Keeps the list of this name in place of an earlier version; one that is too large is not kept. Writes may come in
    /// another order than their lists were given: a version does not replace a later one. Blocks on the disk.
    pub(crate) fn write(&self, name: &str, version: ListVersion, list: &[u8]) {
        let Some(store) = &self.0 else { return };
        let mut versions = store.written.lock();
        if versions.get(&name.to_owned()).is_some_and(|written| *written > version) {
            return;
        }
        versions.insert(name.to_owned(), version);
        let folder = &store.path;
        let written = if list.len() > LARGEST {
            remove_file(&list_path(folder, name))
        } else {
            write_list(folder, name, list).and_then(|()| make_room(folder))
        };
        if let Err(error) = written {
            tracing::warn!(%error, "server_list_write_failed");
        }
    }
}

fn list_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.{LIST}"))
}

fn write_list(folder: &Path, name: &str, list: &[u8]) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    // Under another name first: a process that ends meanwhile leaves no half of a list in its place.
    let part = folder.join(format!("{name}.{:016x}", rand::random::<u64>()));
    let written = fs::write(&part, list).and_then(|()| fs::rename(&part, list_path(folder, name)));
    written.inspect_err(|_| drop(fs::remove_file(&part)))
}

/// Removes the oldest lists where there are too many, and what an earlier process has not finished.
fn make_room(folder: &Path) -> io::Result<()> {
    let mut lists: Vec<(SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A file may be gone by now: another write makes room, too.
        let Ok(facts) = entry.metadata() else { continue };
        let at = facts.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        lists.push((at, facts.len(), entry.path()));
    }
    // The newest first; unfinished ones last.
    lists.sort_by_key(|(at, _, path)| {
        (path.extension() != Some(OsStr::new(LIST)), std::cmp::Reverse(*at))
    });
    let mut taken = 0;
    for (place, (_, size, path)) in lists.iter().enumerate() {
        taken += size;
        if place >= MOST || taken > ROOM {
            remove_file(path)?;
        }
    }
    Ok(())
}

fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn lists_are_replaced_and_the_oldest_give_way() {
        let cache = tempfile::tempdir().unwrap();
        let store = ListStore::in_cache(cache.path());
        assert_eq!(store.read("a"), None);
        let write = |name: &str, list: &[u8]| store.write(name, store.next_version(), list);
        write("a", b"one");
        write("a", b"two");
        assert_eq!(store.read("a").as_deref(), Some(&b"two"[..]));
        let folder = cache.path().join(FOLDER);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "nothing is left of the first one");
        write("a", &vec![b'x'; LARGEST + 1]);
        assert_eq!(store.read("a"), None, "an older list does not stand for one that is too large");

        let early = SystemTime::now() - Duration::from_hours(1);
        for at in 0..MOST {
            let path = list_path(&folder, &format!("old-{at}"));
            File::create(path).unwrap().set_modified(early).unwrap();
        }
        File::create(folder.join("old.0123456789abcdef")).unwrap();
        write("new", b"list");
        assert_eq!(fs::read_dir(&folder).unwrap().count(), MOST);
        assert_eq!(store.read("new").as_deref(), Some(&b"list"[..]));
        assert!(!folder.join("old.0123456789abcdef").exists());
        assert_eq!(ListStore::default().read("new"), None);
    }

    #[test]
    fn a_list_that_is_written_late_does_not_replace_a_later_one() {
        let cache = tempfile::tempdir().unwrap();
        let store = ListStore::in_cache(cache.path());
        let (earlier, later) = (store.next_version(), store.next_version());
        store.write("a", later, b"two");
        store.write("a", earlier, b"one");
        store.write("b", earlier, b"one");
        assert_eq!(store.read("a").as_deref(), Some(&b"two"[..]));
        assert_eq!(store.read("b").as_deref(), Some(&b"one"[..]), "each name is for itself");
        store.write("a", later, &vec![b'x'; LARGEST + 1]);
        store.write("a", earlier, b"one");
        assert_eq!(store.read("a"), None, "nor one that was too large");
    }
}
