//! The files by which a repository is controlled: commands can write them, and libgit2 opens them without asking
//! what they are. A pipe would never answer, and a huge file would be read as a whole: so they are looked at first.

use std::fs::{self, File, FileType, Metadata, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use crate::toolbox::ToolError;

/// Largest of these files, in bytes.
pub(crate) const MAX_CONTROL: u64 = 16 << 20;
/// Largest size of an index, in bytes.
pub(crate) const MAX_INDEX: u64 = 256 << 20;
/// Entries of `.git` that are looked at.
const MAX_ENTRIES: usize = 1_000_000;
/// Entries behind a link that are looked at.
const MAX_LINKED: usize = 20_000;
/// Folder to which files that are in the way are moved.
const ASIDE: &str = "codebutler-aside";
/// Folders within folders that are looked at.
const MAX_DEPTH: usize = 64;
/// Files at the top of `.git`, besides those whose names are all capitals.
const FILES: [&str; 8] = [
    "config",
    "config.worktree",
    "index",
    "packed-refs",
    "shallow",
    "gitdir",
    "description",
    "commondir",
];
/// Folders of `.git` in which Git reads or writes.
const FOLDERS: [&str; 7] =
    ["refs", "logs", "info", "objects", "rebase-merge", "rebase-apply", "sequencer"];
/// The toolbox puts a link right that lies here, before it writes.
const OWN_REFS: &str = "refs/codebutler";
/// Files in any folder of a worktree that Git reads.
pub(crate) const IN_FOLDERS: [&str; 3] = [".gitignore", ".gitattributes", ".gitmodules"];

/// Folders that are gone through at the start of a run.
const MAX_FOLDERS: usize = 50_000;
/// Folders in which no such file counts: Git's own, and those of tools.
const PASSED: [&str; 6] =
    [".git", "node_modules", "target", "__pycache__", ".venv", ".pytest_cache"];

/// A reason against opening a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Link,
    NotPlain,
    Elsewhere,
    Forged,
    Includes,
    TooMany,
}

/// A file that must not be opened.
#[derive(Debug)]
pub struct ControlFault {
    /// Path as people know it, such as `.git/info/exclude`.
    path: PathBuf,
    fault: Fault,
}

impl From<ControlFault> for ToolError {
    fn from(found: ControlFault) -> Self {
        let path = found.path.display();
        Self::Refused(match found.fault {
            Fault::Link => format!("`{path}` is a link: undo that first"),
            Fault::NotPlain => format!(
                "`{path}` is not a plain file of at most {} MiB, and Git would read it: remove it",
                MAX_CONTROL >> 20
            ),
            Fault::Elsewhere => {
                format!("`{path}` leads to files of another repository: remove it")
            }
            Fault::Forged => {
                format!("`{path}` says something else of commits' parents than they do: remove it")
            }
            Fault::Includes => format!(
                "`{path}` includes other files, which CodeButler's Git tools don't read: put their settings into it \
                 and remove the `[include]` sections"
            ),
            Fault::TooMany => {
                format!(
                    "`{path}` has more than {MAX_ENTRIES} files: clean it up, with `git gc` for example"
                )
            }
        })
    }
}

/// Looks at everything in a `.git` that is opened without asking.
pub(crate) fn check_git(git: &Path) -> Result<(), ControlFault> {
    if !git.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err(ControlFault { path: PathBuf::from(".git"), fault: Fault::Link });
    }
    let mut look = Look { git, entries: 0 };
    for entry in fs::read_dir(git).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        let path = PathBuf::from(name);
        if name == "commondir" {
            return Err(name_fault(&path, Fault::Elsewhere));
        } else if FILES.contains(&name) || is_capitals(name) {
            check_file(&path, kind, &entry)?;
            check_includes(git, &path)?;
        } else if FOLDERS.contains(&name) {
            look.check_folder(&path, kind, 0)?;
        }
    }
    Ok(())
}

/// Looks at the objects alone.
pub(super) fn check_objects(git: &Path) -> Result<(), ToolError> {
    let mut look = Look { git, entries: 0 };
    let kind = git.join("objects").symlink_metadata().map(|meta| meta.file_type());
    match kind {
        Ok(kind) => Ok(look.check_folder(Path::new("objects"), kind, 0)?),
        Err(_) => Ok(()),
    }
}

