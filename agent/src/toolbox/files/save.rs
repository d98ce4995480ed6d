//! A file of the conversation in the worktree, under the rules of Write.

use std::fs;
use std::path::Path;

use super::super::paths::WorktreeRoot;
use super::super::{ToolError, names, outside};
use super::{io_error, load_file, regular_size, store_file};

/// Puts a file at a path. One that is there is replaced only if that was said.
pub fn save_file(
    tree: &WorktreeRoot,
    scratch: &Path,
    (path, replace): (&str, bool),
    bytes: &[u8],
) -> Result<String, ToolError> {
    let at = tree.locate(path)?;
    let size = bytes.len();
    let existed = regular_size(&at)?;
    if let Some(outside) = outside::explain_outside(tree, &at) {
        return Err(outside);
    }
    if let Some(there) = existed {
        if there == size as u64 && load_file(&at).is_ok_and(|now| now == bytes) {
            return Ok(format!("`{}` has exactly this content already ({size} bytes)", at.shown));
        }
        if !replace {
            return Err(ToolError::refused(format!(
                "`{}` exists, with other content ({there} bytes): choose another path, or pass `replace` to overwrite it",
                at.shown
            )));
        }
    } else if let [alike, ..] = &names::list_alike(tree, &at)[..] {
        return Err(ToolError::refused(format!(
            "`{}` does not exist, and a file whose name looks the same does: \"{}\". Choose a name that differs visibly",
            at.shown,
            names::escape_name(&alike.shown)
        )));
    }
    if let Some(parent) = at.full.parent() {
        fs::create_dir_all(parent).map_err(|e| io_error(&at, "the folder can't be made", &e))?;
    }
    store_file(&at, scratch, bytes, None)?;
    let done = if existed.is_some() { "Replaced" } else { "Saved" };
    Ok(format!("{done} `{}` ({size} bytes)", at.shown))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, WorktreeRoot) {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["tree/.git", "scratch", "outside"] {
            fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let tree = WorktreeRoot::open(&dir.path().join("tree")).unwrap();
        (dir, tree)
    }

    #[test]
    fn nothing_is_replaced_without_a_word() {
        let (dir, tree) = tree();
        let scratch = dir.path().join("scratch");
        let save =
            |path: &str, replace, bytes: &[u8]| save_file(&tree, &scratch, (path, replace), bytes);
        assert_eq!(
            save("assets/new/logo.png", false, b"one").unwrap(),
            "Saved `assets/new/logo.png` (3 bytes)"
        );
        assert!(save("assets/new/logo.png", false, b"one").unwrap().contains("already"));
        let refused = save("assets/new/logo.png", false, b"two!").unwrap_err().to_string();
        assert!(refused.contains("`replace`"), "{refused}");
        assert_eq!(fs::read(tree.root().join("assets/new/logo.png")).unwrap(), b"one");
        assert_eq!(
            save("assets/new/logo.png", true, b"two!").unwrap(),
            "Replaced `assets/new/logo.png` (4 bytes)"
        );
        assert_eq!(fs::read(tree.root().join("assets/new/logo.png")).unwrap(), b"two!");
    }

    #[test]
    fn every_way_out_is_refused() {
        let (dir, tree) = tree();
        let scratch = dir.path().join("scratch");
        symlink(dir.path().join("outside"), tree.root().join("link")).unwrap();
        symlink(dir.path().join("outside/new"), tree.root().join("dangling")).unwrap();
        for path in
            [".git/config", ".GIT/hooks/x", "../outside/x", "/etc/x", "link/x", "dangling", "", "."]
        {
            let refused = save_file(&tree, &scratch, (path, true), b"x");
            assert!(matches!(refused, Err(ToolError::Refused(_))), "{path}: {refused:?}");
        }
        assert_eq!(fs::read_dir(dir.path().join("outside")).unwrap().count(), 0);
    }
}
