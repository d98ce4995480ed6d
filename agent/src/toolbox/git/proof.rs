//! Evidence of test runs: the tree of the files that one has seen, and its differences to HEAD. What Git's own index
//! remembers of files is not believed, since commands can write it: every file is hashed anew.

use std::path::Path;

use git2::{Delta, DiffOptions, Index, IndexEntry, Oid, Repository};

use super::GitSite;
use super::prepare::fork_point;
use super::worktree::{
    FlagUse, LeftWhy, NewFile, NewFileVerdict, ScanLimit, ScanRules, ScanScope, WorktreeScanner,
    open_index, skip_sparse, stage_changes,
};
use crate::toolbox::ToolError;
use crate::toolbox::protocol::WorktreeStanding;

/// Files and bytes of a worktree above which it is not hashed.
const MAX_FILES: usize = 200_000;
const MAX_BYTES: u64 = 1024 * 1024 * 1024;
/// Reason that the tree of a worktree is not known.
pub const TOO_LARGE: &str =
    "the worktree has more than 200,000 files or 1 GiB beside what .gitignore names";
const MAX_NAMED: usize = 10;
/// Files of a branch that are told.
const MAX_TOUCHED: usize = 1_000;

/// The tree that a commit of all files in a folder would have now, ignored ones left out.
pub fn snapshot_tree(place: &GitSite, files: &Path) -> Result<String, ToolError> {
    let _lock = place.lock()?;
    Ok(tree_of_files(place, &looking_at(place, files)?)?.to_string())
}

/// The repository, with the worktree or a copy of it as its files.
fn looking_at(place: &GitSite, files: &Path) -> Result<Repository, ToolError> {
    let repo = place.open()?;
    if repo.workdir().and_then(|own| own.canonicalize().ok()) != files.canonicalize().ok() {
        repo.set_workdir(files, false)?;
    }
    Ok(repo)
}

/// Returns the tree that a run began with, if it left those files as they were. New ones may have come.
pub fn unchanged_tree(
    place: &GitSite,
    files: &Path,
    before: &str,
) -> Result<Option<String>, ToolError> {
    let _lock = place.lock()?;
    let repo = looking_at(place, files)?;
    let from = repo.find_tree(Oid::from_str(before)?)?;
    let to = repo.find_tree(tree_of_files(place, &repo)?)?;
    let diff = repo.diff_tree_to_tree(Some(&from), Some(&to), None)?;
    let same = diff.deltas().all(|delta| delta.status() == Delta::Added);
    Ok(same.then(|| before.to_owned()))
}

/// Compares HEAD and the worktree with the tree that was tested.
pub fn find_standing(place: &GitSite, tested: Option<&str>) -> Result<WorktreeStanding, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    let commit = repo.find_commit(place.head_on_branch(&repo)?)?;
    let own = commit.tree_id();
    let changed = match tested.map(Oid::from_str).transpose()? {
        // The tested tree is not known if the volume was lost.
        Some(tested) if repo.find_tree(tested).is_ok() => {
            tree_difference(&repo, tested, own, MAX_NAMED)?
        }
        _ => Vec::new(),
    };
    let uncommitted = match tree_of_files(place, &repo) {
        // The tested tree is not known in this case either, and the model is told so.
        Err(ToolError::Refused(why)) if why == TOO_LARGE => Vec::new(),
        files => tree_difference(&repo, own, files?, MAX_NAMED)?,
    };
    Ok(WorktreeStanding { commit: commit.id().to_string(), changed, uncommitted })
}

/// The files in which HEAD differs from where the branch left the base branch.
pub fn touched_files(place: &GitSite) -> Result<Vec<String>, ToolError> {
    let repo = place.open()?;
    let from = repo.find_commit(fork_point(place, &repo)?)?.tree_id();
    let own = repo.find_commit(place.head_on_branch(&repo)?)?.tree_id();
    tree_difference(&repo, from, own, MAX_TOUCHED)
}