/// `HEAD`, `MERGE_HEAD`, `COMMIT_EDITMSG` and the like.
fn is_capitals(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

struct Look<'a> {
    git: &'a Path,
    entries: usize,
}

/// A fault at a path of the folder, which is called `.git` wherever it lies.
fn name_fault(path: &Path, fault: Fault) -> ControlFault {
    ControlFault { path: Path::new(".git").join(path), fault }
}

fn check_file(path: &Path, kind: FileType, entry: &fs::DirEntry) -> Result<(), ControlFault> {
    if kind.is_symlink() {
        return Err(name_fault(path, Fault::Link));
    }
    if !kind.is_file() {
        return Err(name_fault(path, Fault::NotPlain));
    }
    if path.starts_with("objects") && !path.starts_with("objects/info") {
        return Ok(());
    }
    let size = entry.metadata().map_or(0, |meta| meta.len());
    let most = if path == Path::new("index") { MAX_INDEX } else { MAX_CONTROL };
    if size > most {
        return Err(name_fault(path, Fault::NotPlain));
    }
    if path == Path::new("info/grafts") && size > 0 {
        return Err(name_fault(path, Fault::Forged));
    }
    if path == Path::new("objects/info/alternates") && size > 0 {
        return Err(name_fault(path, Fault::Elsewhere));
    }
    Ok(())
}

/// libgit2 opens what a configuration includes as soon as it opens the repository: a pipe would never answer.
fn check_includes(git: &Path, path: &Path) -> Result<(), ControlFault> {
    if path != Path::new("config") && path != Path::new("config.worktree") {
        return Ok(());
    }
    let Some(text) = read_plain(&git.join(path), MAX_CONTROL) else { return Ok(()) };
    if text.split(|byte| *byte == b'\n').any(names_include) {
        return Err(name_fault(path, Fault::Includes));
    }
    Ok(())
}

/// True for a line of a configuration that can begin an `[include]` or `[includeIf]` section.
pub(super) fn names_include(line: &[u8]) -> bool {
    line.windows(8).any(|part| part.eq_ignore_ascii_case(b"[include"))
}

impl Look<'_> {
    fn check_folder(
        &mut self,
        path: &Path,
        kind: FileType,
        depth: usize,
    ) -> Result<(), ControlFault> {
        if kind.is_symlink() {
            return Err(name_fault(path, Fault::Link));
        }
        if !kind.is_dir() || depth > MAX_DEPTH {
            return Err(name_fault(path, Fault::NotPlain));
        }
        for entry in fs::read_dir(self.git.join(path)).into_iter().flatten().flatten() {
            self.entries += 1;
            if self.entries > MAX_ENTRIES {
                return Err(name_fault(path, Fault::TooMany));
            }
            let Ok(kind) = entry.file_type() else { continue };
            let below = path.join(entry.file_name());
            if kind.is_symlink() && below.starts_with(OWN_REFS) && entry.path().is_dir() {
                self.check_linked(&below, entry.path())?;
            } else if kind.is_dir() {
                self.check_folder(&below, kind, depth + 1)?;
            } else if kind.is_symlink() && path == Path::new("refs") {
                // A link in place of a folder of references.
                self.check_folder(&below, kind, depth + 1)?;
            } else {
                check_file(&below, kind, &entry)?;
            }
        }
        Ok(())
    }
}

impl Look<'_> {
    /// Checks the folder that a link among the toolbox' own references leads to: the link is removed before anything
    /// is written there, and may be read before that.
    fn check_linked(&mut self, path: &Path, folder: PathBuf) -> Result<(), ControlFault> {
        let mut waiting = vec![folder];
        while let Some(folder) = waiting.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                self.entries += 1;
                let Ok(kind) = entry.file_type() else { continue };
                if self.entries > MAX_LINKED {
                    return Err(name_fault(path, Fault::Link));
                } else if kind.is_dir() {
                    waiting.push(entry.path());
                } else if !kind.is_file() && !kind.is_symlink() {
                    return Err(name_fault(path, Fault::Link));
                }
            }
        }
        Ok(())
    }
}

