//! GitUpdate: what the base branch has and the thread's branch lacks comes in, as a merge. What both have
//! changed is left to be settled in the files, and [`commit`](super::commit) ends the merge.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::build::CheckoutBuilder;
use git2::{
    Commit, Index, MergeOptions, ObjectType, Oid, Repository, RepositoryState, ResetType,
    Signature, Tree,
};

use super::clean::{is_clean, same_as};
use super::hooks::{HookMoment, name_hooks};
use super::markers::find_marker;
use super::opening::unfinished_error;
use super::rewrite::find_rewrite;
use super::sealed::is_descendant;
use super::taking::settle_on;
use super::worktree::{STAGE, WorktreeScanner, conflicting_files, open_index};
use super::{GitSite, short_id};
use crate::toolbox::ToolError;

/// Files in conflict that are named.
const MAX_NAMED: usize = 20;
/// Suffix of the key of a call that finds a merge in progress.
const MERGING: &str = "+merge";

#[derive(Debug)]
pub enum UpdateOutcome {
    /// The branch has all of the base branch; for the model.
    Done(String),
    /// Both sides have changed these files: they hold both versions now. For the model.
    Conflict(Vec<String>, String),
}

/// Key by which a repetition knows the state before: the commit, and if a merge was in progress.
pub fn update_key(place: &GitSite) -> Result<String, ToolError> {
    let repo = place.open()?;
    let merging = if repo.state() == RepositoryState::Merge { MERGING } else { "" };
    Ok(format!("{}{merging}", place.head_on_branch(&repo)?))
}

/// Merges the base branch in. `key` is what [`update_key`] said when the call was recorded; `again`, that
/// it may have been carried out in part. All that `merged` lead to counts as part of the base branch: a host that
/// squashes has it there under another name.
pub fn update_branch(
    place: &GitSite,
    key: &str,
    again: bool,
    merged: &[String],
) -> Result<UpdateOutcome, ToolError> {
    let _lock = place.lock()?;
    let mut repo = place.open()?;
    if repo.state() == RepositoryState::Merge {
        if key.ends_with(MERGING) || !again {
            return under_way(&mut repo);
        }
        // Begun by this call and cut off: nobody has worked on it, and there was nothing uncommitted.
        let head = repo.head()?.peel_to_commit()?;
        repo.reset(head.as_object(), ResetType::Hard, None)?;
        repo.cleanup_state()?;
    } else if repo.state() != RepositoryState::Clean {
        return Err(unfinished_error(repo.state()));
    }
    place.fetch(&repo)?;
    let (own, base) = (place.head_on_branch(&repo)?, super::base::base_commit(place)?);
    let name = &place.hello.base_branch;
    if own == base || is_descendant(place, own, base)? {
        let at = short_id(base);
        return Ok(UpdateOutcome::Done(format!(
            "the branch has all of `{name}` (at {at}) already"
        )));
    }
    refuse_strangers(place, &repo, own)?;
    let (_, behind) = place.open_sealed()?.graph_ahead_behind(own, base)?;
    let what = format!("{behind} commits of `{name}` (up to {})", short_id(base));
    if is_descendant(place, base, own)? {
        return settle_in(place, &repo, base, &what);
    }
    let with = stand_in(place, &repo, (own, base), merged)?;
    let mut index = repo.merge_commits(
        &repo.find_commit(own)?,
        &repo.find_commit(with)?,
        Some(&merge_options()),
    )?;
    if index.has_conflicts() {
        return begin_merge(place, &repo, (base, with), (&index, &what));
    }
    let tree = repo.find_tree(index.write_tree_to(&repo)?)?;
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let parents = [&repo.find_commit(own)?, &repo.find_commit(base)?];
    let message = merge_message(place);
    let commit = repo.commit(None, &signature, &signature, &message, &tree, &parents)?;
    settle_in(place, &repo, commit, &what)
}

/// A commit with the base branch's files from which all of `merged` can be reached, too: Git finds by it what both
/// sides have in common. No branch leads to it.
fn stand_in(
    place: &GitSite,
    repo: &Repository,
    (own, base): (Oid, Oid),
    merged: &[String],
) -> Result<Oid, ToolError> {
    let mut parents = vec![repo.find_commit(base)?];
    for commit in merged {
        let Ok(id) = Oid::from_str(commit) else { continue };
        let Ok(commit) = repo.find_commit(id) else { continue };
        let is_own = own == id || is_descendant(place, own, id)?;
        if is_own && !is_descendant(place, base, id)? {
            parents.push(commit);
        }
    }
    if parents.len() == 1 {
        return Ok(base);
    }
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let tree = parents[0].tree()?;
    let parents: Vec<&Commit<'_>> = parents.iter().collect();
    Ok(repo.commit(None, &signature, &signature, "What counts as merged", &tree, &parents)?)
}

