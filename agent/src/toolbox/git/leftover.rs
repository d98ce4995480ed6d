//! Commits the changes that a run leaves uncommitted, so that they are not on the volume alone.

use git2::{Commit, DiffOptions, Index, IndexEntry, Repository, RepositoryState, Signature};

use super::GitSite;
use super::base::base_commit;
use super::hooks::{HookMoment, name_hooks};
use super::markers::find_conflict;
use super::sealed::is_descendant;
use super::seen::last_seen;
use super::worktree::{
    FlagUse, LeftWhy, NewFile, NewFileVerdict, ScanRules, ScanScope, WorktreeScanner,
    index_written, intents_left_out, move_entries, name_left, open_index, stage_changes,
    take_mended_note,
};
use crate::toolbox::ToolError;
use crate::toolbox::protocol::WorktreeLeftover;
use codebutler_wire::break_ci_words;

/// Larger files that Git does not know yet are not committed.
const MAX_NEW_MB: u64 = 5;

/// Commits everything that differs from HEAD with `message`, if anything does, and says whether the
/// remote lacks something. A repetition finds nothing to commit.
pub fn keep_leftover(place: &GitSite, message: &str) -> Result<WorktreeLeftover, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    if repo.state() != RepositoryState::Clean {
        return Err(ToolError::refused("a merge or rebase is in progress in the worktree"));
    }
    let head = repo.find_commit(place.head_on_branch(&repo)?)?;
    let mut index = open_index(&repo)?;
    if index.has_conflicts() {
        return Err(ToolError::refused("files in the worktree are in conflict"));
    }
    let left = stage_all(place, &repo, &mut index)?;
    let tree = repo.find_tree(intents_left_out(&repo, &mut index)?)?;
    let committed = tree.id() != head.tree_id();
    index.write()?;
    if committed {
        let author = &place.hello.author;
        let signature = Signature::now(&author.name, &author.email)?;
        repo.commit(
            Some("HEAD"),
            &signature,
            &signature,
            &break_ci_words(message),
            &tree,
            &[&head],
        )?;
    }
    let own = place.head_on_branch(&repo)?;
    let unpushed = match repo.refname_to_id(&place.remote_branch()) {
        Ok(remote) => remote != own && !is_descendant(place, remote, own)?,
        // The remote's branch is gone: commits that it had are not new.
        Err(_) => match last_seen(place, &repo) {
            Some(known) => known != own,
            // A branch that this volume never had begins at the base branch.
            None => match base_commit(place) {
                Ok(base) => base != own && !is_descendant(place, base, own)?,
                Err(_) => true,
            },
        },
    };
    let hooks = committed.then(|| name_hooks(place, HookMoment::CommitAndPush)).flatten();
    let notes = take_mended_note(&repo).into_iter().chain(hooks);
    let notes: Vec<String> = notes.map(|note| note.trim_end_matches('.').to_owned()).collect();
    let conflict = unpushed.then(|| find_conflict(place, &repo, own)).flatten();
    let conflict = conflict.map(|(path, line)| format!("`{path}` (from line {line} on)"));
    Ok(WorktreeLeftover {
        committed,
        unpushed,
        left,
        notes: notes.join(". "),
        conflict: conflict.unwrap_or_default(),
    })
}

/// Undoes the commits with `message` at the tip that the remote does not have, which leaves the
/// worktree as it is: what must be in no commit of a push would be in one for good otherwise. A
/// repetition finds nothing to undo.
pub fn take_back(place: &GitSite, message: &str) -> Result<(), ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    let remote = repo.refname_to_id(&place.remote_branch()).ok();
    let message = &*break_ci_words(message);
    loop {
        let tip = repo.find_commit(place.head_on_branch(&repo)?)?;
        let is_ours = tip.message() == Ok(message) && tip.parent_count() == 1;
        let is_pushed = match remote {
            Some(remote) => remote == tip.id() || is_descendant(place, remote, tip.id())?,
            None => false,
        };
        if !is_ours || is_pushed {
            return Ok(());
        }
        let before = tip.parent(0)?;
        unstage_commit(&repo, &tip, &before)?;
        repo.reference(&place.local(), before.id(), true, "taken back")?;
    }
}

