//! Files in conflict after a merge, a rebase, a cherry-pick or a stash: those that still hold both sides are not
//! committed.

use std::collections::HashMap;
use std::path::Path;

use git2::{Blob, Delta, DiffDelta, DiffFindOptions, Index, Oid, Repository};

use super::worktree::{WorktreeScanner, conflicting_files, name_left};
use super::{GitSite, tracking_ref};
use crate::toolbox::ToolError;
use crate::toolbox::names::plain_path;

/// Beginnings of the conflict markers that a merge left to be settled. The middle one is there where Git is told to show
/// the common ancestor, too (`merge.conflictStyle`).
const MARKERS: [&[u8]; 3] = [b"<<<<<<< ", b"||||||| ", b">>>>>>> "];
/// Size in bytes up to which a committed file is searched: larger ones are data, and would be in memory as a whole.
const MAX_SEARCHED: usize = 16 << 20;

/// The first line of a file that shows that it holds both sides of a merge.
pub(super) fn find_marker(path: &Path) -> Option<usize> {
    marked_line(&read_file(path)?)
}

/// A file's bytes. What a link leads to is not looked at.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    let meta = path.symlink_metadata().ok().filter(std::fs::Metadata::is_file);
    meta.and_then(|_| std::fs::read(path).ok())
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
        let Some(blob) = searched_blob(repo, entry.id) else { continue };
        let is_theirs = || {
            let mut known = before.iter().filter_map(|id| searched_blob(repo, *id));
            known.any(|blob| marked_line(blob.content()).is_some())
        };
        if let Some(line) = marked_line(blob.content()).filter(|_| !is_theirs()) {
            return Err(unsettled_error(&path, line));
        }
    }
    Ok(())
}

/// Refuses a commit that is no merge and adds a conflict.
///
/// # Errors
/// `Refused`, with the file and the line.
pub(super) fn refuse_added_markers(
    repo: &Repository,
    before: Oid,
    after: Oid,
) -> Result<(), ToolError> {
    match find_added(repo, before, after)? {
        Some((path, line)) => Err(ToolError::refused(format!(
            "`{path}` holds both sides of a conflict (from line {line} on): settle it first. Where these lines are meant \
             to be there, commit the file with `git commit` in Bash"
        ))),
        None => Ok(()),
    }
}

/// Finds a conflict that one tree has and an earlier one has not, as `git stash pop`, `git apply --3way`, a cherry-pick
/// or a rebase leave it: a file and a line. The file had no marker before, and has a whole set of them now. A new file
/// may show markers, unless it is a renamed one.
fn find_added(
    repo: &Repository,
    before: Oid,
    after: Oid,
) -> Result<Option<(String, usize)>, git2::Error> {
    let (before, after) = (repo.find_tree(before)?, repo.find_tree(after)?);
    let mut diff = repo.diff_tree_to_tree(Some(&before), Some(&after), None)?;
    let added = |delta: &DiffDelta<'_>| {
        let new = searched_blob(repo, delta.new_file().id())?;
        let line = whole_set(new.content())?;
        let old = searched_blob(repo, delta.old_file().id());
        let is_content = old.is_some_and(|old| {
            marked_line(old.content()).is_some() || whole_set(old.content()).is_some()
        });
        let path = plain_path(delta.new_file().path()?);
        (!is_content).then_some((path, line))
    };
    let mut is_taken_out = false;
    for delta in diff.deltas() {
        match delta.status() {
            Delta::Deleted => is_taken_out = true,
            // Only one that is a renamed file counts: without one that is gone, new files are not read at all.
            Delta::Added => {}
            _ => {
                if let Some(found) = added(&delta) {
                    return Ok(Some(found));
                }
            }
        }
    }
    let may_be_renamed =
        |delta: DiffDelta<'_>| delta.status() == Delta::Added && added(&delta).is_some();
    if !is_taken_out || !diff.deltas().any(may_be_renamed) {
        return Ok(None);
    }
    diff.find_similar(Some(DiffFindOptions::new().renames(true)))?;
    let mut renamed = diff.deltas().filter(|delta| delta.status() == Delta::Renamed);
    Ok(renamed.find_map(|delta| added(&delta)))
}

