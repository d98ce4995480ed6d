//! Stages the files of a commit: everything, or only what was named, with the rest left staged as it was.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use git2::{Index, IndexEntry, Oid, Repository};

use super::worktree::{
    FlagUse, GITLINK, INTENT, LeftAlone, NewFile, NewFileVerdict, SKIP, STAGE, ScanRules,
    ScanScope, WorktreeChanges, WorktreeScanner, index_written, intents_left_out, name_left,
    stage_changes,
};
use crate::toolbox::ToolError;
use crate::toolbox::paths::WorktreeRoot;

/// Tree that is to be committed, and the files that it leaves out.
pub(super) struct StagedCommit {
    pub tree: Oid,
    /// Files that differ and are not in it.
    pub left: Vec<LeftAlone>,
    /// Repositories of their own, recorded for the first time.
    pub nested: Vec<String>,
}

impl StagedCommit {
    fn of(tree: Oid, changes: WorktreeChanges) -> Self {
        Self { tree, left: changes.left, nested: changes.nested }
    }
}

/// Stages what `git add --all` stages.
pub(super) fn stage_all(
    repo: &Repository,
    scanner: &WorktreeScanner<'_>,
    index: &mut Index,
) -> Result<StagedCommit, ToolError> {
    let entries: Vec<IndexEntry> = index.iter().collect();
    let mut rules = ScanRules::known(&ScanScope::All, FlagUse::Git, index_written(repo));
    let mut take = |_: &NewFile<'_>| NewFileVerdict::Take;
    rules.new = Some(&mut take);
    let mut changes = scanner.scan(&entries, rules)?;
    stage_changes(index, &mut changes)?;
    Ok(StagedCommit::of(intents_left_out(repo, index)?, changes))
}

/// Stages the named files and folders, and answers with the tree of HEAD with these alone, as
/// `git commit -- path` does.
pub(super) fn stage_named(
    repo: &Repository,
    scanner: &WorktreeScanner<'_>,
    index: &mut Index,
    (root, paths): (&WorktreeRoot, &[String]),
) -> Result<StagedCommit, ToolError> {
    let head = repo.head()?.peel_to_tree()?;
    let mut tip = Index::new()?;
    tip.read_tree(&head)?;
    let mut named = Vec::new();
    let mut all = false;
    for path in paths {
        match name_of(root, path)? {
            name if name.is_empty() => all = true,
            name => {
                check_named(repo, scanner, (index, &tip), (root, path, &name))?;
                named.push(name);
            }
        }
    }
    let scope = if all { ScanScope::All } else { ScanScope::Paths(named.clone()) };
    let entries: Vec<IndexEntry> = index.iter().collect();
    let mut rules = ScanRules::known(&scope, FlagUse::Named, index_written(repo));
    let mut take = |_: &NewFile<'_>| NewFileVerdict::Take;
    rules.new = Some(&mut take);
    let mut changes = scanner.scan(&entries, rules)?;
    let is_named = |left: &&LeftAlone| named.iter().any(|name| left.path.as_bytes() == *name);
    let refused: Vec<LeftAlone> = changes.left.iter().filter(is_named).cloned().collect();
    if !refused.is_empty() {
        return Err(ToolError::refused(format!("not committed: {}", name_left(&refused))));
    }
    stage_changes(index, &mut changes)?;
    // The changes that follow count only if something is committed.
    index.write()?;
    stage_unlisted(scanner, index, (&tip, &scope, &named))?;
    for gone in tip.iter().filter(|entry| scope.holds(&entry.path)).collect::<Vec<_>>() {
        let path = Path::new(OsStr::from_bytes(&gone.path));
        if index.get_path(path, 0).is_none() {
            tip.remove(path, 0)?;
        }
    }
    for entry in index.iter().filter(|entry| scope.holds(&entry.path)) {
        if entry.flags & STAGE == 0 && entry.flags_extended & INTENT == 0 {
            tip.add(&entry)?;
        }
    }
    Ok(StagedCommit::of(tip.write_tree_to(repo)?, changes))
}

