//! Read, Write and Edit.

mod decoded;
mod edit;
mod hints;
mod large;
mod lenient;
mod missing;
mod opened;
mod patch;
mod read;
mod replace;
mod save;
mod seen;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use self::opened::{OpenedFile, encode_new};
use super::paths::{LocatedPath, WorktreeRoot};
use super::{ToolError, names, outside};
use crate::tool_args as args;

pub use decoded::{DecodedFile, decode_file};
pub use edit::{edit_files, plan_edit};
pub use missing::not_found;
pub use read::{DocumentPlace, FileRead, number_lines, read_file, show_bytes};
pub use save::save_file;
pub use seen::SeenFiles;

/// Largest file that is read or edited, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;
/// Lines that Read shows by default, and characters of each.
const DEFAULT_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// Most text that one Read answers with, in bytes.
const MAX_TEXT: usize = 60_000;
/// Nobody writes one file for this long.
const ABANDONED: Duration = Duration::from_hours(1);

/// Replaces or creates a file. One that is replaced keeps its form: encoding, byte order mark, line ends and
/// whether its last line is ended.
pub fn write_file(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    scratch: &Path,
    args: &args::WriteArgs,
) -> Result<String, ToolError> {
    let at = tree.locate(&args.path)?;
    let existed = regular_size(&at)?.is_some();
    if let Some(outside) = outside::explain_outside(tree, &at) {
        return Err(outside);
    }
    if !existed && let [alike, ..] = &names::list_alike(tree, &at)[..] {
        return Err(ToolError::refused(format!(
            "`{}` does not exist, and a file whose name looks the same does: \"{}\". Edit that one, or choose a \
             name that differs visibly",
            at.shown,
            names::escape_name(&alike.shown)
        )));
    }
    let now = if existed { load_file(&at)? } else { Vec::new() };
    let next = match now.as_slice() {
        [] => encode_new(tree, &at, &args.content)?,
        now => OpenedFile::open(tree, &at, now)?.with_content(&at, &args.content)?,
    };
    let same = if existed { None } else { names::find_same_name(tree, &at) };
    if let Some(parent) = at.full.parent() {
        fs::create_dir_all(parent).map_err(|e| io_error(&at, "the folder can't be made", &e))?;
    }
    store_file(&at, scratch, &next.bytes, None)?;
    seen.remember(&at.full, &sha256(&next.bytes));
    let lines = args.content.lines().count();
    let done = if existed { "Wrote" } else { "Created" };
    let mut told = format!("{done} `{}` ({lines} lines)", at.shown);
    for note in &next.notes {
        let _ = write!(told, "\nNote: {note}.");
    }
    if let Some(same) = same {
        let _ = write!(
            told,
            "\nNote: `{}` is there already, and a clone on macOS or Windows would hold one of both.",
            same.display()
        );
    }
    Ok(told)
}

/// The path that Write names, if the file there is not what the role has seen last: somebody else, or a command, has
/// changed it since.
pub fn changed_since(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    args: &args::WriteArgs,
) -> Option<String> {
    let at = tree.locate(&args.path).ok()?;
    let known = seen.hash(&at.full)?;
    let now = load_file(&at).ok()?;
    (sha256(&now) != known && now != args.content.as_bytes()).then_some(at.shown)
}

/// A regular file's size; `None` if there is nothing.
fn regular_size(at: &LocatedPath) -> Result<Option<u64>, ToolError> {
    match fs::symlink_metadata(&at.full) {
        Ok(meta) if meta.is_file() => Ok(Some(meta.len())),
        Ok(meta) if meta.is_dir() => {
            Err(ToolError::refused(format!("`{}` is a folder: use Glob to list it", at.shown)))
        }
        Ok(_) => Err(ToolError::refused(format!("`{}` is not a regular file", at.shown))),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(io_error(at, "can't be looked at", &e)),
    }
}

/// Reads a file that the model named. Where there is none, the error names similar ones.
fn load_existing(tree: &WorktreeRoot, at: &LocatedPath) -> Result<Vec<u8>, ToolError> {
    if regular_size(at)?.is_none() {
        return Err(not_found(tree, at));
    }
    load_file(at)
}

