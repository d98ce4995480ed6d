//! GitShow: one commit, or a file as it was in it.

use std::fmt::Write as _;
use std::path::Path;

use super::history::{MAX_COMPARED, commit_changes, find_commit, format_date, text_of};
use super::{GitSite, short_id};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use codebutler_guides::text::{clip_text, head_and_tail, plain_text};

/// Characters of what is shown.
const MAX_SHOWN: usize = 40_000;
const MAX_MESSAGE: usize = 4_000;

/// A commit's message and change, or a file of it.
pub fn show_commit(
    place: &GitSite,
    tree: &WorktreeRoot,
    args: &args::GitShow,
) -> Result<String, ToolError> {
    let repo = place.open()?;
    // Commit and path can be one argument, as in `git show`.
    let (name, path) = match (args.commit.split_once(':'), &args.path) {
        (Some((name, path)), None) if !name.is_empty() => (name, Some((path, true))),
        (_, path) => {
            (args.commit.as_str(), path.as_deref().map(|path| (path, args.file == Some(true))))
        }
    };
    let commit = find_commit(place, &repo, name)?;
    let path = match path {
        Some((path, whole)) => Some((tree.locate(path)?.shown, whole)),
        None => None,
    };
    let path = path.filter(|(path, _)| path != ".");
    if let Some((path, true)) = &path {
        let missing =
            || ToolError::refused(format!("`{path}` is no file in {}", short_id(commit.id())));
        let entry = commit.tree()?.get_path(Path::new(path)).map_err(|_| missing())?;
        let object = entry.to_object(&repo)?;
        let blob = object.as_blob().ok_or_else(missing)?;
        if blob.is_binary() || i64::try_from(blob.size()).unwrap_or(i64::MAX) > MAX_COMPARED {
            return Err(ToolError::refused(format!("`{path}` is binary or too large to show")));
        }
        let text = plain_text(&String::from_utf8_lossy(blob.content()));
        let head = format!("`{path}` as it was in {}\n", short_id(commit.id()));
        return Ok(head + &head_and_tail(&text, MAX_SHOWN));
    }
    let diff = commit_changes(&repo, &commit, path.as_ref().map(|(path, _)| path.as_str()))?;
    let author = commit.author();
    let text = |bytes: &[u8], most| clip_text(&plain_text(&String::from_utf8_lossy(bytes)), most);
    let mut out = format!(
        "commit {}\n{} {} <{}>\n",
        commit.id(),
        format_date(commit.time().seconds()),
        text(author.name_bytes(), 100),
        text(author.email_bytes(), 100)
    );
    if commit.parent_count() > 1 {
        let parents: Vec<_> = commit.parent_ids().map(short_id).collect();
        let _ = writeln!(out, "a merge of {}; shown against the first", parents.join(" and "));
    }
    for line in text(commit.message_bytes(), MAX_MESSAGE).lines() {
        let _ = writeln!(out, "    {line}");
    }
    let missing = commit.parent_ids().next().filter(|parent| repo.find_commit(*parent).is_err());
    if missing.is_some() || (repo.is_shallow() && commit.parent_count() == 0) {
        out.push_str("(its parent is on the remote only: every file looks new)\n");
    }
    let stats = diff.stats()?;
    let (files, plus, minus) = (stats.files_changed(), stats.insertions(), stats.deletions());
    let _ = writeln!(out, "{files} file(s) changed, +{plus} −{minus}\n");
    Ok(out + &head_and_tail(&text_of(&diff)?, MAX_SHOWN))
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::prepare_worktree;
    use super::*;

    #[test]
    fn a_commit_its_change_and_its_files_are_shown() {
        let f = GitFixture::new();
        f.commit_elsewhere("a.txt", "one\n");
        f.commit_elsewhere("a.txt", "two\n");
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let show = |commit: &str, path: Option<&str>, file| {
            let args = args::GitShow { commit: commit.into(), path: path.map(Into::into), file };
            show_commit(&f.place, &tree, &args).unwrap_or_else(|e| format!("refused: {e}"))
        };
        let head = show("HEAD", None, None);
        for part in
            ["    Elsewhere\n", "-one", "+two", "1 file(s) changed, +1 −1", "<someone@example.org>"]
        {
            assert!(head.contains(part), "{part}: {head}");
        }
        assert_eq!(show("HEAD~1:a.txt", None, None).lines().last(), Some("one"));
        assert_eq!(show("HEAD~1", Some("a.txt"), Some(true)).lines().last(), Some("one"));
        assert!(show("main", None, None).contains("First"), "a branch of the remote");
        assert!(show("HEAD", Some("README"), None).contains("0 file(s) changed"));
        for (commit, path) in [
            ("nope", None),
            (":/First", None),
            ("HEAD", Some("../x")),
            ("HEAD", Some(".git/config")),
        ] {
            assert!(show(commit, path, Some(true)).starts_with("refused: "), "{commit}");
        }
        assert!(show("HEAD:nowhere", None, None).contains("is no file in"));
    }
}
