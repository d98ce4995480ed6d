//! GitCommit: commits changes of the worktree, once even if the call is repeated after a crash.

use std::fmt::Write as _;

use git2::{Oid, Repository, RepositoryState, Signature};

use super::cases::describe_clashes;
use super::clean::differing_files;
use super::hooks::{HookMoment, name_hooks};
use super::markers::{refuse_added_markers, refuse_markers, stage_settled};
use super::opening::unfinished_error;
use super::staging::{StagedCommit, stage_all, stage_named};
use super::update::other_parents;
use super::worktree::{WorktreeScanner, name_left, open_index, take_mended_note};
use super::{GitSite, short_id};
use crate::tool_args as args;
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;
use codebutler_wire::break_ci_words;

/// Reference under which Git stashes uncommitted changes when a merge begins (`--autostash`).
const SET_ASIDE: &str = "MERGE_AUTOSTASH";
/// Files named in an answer.
const MAX_NAMES: usize = 30;

/// Commits on top of `parent`, the commit that HEAD was at when the call was recorded. A repetition
/// after a crash finds the commit by parent, message and author. Hooks are never run, and named.
pub fn commit_files(
    place: &GitSite,
    tree: &WorktreeRoot,
    args: &args::GitCommit,
    parent: &str,
) -> Result<String, ToolError> {
    let _lock = place.lock()?;
    let mut repo = place.open()?;
    let message = git2::message_prettify(&*break_ci_words(&args.message), None)?;
    if message.is_empty() {
        return Err(ToolError::refused("`message` is empty"));
    }
    let merges = repo.state() == RepositoryState::Merge;
    if !merges && repo.state() != RepositoryState::Clean {
        return Err(unfinished_error(repo.state()));
    }
    if merges && repo.path().join(SET_ASIDE).exists() {
        return Err(ToolError::refused(
            "this merge has set changes aside (`git merge --autostash`): end it with `git commit` in Bash, which \
             puts them back",
        ));
    }
    let head = place.head_on_branch(&repo)?;
    if is_done(place, &repo, head, parent, &message)? {
        // Killed between the commit and the end of its merge.
        if merges && is_merged(&mut repo, head)? {
            repo.cleanup_state()?;
        }
        return describe_commit(place, &repo, head, &[]);
    }
    if head.to_string() != parent {
        return Err(ToolError::refused(
            "the branch has moved meanwhile (another role committed): look at it with GitLog, then \
             try again",
        ));
    }
    let mut index = open_index(&repo)?;
    if merges && args.paths.is_some() {
        return Err(ToolError::refused(
            "a merge is under way, which is committed as a whole: leave `paths` out",
        ));
    }
    let scanner = WorktreeScanner::new(&repo, &place.work);
    if index.has_conflicts() && args.paths.is_some() {
        return Err(ToolError::refused(
            "files are in conflict, so what is committed has to be all of it: leave `paths` out",
        ));
    }
    stage_settled(&repo, &scanner, &mut index, &place.tree())?;
    let staged = match &args.paths {
        None => stage_all(&repo, &scanner, &mut index)?,
        Some(paths) => stage_named(&repo, &scanner, &mut index, (tree, paths))?,
    };
    let mut parents = vec![head];
    drop(scanner);
    if merges {
        parents.extend(other_parents(&mut repo)?);
        refuse_markers(&repo, &index, &parents)?;
    }
    let before = repo.find_commit(head)?.tree_id();
    let is_same = !merges && staged.tree == before;
    if !merges && !is_same {
        refuse_added_markers(&repo, before, staged.tree)?;
    }
    if !is_same || args.paths.is_none() {
        index.write()?;
    }
    if is_same {
        return Err(ToolError::refused(nothing_to_commit(place, &repo, args, &staged)?));
    }
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let id = {
        let found: Result<Vec<_>, _> = parents.iter().map(|id| repo.find_commit(*id)).collect();
        let found = found?;
        let (tree, parents) = (repo.find_tree(staged.tree)?, found.iter().collect::<Vec<_>>());
        repo.commit(Some("HEAD"), &signature, &signature, &message, &tree, &parents)?
    };
    if merges {
        repo.cleanup_state()?;
    }
    let mut notes = notes_of(&staged, take_mended_note(&repo), &message, args);
    // The commit is made: it does not fail for a note.
    notes.extend(describe_clashes(&repo, before, staged.tree).ok().flatten());
    describe_commit(place, &repo, id, &notes)
}

