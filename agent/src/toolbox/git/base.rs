//! Rules of the base branch on how to work here, as the remote told them: no thread can change them before it is
//! merged, and no command either, since the worktree's own references are not looked at.

use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use git2::{
    ErrorCode, Object, ObjectType, Oid, Repository, Tree as GitTree, TreeEntry, TreeWalkMode,
    TreeWalkResult,
};

use super::GitSite;
use super::sealed::{explain_lost, is_absence, read_base};
use crate::toolbox::ToolError;
use codebutler_guides::text::plain_text;

/// Largest file that is read, in bytes.
pub(super) const MAX_FILE: usize = 256 * 1024;
/// Files of the memory that are listed.
const MAX_LISTED: usize = 200;
const JOURNALS: &str = "journals/";
/// Entries of the top of the tree that are told, and of each folder in it.
const MAX_TOP: usize = 60;
const MAX_BELOW: usize = 8;
/// Files in which projects of all kinds say how to work in them. Of each line the first that exists counts.
const CONVENTIONS: [&[&str]; 3] = [
    &["AGENTS.md"],
    &["CLAUDE.md"],
    &["CONTRIBUTING.md", "CONTRIBUTING", "CONTRIBUTING.rst", ".github/CONTRIBUTING.md"],
];
const NESTED: &str = "AGENTS.md";
/// Folders in which it is looked for.
const MAX_FOLDERS: usize = 16;
/// Folders that are searched for files that count in a part of the tree, and how many are named.
const MAX_WALKED: usize = 5_000;
const MAX_NESTED: usize = 30;
/// File mode of a symbolic link in a tree.
pub(super) const LINK: i32 = 0o120_000;
/// The folder that CodeButler reads.
pub(super) const FOLDER: &str = ".codebutler";

/// The base branch's commit, as the remote said when it was asked last. Shared by all who work on one
/// worktree.
#[derive(Clone, Debug, Default)]
pub struct BaseCommit(Arc<Mutex<Option<Oid>>>);

impl BaseCommit {
    pub(super) fn set(&self, commit: Oid) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(commit);
    }

    pub(super) fn commit(&self) -> Result<Oid, ToolError> {
        let known = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.ok_or_else(|| ToolError::refused("the base branch was not fetched yet"))
    }
}

/// A file of `.codebutler/`.
pub fn base_guide(place: &GitSite, file: &str) -> Result<Option<String>, ToolError> {
    read_base(place, |repo, tree| file_text(repo, tree, &format!("{FOLDER}/{file}"), MAX_FILE))
}

/// Paths of the files below `.codebutler/`; journals, which are many, are only counted.
pub(super) fn memory_names(place: &GitSite) -> Result<Vec<String>, ToolError> {
    read_base(place, list_memory)
}

fn list_memory(repo: &Repository, base: &GitTree<'_>) -> Result<Vec<String>, ToolError> {
    let Some(folder) = base.get_name(FOLDER) else { return Ok(Vec::new()) };
    let Some(folder) = read_entry(repo, &folder)? else { return Ok(Vec::new()) };
    let Some(folder) = folder.as_tree() else { return Ok(Vec::new()) };
    let mut names = Vec::new();
    let mut journals = 0;
    folder
        .walk(TreeWalkMode::PreOrder, |root, entry| {
            if entry.kind() == Some(ObjectType::Blob) && root == JOURNALS {
                journals += 1;
            } else if entry.kind() == Some(ObjectType::Blob) {
                names.push(format!("{root}{}", String::from_utf8_lossy(entry.name_bytes())));
            }
            if names.len() < MAX_LISTED { TreeWalkResult::Ok } else { TreeWalkResult::Abort }
        })
        .or_else(|error| {
            if error.code() == ErrorCode::User { Ok(()) } else { Err(explain_lost(&error)) }
        })?;
    if journals > 0 {
        names.push(format!("{JOURNALS} ({journals})"));
    }
    Ok(names)
}

/// Path and text of what the project tells everybody who works on it: at its root, and in the folders
/// above `planned`. The same text is there once.
pub fn read_conventions(
    place: &GitSite,
    planned: &[String],
) -> Result<Vec<(String, String)>, ToolError> {
    read_base(place, |repo, base| find_conventions(repo, base, planned))
}

