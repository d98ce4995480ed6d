//! Folders that tools make and fill, where no ignore file names them: known by what is in them, never by their name
//! alone.

use std::fs::{self, DirEntry};
use std::path::Path;

use super::super::control::read_plain;

/// Beginning of a file that marks a cache folder (bford.info/cachedir).
const CACHE_SIGNATURE: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55";
const MAX_TAG: u64 = 64 * 1024;
/// Entries of one folder that are looked at.
const MAX_ENTRIES: usize = 10_000;
/// Files that package managers leave beside the packages.
const PACKAGE_MARKS: [&str; 4] =
    [".package-lock.json", ".modules.yaml", ".yarn-integrity", ".yarn-state.yml"];
/// Folders of Maven in a `target` beside `pom.xml`.
const MAVEN_PARTS: [&str; 4] = ["classes", "test-classes", "maven-status", "maven-archiver"];

/// True if a tool made the folder, by its name and by what is in it.
pub(super) fn is_made(folder: &Path) -> bool {
    match folder.file_name().and_then(|name| name.to_str()) {
        Some("node_modules") => holds_packages(folder),
        Some("target") => {
            is_cache(folder) || is_file(folder, ".rustc_info.json") || is_of_maven(folder)
        }
        Some("__pycache__") => holds_bytecode(folder),
        Some(".venv") => is_file(folder, "pyvenv.cfg"),
        Some(".pytest_cache") => is_cache(folder),
        _ => false,
    }
}

fn is_file(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok_and(|meta| meta.is_file())
}

fn is_folder(folder: &Path, name: &str) -> bool {
    folder.join(name).symlink_metadata().is_ok_and(|meta| meta.is_dir())
}

fn is_cache(folder: &Path) -> bool {
    let tag = read_plain(&folder.join("CACHEDIR.TAG"), MAX_TAG);
    tag.is_some_and(|tag| tag.starts_with(CACHE_SIGNATURE))
}

fn is_of_maven(folder: &Path) -> bool {
    let beside = folder.parent().is_some_and(|above| is_file(above, "pom.xml"));
    beside && MAVEN_PARTS.iter().any(|part| is_folder(folder, part))
}

/// Entries of a folder; none if there are too many to be looked at, or no entry at all.
fn entries(folder: &Path) -> Option<Vec<DirEntry>> {
    let found: Vec<DirEntry> = fs::read_dir(folder).ok()?.flatten().take(MAX_ENTRIES + 1).collect();
    (1..=MAX_ENTRIES).contains(&found.len()).then_some(found)
}

/// Packages, and nothing else that somebody could have written.
fn holds_packages(folder: &Path) -> bool {
    if PACKAGE_MARKS.iter().any(|mark| is_file(folder, mark)) {
        return true;
    }
    let beside = folder.parent().is_some_and(|above| is_file(above, "package.json"));
    beside && entries(folder).is_some_and(|found| found.iter().all(is_package))
}

fn is_package(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let Ok(kind) = entry.file_type() else { return false };
    // A link to a package of a workspace, or a folder that tools keep for themselves.
    if kind.is_symlink() || (kind.is_dir() && name.as_encoded_bytes().starts_with(b".")) {
        return true;
    }
    let is_scope = name.as_encoded_bytes().starts_with(b"@");
    let holds = |path: &Path| is_file(path, "package.json");
    if !is_scope {
        return kind.is_dir() && holds(&entry.path());
    }
    let is_link = |one: &DirEntry| one.file_type().is_ok_and(|kind| kind.is_symlink());
    entries(&entry.path())
        .is_some_and(|found| found.iter().all(|one| is_link(one) || holds(&one.path())))
}

fn holds_bytecode(folder: &Path) -> bool {
    entries(folder).is_some_and(|found| {
        found.iter().all(|entry| {
            let path = entry.path();
            let ending = path.extension().and_then(|ending| ending.to_str());
            let is_code = ending.is_some_and(|ending| ["pyc", "pyo"].contains(&ending));
            is_code && entry.file_type().is_ok_and(|kind| kind.is_file())
        })
    })
}