/// Message of a merge commit that is made here.
fn merge_message(place: &GitSite) -> String {
    format!("Merge branch '{}' into {}\n", place.hello.base_branch, place.hello.branch)
}

fn merge_options() -> MergeOptions {
    let mut options = MergeOptions::new();
    options.find_renames(true);
    options
}

/// Others' commits on the thread's branch come first: a merge can't be put on top of them later.
fn refuse_strangers(place: &GitSite, repo: &Repository, own: Oid) -> Result<(), ToolError> {
    let branch = &place.hello.branch;
    let Ok(remote) = repo.refname_to_id(&place.remote_branch()) else { return Ok(()) };
    if let Some(rewrite) = find_rewrite(place, repo, remote)? {
        return Err(ToolError::refused(format!(
            "{}: call GitPush, which puts what is new of yours on top of it, then try again",
            rewrite.describe(place, repo, own)?
        )));
    }
    if remote == own || is_descendant(place, own, remote)? {
        return Ok(());
    }
    let how = if is_descendant(place, remote, own)? {
        format!("get them with `git merge --ff-only origin/{branch}` in Bash")
    } else {
        "call GitPush, which puts yours on top of them".to_owned()
    };
    Err(ToolError::refused(format!(
        "the remote's `{branch}` has commits that you don't have: {how}, then try again"
    )))
}

/// Moves the branch and the files of the worktree on to a commit.
fn settle_in(
    place: &GitSite,
    repo: &Repository,
    to: Oid,
    what: &str,
) -> Result<UpdateOutcome, ToolError> {
    let target = repo.find_commit(to)?;
    // The second case was killed after its files were there.
    if !is_clean(place, repo)? && !same_as(place, repo, &target)? {
        return Err(uncommitted_error());
    }
    settle_on(place, repo, place.head_on_branch(repo)?, to)?;
    let hooks = name_hooks(place, HookMoment::Merge);
    let hooks = hooks.map_or(String::new(), |named| format!(".\n{named}"));
    Ok(UpdateOutcome::Done(format!(
        "{what} came in without a conflict; the branch is at {}. Run the tests: what was tested before \
         is not what is here now. Then GitPush{hooks}",
        short_id(to)
    )))
}

fn uncommitted_error() -> ToolError {
    ToolError::refused("files differ from the last commit: commit them (GitCommit), then try again")
}

/// Leaves the merge in the worktree, to be settled.
fn begin_merge(
    place: &GitSite,
    repo: &Repository,
    (base, with): (Oid, Oid),
    (merged, what): (&Index, &str),
) -> Result<UpdateOutcome, ToolError> {
    if !is_clean(place, repo)? {
        return Err(uncommitted_error());
    }
    if WorktreeScanner::new(repo, &place.work).is_sparse() {
        return Err(ToolError::refused(format!(
            "{what} conflict with this branch in {}, and this worktree is a sparse checkout: begin the merge with \
             `git merge origin/{}` in Bash, settle these files, then GitCommit",
            name_files(&conflicting_files(merged)?),
            place.hello.base_branch
        )));
    }
    refuse_in_the_way(repo, merged, what)?;
    let theirs = repo.find_annotated_commit(with)?;
    let mut checkout = CheckoutBuilder::new();
    checkout.safe().allow_conflicts(true);
    checkout.our_label(&place.hello.branch).their_label(&place.hello.base_branch);
    let begun = repo.merge(&[&theirs], Some(&mut merge_options()), Some(&mut checkout));
    if begun.is_err() && !is_clean(place, repo)? {
        // It had begun with the files, which were clean: what is gone of them would count as deleted.
        repo.reset(repo.head()?.peel_to_commit()?.as_object(), ResetType::Hard, None)?;
        repo.cleanup_state()?;
    }
    begun?;
    if with != base {
        // The commit that ends the merge is one with the base branch.
        std::fs::write(repo.path().join("MERGE_HEAD"), format!("{base}\n"))
            .map_err(|error| ToolError::Failed(format!("the merge can't be begun: {error}")))?;
    }
    let files = conflicting_files(merged)?;
    let why = format!(
        "{what} come in, and conflict with this branch in {}. Each of these files holds both sides between \
         `<<<<<<<` and `>>>>>>>`: read what both sides meant (GitLog with `path` tells), Edit the file so that \
         both hold, without the markers, run the tests, then GitCommit and GitPush.{} To take it all back: `git \
         merge --abort` in Bash",
        name_files(&files),
        tell_unmarked(&place.tree(), &files)
    );
    Ok(UpdateOutcome::Conflict(files, why))
}

