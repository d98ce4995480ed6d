//! Looks at every file of the worktree that an index may know, on several threads: what reading 20,000
//! names costs is mostly waiting for the kernel.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Condvar, Mutex, PoisonError};

use git2::IndexEntry;

use super::super::control::{IN_FOLDERS, MAX_CONTROL, is_plain};
use super::index::STAGE;
use super::stat::{FileStat, FileTime};

/// More threads than this only wait for each other.
const MAX_THREADS: usize = 4;
/// File mode of a symbolic link in an index.
const LINK: u32 = 0o120_000;
/// File mode of a submodule in an index.
pub(crate) const GITLINK: u32 = 0o160_000;

/// The entries of an index, by path.
pub(super) struct KnownFiles<'a> {
    pub entries: &'a [IndexEntry],
    /// True if the file system tells programs from other files (`core.fileMode`).
    file_mode: bool,
    places: HashMap<&'a [u8], usize>,
    folders: HashSet<&'a [u8]>,
}

impl<'a> KnownFiles<'a> {
    pub(super) fn new(entries: &'a [IndexEntry], file_mode: bool) -> Self {
        let mut places = HashMap::with_capacity(entries.len());
        let mut folders = HashSet::new();
        for (place, entry) in entries.iter().enumerate() {
            if entry.flags & STAGE != 0 {
                continue;
            }
            places.insert(entry.path.as_slice(), place);
            let mut path = entry.path.as_slice();
            while let Some(end) = path.iter().rposition(|byte| *byte == b'/') {
                path = &path[..end];
                if !folders.insert(path) {
                    break;
                }
            }
        }
        Self { entries, file_mode, places, folders }
    }

    pub(super) fn place(&self, path: &[u8]) -> Option<usize> {
        self.places.get(path).copied()
    }

    /// Data of a file as Git sees it, with the index's mode where `core.fileMode` is off.
    pub(super) fn see(&self, path: &[u8], meta: &Metadata) -> Option<FileStat> {
        let stat = FileStat::of(meta)?;
        if self.file_mode {
            return Some(stat);
        }
        Some(stat.with_known_mode(self.place(path).map(|place| self.entries[place].mode)))
    }

    fn has_folder(&self, path: &[u8]) -> bool {
        self.folders.contains(path)
    }
}

/// Files that a walk has found.
#[derive(Default)]
pub(super) struct WalkedFiles {
    /// Places of entries whose content the index knows already.
    pub same: Vec<usize>,
    /// Places of entries that may differ.
    pub suspects: Vec<(usize, FileStat)>,
    /// Places of entries that are repositories of their own.
    pub nested: Vec<usize>,
    /// Files that the index does not know.
    pub files: Vec<(Vec<u8>, FileStat)>,
    /// Folders of which it knows no file.
    pub folders: Vec<Vec<u8>>,
    /// Entries in whose place something lies that Git does not store.
    pub strange: Vec<usize>,
    /// Files that Git would read and that are not plain.
    pub odd: Vec<Vec<u8>>,
}

impl WalkedFiles {
    fn join(&mut self, other: Self) {
        self.same.extend(other.same);
        self.suspects.extend(other.suspects);
        self.nested.extend(other.nested);
        self.files.extend(other.files);
        self.folders.extend(other.folders);
        self.strange.extend(other.strange);
        self.odd.extend(other.odd);
    }

    fn sort(&mut self) {
        self.suspects.sort_unstable_by_key(|(place, _)| *place);
        self.nested.sort_unstable();
        self.files.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        self.folders.sort_unstable();
    }
}

/// Folders that wait for a thread.
struct FolderQueue {
    waiting: Mutex<(Vec<Vec<u8>>, usize)>,
    changed: Condvar,
}

impl FolderQueue {
    /// The next folder; none once all are done.
    fn next(&self) -> Option<Vec<u8>> {
        let mut state = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(folder) = state.0.pop() {
                state.1 += 1;
                return Some(folder);
            }
            if state.1 == 0 {
                self.changed.notify_all();
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn done(&self, found: Vec<Vec<u8>>) {
        let mut state = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        state.0.extend(found);
        state.1 -= 1;
        self.changed.notify_all();
    }
}

/// Looks at all folders in which the index knows files. `written` is when the index was written; without it
/// nothing that it remembers of files is believed.
pub(super) fn walk_files(
    root: &Path,
    known: &KnownFiles<'_>,
    written: Option<FileTime>,
) -> WalkedFiles {
    let queue = FolderQueue { waiting: Mutex::new((vec![Vec::new()], 0)), changed: Condvar::new() };
    let work = || {
        let mut found = WalkedFiles::default();
        while let Some(folder) = queue.next() {
            let below = walk_folder(root, &folder, known, written, &mut found);
            queue.done(below);
        }
        found
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(MAX_THREADS));
    let mut all = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            if let Ok(found) = other.join() {
                all.join(found);
            }
        }
        all
    });
    all.sort();
    all
}

/// Looks at one folder; answers with those in it that have files of the index.
fn walk_folder(
    root: &Path,
    folder: &[u8],
    known: &KnownFiles<'_>,
    written: Option<FileTime>,
    found: &mut WalkedFiles,
) -> Vec<Vec<u8>> {
    let mut below = Vec::new();
    let full = root.join(OsStr::from_bytes(folder));
    for entry in std::fs::read_dir(full).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name == ".git" {
            continue;
        }
        let path = join_path(folder, name.as_bytes());
        let Ok(kind) = entry.file_type() else { continue };
        let place = known.place(&path);
        if is_read_by_git(&name) {
            let linked = place.is_some_and(|place| known.entries[place].mode == LINK);
            if !is_plain(&entry.path(), MAX_CONTROL, linked) {
                found.odd.push(path);
                continue;
            }
        }
        if kind.is_dir() {
            match place {
                Some(place) if known.entries[place].mode == GITLINK => found.nested.push(place),
                _ if known.has_folder(&path) => below.push(path),
                _ => found.folders.push(path),
            }
            continue;
        }
        let stat = entry.metadata().ok().and_then(|meta| known.see(&path, &meta));
        match (stat, place) {
            (Some(stat), Some(place)) => {
                let entry = &known.entries[place];
                if written.is_some_and(|written| stat.is_known(entry, written)) {
                    found.same.push(place);
                } else {
                    found.suspects.push((place, stat));
                }
            }
            (Some(stat), None) => found.files.push((path, stat)),
            (None, Some(place)) => found.strange.push(place),
            (None, None) => {}
        }
    }
    below
}

/// Ignore files and the like.
pub(super) fn is_read_by_git(name: &OsStr) -> bool {
    IN_FOLDERS.iter().any(|known| name == *known)
}

pub(super) fn join_path(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
