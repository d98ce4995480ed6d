//! Snapshots of index and worktree, kept before a command that could throw work away.
//!
//! Each is a commit under [`REFS`]: its tree is the worktree with what Git does not know yet, its parents
//! are HEAD, the index, stashes and other branches, so that nothing of them can be collected. No branch
//! leads there, so it is never pushed. Git's own index is not believed, since commands can write it: what
//! is known of files lies beside the worktree.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::{Commit, Index, IndexAddOption, Oid, Repository, Signature, StatusOptions};

use super::GitSite;
use super::leftover::MADE;
use crate::toolbox::ToolError;
use crate::toolbox::protocol::KeptSnapshot;

pub const REFS: &str = "refs/codebutler/snap/";
/// So many of the newest.
const KEPT: usize = 20;
/// Files that Git does not know yet: one, and all of them, in bytes.
const MAX_NEW: u64 = 16 * 1024 * 1024;
const MAX_ALL_NEW: u64 = 256 * 1024 * 1024;
/// Files that .gitignore names, such as settings: one, and all of them, in bytes. Ignored folders are
/// what tools make.
const MAX_IGNORED: u64 = 1024 * 1024;
const MAX_ALL_IGNORED: u64 = 16 * 1024 * 1024;
/// Files that are looked at.
const MAX_FILES: usize = 200_000;
/// Stashes and branches that are held on to.
const MAX_OTHERS: usize = 32;
/// Files that are named because they are left out.
const MAX_NAMED: usize = 5;

/// Keeps what there is, unless the newest snapshot holds exactly that.
pub fn keep_work(place: &GitSite) -> Result<KeptSnapshot, ToolError> {
    let _lock = place.lock()?;
    let repo = place.open()?;
    refuse_links(&place.tree().join(".git"))?;
    let head = repo.head().ok().and_then(|head| head.peel_to_commit().ok());
    let staged = staged_tree(&repo);
    let (tree, left_out) = worktree_tree(place, &repo, head.as_ref())?;
    let others = other_refs(&repo, head.as_ref().map(Commit::id));
    let message = snapshot_message(head.as_ref(), staged, &others);
    let known = known_snapshots(&repo)?;
    if let Some((_, name)) = known.last()
        && let Ok(newest) = repo.find_reference(name).and_then(|found| found.peel_to_commit())
        && newest.tree_id() == tree
        && newest.message() == Ok(message.as_str())
    {
        return Ok(KeptSnapshot { name: name.clone(), left_out });
    }
    let author = &place.hello.author;
    let signature = Signature::now(&author.name, &author.email)?;
    let commit = |tree: Oid, message: &str, parents: &[Commit<'_>]| -> Result<Oid, git2::Error> {
        let parents: Vec<&Commit<'_>> = parents.iter().collect();
        repo.commit(None, &signature, &signature, message, &repo.find_tree(tree)?, &parents)
    };
    let mut parents: Vec<Commit<'_>> = head.into_iter().collect();
    if let Some(staged) = staged {
        let index = commit(staged, "The index of a snapshot", &parents)?;
        parents.push(repo.find_commit(index)?);
    }
    parents.extend(others.iter().filter_map(|(_, id)| repo.find_commit(*id).ok()));
    let kept = commit(tree, &message, &parents)?;
    let number = known.last().map_or(1, |(number, _)| number + 1);
    let name = format!("{REFS}{number}");
    repo.reference(&name, kept, false, "before a command")?;
    for (_, old) in known.iter().rev().skip(KEPT - 1) {
        if let Ok(mut old) = repo.find_reference(old) {
            old.delete()?;
        }
    }
    Ok(KeptSnapshot { name, left_out })
}

/// The snapshots there are, oldest first.
fn known_snapshots(repo: &Repository) -> Result<Vec<(u64, String)>, ToolError> {
    let all = repo.references_glob(&format!("{REFS}*"))?;
    let names = all.flatten().filter_map(|found| found.name().ok().map(str::to_owned));
    let mut known: Vec<(u64, String)> =
        names.filter_map(|name| Some((name.strip_prefix(REFS)?.parse().ok()?, name))).collect();
    known.sort_unstable();
    Ok(known)
}

/// A command may have put a link to somewhere else where this writes.
fn refuse_links(git: &Path) -> Result<(), ToolError> {
    for part in ["objects", "refs", "refs/codebutler", "refs/codebutler/snap"] {
        if git.join(part).symlink_metadata().is_ok_and(|meta| meta.is_symlink()) {
            return Err(ToolError::refused(format!("`.git/{part}` is a link: undo that first")));
        }
    }
    Ok(())
}

/// The tree of Git's own index, where it can be read and holds no conflict.
fn staged_tree(repo: &Repository) -> Option<Oid> {
    let mut index = repo.index().ok()?;
    index.read(true).ok()?;
    if index.has_conflicts() { None } else { index.write_tree_to(repo).ok() }
}

/// The tree of all files, ignored folders left out, and the names of what is too large.
fn worktree_tree(
    place: &GitSite,
    repo: &Repository,
    head: Option<&Commit<'_>>,
) -> Result<(Oid, Vec<String>), ToolError> {
    let path = place.work.join(".snapshot.index");
    // The lock on the repository is held: whoever left this is dead.
    let _ = std::fs::remove_file(path.with_extension("index.lock"));
    match look_at_files(place, repo, head, &path) {
        Err(ToolError::Refused(_)) if path.exists() => {
            // It is damaged, or what it names has been collected: everything is hashed anew.
            let _ = std::fs::remove_file(&path);
            look_at_files(place, repo, head, &path)
        }
        done => done,
    }
}