/// Notes on a commit for the model: the index repaired, files left out, and words in the message made harmless.
fn notes_of(
    staged: &StagedCommit,
    remade: Option<String>,
    message: &str,
    args: &args::GitCommit,
) -> Vec<String> {
    let mut notes: Vec<String> = remade.into_iter().collect();
    if !staged.left.is_empty() {
        notes.push(format!("Not committed, though they differ: {}", name_left(&staged.left)));
    }
    if !staged.nested.is_empty() {
        notes.push(format!(
            "`{}`: a repository of its own, of which only its commit is recorded, not its files",
            staged.nested.join("`, `")
        ));
    }
    if message.contains('\u{200b}') && !args.message.contains('\u{200b}') {
        notes.push(
            "Words in the message that would switch off CI have no effect: an invisible space is in them"
                .to_owned(),
        );
    }
    notes
}

/// Returns true if a commit has the other side of the merge in progress as a parent.
fn is_merged(repo: &mut Repository, head: Oid) -> Result<bool, git2::Error> {
    let others = other_parents(repo)?;
    let commit = repo.find_commit(head)?;
    Ok(!others.is_empty() && others.iter().all(|id| commit.parent_ids().any(|own| own == *id)))
}

fn is_done(
    place: &GitSite,
    repo: &Repository,
    head: Oid,
    parent: &str,
    message: &str,
) -> Result<bool, ToolError> {
    let commit = repo.find_commit(head)?;
    Ok(commit.parent_id(0).is_ok_and(|id| id.to_string() == parent)
        && commit.message_bytes() == message.as_bytes()
        && commit.author().name_bytes() == place.hello.author.name.as_bytes())
}

fn nothing_to_commit(
    place: &GitSite,
    repo: &Repository,
    args: &args::GitCommit,
    staged: &StagedCommit,
) -> Result<String, ToolError> {
    let left = match name_left(&staged.left) {
        left if left.is_empty() => left,
        left => format!(". Left out: {left}"),
    };
    let differing = differing_files(place, repo)?;
    if differing.is_empty() {
        return Ok(format!("nothing to commit: no file differs from the last commit{left}"));
    }
    let more = differing.len().saturating_sub(MAX_NAMES);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = differing[..differing.len().min(MAX_NAMES)].join(", ");
    let paths = args.paths.as_deref().unwrap_or_default().join("`, `");
    Ok(format!("nothing to commit in `{paths}`; these files differ: {names}{more}{left}"))
}

