//! Moves the files of a worktree from one commit to another. Nothing that lies there is overwritten unless it
//! is what one of both commits has.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use git2::build::CheckoutBuilder;
use git2::{
    AttrCheckFlags, AttrValue, Commit, Diff, DiffOptions, ErrorCode, Index, IndexEntry, IndexTime,
    Oid, Repository, Tree,
};

use super::content::{ENCODING, names_encodings};
use super::encoding::WorktreeEncoding;
use super::index::SKIP;
use super::rules::FlagUse;
use super::scan::{WorktreeScanner, show_path};
use super::stat::FileStat;
use super::walk::GITLINK;
use crate::toolbox::ToolError;

/// Files in the way that are named.
const MAX_NAMED: usize = 10;

/// Result of moving the files.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MoveOutcome {
    Done,
    /// These files hold work that would be lost. Nothing was moved.
    InTheWay(Vec<String>),
}

/// Content and mode of a file.
type Version = (Oid, u32);

/// A file in which two commits differ.
struct MovedFile {
    path: PathBuf,
    old: Option<Version>,
    new: Option<Version>,
}

/// Brings index and files from what `from` has to what `to` has, where these differ.
pub(crate) fn move_files(
    scanner: &WorktreeScanner<'_>,
    repo: &Repository,
    from: &Tree<'_>,
    to: &Commit<'_>,
) -> Result<MoveOutcome, ToolError> {
    let moved = moved_files(repo, from, &to.tree()?)?;
    let gone: HashSet<&Path> =
        moved.iter().filter(|file| file.old.is_some()).map(|file| file.path.as_path()).collect();
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let mut in_the_way = Vec::new();
    let mut skipped = Vec::new();
    let mut builder = CheckoutBuilder::new();
    builder.force().disable_pathspec_match(true);
    let mut written = Vec::new();
    for file in &moved {
        match standing_of(scanner, repo, &root, file, &gone)? {
            Standing::Free => {
                builder.path(file.path.as_os_str().as_bytes());
                written.push(file.path.as_path());
            }
            Standing::Skipped => skipped.push(file),
            Standing::Taken => in_the_way.push(show_path(file.path.as_os_str().as_bytes())),
        }
    }
    if !in_the_way.is_empty() {
        in_the_way.truncate(MAX_NAMED);
        return Ok(MoveOutcome::InTheWay(in_the_way));
    }
    if !written.is_empty() {
        repo.checkout_tree(to.as_object(), Some(&mut builder))?;
    }
    move_skipped(repo, &skipped)?;
    encode_files(repo, Some(&written))?;
    Ok(MoveOutcome::Done)
}

fn moved_files(
    repo: &Repository,
    from: &Tree<'_>,
    to: &Tree<'_>,
) -> Result<Vec<MovedFile>, git2::Error> {
    let mut options = DiffOptions::new();
    options.include_typechange(true);
    let diff = repo.diff_tree_to_tree(Some(from), Some(to), Some(&mut options))?;
    let version = |file: git2::DiffFile<'_>| {
        (!file.id().is_zero()).then(|| (file.id(), u32::from(file.mode())))
    };
    let moved = diff.deltas().filter_map(|delta| {
        let path = delta.new_file().path_bytes().or(delta.old_file().path_bytes())?;
        let path = PathBuf::from(OsStr::from_bytes(path));
        Some(MovedFile { path, old: version(delta.old_file()), new: version(delta.new_file()) })
    });
    Ok(moved.collect())
}

/// State of a file that decides if it may be moved.
enum Standing {
    Free,
    /// A sparse checkout leaves it out: only the index moves.
    Skipped,
    Taken,
}

fn standing_of(
    scanner: &WorktreeScanner<'_>,
    repo: &Repository,
    root: &Path,
    file: &MovedFile,
    gone: &HashSet<&Path>,
) -> Result<Standing, ToolError> {
    let known = repo.index()?.get_path(&file.path, 0);
    let staged = known.as_ref().map(|entry| (entry.id, entry.mode));
    if staged != file.old && staged != file.new {
        return Ok(Standing::Taken);
    }
    let full = root.join(&file.path);
    let blocked = file.path.ancestors().skip(1).any(|above| {
        let is_file = root.join(above).symlink_metadata().is_ok_and(|meta| !meta.is_dir());
        is_file && !gone.contains(above)
    });
    let Ok(meta) = full.symlink_metadata() else {
        let skipped = match &known {
            Some(entry) => entry.flags_extended & SKIP != 0,
            None => file.new.is_some() && !scanner.belongs(file.path.as_os_str().as_bytes()),
        };
        return Ok(match (file.old, file.new) {
            _ if skipped => Standing::Skipped,
            _ if blocked => Standing::Taken,
            (None, _) | (_, None) => Standing::Free,
            _ => Standing::Taken,
        });
    };
    if meta.is_dir() {
        let is_module = |version: Option<Version>| version.is_some_and(|(_, mode)| mode == GITLINK);
        let fits = match (file.old, file.new) {
            (old, new) if is_module(old) || is_module(new) => true,
            // The folder in the file's place goes if all files in it are moved away.
            (None, Some(_)) => holds_only(root, &file.path, gone),
            _ => false,
        };
        return Ok(if fits { Standing::Free } else { Standing::Taken });
    }
    let Some(stat) = FileStat::of(&meta) else { return Ok(Standing::Taken) };
    let known_mode = known.as_ref().map(|entry| entry.mode).or(file.old.map(|(_, mode)| mode));
    let stat = scanner.see_mode(stat, known_mode);
    let old = known.or_else(|| file.old.map(|(id, _)| stat.entry(Vec::new(), id)));
    let path = file.path.as_os_str().as_bytes();
    let here = scanner.stored(path, &stat, old.as_ref(), FlagUse::Receipt)?.ok();
    let here = here.map(|entry| (entry.id, entry.mode));
    let is_known = here.is_some() && (here == file.old || here == file.new);
    Ok(if is_known && !blocked { Standing::Free } else { Standing::Taken })
}

