//! Checks out more of the repository into a sparse checkout, as `git sparse-checkout add` does.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::build::CheckoutBuilder;
use git2::{IndexEntry, Repository};

use super::index::{SKIP, open_index};
use super::moving::encode_files;
use super::sparse::SparseCheckout;
use super::stat::FileStat;
use crate::toolbox::ToolError;

/// Brings the files that are left out and belong in the worktree by these patterns, as the index has them. What lies in
/// the place of one stays, and so does what was deleted. `aside` is a folder on the same volume, which is made and removed.
pub(crate) fn check_out_more(
    repo: &Repository,
    patterns: &str,
    aside: &Path,
) -> Result<(), ToolError> {
    let sparse = SparseCheckout::of(patterns);
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let index = open_index(repo)?;
    let left_out = index.iter().filter(|entry| entry.flags_extended & SKIP != 0);
    let wanted = left_out.filter(|entry| sparse.holds(&entry.path));
    let wanted = wanted.map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)));
    let wanted: Vec<PathBuf> = wanted.filter(|path| !is_blocked(&root, path)).collect();
    let missing = wanted.iter().map(PathBuf::as_path);
    let missing: Vec<&Path> =
        missing.filter(|path| root.join(path).symlink_metadata().is_err()).collect();
    if !missing.is_empty() {
        let written = write_aside(repo, &missing, aside);
        let moved = written.and_then(|()| move_in(aside, &root, &missing));
        // What is left there is swept away later.
        let _ = fs::remove_dir_all(aside);
        moved?;
    }
    let mut index = repo.index()?;
    for path in &wanted {
        let Some(mut entry) = index.get_path(path, 0) else { continue };
        entry.flags_extended &= !SKIP;
        index.add(&entry)?;
    }
    for path in &missing {
        let meta = root.join(path).symlink_metadata().ok();
        let stat = meta.as_ref().and_then(FileStat::of);
        let Some((known, stat)) = index.get_path(path, 0).zip(stat) else { continue };
        let mode = known.mode;
        index.add(&IndexEntry { mode, ..stat.entry(known.path, known.id) })?;
    }
    index.write()?;
    encode_files(repo, Some(&missing))
}

/// Writes files beside the worktree. One that was cut off by a kill or a full disk would lie in the worktree as a change.
fn write_aside(repo: &Repository, files: &[&Path], aside: &Path) -> Result<(), ToolError> {
    fs::create_dir(aside).map_err(|error| write_error(&error))?;
    let mut checkout = CheckoutBuilder::new();
    checkout.force().disable_pathspec_match(true).update_index(false).target_dir(aside);
    for path in files {
        checkout.path(path.as_os_str().as_bytes());
    }
    Ok(repo.checkout_index(None, Some(&mut checkout))?)
}

fn move_in(aside: &Path, root: &Path, files: &[&Path]) -> Result<(), ToolError> {
    let move_one = |path: &Path| {
        let to = root.join(path);
        fs::create_dir_all(to.parent().unwrap_or(root))?;
        fs::rename(aside.join(path), to)
    };
    files.iter().try_for_each(|path| move_one(path)).map_err(|error| write_error(&error))
}

fn write_error(error: &io::Error) -> ToolError {
    ToolError::Failed(format!("the volume can't be written: {error}"))
}

/// Returns true if a file or a link lies where a folder above a path is to be.
fn is_blocked(root: &Path, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| root.join(above).symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
}
