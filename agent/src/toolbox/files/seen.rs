//! The record of the files that a role has read, so that it edits nothing that it does not know.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::{Mutex, MutexGuard};

/// Hashes of the contents that this role has seen, by resolved path. Kept in a file beside the worktree, so that a
/// restarted pod may edit what it had read. Commands can write that file; all they would gain is an edit of a file
/// that nobody read.
#[derive(Debug, Default)]
pub struct SeenFiles {
    hashes: Mutex<HashMap<PathBuf, String>>,
    file: Option<PathBuf>,
}

impl SeenFiles {
    /// Loads the hashes kept in `file`; none if it isn't there or isn't readable.
    pub fn kept_in(file: PathBuf) -> Self {
        let kept = fs::read(&file).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
        Self { hashes: Mutex::new(kept.unwrap_or_default()), file: Some(file) }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, String>> {
        self.hashes.lock()
    }

    /// This content of a file was read or written.
    pub(super) fn remember(&self, path: &Path, hash: &str) {
        let mut hashes = self.lock();
        if hashes.insert(path.to_owned(), hash.to_owned()).as_deref() == Some(hash) {
            return;
        }
        if let Some(file) = &self.file
            && let Err(error) = keep_hashes(file, &hashes)
        {
            tracing::warn!(%error, "read_files_write_failed");
        }
    }

    /// The hash of what was read last.
    pub(super) fn hash(&self, path: &Path) -> Option<String> {
        self.lock().get(path).cloned()
    }
}

/// Replaced as a whole, so that a kill leaves the old or the new.
fn keep_hashes(file: &Path, hashes: &HashMap<PathBuf, String>) -> std::io::Result<()> {
    let next = file.with_extension("next");
    fs::write(&next, serde_json::to_vec(hashes)?)?;
    fs::rename(next, file)
}