/// Stages what a commit of everything holds, without what is large or made by tools; names what is left alone.
fn stage_all(place: &GitSite, repo: &Repository, index: &mut Index) -> Result<String, ToolError> {
    let entries: Vec<IndexEntry> = index.iter().collect();
    let mut judge = |file: &NewFile<'_>| match file.stat {
        Some(stat) if stat.size > MAX_NEW_MB << 20 => {
            NewFileVerdict::Leave(LeftWhy::TooLarge(MAX_NEW_MB))
        }
        Some(_) => NewFileVerdict::Take,
        // Nobody could fetch the commit that would be recorded of it.
        None => NewFileVerdict::Leave(LeftWhy::OwnRepository),
    };
    let mut rules = ScanRules::known(&ScanScope::All, FlagUse::Git, index_written(repo));
    rules.new = Some(&mut judge);
    rules.leave_made = true;
    let mut changes = WorktreeScanner::new(repo, &place.work).scan(&entries, rules)?;
    stage_changes(index, &mut changes)?;
    Ok(name_left(&changes.left))
}

/// Takes the changes of a commit out of the index; the worktree stays as it is, and what else the index says of
/// files too.
fn unstage_commit(
    repo: &Repository,
    tip: &Commit<'_>,
    before: &Commit<'_>,
) -> Result<(), ToolError> {
    let mut options = DiffOptions::new();
    options.include_typechange(true);
    let (from, to) = (tip.tree()?, before.tree()?);
    let diff = repo.diff_tree_to_tree(Some(&from), Some(&to), Some(&mut options))?;
    let mut index = open_index(repo)?;
    move_entries(&mut index, &diff)?;
    Ok(index.write()?)
}

#[cfg(test)]
mod tests {
    use super::super::fixture::GitFixture;
    use super::super::{prepare_worktree, push_branch};
    use super::*;

    fn left(committed: bool, unpushed: bool) -> WorktreeLeftover {
        WorktreeLeftover { committed, unpushed, ..WorktreeLeftover::default() }
    }

