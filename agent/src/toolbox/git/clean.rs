//! Checks for work in the worktree that no commit has, as `git status` would.

use git2::{Commit, IndexEntry, Repository};

use super::GitSite;
use super::worktree::{
    FlagUse, LeftWhy, NewFile, NewFileVerdict, ScanRules, ScanScope, WorktreeChanges,
    WorktreeScanner, index_written, open_index, skip_sparse,
};
use crate::toolbox::ToolError;

/// Returns true if no tracked file differs from HEAD. Untracked files don't count.
pub(super) fn is_clean(place: &GitSite, repo: &Repository) -> Result<bool, ToolError> {
    let index = open_index(repo)?;
    let tree = repo.head()?.peel_to_tree()?;
    let staged = repo.diff_tree_to_index(Some(&tree), Some(&index), None)?;
    if index.has_conflicts() || staged.deltas().len() > 0 {
        return Ok(false);
    }
    let entries: Vec<IndexEntry> = index.iter().collect();
    let rules = ScanRules::known(&ScanScope::All, FlagUse::Git, index_written(repo));
    Ok(WorktreeScanner::new(repo, &place.work).scan(&entries, rules)?.is_empty())
}

/// Returns true if the tracked files are those of a commit.
pub(super) fn same_as(
    place: &GitSite,
    repo: &Repository,
    commit: &Commit<'_>,
) -> Result<bool, ToolError> {
    let mut index = git2::Index::new()?;
    index.read_tree(&commit.tree()?)?;
    skip_sparse(repo, &mut index)?;
    let entries: Vec<IndexEntry> = index.iter().collect();
    let rules = ScanRules::known(&ScanScope::All, FlagUse::Receipt, None);
    Ok(WorktreeScanner::new(repo, &place.work).scan(&entries, rules)?.is_empty())
}

/// Files that differ from HEAD, those that Git does not know among them, sorted.
pub(super) fn differing_files(
    place: &GitSite,
    repo: &Repository,
) -> Result<Vec<String>, ToolError> {
    let index = open_index(repo)?;
    let tree = repo.head()?.peel_to_tree()?;
    let staged = repo.diff_tree_to_index(Some(&tree), Some(&index), None)?;
    let staged = staged.deltas().filter_map(|delta| {
        delta.new_file().path_bytes().or(delta.old_file().path_bytes()).map(<[u8]>::to_vec)
    });
    let mut found: Vec<Vec<u8>> = staged.collect();
    let entries: Vec<IndexEntry> = index.iter().collect();
    let mut new = Vec::new();
    let mut note_new = |file: &NewFile<'_>| {
        new.push(file.path.to_vec());
        NewFileVerdict::Pass
    };
    let mut rules = ScanRules::known(&ScanScope::All, FlagUse::Git, index_written(repo));
    rules.new = Some(&mut note_new);
    let WorktreeChanges { entries, removed, left, .. } =
        WorktreeScanner::new(repo, &place.work).scan(&entries, rules)?;
    // Git shows these too, and only does not add them by itself.
    let left = left.into_iter().filter(|one| one.why == LeftWhy::OutsideSparse);
    found.extend(left.map(|one| one.path.into_bytes()));
    found.extend(entries.into_iter().map(|entry| entry.path));
    found.extend(removed);
    found.extend(new);
    found.sort_unstable();
    found.dedup();
    Ok(found.iter().map(|path| String::from_utf8_lossy(path).into_owned()).collect())
}