/// Stages files of the last commit that the index has lost and that are there: they are not gone, also where an
/// ignore file names them, so that they are no new ones. One that is named by itself is meant to be taken out.
fn stage_unlisted(
    scanner: &WorktreeScanner<'_>,
    index: &mut Index,
    (tip, scope, named): (&Index, &ScanScope, &[Vec<u8>]),
) -> Result<(), ToolError> {
    for known in tip.iter().filter(|entry| scope.holds(&entry.path)) {
        if named.contains(&known.path)
            || index.get_path(Path::new(OsStr::from_bytes(&known.path)), 0).is_some()
        {
            continue;
        }
        match scanner.entry_of(&known.path)? {
            Some(Ok(entry)) => index.add(&entry)?,
            Some(Err(left)) => {
                return Err(ToolError::refused(format!("not committed: {}", name_left(&[left]))));
            }
            None => {}
        }
    }
    Ok(())
}

/// A path as Git names it; nothing for the worktree itself. The name that was given counts, not what a link leads
/// to: Git stores the link itself, even one that leads nowhere.
fn name_of(root: &WorktreeRoot, path: &str) -> Result<Vec<u8>, ToolError> {
    let refuse = |why: &str| Err(ToolError::refused(format!("`{path}` {why}")));
    if path.is_empty() || path.contains('\0') {
        return refuse("is not a path");
    }
    let given = Path::new(path);
    let given = given.strip_prefix(root.root()).unwrap_or(given);
    let mut name: Vec<&[u8]> = Vec::new();
    for part in given.components() {
        match part {
            Component::Normal(part) if part.eq_ignore_ascii_case(".git") => {
                return refuse("is inside .git: use the Git tools");
            }
            Component::Normal(part) => name.push(part.as_bytes()),
            Component::ParentDir if !name.is_empty() => drop(name.pop()),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return refuse("is outside the worktree: use a path relative to its root");
            }
        }
    }
    Ok(name.join(&b'/'))
}

/// Refuses what can't be committed by this name.
fn check_named(
    repo: &Repository,
    scanner: &WorktreeScanner<'_>,
    (index, tip): (&Index, &Index),
    (root, path, name): (&WorktreeRoot, &str, &[u8]),
) -> Result<(), ToolError> {
    let refuse = |why: &str| Err(ToolError::refused(format!("`{path}` {why}")));
    let at = Path::new(OsStr::from_bytes(name));
    if scanner.has_link_above(name) {
        return refuse("is beyond a symbolic link: name the file where it really is");
    }
    let modules = at.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
    for above in modules {
        if index.get_path(above, 0).is_some_and(|entry| entry.mode == GITLINK) {
            return refuse(&format!(
                "is in the submodule `{}`, a repository of its own: commit it there with `git` in Bash, then \
                 name the submodule",
                above.display()
            ));
        }
    }
    let known = index.get_path(at, 0);
    match root.root().join(at).symlink_metadata() {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) if known.is_some() || tip.get_path(at, 0).is_some() => Ok(()),
        Ok(_) if repo.is_path_ignored(at)? => refuse("is ignored by .gitignore"),
        Ok(_) => Ok(()),
        Err(_) if known.as_ref().is_some_and(|entry| entry.flags_extended & SKIP != 0) => {
            refuse("is left out of this sparse checkout and unchanged: there is nothing to commit")
        }
        Err(_) if known.is_some() || has_below(index, name) || has_below(tip, name) => Ok(()),
        Err(_) if tip.get_path(at, 0).is_some() => Ok(()),
        Err(_) => refuse("does not exist and Git does not know it"),
    }
}

fn has_below(index: &Index, name: &[u8]) -> bool {
    let below = [name, b"/"].concat();
    index.iter().any(|entry| entry.path.starts_with(&below))
}

#[cfg(test)]
mod tests;