    #[test]
    fn what_is_left_is_committed_once_but_for_what_tools_make() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let none = left(false, false);
        assert_eq!(keep_leftover(&f.place, "Work in progress by coder").unwrap(), none);
        f.write("src/new.rs", "fn a() {}\n");
        f.write("README", "changed\n");
        f.write("package.json", "{}");
        f.write("node_modules/x/package.json", "{}");
        f.git(&f.place.tree(), &["add", "package.json"]);
        let kept = keep_leftover(&f.place, "Work in progress by coder").unwrap();
        let made = "`node_modules/` (a tool made this folder, by what is in it)";
        let left = |committed, unpushed| WorktreeLeftover {
            left: made.to_owned(),
            ..left(committed, unpushed)
        };
        assert_eq!(kept, left(true, true));
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        assert_eq!(
            git(&["log", "-1", "--format=%an|%s"]),
            "CodeButler Coder|Work in progress by coder"
        );
        assert_eq!(git(&["show", "--name-only", "--format="]), "README\npackage.json\nsrc/new.rs");
        let again = keep_leftover(&f.place, "Work in progress by coder").unwrap();
        assert_eq!(again, left(false, true));
        push_branch(&f.place).unwrap();
        assert_eq!(
            keep_leftover(&f.place, "Work in progress by coder").unwrap(),
            left(false, false)
        );
        std::fs::remove_file(f.place.tree().join("README")).unwrap();
        assert!(keep_leftover(&f.place, "x").unwrap().committed);
    }

    #[test]
    fn sources_in_folders_with_a_tools_name_are_committed_and_what_is_left_out_is_named() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write(".gitignore", "ignored/\n");
        let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
        let sources = [
            "a/node_modules/own.js",
            "b/__pycache__/notes.txt",
            "c/.venv/notes.txt",
            "d/.pytest_cache/notes.txt",
            "src/target/audience.py",
            "web/package.json",
        ];
        let made = [
            ("py/.pytest_cache/CACHEDIR.TAG", tag),
            ("py/.venv/pyvenv.cfg", "home = /usr\n"),
            ("py/__pycache__/a.cpython-312.pyc", "x"),
            ("rust/target/CACHEDIR.TAG", tag),
            ("web/node_modules/@a/b/package.json", "{}"),
            ("web/node_modules/pad/package.json", "{}"),
            ("web/node_modules/.bin/pad", "x"),
            ("ignored/target/out", "x"),
        ];
        for (path, text) in sources.iter().map(|path| (*path, "{}")).chain(made) {
            f.write(path, text);
        }
        f.write("big", &"x".repeat(6 * 1024 * 1024));
        let kept = keep_leftover(&f.place, "Work").unwrap();
        let names = f.git(&f.place.tree(), &["show", "--name-only", "--format="]);
        assert_eq!(names, format!(".gitignore\n{}", sources.join("\n")));
        let folders = "`py/.pytest_cache/`, `py/.venv/`, `py/__pycache__/`, `rust/target/`, `web/node_modules/`";
        assert_eq!(
            kept.left,
            format!(
                "`big` (new, and larger than 5 MB); {folders} (a tool made this folder, by what is in it)"
            )
        );
        // Files that were left out are also named if there is nothing else to commit.
        let again = keep_leftover(&f.place, "Work").unwrap();
        assert_eq!((again.committed, again.left), (false, kept.left));
    }

    #[test]
    fn what_can_not_be_pushed_is_taken_back_and_what_is_pushed_is_not() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let message = "Work in progress by coder";
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        f.write("a", "pushed\n");
        keep_leftover(&f.place, message).unwrap();
        push_branch(&f.place).unwrap();
        let pushed = git(&["rev-parse", "HEAD"]);
        for content in ["1\n", "2\n"] {
            f.write("b", content);
            keep_leftover(&f.place, message).unwrap();
        }
        for _ in 0..2 {
            take_back(&f.place, message).unwrap();
            assert_eq!(git(&["rev-parse", "HEAD"]), pushed);
            assert_eq!(git(&["status", "--porcelain"]), "?? b");
            assert_eq!(std::fs::read_to_string(f.place.tree().join("b")).unwrap(), "2\n");
        }
    }

    #[test]
    fn a_conflict_in_what_is_left_is_named() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write("README", "# Shop\n<<<<<<< HEAD\nhello\n=======\nhi\n>>>>>>> theirs\n");
        let kept = keep_leftover(&f.place, "Work").unwrap();
        assert_eq!((kept.committed, &*kept.conflict), (true, "`README` (from line 2 on)"));
        let again = keep_leftover(&f.place, "Work").unwrap();
        assert_eq!((again.committed, again.conflict), (false, kept.conflict), "still unpushed");
        push_branch(&f.place).unwrap();
        assert_eq!(keep_leftover(&f.place, "Work").unwrap().conflict, "", "nothing is left");
    }

    #[test]
    fn a_repository_in_the_worktree_is_left_out_and_named() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        git(&["init", "-q", "vendor/x"]);
        f.write("vendor/x/a", "a\n");
        f.write("own.rs", "fn a() {}\n");
        git(&["-C", "vendor/x", "add", "-A"]);
        git(&["-C", "vendor/x", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]);
        let kept = keep_leftover(&f.place, "Work").unwrap();
        assert_eq!(git(&["show", "--name-only", "--format="]), "own.rs");
        assert_eq!(kept.left, "`vendor/x` (a repository of its own)");
        let again = keep_leftover(&f.place, "Work").unwrap();
        assert_eq!((again.committed, again.left), (false, kept.left));
        // A nested repository that Git was told of is committed.
        git(&["add", "vendor/x"]);
        assert!(keep_leftover(&f.place, "Work").unwrap().committed);
        assert_eq!(git(&["show", "--name-only", "--format="]), "vendor/x");
    }
}