fn find_conventions(
    repo: &Repository,
    base: &GitTree<'_>,
    planned: &[String],
) -> Result<Vec<(String, String)>, ToolError> {
    let mut found: Vec<(String, String)> = Vec::new();
    for names in CONVENTIONS {
        for name in names {
            if let Some(text) = usable_text(repo, base, name, MAX_FILE)? {
                add_text(&mut found, (*name).to_owned(), text);
                break;
            }
        }
    }
    for folder in folders_above(planned) {
        let path = folder.join(NESTED).to_string_lossy().into_owned();
        if let Some(text) = usable_text(repo, base, &path, MAX_FILE)? {
            add_text(&mut found, path, text);
        }
    }
    Ok(found)
}

/// A file's text, or none of one that can't be used as text; that something is missing is an error all the same.
pub(super) fn usable_text(
    repo: &Repository,
    tree: &GitTree<'_>,
    path: &str,
    max: usize,
) -> Result<Option<String>, ToolError> {
    match file_text(repo, tree, path, max) {
        Err(ToolError::Refused(why)) => {
            tracing::debug!(path, why, "base_file_skipped");
            Ok(None)
        }
        read => read,
    }
}

/// Unless it says nothing new.
fn add_text(found: &mut Vec<(String, String)>, path: String, text: String) {
    let known = found.iter().any(|(known, of)| {
        of.trim() == text.trim() || imported_file(&text).is_some_and(|named| named == *known)
    });
    if !known && !text.trim().is_empty() {
        found.push((path, text));
    }
}

/// The file that a text refers to and says nothing besides, as in `@AGENTS.md`.
fn imported_file(text: &str) -> Option<&str> {
    let said =
        |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("<!--");
    let mut lines = text.lines().map(str::trim).filter(said);
    let named = lines.next()?.strip_prefix('@')?.trim_start_matches("./");
    lines.next().is_none().then_some(named)
}

/// The folders in which the planned files are, and those around them, the outer ones first. Not the root.
fn folders_above(planned: &[String]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for path in planned {
        let Some(path) = path_inside(Path::new(path)) else { continue };
        for folder in path.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            if folders.iter().all(|known| known != folder) {
                folders.push(folder.to_owned());
            }
        }
    }
    folders.sort_by_key(|folder| folder.components().count());
    folders.truncate(MAX_FOLDERS);
    folders
}

/// Top of the tree: one line for each entry, folders with what is in them.
pub(super) fn list_top(place: &GitSite) -> Result<Vec<String>, ToolError> {
    read_base(place, |repo, base| Ok(list_tree(repo, base)))
}

fn list_tree(repo: &Repository, base: &GitTree<'_>) -> Vec<String> {
    let mut lines: Vec<String> = list_entries(base).take(MAX_TOP).map(|(line, _)| line).collect();
    for (line, (_, below)) in lines.iter_mut().zip(list_entries(base)) {
        let Some(below) = below.and_then(|id| repo.find_tree(id).ok()) else { continue };
        let mut names: Vec<String> =
            list_entries(&below).take(MAX_BELOW).map(|(name, _)| name).collect();
        if below.len() > MAX_BELOW {
            names.push(format!("and {} more", below.len() - MAX_BELOW));
        }
        *line = format!("{line} ({})", names.join(", "));
    }
    if base.len() > MAX_TOP {
        lines.push(format!("and {} more", base.len() - MAX_TOP));
    }
    lines
}

/// Names of a tree's entries, in one line each; of folders also what they are.
fn list_entries<'a>(tree: &'a GitTree<'_>) -> impl Iterator<Item = (String, Option<Oid>)> + 'a {
    tree.iter().map(|entry| {
        let name: String = String::from_utf8_lossy(entry.name_bytes())
            .chars()
            .map(|c| if c.is_control() || c == '`' { '?' } else { c })
            .take(80)
            .collect();
        match entry.kind() {
            Some(ObjectType::Tree) => (format!("{name}/"), Some(entry.id())),
            _ => (name, None),
        }
    })
}

/// The base branch's commit.
pub(super) fn base_commit(place: &GitSite) -> Result<Oid, ToolError> {
    place.base.commit()
}

pub(super) fn base_tree<'r>(
    place: &GitSite,
    repo: &'r Repository,
) -> Result<GitTree<'r>, ToolError> {
    Ok(repo.find_commit(place.base.commit()?)?.tree()?)
}

