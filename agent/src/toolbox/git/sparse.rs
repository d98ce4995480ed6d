//! Sparse checkouts that the Repo asks for (`spec.worktree.sparse`): a new clone has some folders of the repository. A role
//! adds others with `git sparse-checkout add`, and a clone keeps what it has until it is made anew.

use std::fs;
use std::io;
use std::path::Path;

use git2::build::CheckoutBuilder;
use git2::{ObjectType, Repository, Tree};

use super::GitSite;
use super::base::FOLDER;
use super::unclaimed::{discard_clone, is_unclaimed, swept_folder};
use super::worktree::{
    SKIP, check_out_more, cone_folders, cone_patterns, skip_sparse, sparse_patterns,
};
use crate::toolbox::ToolError;
use crate::toolbox::protocol::SparseExtent;
use codebutler_guides::text::clip_text;

/// The patterns with which the clone was made. Beside the worktree, where no command can write.
const MADE_WITH: &str = ".sparse";
/// Folders that are named, and characters of each.
const MAX_NAMED: usize = 20;
const MAX_NAME: usize = 80;

/// Patterns of the folders that the Repo wants; none for the whole repository. The folder with its guides is always
/// among them.
fn wanted_patterns(place: &GitSite) -> Option<String> {
    let folders = &place.hello.sparse;
    let named = folders.iter().map(String::as_str).chain([FOLDER]);
    (!folders.is_empty()).then(|| cone_patterns(named))
}

/// Checks out the commit of a new clone: the folders that the Repo wants.
pub(super) fn check_out_wanted(place: &GitSite, repo: &Repository) -> Result<(), ToolError> {
    let patterns = wanted_patterns(place);
    note_patterns(place, patterns.as_deref()).map_err(|e| write_error(&e))?;
    let Some(patterns) = patterns else {
        return Ok(repo.checkout_head(Some(CheckoutBuilder::new().force()))?);
    };
    set_sparse(repo, &patterns)?;
    let commit = repo.head()?.peel_to_commit()?;
    let mut index = repo.index()?;
    index.read_tree(&commit.tree()?)?;
    skip_sparse(repo, &mut index)?;
    index.write()?;
    // libgit2 knows no sparse checkouts: it is told each file.
    let mut checkout = CheckoutBuilder::new();
    checkout.force().disable_pathspec_match(true);
    let mut is_empty = true;
    for entry in index.iter().filter(|entry| entry.flags_extended & SKIP == 0) {
        checkout.path(entry.path);
        is_empty = false;
    }
    // Without a path it would be all of them.
    if !is_empty {
        repo.checkout_tree(commit.as_object(), Some(&mut checkout))?;
    }
    Ok(())
}

/// Makes a repository a sparse checkout. Its files and index stay as they are.
pub(super) fn set_sparse(repo: &Repository, patterns: &str) -> Result<(), ToolError> {
    let info = repo.path().join("info");
    fs::create_dir_all(&info)
        .and_then(|()| fs::write(info.join("sparse-checkout"), patterns))
        .map_err(|e| write_error(&e))?;
    let mut config = repo.config()?;
    config.set_bool("core.sparseCheckout", true)?;
    config.set_bool("core.sparseCheckoutCone", cone_folders(patterns).is_some())?;
    Ok(())
}

/// Replaces a file as a whole: a kill leaves the old or the new, and no link that is there is followed.
fn replace_file(place: &GitSite, path: &Path, patterns: &str) -> io::Result<()> {
    let next = place.work.join(".sparse.next");
    fs::write(&next, patterns).and_then(|()| fs::rename(&next, path))
}

fn note_patterns(place: &GitSite, patterns: Option<&str>) -> io::Result<()> {
    let path = place.work.join(MADE_WITH);
    match patterns {
        Some(patterns) => replace_file(place, &path, patterns),
        None => match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        },
    }
}

fn write_error(error: &io::Error) -> ToolError {
    ToolError::Failed(format!("the volume can't be written: {error}"))
}

/// Removes a clone that no thread works in, if the Repo wants other folders by now than it was made with.
pub(super) fn discard_outdated(place: &GitSite) -> Result<(), ToolError> {
    let is_there = place.tree().join(".git").symlink_metadata().is_ok();
    if !is_there || !is_unclaimed(place) {
        return Ok(());
    }
    let made_with = fs::read_to_string(place.work.join(MADE_WITH)).ok();
    if made_with == wanted_patterns(place) { Ok(()) } else { discard_clone(place) }
}

/// Adds the folders of an approved plan to a sparse checkout: of what it names, and of the files among that. Answers what
/// was added. Only files that are not there are written.
pub fn add_planned(place: &GitSite, planned: &[String]) -> Result<Option<String>, ToolError> {
    if planned.is_empty() {
        return Ok(None);
    }
    let _lock = place.lock()?;
    let repo = place.open()?;
    let patterns = sparse_patterns(&repo, &place.work);
    let Some(known) = patterns.as_deref().and_then(cone_folders) else { return Ok(None) };
    let tree = repo.head()?.peel_to_tree()?;
    let planned: Vec<&str> = planned.iter().filter_map(|path| folder_of(&tree, path)).collect();
    let wanted = cone_patterns(known.iter().map(String::as_str).chain(planned));
    let folders = cone_folders(&wanted).unwrap_or_default();
    let added: Vec<String> = folders.into_iter().filter(|folder| !known.contains(folder)).collect();
    if added.is_empty() {
        return Ok(None);
    }
    // The patterns last: what was cut off before is done again.
    check_out_more(&repo, &wanted, &swept_folder(&place.work))?;
    let own = repo.path().join("info/sparse-checkout");
    replace_file(place, &own, &wanted).map_err(|e| write_error(&e))?;
    let shown = added.iter().take(MAX_NAMED).map(|folder| plain_name(folder));
    Ok(Some(format!("The sparse checkout got `{}`", shown.collect::<Vec<_>>().join("`, `"))))
}

/// The folder of a path in a plan: itself, or that of a file. None for what is at the top, which is there anyway, and for
/// a pattern.
fn folder_of<'p>(tree: &Tree<'_>, path: &'p str) -> Option<&'p str> {
    let path = path.trim_start_matches("./").trim_end_matches('/');
    let kind = |path: &str| tree.get_path(Path::new(path)).ok().and_then(|entry| entry.kind());
    if kind(path) == Some(ObjectType::Tree) {
        return Some(path);
    }
    let (folder, _) = path.rsplit_once('/')?;
    // A folder that is to be made is none of the tree.
    let is_pattern = folder.contains(['*', '?', '[', '{', '\\']);
    (!is_pattern || kind(folder) == Some(ObjectType::Tree)).then_some(folder)
}

/// The part of the repository that the worktree has, as it is now; none if that is all of it.
pub(super) fn find_extent(
    place: &GitSite,
    repo: &Repository,
) -> Result<Option<SparseExtent>, ToolError> {
    let Some(patterns) = sparse_patterns(repo, &place.work) else { return Ok(None) };
    let index = repo.index()?;
    let outside = index.iter().filter(|entry| entry.flags_extended & SKIP != 0).count();
    let folders = cone_folders(&patterns).unwrap_or_default();
    let folders = folders.iter().take(MAX_NAMED).map(|folder| plain_name(folder)).collect();
    Ok(Some(SparseExtent { folders, outside }))
}

fn plain_name(folder: &str) -> String {
    let plain = |c: char| if c.is_control() || c == '`' { '?' } else { c };
    clip_text(&folder.chars().map(plain).collect::<String>(), MAX_NAME)
}

#[cfg(test)]
mod tests;
