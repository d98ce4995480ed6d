//! Sparse checkouts: which files belong in the worktree.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use git2::Repository;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::settings::read_settings;

/// The patterns of a sparse checkout; none where the whole tree is checked out. `work` is the folder beside the worktree.
pub(crate) fn sparse_patterns(repo: &Repository, work: &Path) -> Option<String> {
    read_settings(repo.path(), Some(work)).sparse.then(|| read_patterns(repo.path())).flatten()
}

fn read_patterns(git: &Path) -> Option<String> {
    std::fs::read_to_string(git.join("info/sparse-checkout")).ok()
}

/// The patterns of `.git/info/sparse-checkout`; the whole tree belongs there without them.
pub(super) struct SparseCheckout(Option<Gitignore>);

impl SparseCheckout {
    /// Reads the patterns, if `core.sparseCheckout` is on.
    pub(super) fn read(git: &Path, is_on: bool) -> Self {
        let text = is_on.then(|| read_patterns(git));
        text.flatten().map_or(Self(None), |text| Self::of(&text))
    }

    /// The checkout of these patterns.
    pub(super) fn of(text: &str) -> Self {
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            // A line that is no pattern matches nothing in Git either.
            let _ = builder.add_line(None, &escape_braces(line));
        }
        Self(builder.build().ok())
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns true if a file belongs in the worktree. The patterns are those of an ignore file, with the opposite
    /// meaning; a path without a match has its folder's.
    pub(super) fn holds(&self, path: &[u8]) -> bool {
        self.matches(path, false)
    }

    /// Returns true if a new folder belongs in the worktree.
    pub(super) fn holds_folder(&self, path: &[u8]) -> bool {
        self.matches(path, true)
    }

    fn matches(&self, path: &[u8], is_folder: bool) -> bool {
        let Some(patterns) = &self.0 else { return true };
        let path = Path::new(OsStr::from_bytes(path));
        patterns.matched_path_or_any_parents(path, is_folder).is_ignore()
    }
}

/// A pattern in which braces stand for themselves, as they do in Git.
fn escape_braces(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    let mut is_escaped = false;
    for c in line.chars() {
        if matches!(c, '{' | '}') && !is_escaped {
            escaped.push('\\');
        }
        is_escaped = c == '\\' && !is_escaped;
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkout(patterns: &str) -> SparseCheckout {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("info")).unwrap();
        std::fs::write(dir.path().join("info/sparse-checkout"), patterns).unwrap();
        SparseCheckout::read(dir.path(), true)
    }

    #[test]
    fn cones_and_patterns_say_what_belongs_in_the_worktree() {
        let cone = checkout("/*\n!/*/\n/src/\n/a/\n!/a/*/\n/a/b/\n");
        for (path, held) in [
            ("README", true),
            ("src/x", true),
            ("src/deep/y", true),
            ("docs/x", false),
            ("a/file", true),
            ("a/b/file", true),
            ("a/c/file", false),
        ] {
            assert_eq!(cone.holds(path.as_bytes()), held, "{path}");
        }
        let template = checkout("/*\n!/*/\n/{{app.name}}/\n/a\\{b\\}/\n");
        assert!(template.holds(b"{{app.name}}/src/x") && template.holds(b"a{b}/x"));
        assert!(!template.holds(b"app.name/x") && !template.holds(b"ab/x"));
        let free = checkout("*.md\n!docs/\n");
        assert!(free.holds(b"a/b.md") && !free.holds(b"a/b.rs"));
        assert!(checkout("src\n").holds(b"src/x") && !checkout("src\n").holds(b"lib/x"));
        assert!(SparseCheckout::read(Path::new("/nowhere"), true).holds(b"any"));
    }
}