/// Takes out of the way what [`check_git`] finds, so that the next run can begin: files keep their content
/// under another name. Answers with what was done.
pub(super) fn repair_git(git: &Path, branch: &str) -> Vec<String> {
    let mut done = Vec::new();
    while let Err(found) = check_git(git) {
        let Ok(inside) = found.path.strip_prefix(".git") else { break };
        let path = git.join(inside);
        if found.fault == Fault::TooMany
            || inside.as_os_str().is_empty()
            || !set_aside(&path, &git.join(ASIDE))
        {
            break;
        }
        if inside == Path::new("HEAD")
            && let Err(error) = fs::write(&path, format!("ref: refs/heads/{branch}\n"))
        {
            tracing::warn!(%error, "head_write_failed");
        }
        done.push(found.path.display().to_string());
        if done.len() > 100 {
            break;
        }
    }
    done
}

/// A plain file is moved to `folder`, anything else but a folder removed; whether the name is free now.
fn set_aside(path: &Path, folder: &Path) -> bool {
    let Ok(meta) = path.symlink_metadata() else { return false };
    if !meta.is_file() {
        return !meta.is_dir() && fs::remove_file(path).is_ok();
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut names = (1..100).map(|number| folder.join(format!("{name}.aside-{number}")));
    let _ = fs::create_dir(folder);
    names.find(|to| to.symlink_metadata().is_err()).is_some_and(|to| fs::rename(path, to).is_ok())
}

/// True where opening it leads to a plain file of a bounded size, or to nothing. `linked`: also through a link, which
/// is how the repository itself has it.
pub(crate) fn is_plain(path: &Path, most: u64, linked: bool) -> bool {
    let meta = if linked { path.metadata() } else { path.symlink_metadata() };
    match meta {
        Ok(meta) => is_plain_file(&meta, most),
        Err(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}

fn is_plain_file(meta: &Metadata, most: u64) -> bool {
    meta.is_file() && meta.len() <= most
}

/// The files of one folder of the worktree that Git reads. `shown`: the folder as people know it.
pub(crate) fn check_folder(
    folder: &Path,
    shown: &Path,
    names: &[&str],
) -> Result<(), ControlFault> {
    for name in names {
        if !is_plain(&folder.join(name), MAX_CONTROL, false) {
            return Err(odd_file(&shown.join(name)));
        }
    }
    Ok(())
}

/// Error that a file is no regular one.
pub(crate) fn odd_file(path: &Path) -> ControlFault {
    ControlFault { path: path.to_owned(), fault: Fault::NotPlain }
}

/// Takes odd files in folders of the worktree out of the way. `is_link`: whether the repository itself has a link
/// there. Answers with their names.
pub(super) fn repair_folders(tree: &Path, is_link: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut done = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    let mut left = MAX_FOLDERS;
    while let Some(folder) = waiting.pop().filter(|_| left > 0) {
        left -= 1;
        for entry in fs::read_dir(tree.join(&folder)).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let path = folder.join(&name);
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !PASSED.iter().any(|passed| name == *passed) {
                    waiting.push(path);
                }
            } else if IN_FOLDERS.iter().any(|known| name == *known) {
                let full = tree.join(&path);
                if !is_plain(&full, MAX_CONTROL, is_link(&path))
                    && set_aside(&full, &tree.join(&folder))
                {
                    done.push(path.display().to_string());
                }
            }
        }
    }
    done
}

/// True for a repository inside the worktree that can be opened.
pub(super) fn is_openable(folder: &Path) -> bool {
    let git = folder.join(".git");
    match git.symlink_metadata() {
        Ok(meta) if meta.is_dir() => check_git(&git).is_ok(),
        Ok(meta) if meta.is_file() => {
            let named = read_plain(&git, 4096).unwrap_or_default();
            let named = String::from_utf8_lossy(&named);
            let leads = named.trim().strip_prefix("gitdir:").map(str::trim);
            leads.is_some_and(|leads| check_git(&folder.join(leads)).is_ok())
        }
        _ => false,
    }
}

/// A plain file's content, if it is not larger than that. Nothing is waited for, and no link followed.
pub(crate) fn read_plain(path: &Path, most: u64) -> Option<Vec<u8>> {
    let flags = (OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits();
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let meta = file.metadata().ok().filter(|meta| is_plain_file(meta, most))?;
    let mut bytes = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or_default());
    file.take(most).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests;