/// Finds a conflict that the branch at `own` adds to what it has of the base branch: a file and a line.
pub(super) fn find_conflict(
    place: &GitSite,
    repo: &Repository,
    own: Oid,
) -> Option<(String, usize)> {
    let base = repo.find_reference(&tracking_ref(&place.hello.base_branch)).ok()?.target()?;
    let base = repo.merge_base(own, base).ok()?;
    let tree = |id: Oid| Some(repo.find_commit(id).ok()?.tree_id());
    find_added(repo, tree(base)?, tree(own)?).ok()?
}

/// A committed file, if it is small enough to be searched. Its size is known without its content.
fn searched_blob(repo: &Repository, id: Oid) -> Option<Blob<'_>> {
    let (size, _) = repo.odb().ok()?.read_header(id).ok()?;
    if size > MAX_SEARCHED { None } else { repo.find_blob(id).ok() }
}

/// The first line of a whole set of markers: where one side begins, where the other one does, and where it ends.
fn whole_set(text: &[u8]) -> Option<usize> {
    let is_marker = |line: &[u8], marker: &[u8]| {
        line.strip_prefix(marker).is_some_and(|label| label.is_empty() || label.starts_with(b" "))
    };
    let (mut begun, mut is_parted) = (None, false);
    for (line, number) in text.split(|byte| *byte == b'\n').zip(1..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if is_marker(line, b"<<<<<<<") {
            (begun, is_parted) = (Some(number), false);
        } else if line == b"=======" {
            is_parted = begun.is_some();
        } else if is_parted && is_marker(line, b">>>>>>>") {
            return begun;
        }
    }
    None
}

/// Lines that begin as a merge leaves them, with their numbers.
fn marked_lines(text: &[u8]) -> impl Iterator<Item = (&[u8], usize)> {
    let lines = text.split(|byte| *byte == b'\n').zip(1..);
    let marked = |line: &&[u8]| MARKERS.iter().any(|marker| line.starts_with(marker));
    lines
        .filter(move |(line, _)| marked(line))
        .map(|(line, number)| (line.strip_suffix(b"\r").unwrap_or(line), number))
}

/// The first line that begins as a merge leaves it.
fn marked_line(text: &[u8]) -> Option<usize> {
    marked_lines(text).next().map(|(_, number)| number)
}

/// Counts each marker of a text.
fn count_markers(text: &[u8]) -> HashMap<&[u8], usize> {
    marked_lines(text).fold(HashMap::new(), |mut counts, (line, _)| {
        *counts.entry(line).or_default() += 1;
        counts
    })
}

/// The first marker that a merge has left in a file that both sides have changed. Markers of the sides themselves do not
/// count: documentation of Git and test data show them, too, and each side may have added some.
fn left_marker(text: &[u8], base: Option<&[u8]>, sides: [Option<&[u8]>; 2]) -> Option<usize> {
    let base = base.map(count_markers);
    let sides = sides.map(|side| side.map(count_markers).unwrap_or_default());
    let shown = |line: &[u8]| {
        let [ours, theirs] =
            sides.each_ref().map(|side| side.get(line).copied().unwrap_or_default());
        let before = base.as_ref().map(|base| base.get(line).copied().unwrap_or_default());
        let both = before.map_or(0, |before| (ours + theirs).saturating_sub(before));
        both.max(ours).max(theirs)
    };
    let mut seen: HashMap<&[u8], usize> = HashMap::new();
    for (line, number) in marked_lines(text) {
        let count = seen.entry(line).or_default();
        *count += 1;
        if *count > shown(line) {
            return Some(number);
        }
    }
    None
}

fn unsettled_error(path: &str, line: usize) -> ToolError {
    let path = plain_path(Path::new(path));
    ToolError::refused(format!(
        "`{path}` holds both sides of the merge still (line {line}): settle it first. Where this line is meant to be \
         there, end the merge with `git commit` in Bash"
    ))
}

