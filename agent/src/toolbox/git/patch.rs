//! The change that a commit makes, whatever it stands on: how two of them are told apart, and whether a tree has it.

use std::path::Path;

use git2::{
    Delta, Diff, DiffDelta, DiffFormat, DiffOptions, Oid, Patch, Repository, Tree as GitTree,
};
use sha2::{Digest as _, Sha256};

/// Larger changes are not looked for in files, in bytes.
const MAX_SEARCHED: usize = 4 * 1024 * 1024;

/// A digest of a change: each line byte for byte, and files without lines by their ids. libgit2's own patch id leaves
/// out white space and all that binary files hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct PatchKey([u8; 32]);

/// Digest of a commit's change. None for a merge, and for a commit that can't be read.
pub(super) fn patch_key(repo: &Repository, id: Oid) -> Option<PatchKey> {
    let diff = diff_of(repo, id, 3)?;
    let mut digest = Sha256::new();
    let printed = diff.print(DiffFormat::Patch, |delta, _, line| {
        match line.origin() {
            'F' => digest_file(&mut digest, &delta),
            // The position in the file is no part of the change.
            'H' => digest.update(b"@"),
            'B' => {
                digest.update(delta.old_file().id());
                digest.update(delta.new_file().id());
            }
            origin => {
                digest.update([u8::try_from(origin).unwrap_or_default()]);
                digest.update(line.content());
            }
        }
        true
    });
    printed.ok()?;
    Some(PatchKey(digest.finalize().into()))
}

fn digest_file(digest: &mut Sha256, delta: &DiffDelta<'_>) {
    for file in [delta.old_file(), delta.new_file()] {
        digest.update(b"\0");
        digest.update(file.path_bytes().unwrap_or_default());
        digest.update(b"\0");
        digest.update(u32::from(file.mode()).to_be_bytes());
    }
}

/// The changes of a commit that has one parent, or none.
fn diff_of(repo: &Repository, id: Oid, context: u32) -> Option<Diff<'_>> {
    let commit = repo.find_commit(id).ok()?;
    let before = match commit.parent_count() {
        0 => None,
        1 => Some(commit.parent(0).ok()?.tree().ok()?),
        _ => return None,
    };
    let mut options = DiffOptions::new();
    options.context_lines(context);
    repo.diff_tree_to_tree(before.as_ref(), Some(&commit.tree().ok()?), Some(&mut options)).ok()
}

/// True if a tree has all that a commit did: what each of its hunks led to, files without lines as they were then,
/// and nothing of what it removed.
pub(super) fn is_contained(repo: &Repository, id: Oid, tree: &GitTree<'_>) -> bool {
    let Some(diff) = diff_of(repo, id, 1) else { return false };
    let deltas = diff.deltas().len();
    deltas > 0 && (0..deltas).all(|at| has_delta(repo, &diff, at, tree).unwrap_or(false))
}

fn has_delta(repo: &Repository, diff: &Diff<'_>, at: usize, tree: &GitTree<'_>) -> Option<bool> {
    let delta = diff.get_delta(at)?;
    let entry_of = |path: Option<&Path>| path.and_then(|path| tree.get_path(path).ok());
    if delta.status() == Delta::Deleted {
        return Some(entry_of(delta.old_file().path()).is_none());
    }
    let Some(entry) = entry_of(delta.new_file().path()) else { return Some(false) };
    if entry.id() == delta.new_file().id() {
        return Some(
            u32::try_from(entry.filemode()).ok() == Some(u32::from(delta.new_file().mode())),
        );
    }
    // A file without lines has no patch.
    let Some(patch) = Patch::from_diff(diff, at).ok()? else { return Some(false) };
    let blob = repo.find_blob(entry.id()).ok()?;
    if patch.size(true, true, false) > MAX_SEARCHED || patch.num_hunks() == 0 {
        return Some(false);
    }
    for hunk in 0..patch.num_hunks() {
        let mut after = Vec::new();
        for line in 0..patch.num_lines_in_hunk(hunk).ok()? {
            let line = patch.line_in_hunk(hunk, line).ok()?;
            if matches!(line.origin(), ' ' | '+') {
                after.extend_from_slice(line.content());
            }
        }
        if after.is_empty() || !holds_lines(blob.content(), &after) {
            return Some(false);
        }
    }
    Some(true)
}

/// Whole lines, one after the other.
fn holds_lines(text: &[u8], lines: &[u8]) -> bool {
    let split = |bytes: &'_ [u8]| -> Vec<Vec<u8>> {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
    };
    let (text, lines) = (split(text), split(lines));
    text.windows(lines.len()).any(|part| part == lines)
}