/// A file's text; a link within the tree is followed once.
pub(super) fn file_text(
    repo: &Repository,
    tree: &GitTree<'_>,
    path: &str,
    max: usize,
) -> Result<Option<String>, ToolError> {
    let at = Path::new(path);
    if !at.components().all(|component| matches!(component, Component::Normal(_))) {
        return Ok(None);
    }
    let Some(mut entry) = find_entry(tree, at)? else { return Ok(None) };
    if entry.filemode() == LINK {
        let target = read_entry(repo, &entry)?;
        let target = target.as_ref().and_then(Object::as_blob);
        let target = target.and_then(|blob| std::str::from_utf8(blob.content()).ok());
        let folder = at.parent().unwrap_or(Path::new(""));
        let target = target.and_then(|target| path_inside(&folder.join(target)));
        let target = target.map(|target| find_entry(tree, &target)).transpose()?;
        match target.flatten() {
            Some(found) if found.filemode() != LINK => entry = found,
            _ => return Err(ToolError::refused(format!("`{path}` is a link that leads nowhere"))),
        }
    }
    let object = read_entry(repo, &entry)?;
    let Some(blob) = object.as_ref().and_then(Object::as_blob) else {
        return Err(ToolError::refused(format!("`{path}` is no file")));
    };
    if blob.size() > max {
        let size = blob.size();
        return Err(ToolError::refused(format!(
            "`{path}` has {size} bytes, and {max} are read: make it shorter"
        )));
    }
    match std::str::from_utf8(blob.content()) {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(error) => {
            let good = &blob.content()[..error.valid_up_to()];
            let line = 1 + good.split(|byte| *byte == b'\n').skip(1).count();
            Err(ToolError::refused(format!("line {line} of `{path}` is not UTF-8 text")))
        }
    }
}

/// Looks up a path in a tree. A folder on the way whose object is missing is an error: it may hold the file.
pub(super) fn find_entry(
    tree: &GitTree<'_>,
    path: &Path,
) -> Result<Option<TreeEntry<'static>>, ToolError> {
    match tree.get_path(path) {
        Ok(entry) => Ok(Some(entry)),
        Err(error) if is_absence(&error) => Ok(None),
        Err(error) => Err(explain_lost(&error)),
    }
}

/// The object of an entry; none of a submodule, whose commit is elsewhere.
pub(super) fn read_entry<'r>(
    repo: &'r Repository,
    entry: &TreeEntry<'_>,
) -> Result<Option<Object<'r>>, ToolError> {
    if entry.kind() == Some(ObjectType::Commit) {
        return Ok(None);
    }
    entry.to_object(repo).map(Some).map_err(|error| explain_lost(&error))
}

/// A path without detours; none if it leads out of the tree.
pub(super) fn path_inside(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::CurDir => {}
            Component::ParentDir if plain.pop() => {}
            _ => return None,
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}

/// Paths of the files below the root that say how to work in their folders.
pub(super) fn list_nested(repo: &Repository, tree: &GitTree<'_>) -> Result<Vec<String>, ToolError> {
    let mut found = Vec::new();
    let mut folders = 0;
    walk_nested(repo, tree, Path::new(""), &mut folders, &mut found)?;
    Ok(found)
}

/// Breadth stays bounded: a large repository is not read whole before each run.
fn walk_nested(
    repo: &Repository,
    tree: &GitTree<'_>,
    folder: &Path,
    folders: &mut usize,
    found: &mut Vec<String>,
) -> Result<(), ToolError> {
    for entry in tree {
        let Ok(name) = entry.name() else { continue };
        let path = folder.join(name);
        match entry.kind() {
            Some(ObjectType::Blob) if name == NESTED && !folder.as_os_str().is_empty() => {
                found.push(plain_text(&path.to_string_lossy()).replace(['`', '\n'], "?"));
            }
            Some(ObjectType::Tree) if *folders < MAX_WALKED && found.len() < MAX_NESTED => {
                *folders += 1;
                walk_nested(repo, &repo.find_tree(entry.id())?, &path, folders, found)?;
            }
            _ => {}
        }
    }
    found.truncate(MAX_NESTED);
    Ok(())
}

/// Names of a folder's pages, sorted; none where there is no folder.
pub(super) fn files_in(
    repo: &Repository,
    tree: &GitTree<'_>,
    folder: &str,
) -> Result<Vec<String>, ToolError> {
    let Some(entry) = find_entry(tree, Path::new(folder))? else { return Ok(Vec::new()) };
    let object = read_entry(repo, &entry)?;
    let Some(folder) = object.as_ref().and_then(Object::as_tree) else { return Ok(Vec::new()) };
    let names = folder.iter().filter_map(|entry| entry.name().ok().map(str::to_owned));
    Ok(names.filter(|name| name.strip_suffix(".md").is_some()).collect())
}
