//! The file system's data on a file, compared with what an index remembers of it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use git2::{FileMode, IndexEntry, IndexTime, Oid, Repository};

/// Time in seconds and nanoseconds.
pub(super) type FileTime = (i64, u32);

/// A regular file or a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStat {
    /// Mode as Git writes it: file, executable file or link.
    pub mode: u32,
    /// Size in bytes.
    pub size: u64,
    mtime: FileTime,
    ctime: FileTime,
    dev: u64,
    ino: u64,
    uid: u32,
    gid: u32,
}

impl FileStat {
    /// Data of a file; none for a kind that Git does not store.
    pub(crate) fn of(meta: &Metadata) -> Option<Self> {
        let kind = meta.file_type();
        let mode = if kind.is_symlink() {
            FileMode::Link
        } else if !kind.is_file() {
            return None;
        } else if meta.mode() & 0o100 != 0 {
            FileMode::BlobExecutable
        } else {
            FileMode::Blob
        };
        let nanoseconds = |part: i64| u32::try_from(part).unwrap_or_default();
        Some(Self {
            mode: u32::from(mode),
            size: meta.size(),
            mtime: (meta.mtime(), nanoseconds(meta.mtime_nsec())),
            ctime: (meta.ctime(), nanoseconds(meta.ctime_nsec())),
            dev: meta.dev(),
            ino: meta.ino(),
            uid: meta.uid(),
            gid: meta.gid(),
        })
    }

    /// Returns true if an index that was written at `written` knows the content of this file. A file that was changed
    /// at that very time or later is read again.
    pub(crate) fn is_known(&self, entry: &IndexEntry, written: FileTime) -> bool {
        let known = self.entry(entry.path.clone(), entry.id);
        entry.mode == known.mode
            && entry.file_size == known.file_size
            && entry.mtime == known.mtime
            && entry.ctime == known.ctime
            && entry.ino == known.ino
            && entry.uid == known.uid
            && entry.gid == known.gid
            && self.mtime < written
    }

    /// Index entry for the file.
    pub(crate) fn entry(&self, path: Vec<u8>, id: Oid) -> IndexEntry {
        // An index has 32 bits for each of these, and Git cuts them off in the same way.
        #[allow(clippy::cast_possible_truncation)]
        let (dev, ino, size) = (self.dev as u32, self.ino as u32, self.size as u32);
        IndexEntry {
            ctime: index_time(self.ctime),
            mtime: index_time(self.mtime),
            dev,
            ino,
            mode: self.mode,
            uid: self.uid,
            gid: self.gid,
            file_size: size,
            id,
            flags: 0,
            flags_extended: 0,
            path,
        }
    }

    /// The mode that counts where `core.fileMode` is off: the index's, and that of a plain file for a new one.
    pub(crate) fn with_known_mode(mut self, known: Option<u32>) -> Self {
        let is_regular = |mode: &u32| *mode & 0o170_000 == 0o100_000;
        if is_regular(&self.mode) {
            self.mode = known.filter(is_regular).unwrap_or(u32::from(FileMode::Blob));
        }
        self
    }

    pub(crate) fn is_link(&self) -> bool {
        self.mode == u32::from(FileMode::Link)
    }
}

#[allow(clippy::cast_possible_truncation)]
fn index_time((seconds, nanoseconds): FileTime) -> IndexTime {
    IndexTime::new(seconds as i32, nanoseconds)
}

/// Time of a file's last change; none where there is no file.
pub(crate) fn written_at(path: &Path) -> Option<FileTime> {
    let meta = path.symlink_metadata().ok()?;
    Some((meta.mtime(), u32::try_from(meta.mtime_nsec()).unwrap_or_default()))
}

/// Time at which Git's own index was written. Git compares whole seconds, and reads a file of the same second again.
pub(crate) fn index_written(repo: &Repository) -> Option<FileTime> {
    written_at(&repo.path().join("index")).map(|(seconds, _)| (seconds, 0))
}
