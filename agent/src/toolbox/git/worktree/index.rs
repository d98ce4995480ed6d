//! Git's index, which commands write: one that libgit2 can't read is made again from the last commit.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use git2::{ErrorClass, Index, IndexEntry, Oid, Repository};

use super::settings::read_settings;
use super::sparse::SparseCheckout;
use crate::toolbox::ToolError;

/// `git update-index --assume-unchanged`, in an entry's flags.
pub(crate) const ASSUMED: u16 = 1 << 15;
/// `git update-index --skip-worktree`, and files outside of a sparse checkout, in its extended flags.
pub(crate) const SKIP: u16 = 1 << 14;
/// `git add --intent-to-add`, in its extended flags.
pub(crate) const INTENT: u16 = 1 << 13;
/// Bits of an entry's flags with the conflict stage (side of the merge).
pub(crate) const STAGE: u16 = 0x3000;
/// Old indexes that are kept.
const MAX_KEPT: u32 = 100;

/// Notices of repaired indexes that the role has not read yet, by the folders of their repositories.
static UNTOLD: Mutex<BTreeMap<PathBuf, String>> = Mutex::new(BTreeMap::new());

/// The index as it lies on disk, or made again. Nothing in it is the only copy of a file; what was staged otherwise than it
/// is in the worktree stays in the old index, which is kept.
pub(crate) fn open_index(repo: &Repository) -> Result<Index, ToolError> {
    let (index, made) = read_or_rebuild(repo)?;
    if let Some(made) = made {
        leave_mended_note(repo, &made);
    }
    Ok(index)
}

/// Keeps a notice for the next answer to the role.
pub(crate) fn leave_mended_note(repo: &Repository, note: &str) {
    let mut untold = UNTOLD.lock().unwrap_or_else(PoisonError::into_inner);
    let known = untold.entry(repo.path().to_owned()).or_default();
    if !known.is_empty() {
        known.push(' ');
    }
    known.push_str(note);
}

/// The sentences for the role on what had to be mended since the last ones: whoever takes them has to say them.
pub(crate) fn take_mended_note(repo: &Repository) -> Option<String> {
    UNTOLD.lock().unwrap_or_else(PoisonError::into_inner).remove(repo.path())
}

/// The same for the log: they are still to be told.
pub(crate) fn show_mended_note(repo: &Repository) -> Option<String> {
    UNTOLD.lock().unwrap_or_else(PoisonError::into_inner).get(repo.path()).cloned()
}

fn read_or_rebuild(repo: &Repository) -> Result<(Index, Option<String>), ToolError> {
    let path = repo.path().join("index");
    let why = match read_index(repo) {
        Ok(index) if path.exists() || repo.head().is_err() => return Ok((index, None)),
        Ok(_) => "it was missing".to_owned(),
        Err(error) if error.class() == ErrorClass::Index => error.message().to_owned(),
        Err(error) => return Err(error.into()),
    };
    let kept = keep_old(&path)?;
    let mut index = repo.index()?;
    index.read_tree(&repo.head()?.peel_to_tree()?)?;
    skip_sparse(repo, &mut index)?;
    index.write()?;
    let kept = kept.map_or(String::new(), |name| {
        format!(" The old one is `.git/{name}`: what was staged there alone is not staged now.")
    });
    let note = format!(
        "Git's index could not be read ({why}) and was made again from the last commit.{kept}"
    );
    tracing::warn!(why, "git_index_rebuilt");
    Ok((index, Some(note)))
}

fn read_index(repo: &Repository) -> Result<Index, git2::Error> {
    let mut index = repo.index()?;
    index.read(true)?;
    Ok(index)
}

/// Moves an index aside; the name that it has now.
fn keep_old(path: &Path) -> Result<Option<String>, ToolError> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let names = (1..=MAX_KEPT).map(|number| format!("index.unreadable-{number}"));
    let mut free = names.filter(|name| path.with_file_name(name).symlink_metadata().is_err());
    let name = free.next().unwrap_or_else(|| "index.unreadable".to_owned());
    std::fs::rename(path, path.with_file_name(&name))
        .map_err(|e| ToolError::Failed(format!("the unreadable index can't be moved: {e}")))?;
    Ok(Some(name))
}

/// Marks what a sparse checkout leaves out and is not there, as Git would have.
pub(crate) fn skip_sparse(repo: &Repository, index: &mut Index) -> Result<(), ToolError> {
    let sparse = SparseCheckout::read(repo.path(), read_settings(repo.path(), None).sparse);
    if !sparse.is_on() {
        return Ok(());
    }
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let outside: Vec<IndexEntry> = index
        .iter()
        .filter(|entry| !sparse.holds(&entry.path))
        .filter(|entry| root.join(OsStr::from_bytes(&entry.path)).symlink_metadata().is_err())
        .collect();
    for mut entry in outside {
        entry.flags_extended |= SKIP;
        index.add(&entry)?;
    }
    Ok(())
}

/// The tree that a commit of the index has: what was only meant to be added is not in it.
pub(crate) fn intents_left_out(repo: &Repository, index: &mut Index) -> Result<Oid, git2::Error> {
    let intents: Vec<Vec<u8>> = index
        .iter()
        .filter(|entry| entry.flags_extended & INTENT != 0)
        .map(|entry| entry.path)
        .collect();
    if intents.is_empty() {
        return index.write_tree_to(repo);
    }
    let mut without = Index::new()?;
    for entry in index.iter().filter(|entry| entry.flags_extended & INTENT == 0) {
        without.add(&entry)?;
    }
    without.write_tree_to(repo)
}

/// The files that two sides have changed.
pub(crate) fn conflicting_files(index: &Index) -> Result<Vec<String>, git2::Error> {
    if !index.has_conflicts() {
        return Ok(Vec::new());
    }
    let paths = index.conflicts()?.filter_map(|conflict| {
        let conflict = conflict.ok()?;
        let entry = conflict.our.or(conflict.their).or(conflict.ancestor)?;
        Some(String::from_utf8_lossy(&entry.path).into_owned())
    });
    let mut paths: Vec<String> = paths.collect();
    paths.dedup();
    Ok(paths)
}