pub fn load_file(at: &LocatedPath) -> Result<Vec<u8>, ToolError> {
    let Some(size) = regular_size(at)? else {
        return Err(ToolError::refused(format!("`{}` does not exist", at.shown)));
    };
    if size > MAX_FILE {
        let shown = &at.shown;
        return Err(ToolError::refused(format!(
            "`{shown}` is too large ({size} bytes): look at parts of it with Grep, or with a command if you have Bash"
        )));
    }
    // No link that appeared meanwhile is followed, and no pipe is waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&at.full);
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(|e| io_error(at, "can't be read", &e))?;
    if bytes.len() as u64 > MAX_FILE {
        // Half of it would be written back as the whole.
        return Err(ToolError::refused(format!("`{}` grows while it is read", at.shown)));
    }
    Ok(bytes)
}

/// Makes the folder for files that are being written. What a killed writer left there goes.
pub fn make_scratch(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)?.flatten() {
        // Young ones may be in use: another role's pod works on the same volume.
        let modified = entry.metadata().and_then(|meta| meta.modified());
        if modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > ABANDONED)) {
            let _ = fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// All or nothing, whenever the process dies. The scratch folder is on the same volume. A file that is there keeps
/// its permissions, and a new one gets those that are given.
fn store_file(
    at: &LocatedPath,
    scratch: &Path,
    content: &[u8],
    permissions: Option<&Permissions>,
) -> Result<(), ToolError> {
    let partial = scratch.join(format!("write-{:016x}", rand::random::<u64>()));
    let stored = (|| {
        let mut file = File::create_new(&partial)?;
        file.write_all(content)?;
        if let Ok(meta) = fs::metadata(&at.full) {
            file.set_permissions(meta.permissions())?;
        } else if let Some(permissions) = permissions {
            file.set_permissions(permissions.clone())?;
        }
        fs::rename(&partial, &at.full)
    })();
    if stored.is_err() {
        let _ = fs::remove_file(&partial);
    }
    stored.map_err(|e| io_error(at, "can't be written", &e))
}

fn io_error(at: &LocatedPath, what: &str, error: &std::io::Error) -> ToolError {
    ToolError::refused(format!("`{}` {what}: {error}", at.shown))
}

fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// The edits alone, for measuring.
pub mod bench {
    use std::path::Path;

    use super::super::{ToolError, paths::WorktreeRoot};
    use super::SeenFiles;
    use crate::tool_args as args;

    /// Makes one replacement in a file that was read before.
    pub fn edit_file(
        tree: &Path,
        scratch: &Path,
        path: &str,
        old: &str,
        new: &str,
    ) -> Result<String, ToolError> {
        let seen = SeenFiles::default();
        let read = args::ReadArgs { path: path.to_owned(), ..args::ReadArgs::default() };
        super::read_file(&WorktreeRoot::open(tree)?, &seen, &read)?;
        let one = args::EditReplacement { old: old.to_owned(), new: new.to_owned(), all: false };
        let edit = args::EditArgs { path: path.to_owned(), edits: vec![one], patch: None };
        carry_out(tree, scratch, &seen, &edit)
    }

    /// Applies a patch to files that need not be read first.
    pub fn patch_files(tree: &Path, scratch: &Path, patch: &str) -> Result<String, ToolError> {
        let patch = Some(patch.to_owned());
        let edit = args::EditArgs { patch, ..args::EditArgs::default() };
        carry_out(tree, scratch, &SeenFiles::default(), &edit)
    }

    fn carry_out(
        tree: &Path,
        scratch: &Path,
        seen: &SeenFiles,
        edit: &args::EditArgs,
    ) -> Result<String, ToolError> {
        let tree = WorktreeRoot::open(tree)?;
        let plan = super::plan_edit(&tree, seen, edit)?;
        super::edit_files(&tree, seen, scratch, edit, &plan)
    }
}
