//! Checks out more of the repository into a sparse checkout, as `git sparse-checkout add` does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::Repository;
use git2::build::CheckoutBuilder;

use super::index::{SKIP, open_index};
use super::moving::encode_files;
use super::sparse::SparseCheckout;
use crate::toolbox::ToolError;

/// Brings the files that are left out and belong in the worktree by these patterns, as the index has them. What lies in
/// the place of one stays, and so does what was deleted.
pub(crate) fn check_out_more(repo: &Repository, patterns: &str) -> Result<(), ToolError> {
    let sparse = SparseCheckout::of(patterns);
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let (index, _) = open_index(repo)?;
    let left_out = index.iter().filter(|entry| entry.flags_extended & SKIP != 0);
    let wanted = left_out.filter(|entry| sparse.holds(&entry.path));
    let wanted = wanted.map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)));
    let wanted: Vec<PathBuf> = wanted.filter(|path| !is_blocked(&root, path)).collect();
    let missing = wanted.iter().map(PathBuf::as_path);
    let missing: Vec<&Path> =
        missing.filter(|path| root.join(path).symlink_metadata().is_err()).collect();
    if !missing.is_empty() {
        let mut checkout = CheckoutBuilder::new();
        checkout.force().disable_pathspec_match(true);
        for path in &missing {
            checkout.path(path.as_os_str().as_bytes());
        }
        repo.checkout_index(None, Some(&mut checkout))?;
    }
    let mut index = repo.index()?;
    for path in &wanted {
        let Some(mut entry) = index.get_path(path, 0) else { continue };
        entry.flags_extended &= !SKIP;
        index.add(&entry)?;
    }
    index.write()?;
    encode_files(repo, Some(&missing))
}

/// Returns true if a file or a link lies where a folder above a path is to be.
fn is_blocked(root: &Path, path: &Path) -> bool {
    path.ancestors()
        .skip(1)
        .any(|above| root.join(above).symlink_metadata().is_ok_and(|meta| !meta.is_dir()))
}