/// Returns true if a folder holds nothing but files that the move takes away.
fn holds_only(root: &Path, folder: &Path, gone: &HashSet<&Path>) -> bool {
    std::fs::read_dir(root.join(folder)).into_iter().flatten().all(|entry| {
        let Ok(entry) = entry else { return false };
        let path = folder.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds_only(root, &path, gone),
            _ => gone.contains(path.as_path()),
        }
    })
}

/// Brings the entries of an index to the new side of a diff; of the files nothing is remembered.
pub(crate) fn move_entries(index: &mut Index, diff: &Diff<'_>) -> Result<(), git2::Error> {
    for delta in diff.deltas() {
        let (old, new) = (delta.old_file(), delta.new_file());
        let Some(path) = new.path_bytes().or(old.path_bytes()) else { continue };
        let at = Path::new(OsStr::from_bytes(path));
        if new.id().is_zero() {
            match index.remove(at, 0) {
                Err(error) if error.code() != ErrorCode::NotFound => return Err(error),
                _ => {}
            }
            continue;
        }
        let known = index.get_path(at, 0).map_or(0, |entry| entry.flags_extended);
        let mut entry = skipped_entry(path.to_vec(), new.id(), u32::from(new.mode()));
        entry.flags_extended = known & SKIP;
        index.add(&entry)?;
    }
    Ok(())
}

/// The index alone moves for files that are left out of the worktree.
fn move_skipped(repo: &Repository, skipped: &[&MovedFile]) -> Result<(), ToolError> {
    if skipped.is_empty() {
        return Ok(());
    }
    let mut index = repo.index()?;
    for file in skipped {
        let path = file.path.as_os_str().as_bytes().to_vec();
        match file.new {
            None => index.remove(&file.path, 0)?,
            Some((id, mode)) => index.add(&skipped_entry(path, id, mode))?,
        }
    }
    Ok(index.write()?)
}

fn skipped_entry(path: Vec<u8>, id: Oid, mode: u32) -> IndexEntry {
    let never = || IndexTime::new(0, 0);
    IndexEntry {
        ctime: never(),
        mtime: never(),
        dev: 0,
        ino: 0,
        mode,
        uid: 0,
        gid: 0,
        file_size: 0,
        id,
        flags: 0,
        flags_extended: SKIP,
        path,
    }
}

/// Writes files that were checked out as the repository holds them in the encoding that `.gitattributes`
/// names, which libgit2 does not. All of them, or those that are named.
pub(crate) fn encode_files(repo: &Repository, only: Option<&[&Path]>) -> Result<(), ToolError> {
    let mut index = repo.index()?;
    if !names_encodings(repo, &index) {
        return Ok(());
    }
    let mut written = Vec::new();
    let root = repo.workdir().unwrap_or(Path::new("")).to_owned();
    let only: Option<HashSet<&Path>> = only.map(|paths| paths.iter().copied().collect());
    for entry in index.iter() {
        let path = Path::new(OsStr::from_bytes(&entry.path));
        if only.as_ref().is_some_and(|only| !only.contains(path)) {
            continue;
        }
        let value = repo.get_attr(path, ENCODING, AttrCheckFlags::FILE_THEN_INDEX)?;
        let AttrValue::String(name) = AttrValue::from_string(value) else { continue };
        let Some(encoding) = WorktreeEncoding::named(name) else { continue };
        let full = root.join(path);
        let is_file = full.symlink_metadata().is_ok_and(|meta| meta.is_file());
        if !is_file || repo.blob_path(&full)? != entry.id {
            continue;
        }
        let text = std::fs::read(&full).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        if let Some(bytes) = text.and_then(|text| encoding.encode(&text)) {
            std::fs::write(&full, bytes)
                .map_err(|e| ToolError::Failed(format!("a file can't be written: {e}")))?;
            let stat = full.symlink_metadata().ok().as_ref().and_then(FileStat::of);
            written.extend(stat.map(|stat| stat.entry(entry.path.clone(), entry.id)));
        }
    }
    for entry in &written {
        index.add(entry)?;
    }
    Ok(index.write()?)
}
