//! Files that a process which ended too early left in a copy.

use std::ffi::OsStr;
use std::path::Path;

/// Removes the locks that a killed command left on refs: every later one would be refused. Only one command at a time
/// writes them.
pub(super) fn remove_locks(dir: &Path) {
    for name in ["HEAD.lock", "packed-refs.lock"] {
        let _ = std::fs::remove_file(dir.join(name));
    }
    let mut folders = vec![dir.join("refs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(path);
            } else if path.extension() == Some(OsStr::new("lock")) {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// Removes what was begun and not ended.
pub(super) fn remove_all(folder: &Path, prefix: &str) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(prefix) {
            let path = entry.path();
            let _ = if path.is_dir() {
                std::fs::remove_dir_all(path)
            } else {
                std::fs::remove_file(path)
            };
        }
    }
}
