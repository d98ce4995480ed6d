//! GitBlame: which commit wrote a line last.

use std::fmt::Write as _;
use std::path::Path;

use git2::BlameOptions;

use super::history::{ENDS_HERE, find_commit, format_date};
use super::{GitSite, short_id};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use codebutler_guides::text::{clip_text, plain_text};

/// Lines that one answer has.
const MAX_LINES: usize = 200;
/// Largest file, in bytes and lines: libgit2 compares all of its versions.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_FILE_LINES: usize = 20_000;
const MAX_LINE_CHARS: usize = 200;

/// Lines with the commit that wrote each, as they are committed.
pub fn blame_lines(
    place: &GitSite,
    tree: &WorktreeRoot,
    args: &args::GitBlame,
) -> Result<String, ToolError> {
    let repo = place.open()?;
    let path = tree.locate(&args.path)?.shown;
    let commit = match &args.commit {
        Some(name) => find_commit(place, &repo, name)?,
        None => repo.head()?.peel_to_commit()?,
    };
    let missing = || {
        ToolError::refused(format!(
            "`{path}` is no file that is committed in {}",
            short_id(commit.id())
        ))
    };
    let entry = commit.tree()?.get_path(Path::new(&path)).map_err(|_| missing())?;
    let object = entry.to_object(&repo)?;
    let blob = object.as_blob().ok_or_else(missing)?;
    let text = String::from_utf8_lossy(blob.content());
    let total = text.lines().count();
    if blob.is_binary() || blob.size() > MAX_BYTES || total > MAX_FILE_LINES {
        return Err(ToolError::refused(format!("`{path}` is binary or too large for this")));
    }
    let from = args.from.unwrap_or(1).max(1) as usize;
    if from > total {
        return Err(ToolError::refused(format!("`{path}` has only {total} lines")));
    }
    let to = args.to.map_or(total, |to| to as usize).clamp(from, total).min(from + MAX_LINES - 1);
    let mut options = BlameOptions::new();
    options.newest_commit(commit.id()).min_line(from).max_line(to);
    let blame = repo.blame_file(Path::new(&path), Some(&mut options))?;
    let mut out = String::new();
    for (number, line) in text.lines().enumerate().skip(from - 1).take(to + 1 - from) {
        let number = number + 1;
        let Some(hunk) = blame.get_line(number) else { continue };
        let id = hunk.final_commit_id();
        let (day, author) = repo.find_commit(id).map_or_else(
            |_| ("older".to_owned(), String::new()),
            |commit| {
                let author = commit.author();
                let name = plain_text(&String::from_utf8_lossy(author.name_bytes()));
                (format_date(commit.time().seconds()), clip_text(&name, 20))
            },
        );
        let mark = if hunk.is_boundary() && repo.is_shallow() { "^" } else { "" };
        let line = clip_text(&plain_text(line), MAX_LINE_CHARS);
        let _ = writeln!(out, "{mark}{} {day} {author:<20} {number:>5}\t{line}", short_id(id));
    }
    if from > 1 || to < total {
        let _ = writeln!(out, "(lines {from} to {to} of {total})");
    }
    if repo.is_shallow() {
        let _ = writeln!(out, "{ENDS_HERE}");
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn each_line_has_the_commit_that_wrote_it() {
        let f = GitFixture::new();
        f.commit_elsewhere("a.txt", "one\ntwo\nthree\n");
        f.commit_elsewhere("a.txt", "one\n2\nthree\n");
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let id = |name: &str| f.git(&f.place.tree(), &["rev-parse", name])[..10].to_owned();
        let blame = |path: &str, from, to, commit: Option<&str>| {
            let args =
                args::GitBlame { path: path.into(), from, to, commit: commit.map(Into::into) };
            blame_lines(&f.place, &tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
        };
        let whole = blame("a.txt", None, None, None);
        let ids: Vec<_> = whole.lines().map(|line| line[..10].to_owned()).collect();
        assert_eq!(ids, [id("HEAD~1"), id("HEAD"), id("HEAD~1")], "{whole}");
        let part = blame("a.txt", Some(2), Some(2), None);
        assert!(part.starts_with(&id("HEAD")) && part.ends_with("(lines 2 to 2 of 3)\n"), "{part}");
        assert!(blame("a.txt", Some(2), Some(2), Some("HEAD~1")).contains("two"));
        f.write("new.txt", "x\n");
        for refused in [
            blame("new.txt", None, None, None),
            blame("../x", None, None, None),
            blame("a.txt", Some(9), None, None),
        ] {
            assert!(refused.starts_with("refused: "), "{refused}");
        }
    }
}