fn look_at_files(
    place: &GitSite,
    repo: &Repository,
    head: Option<&Commit<'_>>,
    path: &Path,
) -> Result<(Oid, Vec<String>), ToolError> {
    let mut own = Index::open(path)?;
    match head {
        // What is known of files that are the same stays known.
        Some(head) => own.read_tree(&head.tree()?)?,
        None => own.clear()?,
    }
    repo.set_index(&mut own)?;
    let mut index = repo.index()?;
    let mut files = KeptFiles {
        root: place.tree(),
        tracked: index.iter().map(|entry| entry.path).collect(),
        left_out: Vec::new(),
        more: 0,
        seen: 0,
        new: 0,
    };
    let added =
        index.add_all(["*"], IndexAddOption::DEFAULT, Some(&mut |path, _| files.judge(path)));
    if files.seen > MAX_FILES {
        return Err(ToolError::refused(format!("more than {MAX_FILES} files differ from HEAD")));
    }
    added?;
    add_ignored(repo, &mut index, &files.root)?;
    let tree = index.write_tree_to(repo)?;
    if let Err(error) = index.write() {
        tracing::info!(%error, "what is known of the files is not kept");
    }
    let mut left_out = files.left_out;
    if files.more > 0 {
        left_out.push(format!("{} more", files.more));
    }
    Ok((tree, left_out))
}

/// Takes along what .gitignore names file by file.
fn add_ignored(repo: &Repository, index: &mut Index, root: &Path) -> Result<(), ToolError> {
    let mut options = StatusOptions::new();
    options.include_ignored(true).include_untracked(false).exclude_submodules(true);
    let mut left = MAX_ALL_IGNORED;
    for entry in repo.statuses(Some(&mut options))?.iter().filter(|e| e.status().is_ignored()) {
        let path = PathBuf::from(OsStr::from_bytes(entry.path_bytes()));
        let full = root.join(&path);
        let Ok(meta) = full.symlink_metadata() else { continue };
        let fits = meta.is_file() && meta.len() <= MAX_IGNORED.min(left);
        if fits && File::open(&full).is_ok() {
            left -= meta.len();
            index.add_path(&path)?;
        }
    }
    Ok(())
}

/// Which files are taken along.
struct KeptFiles {
    root: PathBuf,
    tracked: HashSet<Vec<u8>>,
    left_out: Vec<String>,
    more: usize,
    seen: usize,
    new: u64,
}

impl KeptFiles {
    /// What libgit2 wants: 0 takes it, 1 leaves it out, less ends everything.
    fn judge(&mut self, path: &Path) -> i32 {
        self.seen += 1;
        if self.seen > MAX_FILES {
            return -1;
        }
        let full = self.root.join(path);
        // What is gone is taken out of the tree.
        let Ok(meta) = full.symlink_metadata() else { return 0 };
        let tracked = self.tracked.contains(path.as_os_str().as_encoded_bytes());
        if !tracked && path.iter().any(|part| MADE.iter().any(|name| part == *name)) {
            return 1;
        }
        if meta.is_dir() {
            // A repository of its own.
            return if tracked { 1 } else { self.leave_out(path) };
        }
        if meta.is_symlink() {
            return 0;
        }
        if !meta.is_file() {
            return 1;
        }
        let large = meta.len() > MAX_NEW || self.new + meta.len() > MAX_ALL_NEW;
        if (!tracked && large) || File::open(&full).is_err() {
            return self.leave_out(path);
        }
        self.new += if tracked { 0 } else { meta.len() };
        0
    }

    fn leave_out(&mut self, path: &Path) -> i32 {
        if self.left_out.len() < MAX_NAMED {
            self.left_out.push(path.display().to_string());
        } else {
            self.more += 1;
        }
        1
    }
}

/// Stashes and branches that nothing else may hold in a moment.
fn other_refs(repo: &Repository, head: Option<Oid>) -> Vec<(String, Oid)> {
    let mut out: Vec<(String, Oid)> = Vec::new();
    if let Ok(stashes) = repo.reflog("refs/stash") {
        let stashes = stashes.iter().enumerate();
        out.extend(stashes.map(|(at, entry)| (format!("stash@{{{at}}}"), entry.id_new())));
    }
    let branches = repo.references_glob("refs/heads/*").into_iter().flatten().flatten();
    let named = branches.filter_map(|found| Some((found.name().ok()?.to_owned(), found.target()?)));
    let mut named: Vec<_> = named.collect();
    named.sort_unstable();
    out.extend(named);
    out.retain(|(_, id)| Some(*id) != head && repo.find_commit(*id).is_ok());
    let mut seen = HashSet::new();
    out.retain(|(_, id)| seen.insert(*id));
    out.truncate(MAX_OTHERS);
    out
}

/// Says what is in it: the same for the same.
fn snapshot_message(
    head: Option<&Commit<'_>>,
    staged: Option<Oid>,
    others: &[(String, Oid)],
) -> String {
    let mut out = "Snapshot before a command\n\n".to_owned();
    if let Some(head) = head {
        let _ = writeln!(out, "HEAD {}", head.id());
    }
    if let Some(staged) = staged {
        let _ = writeln!(out, "index {staged}");
    }
    for (name, id) in others {
        let _ = writeln!(out, "{name} {id}");
    }
    out
}

#[cfg(test)]
mod tests;
