//! Tracked files that a sparse checkout leaves out of the worktree. Tools say that they are there, and how they are reached:
//! a file that is not found would be taken for one that the repository does not have.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::{Index, IndexEntryExtendedFlag};

use super::ToolError;
use super::git::control;
use super::paths::{LocatedPath, WorktreeRoot};

/// Ways to files that are left out.
const WAYS: &str = "if you have GitShow, `commit` HEAD, `path` and `file` show one; if you have Bash, `git grep PATTERN HEAD \
                    -- FOLDER` searches them and `git sparse-checkout add FOLDER` brings a folder";

/// Finds the tracked files at or below a path that a sparse checkout leaves out.
pub(super) fn list_outside(tree: &WorktreeRoot, at: &Path) -> Vec<PathBuf> {
    let git = tree.root().join(".git");
    let index = git.join("index");
    // Most worktrees have no such patterns, and their index need not be read.
    if !git.join("info/sparse-checkout").is_file()
        || !control::is_plain(&index, control::MAX_INDEX, false)
    {
        return Vec::new();
    }
    let Ok(index) = Index::open(&index) else { return Vec::new() };
    let inside = at.strip_prefix(tree.root()).unwrap_or(Path::new(""));
    let skips = IndexEntryExtendedFlag::SKIP_WORKTREE.bits();
    let mut gone: Option<PathBuf> = None;
    index
        .iter()
        .filter(|entry| entry.flags_extended & skips != 0)
        .map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)))
        .filter(|path| path.starts_with(inside))
        .filter(|path| {
            // Of a folder that is not there no file is looked for.
            if gone.as_ref().is_none_or(|gone| !path.starts_with(gone)) {
                gone = find_gone(tree.root(), path);
            }
            gone.is_some()
        })
        .collect()
}

/// The first part of a path that is not there, with those above it.
fn find_gone(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut at = PathBuf::new();
    path.components().find_map(|part| {
        at.push(part);
        root.join(&at).symlink_metadata().is_err().then(|| at.clone())
    })
}

/// Note for a search or a list, on files that it would have gone through.
pub(super) fn outside_note(outside: &[PathBuf]) -> Option<String> {
    let first = outside.first()?.display();
    let files = count_files(outside);
    Some(format!(
        "(outside of this sparse checkout, and not looked at: {files} such as `{first}`; {WAYS})"
    ))
}

/// Note for a search by names, on files whose names match.
pub(super) fn outside_match_note(matches: &[PathBuf]) -> Option<String> {
    let first = matches.first()?.display();
    let files = count_files(matches);
    Some(format!(
        "(outside of this sparse checkout: {files} that match, such as `{first}`; {WAYS})"
    ))
}

/// Explains a path at which nothing is, if something would be there without the sparse checkout.
pub(super) fn explain_outside(tree: &WorktreeRoot, at: &LocatedPath) -> Option<ToolError> {
    if at.full.symlink_metadata().is_ok() {
        return None;
    }
    let outside = list_outside(tree, &at.full);
    let of_folder = outside.first()? != Path::new(&at.shown);
    let what = if of_folder {
        format!("a folder of the repository with {}", count_files(&outside))
    } else {
        "a file of the repository".to_owned()
    };
    Some(ToolError::refused(format!(
        "`{}` is {what}, and outside of this sparse checkout: {WAYS}",
        at.shown
    )))
}

fn count_files(files: &[PathBuf]) -> String {
    match files.len() {
        1 => "1 tracked file".to_owned(),
        n => format!("{n} tracked files"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::files::{SeenFiles, read_file, write_file};
    use super::super::git::fixture::GitFixture;
    use super::super::git::prepare_worktree;
    use super::super::search::{bench, find_files};
    use super::*;
    use crate::tool_args as args;

    #[test]
    fn what_is_outside_of_a_sparse_checkout_is_named_and_not_taken_for_missing() {
        let mut f = GitFixture::new();
        for path in ["docs/a.md", "docs/x/b.md", "src/a.rs"] {
            f.commit_elsewhere(path, "needle\n");
        }
        f.place.hello.sparse = vec!["src".to_owned()];
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let seen = SeenFiles::default();
        let read = |path: &str| {
            let args = args::ReadArgs { path: path.into(), ..args::ReadArgs::default() };
            read_file(&tree, &seen, &args).map(drop).map_err(|e| e.to_string())
        };
        let glob = |pattern: &str, path: Option<&str>, list: bool| {
            let (pattern, path) = (pattern.into(), path.map(Into::into));
            let list = Some(list);
            let args = args::GlobArgs { pattern, path, list, ..args::GlobArgs::default() };
            find_files(&tree, &args).unwrap_or_else(|e| e.to_string())
        };

        let refused = read("docs/a.md").unwrap_err();
        assert!(
            refused.starts_with("`docs/a.md` is a file of the repository, and out"),
            "{refused}"
        );
        assert!(refused.contains("`git sparse-checkout add FOLDER`"), "{refused}");
        assert!(read("docs/none.md").unwrap_err().contains("does not exist"));

        let found = bench::grep(tree.root(), "needle").unwrap();
        assert!(found.starts_with("src/a.rs:1:needle\n(outside of this sparse"), "{found}");
        assert!(found.contains("2 tracked files such as `docs/a.md`"), "{found}");
        let found = glob("*.md", None, false);
        assert!(found.starts_with("no file matches\n(outside of this sparse"), "{found}");
        assert!(found.contains("2 tracked files that match, such as `docs/a.md`"), "{found}");
        assert_eq!(glob("*.rs", None, false), "src/a.rs");
        let found = glob("*", Some("docs"), false);
        assert!(
            found.starts_with("`docs` is a folder of the repository with 2 tracked"),
            "{found}"
        );
        let found = glob("*", None, true);
        assert!(found.starts_with(".gitignore\nREADME\nsrc/\n(outside of this sparse"), "{found}");

        let write = |path: &str| {
            let args = args::WriteArgs { path: path.into(), content: "new\n".into() };
            write_file(&tree, &seen, f.dir.path(), &args).map_err(|e| e.to_string())
        };
        let refused = write("docs/a.md").unwrap_err();
        assert!(refused.contains("outside of this sparse checkout"), "{refused}");
        assert!(!f.place.tree().join("docs").exists());
        write("docs/new.md").unwrap();

        f.git(&f.place.tree(), &["sparse-checkout", "add", "docs"]);
        read("docs/a.md").unwrap();
        assert_eq!(fs::read_to_string(tree.root().join("docs/new.md")).unwrap(), "new\n");
        assert_eq!(list_outside(&tree, tree.root()), [""; 0].map(PathBuf::from));
    }
}