/// The commit and its files; then, in sentences of their own, what whoever made it has to know.
fn describe_commit(
    place: &GitSite,
    repo: &Repository,
    id: Oid,
    notes: &[String],
) -> Result<String, ToolError> {
    let commit = repo.find_commit(id)?;
    let before = commit.parent(0)?.tree()?;
    let diff = repo.diff_tree_to_tree(Some(&before), Some(&commit.tree()?), None)?;
    let stats = diff.stats()?;
    let names: Vec<_> = diff
        .deltas()
        .take(MAX_NAMES)
        .filter_map(|delta| delta.new_file().path().map(|path| path.display().to_string()))
        .collect();
    let mut out = format!(
        "Committed {}: {} file(s), +{} −{}: {}",
        short_id(id),
        stats.files_changed(),
        stats.insertions(),
        stats.deletions(),
        names.join(", ")
    );
    for note in notes.iter().cloned().chain(name_hooks(place, HookMoment::Commit)) {
        let _ = write!(out, "\n{}.", note.trim_end_matches('.'));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::super::fixture::GitFixture;
    use super::super::{head_commit, prepare_worktree};
    use super::*;

    fn fixture() -> (GitFixture, WorktreeRoot) {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        (f, tree)
    }

    fn commit_all(
        f: &GitFixture,
        tree: &WorktreeRoot,
        message: &str,
        paths: Option<&[&str]>,
    ) -> Result<String, ToolError> {
        let paths = paths.map(|paths| paths.iter().map(|p| (*p).to_owned()).collect());
        let args = args::GitCommit { message: message.into(), paths };
        commit_files(&f.place, tree, &args, &head_commit(&f.place)?)
    }

    #[test]
    fn everything_that_changed_is_committed_by_the_role_and_ignored_files_are_not() {
        let (f, tree) = fixture();
        f.write("src/new.rs", "fn a() {}\n");
        f.write("target/out", "x");
        f.write("README", "changed\n");
        symlink("README", f.place.tree().join("link")).unwrap();
        let said = commit_all(&f, &tree, "Add a\n\nBecause.  \n\n", None).unwrap();
        assert!(said.contains("3 file(s)") && said.contains("src/new.rs"), "{said}");
        let git = |args: &[&str]| f.git(&f.place.tree(), args);
        assert_eq!(git(&["status", "--porcelain"]), "");
        assert_eq!(
            git(&["log", "-1", "--format=%an <%ae> %cn|%B"]),
            "CodeButler Coder <coder@codebutler.invalid> CodeButler Coder|Add a\n\nBecause."
        );
        fs::remove_file(f.place.tree().join("README")).unwrap();
        commit_all(&f, &tree, "Remove README", None).unwrap();
        assert_eq!(git(&["ls-files"]), ".gitignore\nlink\nsrc/new.rs");
    }

    #[test]
    fn chosen_paths_only_and_clear_refusals() {
        let (f, tree) = fixture();
        f.write("a/1", "1");
        f.write("a/2", "2");
        f.write("b", "b");
        f.write("target/out", "x");
        let refused =
            |paths: &[&str]| commit_all(&f, &tree, "x", Some(paths)).unwrap_err().to_string();
        assert!(
            refused(&["README"])
                .contains("nothing to commit in `README`; these files differ: a/1, a/2, b")
        );
        assert!(refused(&["target/out"]).contains("ignored"));
        assert!(refused(&["nowhere"]).contains("does not exist"));
        assert!(refused(&["../x"]).contains("outside"));
        assert!(refused(&[".git/config"]).contains(".git"));
        commit_all(&f, &tree, "A", Some(&["./a/"])).unwrap();
        assert_eq!(f.git(&f.place.tree(), &["status", "--porcelain"]), "?? b");
        fs::remove_dir_all(f.place.tree().join("a")).unwrap();
        commit_all(&f, &tree, "No a", Some(&["a"])).unwrap();
        assert_eq!(f.git(&f.place.tree(), &["ls-files"]), ".gitignore\nREADME");
        commit_all(&f, &tree, "B", None).unwrap();
        let nothing = commit_all(&f, &tree, "again", None).unwrap_err().to_string();
        assert!(nothing.contains("no file differs"), "{nothing}");
        assert!(commit_all(&f, &tree, " \n", None).unwrap_err().to_string().contains("empty"));
    }

    #[test]
    fn a_repetition_after_a_crash_commits_once() {
        let (f, tree) = fixture();
        f.write("a", "1");
        let parent = head_commit(&f.place).unwrap();
        let args = args::GitCommit { message: "Add a".into(), paths: None };
        let first = commit_files(&f.place, &tree, &args, &parent).unwrap();
        assert_eq!(commit_files(&f.place, &tree, &args, &parent).unwrap(), first);
        assert_eq!(f.git(&f.place.tree(), &["rev-list", "--count", "HEAD"]), "2");
        let other = args::GitCommit { message: "Other".into(), paths: None };
        assert!(
            commit_files(&f.place, &tree, &other, &parent)
                .unwrap_err()
                .to_string()
                .contains("moved")
        );
    }

    #[test]
    fn nothing_of_the_repositorys_own_runs() {
        let (f, tree) = fixture();
        let ran = f.dir.path().join("ran");
        let script = format!("#!/bin/sh\ntouch {}\ncat\n", ran.display());
        let run = f.place.tree().join(".git/hooks/run");
        fs::create_dir_all(run.parent().unwrap()).unwrap();
        fs::write(&run, script).unwrap();
        fs::set_permissions(&run, fs::Permissions::from_mode(0o755)).unwrap();
        for hook in
            ["pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"]
        {
            fs::copy(&run, f.place.tree().join(".git/hooks").join(hook)).unwrap();
        }
        let config = f.place.tree().join(".git/config");
        let mut text = fs::read_to_string(&config).unwrap();
        let run = run.display();
        let hooks = f.place.tree().join(".git/hooks");
        let _ = write!(
            text,
            "[core]\n\tfsmonitor = {run}\n\thooksPath = {}\n[filter \"x\"]\n\tclean = {run}\n\
             \tsmudge = {run}\n\trequired = true\n[diff \"x\"]\n\ttextconv = {run}\n\
             \tcommand = {run}\n[commit]\n\tgpgsign = true\n",
            hooks.display()
        );
        fs::write(&config, text).unwrap();
        f.write(".gitattributes", "* diff=x\na filter=x\n");
        f.write("a", "1");
        let said = commit_all(&f, &tree, "Add a", None).unwrap();
        assert!(said.contains("`a` (.gitattributes says filter=x"), "{said}");
        assert!(said.contains("hooks were not run"), "{said}");
        super::super::show_diff(&f.place, &tree, &args::GitDiff { base: None, path: None })
            .unwrap();
        prepare_worktree(&f.place).unwrap();
        assert!(!ran.exists());
    }
}