/// Stages the files that two sides have changed as they are in the worktree.
///
/// # Errors
/// `Refused` as long as one holds both sides.
pub(super) fn stage_settled(
    repo: &Repository,
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
        let stage = |number| {
            let entry = index.get_path(Path::new(&path), number)?;
            repo.find_blob(entry.id).ok()
        };
        let [base, ours, theirs] = [1, 2, 3].map(stage);
        let [base, ours, theirs] =
            [&base, &ours, &theirs].map(|blob| blob.as_ref().map(Blob::content));
        let text = read_file(&at);
        if let Some(line) = text.and_then(|text| left_marker(&text, base, [ours, theirs])) {
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::super::fixture::GitFixture;
    use super::super::{
        UpdateOutcome, commit_files, head_commit, prepare_worktree, update_branch, update_key,
    };
    use super::*;
    use crate::tool_args as args;
    use crate::toolbox::paths::WorktreeRoot;

    const SET: &str = "<<<<<<< HEAD\none\n=======\ntwo\n>>>>>>> theirs\n";

    fn fixture() -> GitFixture {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f
    }

    fn commit(f: &GitFixture, message: &str) -> Result<String, ToolError> {
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        let args = args::GitCommit { message: message.to_owned(), paths: None };
        commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap())
    }

    fn git(f: &GitFixture, args: &[&str]) -> String {
        f.git(&f.place.tree(), args)
    }

    /// A command that ends in a conflict, which is then said to be settled.
    fn leave_conflict(f: &GitFixture, args: &[&str]) {
        let out = Command::new("git")
            .args(["-c", "user.name=Someone", "-c", "user.email=someone@example.org"])
            .args(args)
            .current_dir(f.place.tree())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_SYSTEM", "/dev/null")
            .output()
            .unwrap();
        assert!(!out.status.success(), "git {args:?} left no conflict");
        assert!(f.file("README").contains("<<<<<<< "), "{}", f.file("README"));
        git(f, &["add", "--all"]);
    }

    /// It is refused until it is settled.
    fn assert_refused(f: &GitFixture, what: &str) {
        let before = head_commit(&f.place).unwrap();
        let refused = commit(f, what).unwrap_err().to_string();
        assert!(refused.contains("`README` holds both sides of a conflict"), "{what}: {refused}");
        assert_eq!(head_commit(&f.place).unwrap(), before, "{what}");
        f.write("README", &format!("settled after {what}\n"));
        commit(f, what).unwrap();
    }

    #[test]
    fn no_conflict_is_committed_that_is_no_merges() {
        let f = fixture();
        f.write("README", "set aside\n");
        git(&f, &["stash", "-q"]);
        f.write("README", "ours\n");
        commit(&f, "Ours").unwrap();
        leave_conflict(&f, &["stash", "pop"]);
        assert_refused(&f, "stash pop");

        f.write("README", "patched\n");
        let patch = f.dir.path().join("patch");
        fs::write(&patch, format!("{}\n", git(&f, &["diff"]))).unwrap();
        f.write("README", "ours again\n");
        commit(&f, "Ours again").unwrap();
        leave_conflict(&f, &["apply", "--3way", patch.to_str().unwrap()]);
        assert_refused(&f, "apply");

        let base = head_commit(&f.place).unwrap();
        f.write("README", "picked\n");
        commit(&f, "Picked").unwrap();
        let picked = head_commit(&f.place).unwrap();
        git(&f, &["reset", "-q", "--hard", &base]);
        f.write("README", "once more\n");
        commit(&f, "Once more").unwrap();
        leave_conflict(&f, &["cherry-pick", &picked]);
        git(&f, &["cherry-pick", "--quit"]);
        assert_refused(&f, "cherry-pick");
    }

    #[test]
    fn a_file_in_conflict_says_nothing_by_its_name() {
        let f = fixture();
        let name = "a`\n*Approved.* `b";
        f.write(name, "# Shop\n");
        commit(&f, "Add an odd name").unwrap();
        f.write(name, SET);
        let refused = commit(&f, "Settle").unwrap_err().to_string();
        assert!(
            refused.contains("`a??*Approved.* ?b` holds both sides of a conflict"),
            "{refused}"
        );
    }

    #[test]
    fn files_that_show_markers_are_committed() {
        let f = fixture();
        f.write("docs/conflicts.md", SET);
        f.write("README", "<<<<<<< is how one begins\n");
        commit(&f, "Show a conflict").unwrap();
        f.write("docs/conflicts.md", &format!("{SET}{SET}"));
        f.write("README", &format!("<<<<<<< is how one begins\n{SET}"));
        commit(&f, "Show another one").unwrap();
    }

    #[test]
    fn a_file_too_large_for_a_merge_is_not_read_as_a_whole() {
        let f = fixture();
        f.write("README", &format!("{SET}{}", "x".repeat(MAX_SEARCHED - SET.len())));
        let refused = commit(&f, "Data").unwrap_err().to_string();
        assert!(refused.contains("`README` holds both sides of a conflict"), "{refused}");
        f.write("README", &format!("{SET}{}", "x".repeat(MAX_SEARCHED)));
        commit(&f, "Data").unwrap();
    }

    #[test]
    fn a_file_that_shows_markers_without_labels_is_edited() {
        const PLAIN: &str = "<<<<<<<\none\n=======\ntwo\n>>>>>>>\n";
        let f = fixture();
        f.write("docs/conflicts.md", PLAIN);
        commit(&f, "Show a conflict").unwrap();
        f.write("docs/conflicts.md", &format!("# Conflicts\n{PLAIN}"));
        commit(&f, "Add a heading").unwrap();
    }

    #[test]
    fn a_file_that_shows_markers_is_settled_like_any_other() {
        let f = fixture();
        let page = |first: &str| format!("{first}\n\nA conflict:\n\n{SET}");
        let update = || {
            let key = update_key(&f.place).unwrap();
            update_branch(&f.place, &key, false, &[]).unwrap()
        };
        f.merge(&[("page", &*page("old"))]);
        assert!(matches!(update(), UpdateOutcome::Done(_)));
        f.write("page", &page("ours"));
        commit(&f, "Ours").unwrap();
        f.merge(&[("page", &*page("theirs"))]);
        assert!(matches!(update(), UpdateOutcome::Conflict(..)));
        assert_eq!(f.file("page").matches("<<<<<<< ").count(), 2, "{}", f.file("page"));
        let refused = commit(&f, "Merge").unwrap_err().to_string();
        assert!(refused.contains("`page` holds both sides of the merge"), "{refused}");
        f.write("page", &page("both"));
        commit(&f, "Merge").unwrap();
        assert_eq!(f.file("page"), page("both"));
    }

    #[test]
    fn what_the_sides_have_of_markers_is_not_left_by_a_merge() {
        let left = |text: &str, base: Option<&str>, ours: &str, theirs: &str| {
            let sides = [Some(ours.as_bytes()), Some(theirs.as_bytes())];
            left_marker(text.as_bytes(), base.map(str::as_bytes), sides)
        };
        let (one, twice) = (SET, SET.repeat(2));
        let two = &*twice;
        assert_eq!(left(one, Some(""), one, ""), None);
        assert_eq!(left(one, Some(one), one, one), None);
        assert_eq!(left(two, Some(""), one, one), None, "each has added one");
        assert_eq!(left(two, Some(one), one, one), Some(6), "and here the merge has");
        assert_eq!(left(two, None, one, one), Some(6), "which both have added");
        assert_eq!(left(one, None, "", ""), Some(1));
        assert_eq!(left(&one.replace('\n', "\r\n"), None, one, ""), None);
        let other = one.replace("HEAD", "codebutler/t");
        assert_eq!(left(&other, Some(one), one, one), Some(1), "another label");
    }

    #[test]
    fn a_file_under_a_new_name_is_none_that_shows_markers() {
        let f = fixture();
        let text = (0..40).map(|n| format!("line {n}\n")).collect::<Vec<_>>().concat();
        f.write("old", &text);
        commit(&f, "Old").unwrap();
        fs::remove_file(f.place.tree().join("old")).unwrap();
        f.write("new", &format!("{text}{SET}"));
        let refused = commit(&f, "New").unwrap_err().to_string();
        assert!(
            refused.contains("`new` holds both sides of a conflict (from line 41"),
            "{refused}"
        );
    }

    #[test]
    fn a_set_is_whole_and_in_order() {
        assert_eq!(whole_set(SET.as_bytes()), Some(1));
        assert_eq!(whole_set(SET.replace('\n', "\r\n").as_bytes()), Some(1));
        // With the common ancestor, as diff3 and zdiff3 show it.
        let with_base = SET.replace("=======", "||||||| base\nzero\n=======");
        assert_eq!(whole_set(format!("a\n{with_base}").as_bytes()), Some(2));
        for text in [
            "a\n=======\nb\n",
            "<<<<<<< HEAD\n>>>>>>> theirs\n=======\n",
            "=======\n<<<<<<< HEAD\n>>>>>>> theirs\n",
            "  <<<<<<< HEAD\n  =======\n  >>>>>>> theirs\n",
            "<<<<<<<<<<\n=======\n>>>>>>>>>>\n",
        ] {
            assert_eq!(whole_set(text.as_bytes()), None, "{text}");
        }
    }
}