/// The tree of a commit of everything. Every file counts as it is, whatever Git was told of it; what a sparse
/// checkout leaves out is as HEAD has it. Of Git's own index only the names are believed: they say what is tracked.
pub(super) fn tree_of_files(place: &GitSite, repo: &Repository) -> Result<Oid, ToolError> {
    // `repo` may look at a copy, and may have been given another index.
    let staged = open_index(&place.open()?)?;
    let mut index = Index::new()?;
    if staged.has_conflicts() {
        index.read_tree(&repo.head()?.peel_to_tree()?)?;
        skip_sparse(repo, &mut index)?;
    }
    for entry in staged.iter().filter(|_| !staged.has_conflicts()) {
        index.add(&entry)?;
    }
    let entries: Vec<IndexEntry> = index.iter().collect();
    let scanner = WorktreeScanner::new(repo, &place.work);
    // Attributes and line ends are decided by this index, not by Git's own.
    repo.set_index(&mut index)?;
    let mut take = |_: &NewFile<'_>| NewFileVerdict::Take;
    let mut rules = ScanRules::known(&ScanScope::All, FlagUse::Receipt, None);
    rules.new = Some(&mut take);
    rules.limit = Some(ScanLimit { files: MAX_FILES, bytes: MAX_BYTES, why: TOO_LARGE });
    let mut changes = scanner.scan(&entries, rules)?;
    if let Some(one) = changes.left.iter().find(|one| one.why != LeftWhy::NoCommit) {
        return Err(ToolError::refused(format!("`{}` can't be read", one.path)));
    }
    changes.refreshed.clear();
    stage_changes(&mut index, &mut changes)?;
    Ok(index.write_tree_to(repo)?)
}

fn tree_difference(
    repo: &Repository,
    from: Oid,
    to: Oid,
    most: usize,
) -> Result<Vec<String>, ToolError> {
    if from == to {
        return Ok(Vec::new());
    }
    let (from, to) = (repo.find_tree(from)?, repo.find_tree(to)?);
    let diff = repo.diff_tree_to_tree(Some(&from), Some(&to), Some(&mut DiffOptions::new()))?;
    let names = diff.deltas().filter_map(|delta| {
        let file = delta.new_file().path().or_else(|| delta.old_file().path())?;
        Some(file.display().to_string())
    });
    Ok(names.take(most).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::fixture::GitFixture;
    use super::super::{commit_files, head_commit, prepare_worktree};
    use super::*;
    use crate::tool_args as args;
    use crate::toolbox::paths::WorktreeRoot;

    fn commit_all(f: &GitFixture) {
        let args = args::GitCommit { message: "Change".into(), paths: None };
        let tree = WorktreeRoot::open(&f.place.tree()).unwrap();
        commit_files(&f.place, &tree, &args, &head_commit(&f.place).unwrap()).unwrap();
    }

    #[test]
    fn what_was_tested_is_what_a_commit_of_it_holds() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        f.write("src/a.rs", "fn a() {}\n");
        f.write("target/out", "ignored");
        fs::remove_file(f.place.tree().join("README")).unwrap();
        let tested = snapshot_tree(&f.place, &f.place.tree()).unwrap();
        let before = find_standing(&f.place, Some(&tested)).unwrap();
        assert_eq!(before.changed, ["README", "src/a.rs"]);
        assert_eq!(before.uncommitted, ["README", "src/a.rs"]);
        commit_all(&f);
        let standing = |tested: &str| find_standing(&f.place, Some(tested)).unwrap();
        let now = standing(&tested);
        assert_eq!((now.changed, now.uncommitted), (vec![], vec![]));
        assert_eq!(now.commit, head_commit(&f.place).unwrap());
        assert_eq!(f.git(&f.place.tree(), &["rev-parse", "HEAD^{tree}"]), tested);

        f.write("src/a.rs", "fn b() {}\n");
        // Git itself can be told to look away; this can't.
        f.git(&f.place.tree(), &["update-index", "--assume-unchanged", "src/a.rs"]);
        assert_eq!(standing(&tested).uncommitted, ["src/a.rs"]);
        assert_eq!(standing(&tested).changed, [""; 0]);
    }

    #[test]
    fn a_run_that_changes_what_it_tests_proves_nothing() {
        let f = GitFixture::new();
        prepare_worktree(&f.place).unwrap();
        let before = snapshot_tree(&f.place, &f.place.tree()).unwrap();
        f.write("report.xml", "new files are fine");
        assert_eq!(
            unchanged_tree(&f.place, &f.place.tree(), &before).unwrap().as_deref(),
            Some(&*before)
        );
        f.write("README", "changed\n");
        assert_eq!(unchanged_tree(&f.place, &f.place.tree(), &before).unwrap(), None);
    }
}
