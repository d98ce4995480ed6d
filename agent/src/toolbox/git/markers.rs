//! Files that a merge has left to be settled: those that hold both sides still are not committed.

use std::path::Path;

use git2::{Index, Oid, Repository};

use super::worktree::{WorktreeScanner, conflicting_files, name_left};
use crate::toolbox::ToolError;

/// Beginnings of the conflict markers that a merge left to be settled. The middle one is there where Git is told to show
/// the common ancestor, too (`merge.conflictStyle`).
const MARKERS: [&[u8]; 3] = [b"<<<<<<< ", b"||||||| ", b">>>>>>> "];

/// The first line of a file that shows that it holds both sides of a merge. What a link leads to is not looked at.
pub(super) fn find_marker(path: &Path) -> Option<usize> {
    let meta = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
    marked_line(&meta.and_then(|_| std::fs::read(path).ok())?)
}

/// Refuses to commit a file of a merge that still holds both sides, staged or not: it has a marker that neither
/// side has in that file.
///
/// # Errors
/// `Refused`, with the file and the line.
pub(super) fn refuse_markers(
    repo: &Repository,
    index: &Index,
    parents: &[Oid],
) -> Result<(), ToolError> {
    let trees: Result<Vec<_>, _> =
        parents.iter().map(|id| repo.find_commit(*id).and_then(|commit| commit.tree())).collect();
    let trees = trees?;
    for entry in index.iter() {
        let path = String::from_utf8_lossy(&entry.path).into_owned();
        let before = trees.iter().filter_map(|tree| tree.get_path(Path::new(&path)).ok());
        let before: Vec<Oid> = before.map(|known| known.id()).collect();
        if before.contains(&entry.id) {
            continue;
        }
        let Ok(blob) = repo.find_blob(entry.id) else { continue };
        let is_theirs = || {
            let mut known = before.iter().filter_map(|id| repo.find_blob(*id).ok());
            known.any(|blob| marked_line(blob.content()).is_some())
        };
        if let Some(line) = marked_line(blob.content()).filter(|_| !is_theirs()) {
            return Err(unsettled_error(&path, line));
        }
    }
    Ok(())
}

/// The first line that begins as a merge leaves it.
fn marked_line(text: &[u8]) -> Option<usize> {
    let mut lines = text.split_inclusive(|byte| *byte == b'\n').zip(1..);
    let marked = lines.find(|(line, _)| MARKERS.iter().any(|marker| line.starts_with(marker)));
    marked.map(|(_, line)| line)
}

fn unsettled_error(path: &str, line: usize) -> ToolError {
    ToolError::refused(format!(
        "`{path}` holds both sides of the merge still (line {line}): settle it first"
    ))
}

/// Stages the files that two sides have changed as they are in the worktree.
///
/// # Errors
/// `Refused` as long as one holds both sides.
pub(super) fn stage_settled(
    scanner: &WorktreeScanner<'_>,
    index: &mut Index,
    tree: &Path,
) -> Result<(), ToolError> {
    for path in conflicting_files(index)? {
        let at = tree.join(&path);
        if at.symlink_metadata().is_err() {
            index.remove_path(Path::new(&path))?;
            continue;
        }
        if let Some(line) = find_marker(&at) {
            return Err(unsettled_error(&path, line));
        }
        match scanner.entry_of(path.as_bytes())? {
            Some(Ok(entry)) => {
                index.remove_path(Path::new(&path))?;
                index.add(&entry)?;
            }
            Some(Err(left)) => {
                return Err(ToolError::refused(format!("not committed: {}", name_left(&[left]))));
            }
            None => index.add_path(Path::new(&path))?,
        }
    }
    Ok(())
}
