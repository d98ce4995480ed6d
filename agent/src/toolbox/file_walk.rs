//! The files that a search goes through: those that no ignore file names, and those that Git tracks all the same.
//! What could not be gone through is told.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use git2::Index;
use ignore::{DirEntry, WalkBuilder, WalkState};

use crate::toolbox::git::control;
use crate::toolbox::paths::WorktreeRoot;
use codebutler_guides::text::clip_text;

const THREADS: usize = 4;
/// Places that can't be read and are named.
const NAMED: usize = 3;

/// Paths that a walk has visited, and those that it could not read.
#[derive(Debug, Default)]
pub(super) struct WalkedFiles {
    visited: HashSet<PathBuf>,
    /// Places that can't be read, with the reason.
    pub unreadable: Vec<String>,
}

impl WalkedFiles {
    /// Note on places that can't be read.
    pub(super) fn note(&self) -> Option<String> {
        let more = self.unreadable.len().saturating_sub(NAMED);
        let named = self.unreadable.iter().take(NAMED).map(String::as_str);
        let named = named.collect::<Vec<_>>().join("; ");
        match (self.unreadable.len(), more) {
            (0, _) => None,
            (_, 0) => Some(format!("(not searched: {named})")),
            _ => Some(format!("(not searched: {named}; and {more} more)")),
        }
    }
}

/// Calls `visit` with the relative path of every file under `from`, from several threads, each with
/// its own copy of `with`. `links`: of links to files too.
pub(super) fn walk_files<T: Clone + Send>(
    tree: &WorktreeRoot,
    from: &Path,
    links: bool,
    with: &T,
    visit: impl Fn(&mut T, &Path) -> WalkState + Send + Sync,
) -> WalkedFiles {
    if let Some(path) = find_odd_above(tree, from) {
        return WalkedFiles {
            unreadable: vec![describe_odd(tree, &path)],
            ..WalkedFiles::default()
        };
    }
    let all = Mutex::new(WalkedFiles::default());
    let odd = OddFiles::default();
    let quit = walk(tree, build_noting(from, odd.clone()), links, with, &visit, &all);
    let mut walked = all.into_inner().unwrap_or_default();
    let odd = std::mem::take(&mut *odd.lock().unwrap_or_else(PoisonError::into_inner));
    walked.unreadable.extend(odd.iter().map(|path| describe_odd(tree, path)));
    if quit {
        return walked;
    }
    let mut own = with.clone();
    for path in list_tracked(tree, from) {
        if walked.visited.contains(&path) || !is_wanted(tree, &path, links) {
            continue;
        }
        let state = visit(&mut own, &path);
        walked.visited.insert(path);
        if state == WalkState::Quit {
            break;
        }
    }
    walked
}

/// The files that a walk left out for the sake of ignore files.
#[derive(Debug, Default)]
pub(super) struct IgnoredFiles {
    pub first: Option<PathBuf>,
    /// True if there are more files than were visited.
    pub is_cut: bool,
}

/// Does the same as [`walk_files`] for the files that it left out because of ignore files, up to `most`.
pub(super) fn walk_ignored<T: Clone + Send>(
    tree: &WorktreeRoot,
    from: &Path,
    (links, most): (bool, usize),
    known: &WalkedFiles,
    with: &T,
    visit: impl Fn(&mut T, &Path) -> WalkState + Send + Sync,
) -> IgnoredFiles {
    let found = Mutex::new((0, None));
    let mut walker = build_walker(from);
    walker.standard_filters(false);
    let visit = |own: &mut T, path: &Path| {
        if known.visited.contains(path) {
            return WalkState::Continue;
        }
        if let Ok(mut found) = found.lock() {
            found.0 += 1;
            found.1.get_or_insert_with(|| path.to_owned());
            if found.0 > most {
                return WalkState::Quit;
            }
        }
        visit(own, path)
    };
    walk(tree, walker, links, with, &visit, &Mutex::default());
    let (looked, first) = found.into_inner().unwrap_or_default();
    IgnoredFiles { first, is_cut: looked > most }
}

/// Walks with several threads; returns true if the visitor stopped the walk.
fn walk<T: Clone + Send>(
    tree: &WorktreeRoot,
    mut walker: WalkBuilder,
    links: bool,
    with: &T,
    visit: &(impl Fn(&mut T, &Path) -> WalkState + Send + Sync),
    all: &Mutex<WalkedFiles>,
) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get().min(THREADS));
    let quit = std::sync::atomic::AtomicBool::new(false);
    walker.threads(threads).build_parallel().run(|| {
        let mut own = with.clone();
        let mut part = WalkedPart { all, own: WalkedFiles::default() };
        let quit = &quit;
        Box::new(move |entry| {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    part.own.unreadable.push(describe_error(tree, &error.to_string()));
                    return WalkState::Continue;
                }
            };
            let kind = entry.file_type();
            let Ok(relative) = entry.path().strip_prefix(tree.root()) else {
                return WalkState::Continue;
            };
            let is_file = kind.is_some_and(|kind| kind.is_file());
            let is_link = links && kind.is_some_and(|kind| kind.is_symlink());
            let leads_to_file = || is_link && is_wanted(tree, relative, true);
            if !(is_file || leads_to_file()) {
                return WalkState::Continue;
            }
            part.own.visited.insert(relative.to_owned());
            let state = visit(&mut own, relative);
            if state == WalkState::Quit {
                quit.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            state
        })
    });
    quit.into_inner()
}