/// Refuses a merge that brings files which lie in the worktree already and are in no commit: ignored ones would be
/// overwritten.
fn refuse_in_the_way(repo: &Repository, merged: &Index, what: &str) -> Result<(), ToolError> {
    let own = repo.head()?.peel_to_tree()?;
    let root = repo.workdir().unwrap_or(Path::new(""));
    let mut in_the_way: Vec<String> = merged
        .iter()
        // What is settled, and what the other side has of a conflict.
        .filter(|entry| [0, STAGE].contains(&(entry.flags & STAGE)))
        .map(|entry| PathBuf::from(OsStr::from_bytes(&entry.path)))
        .filter_map(|path| find_blocker(root, &own, &path))
        .map(|path| path.to_string_lossy().replace(char::is_control, "?"))
        .collect();
    in_the_way.dedup();
    if in_the_way.is_empty() {
        return Ok(());
    }
    Err(ToolError::refused(format!(
        "{what} have files that lie here already, in no commit, and would be overwritten: {}. Commit them or move them \
         away, then try again",
        name_files(&in_the_way)
    )))
}

/// Finds what lies in no commit and where a merge brings a file or one of its folders. A link that is in a commit gives
/// way to a folder, as in Git: what lies where it leads to is not looked at.
fn find_blocker(root: &Path, own: &Tree<'_>, path: &Path) -> Option<PathBuf> {
    if let Ok(known) = own.get_path(path) {
        let is_folder = known.kind() == Some(ObjectType::Tree);
        return is_folder.then(|| find_untracked(root, own, path)).flatten();
    }
    let mut upward: Vec<&Path> = path.ancestors().collect();
    upward.pop();
    for part in upward.into_iter().rev() {
        let found = root.join(part).symlink_metadata().ok()?;
        if part == path || !found.is_dir() {
            return own.get_path(part).is_err().then(|| part.to_owned());
        }
    }
    None
}

/// Finds what is in a folder of the branch and in no commit: no file takes the place of the folder then.
fn find_untracked(root: &Path, own: &Tree<'_>, folder: &Path) -> Option<PathBuf> {
    let mut entries = std::fs::read_dir(root.join(folder)).ok()?.flatten();
    entries.find_map(|entry| {
        let path = folder.join(entry.file_name());
        match own.get_path(&path) {
            Err(_) => Some(path),
            Ok(known) if known.kind() == Some(ObjectType::Tree) => find_untracked(root, own, &path),
            Ok(_) => None,
        }
    })
}

/// Names the files of which only one side is there, whole: nothing in them shows that there is another.
fn tell_unmarked(tree: &Path, files: &[String]) -> String {
    let unmarked: Vec<String> =
        files.iter().filter(|file| find_marker(&tree.join(file)).is_none()).cloned().collect();
    if unmarked.is_empty() {
        return String::new();
    }
    format!(
        " Without markers, since binary or removed on one side: {}. Of a binary file take a side in Bash: `git restore \
         --ours PATH` is this branch's, `git restore --theirs PATH` the other one. A file that one side removed stays \
         as it is here, or goes with `git rm PATH`.",
        name_files(&unmarked)
    )
}

fn under_way(repo: &mut Repository) -> Result<UpdateOutcome, ToolError> {
    let files = conflicting_files(&open_index(repo)?)?;
    let left = if files.is_empty() { "none any more".to_owned() } else { name_files(&files) };
    let why = format!(
        "a merge is under way already; files to be settled: {left}. Edit them, run the tests, then GitCommit \
         ends it. To take it all back: `git merge --abort` in Bash"
    );
    Ok(UpdateOutcome::Conflict(files, why))
}

fn name_files(files: &[String]) -> String {
    let more = files.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", files[..files.len().min(MAX_NAMED)].join(", "))
}

/// The other side of a merge that is under way.
pub(super) fn other_parents(repo: &mut Repository) -> Result<Vec<Oid>, git2::Error> {
    let mut found = Vec::new();
    repo.mergehead_foreach(|id| {
        found.push(*id);
        true
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests;
