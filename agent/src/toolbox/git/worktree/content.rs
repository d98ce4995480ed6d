//! Converts a file of the worktree to the content that Git would store.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::{
    AttrCheckFlags, AttrValue, FileMode, Index, IndexEntry, ObjectType, Oid, Repository,
    RepositoryOpenFlags,
};
use sha2::{Digest as _, Sha256};

use super::super::control::is_openable;
use super::encoding::WorktreeEncoding;
use super::left::LeftWhy;
use super::settings::GitSettings;
use super::stat::FileStat;

/// Filters whose bytes are never stored as they lie in the worktree, configured or not.
const KNOWN_FILTERS: [&str; 2] = ["lfs", "git-crypt"];
/// The attribute that names the encoding of a file in the worktree.
pub(super) const ENCODING: &str = "working-tree-encoding";
/// Longest pointer of Git LFS, in bytes.
const MAX_POINTER: usize = 1024;

/// Result of storing a file.
pub(super) enum StoredFile {
    Entry(IndexEntry),
    /// The file differs, and can't be stored as Git would.
    Left(LeftWhy),
}

/// Turns files of the worktree into what an index holds.
pub(super) struct FileStore<'r> {
    repo: &'r Repository,
    root: PathBuf,
    settings: GitSettings,
}

impl<'r> FileStore<'r> {
    pub(super) fn new(repo: &'r Repository, settings: GitSettings) -> Self {
        let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
        Self { repo, root, settings }
    }

    pub(super) fn path(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path))
    }

    /// Stores a file as a blob. `old` is what the index has of it.
    pub(super) fn store(
        &self,
        path: &[u8],
        stat: &FileStat,
        old: Option<&IndexEntry>,
    ) -> Result<StoredFile, git2::Error> {
        let made = |id: Oid| Ok(StoredFile::Entry(stat.entry(path.to_vec(), id)));
        let full = self.path(path);
        if stat.mode == u32::from(FileMode::Link) {
            return match std::fs::read_link(&full) {
                Ok(target) => made(self.repo.blob(target.as_os_str().as_bytes())?),
                Err(_) => Ok(StoredFile::Left(LeftWhy::Unreadable)),
            };
        }
        let encoding = self.attribute(path, ENCODING);
        if let Some(encoding) = encoding.filter(|name| !is_utf8(name)) {
            return self.store_encoded(path, stat, old, &encoding);
        }
        if let Some(filter) = self.attribute(path, "filter")
            && (KNOWN_FILTERS.contains(&&*filter) || self.settings.filters.contains(&filter))
        {
            return self.store_filtered(path, stat, old, filter);
        }
        match self.repo.blob_path(&full) {
            Ok(id) => made(id),
            Err(_) if std::fs::File::open(&full).is_err() => {
                Ok(StoredFile::Left(LeftWhy::Unreadable))
            }
            Err(error) => Err(error),
        }
    }

    /// An attribute that has a value.
    fn attribute(&self, path: &[u8], name: &str) -> Option<String> {
        let path = Path::new(OsStr::from_bytes(path));
        let value = self.repo.get_attr(path, name, AttrCheckFlags::FILE_THEN_INDEX).ok()?;
        match AttrValue::from_string(value) {
            AttrValue::String(value) => Some(value.to_owned()),
            _ => None,
        }
    }

    fn store_encoded(
        &self,
        path: &[u8],
        stat: &FileStat,
        old: Option<&IndexEntry>,
        name: &str,
    ) -> Result<StoredFile, git2::Error> {
        let Ok(bytes) = std::fs::read(self.path(path)) else {
            return Ok(StoredFile::Left(LeftWhy::Unreadable));
        };
        let made = |id: Oid| Ok(StoredFile::Entry(stat.entry(path.to_vec(), id)));
        let decoded = WorktreeEncoding::named(name).and_then(|encoding| encoding.decode(&bytes));
        let decoded = decoded.map(|text| self.with_git_line_ends(path, text));
        if let Some(old) = old {
            let is_same = |bytes: &[u8]| {
                Oid::hash_object(ObjectType::Blob, bytes).is_ok_and(|id| id == old.id)
            };
            if decoded.as_ref().is_some_and(|text| is_same(text.as_bytes())) {
                return made(old.id);
            }
            if is_same(&bytes) {
                return Ok(StoredFile::Entry(unconverted(stat, old)));
            }
        }
        match decoded {
            Some(text) => made(self.repo.blob(text.as_bytes())?),
            None => Ok(StoredFile::Left(LeftWhy::Encoding(name.to_owned()))),
        }
    }

    /// Line ends as the repository holds them, for text that was decoded.
    fn with_git_line_ends(&self, path: &[u8], text: String) -> String {
        let full = Path::new(OsStr::from_bytes(path));
        let attribute = |name| self.repo.get_attr(full, name, AttrCheckFlags::FILE_THEN_INDEX);
        let kind = attribute("text").map(AttrValue::from_string);
        let has_end = attribute("eol").is_ok_and(|end| matches!(end, Some("lf" | "crlf")));
        let is_text = match kind {
            Ok(AttrValue::False) => false,
            Ok(AttrValue::True) => true,
            Ok(AttrValue::String("auto")) => !text.contains('\0'),
            _ => has_end,
        };
        if is_text { text.replace("\r\n", "\n") } else { text }
    }

    fn store_filtered(
        &self,
        path: &[u8],
        stat: &FileStat,
        old: Option<&IndexEntry>,
        filter: String,
    ) -> Result<StoredFile, git2::Error> {
        let full = self.path(path);
        let Ok(bytes) = std::fs::read(&full) else {
            return Ok(StoredFile::Left(LeftWhy::Unreadable));
        };
        let made = |id: Oid| Ok(StoredFile::Entry(stat.entry(path.to_vec(), id)));
        let raw = Oid::hash_object(ObjectType::Blob, &bytes)?;
        if let Some(old) = old {
            if filter == "lfs" && (raw == old.id || self.is_pointed_at(old.id, &bytes)) {
                return made(old.id);
            }
            if raw == old.id {
                return Ok(StoredFile::Entry(unconverted(stat, old)));
            }
        }
        if filter == "lfs" && pointer_of(&bytes).is_some() {
            return made(self.repo.blob(&bytes)?);
        }
        Ok(StoredFile::Left(LeftWhy::Filter(filter)))
    }

    /// Returns true if a blob is the Git LFS pointer to these bytes.
    fn is_pointed_at(&self, blob: Oid, bytes: &[u8]) -> bool {
        let Ok(blob) = self.repo.find_blob(blob) else { return false };
        pointer_of(blob.content()).is_some_and(|sum| sum == hex::encode(Sha256::digest(bytes)))
    }

    /// The commit that a repository of its own inside the worktree is at.
    pub(super) fn nested_head(&self, path: &[u8]) -> Option<Oid> {
        let nested = self.open_nested(path)?;
        nested.head().ok()?.peel_to_commit().ok().map(|commit| commit.id())
    }

    /// Returns true if a submodule that Git made does not have a commit: it was recorded elsewhere, and nobody has
    /// brought the submodule there.
    pub(super) fn lacks_commit(&self, path: &[u8], commit: Oid) -> bool {
        self.path(path).join(".git").is_file()
            && self.open_nested(path).is_some_and(|nested| nested.find_commit(commit).is_err())
    }

    fn open_nested(&self, path: &[u8]) -> Option<Repository> {
        if !is_openable(&self.path(path)) {
            return None;
        }
        let nothing: [&Path; 0] = [];
        Repository::open_ext(self.path(path), RepositoryOpenFlags::NO_SEARCH, nothing).ok()
    }
}

