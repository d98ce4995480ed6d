//! Resolution of the paths that a tool may read and write: inside the worktree, outside `.git`.
//!
//! This keeps a confused model from harm; the wall against a hostile one is the container, which
//! has nothing but the worktree to offer.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use super::ToolError;

/// The worktree's root, with symlinks resolved.
#[derive(Clone, Debug)]
pub struct WorktreeRoot {
    root: PathBuf,
}

/// A path inside the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocatedPath {
    /// Absolute, without symlinks in it.
    pub full: PathBuf,
    /// Relative to the root; `.` for the root itself.
    pub shown: String,
}

impl WorktreeRoot {
    /// The worktree at `root`, which must exist.
    pub fn open(root: &Path) -> Result<Self, ToolError> {
        let root = root
            .canonicalize()
            .map_err(|e| ToolError::Failed(format!("the worktree is not there: {e}")))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path that the model named, which need not exist. Symlinks are followed, and what they lead
    /// to must be inside as well.
    pub fn locate(&self, path: &str) -> Result<LocatedPath, ToolError> {
        let refuse = |why: &str| Err(ToolError::refused(format!("`{path}` {why}")));
        if path.is_empty() || path.contains('\0') {
            return refuse("is not a path");
        }
        let asked = Path::new(path);
        let relative = if asked.is_absolute() {
            match asked.strip_prefix(&self.root) {
                Ok(relative) => relative,
                Err(_) => {
                    return refuse("is outside the worktree: use a path relative to its root");
                }
            }
        } else {
            asked
        };
        if relative.components().any(|c| is_git(c.as_os_str())) {
            return refuse("is inside .git: use the Git tools");
        }
        let joined = self.root.join(relative);
        let Some(full) = resolve_links(&joined) else {
            return refuse(
                "can't be resolved: a symlink leads nowhere, or `..` follows a missing folder",
            );
        };
        let Ok(inside) = full.strip_prefix(&self.root) else {
            return refuse("leads outside the worktree");
        };
        if inside.components().any(|c| is_git(c.as_os_str())) {
            return refuse("leads into .git: use the Git tools");
        }
        let shown = match inside.to_string_lossy() {
            shown if shown.is_empty() => ".".to_owned(),
            shown => shown.into_owned(),
        };
        Ok(LocatedPath { full, shown })
    }
}

fn is_git(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(".git")
}

/// The path without symlinks: its deepest existing part resolved by the system, the rest plain.
fn resolve_links(path: &Path) -> Option<PathBuf> {
    let mut missing: Vec<&OsStr> = Vec::new();
    let mut existing = path;
    // `symlink_metadata`: a dangling symlink exists, and then fails to resolve.
    while existing.symlink_metadata().is_err() {
        match existing.components().next_back()? {
            Component::Normal(name) => missing.push(name),
            Component::CurDir => {}
            _ => return None,
        }
        existing = existing.parent()?;
    }
    let mut full = existing.canonicalize().ok()?;
    full.extend(missing.into_iter().rev());
    Some(full)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn tree() -> (tempfile::TempDir, WorktreeRoot) {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("tree");
        fs::create_dir_all(root.join("src/deep")).unwrap();
        fs::create_dir_all(root.join(".git/hooks")).unwrap();
        fs::write(root.join("src/a.rs"), "a").unwrap();
        fs::write(dir.path().join("secret"), "s").unwrap();
        let tree = WorktreeRoot::open(&root).unwrap();
        (dir, tree)
    }

    #[test]
    fn paths_inside_are_found_existing_or_not() {
        let (_dir, tree) = tree();
        symlink("deep", tree.root().join("src/link")).unwrap();
        for (path, shown) in [
            ("src/a.rs", "src/a.rs"),
            ("./src/../src/a.rs", "src/a.rs"),
            ("new/folder/b.rs", "new/folder/b.rs"),
            ("src/link/c.rs", "src/deep/c.rs"),
            (".gitignore", ".gitignore"),
            (".", "."),
        ] {
            assert_eq!(tree.locate(path).unwrap().shown, shown, "{path}");
        }
        let absolute = tree.root().join("src/a.rs");
        assert_eq!(tree.locate(absolute.to_str().unwrap()).unwrap().shown, "src/a.rs");
    }

    #[test]
    fn every_way_out_is_refused() {
        let (dir, tree) = tree();
        let link = |target: &Path, name: &str| symlink(target, tree.root().join(name)).unwrap();
        link(dir.path(), "out");
        link(Path::new("/etc/passwd"), "passwd");
        link(Path::new("../secret"), "relative");
        link(Path::new(".git"), "git");
        link(Path::new("/nowhere/at/all"), "dangling");
        link(Path::new("src/not-yet/../../../secret"), "tricky");
        link(Path::new("loop"), "loop");
        for path in [
            "",
            "a\0b",
            "..",
            "../secret",
            "src/../../secret",
            "src/deep/../../../secret",
            "/etc/passwd",
            "/",
            "out",
            "out/secret",
            "out/new",
            "passwd",
            "relative",
            "git",
            "git/config",
            ".git",
            ".git/config",
            ".GIT/config",
            ".GiT",
            "src/.git/x",
            "src/../.git/hooks/x",
            "dangling",
            "dangling/x",
            "tricky",
            "loop",
            "missing/../../secret",
            "missing/../a.rs",
        ] {
            let refused = tree.locate(path);
            assert!(matches!(refused, Err(ToolError::Refused(_))), "{path}: {refused:?}");
        }
    }
}