/// Result of one thread, merged into the whole when the thread is done.
struct WalkedPart<'a> {
    all: &'a Mutex<WalkedFiles>,
    own: WalkedFiles,
}

impl Drop for WalkedPart<'_> {
    fn drop(&mut self) {
        if let Ok(mut all) = self.all.lock() {
            let WalkedFiles { visited, unreadable } = std::mem::take(&mut self.own);
            if all.visited.is_empty() {
                all.visited = visited;
            } else {
                all.visited.extend(visited);
            }
            all.unreadable.extend(unreadable);
        }
    }
}

/// A file, or a link to one that is inside too.
fn is_wanted(tree: &WorktreeRoot, relative: &Path, links: bool) -> bool {
    let full = tree.root().join(relative);
    let Ok(meta) = full.symlink_metadata() else { return false };
    if !meta.is_symlink() {
        return meta.is_file();
    }
    let target = full.canonicalize().ok().filter(|_| links);
    target.is_some_and(|target| target.starts_with(tree.root()) && target.is_file())
}

/// Shortens an error, and removes the path to the worktree from it.
pub(super) fn describe_error(tree: &WorktreeRoot, error: &str) -> String {
    let root = format!("{}/", tree.root().display());
    let error = error.replace(&root, "");
    clip_text(error.split(" (os error").next().unwrap_or(&error), 160)
}

/// Files under a folder that Git tracks, sorted. An index that can't be read has none.
pub(super) fn list_tracked(tree: &WorktreeRoot, from: &Path) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt as _;
    let index = tree.root().join(".git/index");
    if !control::is_plain(&index, control::MAX_INDEX, false) {
        return Vec::new();
    }
    let Ok(index) = Index::open(&index) else { return Vec::new() };
    let inside = from.strip_prefix(tree.root()).unwrap_or(Path::new(""));
    let paths = index.iter().map(|entry| PathBuf::from(std::ffi::OsStr::from_bytes(&entry.path)));
    let mut paths: Vec<PathBuf> = paths.filter(|path| path.starts_with(inside)).collect();
    paths.dedup();
    paths
}

/// Ignore files that must not be opened.
type OddFiles = Arc<Mutex<Vec<PathBuf>>>;

/// Files in a folder that say what a search leaves out.
const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".rgignore"];

/// One of a folder's ignore files that is not plain: a pipe would be waited for, and a huge one read as a whole.
fn find_odd(folder: &Path) -> Option<PathBuf> {
    let mut files = IGNORE_FILES.iter().map(|name| folder.join(name));
    files.find(|path| !control::is_plain(path, control::MAX_CONTROL, true))
}

/// The same for the folder where a search begins, and those around it.
fn find_odd_above(tree: &WorktreeRoot, from: &Path) -> Option<PathBuf> {
    let exclude = tree.root().join(".git/info/exclude");
    if !control::is_plain(&exclude, control::MAX_CONTROL, true) {
        return Some(exclude);
    }
    from.ancestors().take_while(|folder| folder.starts_with(tree.root())).find_map(find_odd)
}

fn describe_odd(tree: &WorktreeRoot, path: &Path) -> String {
    let shown = path.strip_prefix(tree.root()).unwrap_or(path).display();
    format!(
        "`{shown}` is not a plain file of at most {} MiB: remove it",
        control::MAX_CONTROL >> 20
    )
}

/// Explains an odd file that keeps a folder from being listed.
pub(super) fn explain_odd(tree: &WorktreeRoot, folder: &Path) -> Option<String> {
    find_odd_above(tree, folder).map(|path| describe_odd(tree, &path))
}

/// Builds a walker over a folder that respects ignore files.
pub(super) fn build_walker(from: &Path) -> WalkBuilder {
    build_noting(from, OddFiles::default())
}

fn build_noting(from: &Path, odd: OddFiles) -> WalkBuilder {
    let mut walker = WalkBuilder::new(from);
    walker.hidden(false).require_git(false).git_global(false).filter_entry(
        move |entry: &DirEntry| {
            if entry.file_name().eq_ignore_ascii_case(".git") {
                return false;
            }
            let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
            match is_folder.then(|| find_odd(entry.path())).flatten() {
                Some(path) => {
                    odd.lock().unwrap_or_else(PoisonError::into_inner).push(path);
                    false
                }
                None => true,
            }
        },
    );
    walker
}