/// Returns true if a file with these bytes is stored as `blob`, but for line ends and the encoding that
/// `.gitattributes` names.
pub(crate) fn is_stored_as(repo: &Repository, path: &Path, bytes: &[u8], blob: &[u8]) -> bool {
    let value = repo.get_attr(path, ENCODING, AttrCheckFlags::FILE_THEN_INDEX).unwrap_or_default();
    let encoding = match AttrValue::from_string(value) {
        AttrValue::String(name) => WorktreeEncoding::named(name),
        _ => None,
    };
    let decoded = encoding.and_then(|encoding| encoding.decode(bytes));
    let stored = decoded.as_ref().map_or(bytes, |text| text.as_bytes());
    without_returns(stored).eq(without_returns(blob))
}

/// Bytes with line ends of one.
fn without_returns(bytes: &[u8]) -> impl Iterator<Item = &u8> {
    let kept = |(at, byte): &(usize, &u8)| **byte != b'\r' || bytes.get(at + 1) != Some(&b'\n');
    bytes.iter().enumerate().filter(kept).map(|(_, byte)| byte)
}

/// A file that lies in the worktree as the repository holds it, which is no change. Git would convert it and may see
/// one: a size of zero has it look at the content by itself.
fn unconverted(stat: &FileStat, old: &IndexEntry) -> IndexEntry {
    IndexEntry { file_size: 0, ..stat.entry(old.path.clone(), old.id) }
}

fn is_utf8(name: &str) -> bool {
    name.eq_ignore_ascii_case("utf-8") || name.eq_ignore_ascii_case("utf8")
}

/// The checksum that a pointer of Git LFS names.
fn pointer_of(bytes: &[u8]) -> Option<&str> {
    if bytes.len() > MAX_POINTER || !bytes.starts_with(b"version https://git-lfs.github.com/spec/")
    {
        return None;
    }
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines().find_map(|line| line.strip_prefix("oid sha256:"))
}

/// Most repositories name no encoding at all.
pub(super) fn names_encodings(repo: &Repository, index: &Index) -> bool {
    let names =
        |text: &[u8]| text.windows(ENCODING.len()).any(|window| window == ENCODING.as_bytes());
    let own = std::fs::read(repo.path().join("info/attributes")).unwrap_or_default();
    names(&own)
        || index
            .iter()
            .filter(|entry| entry.path.ends_with(b".gitattributes"))
            .any(|entry| repo.find_blob(entry.id).is_ok_and(|blob| names(blob.content())))
}
