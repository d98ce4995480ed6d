//! Read, Write and Edit.

mod edit;
mod lenient;
mod missing;
mod patch;
mod replace;
mod seen;
#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use nix::fcntl::OFlag;
use sha2::{Digest as _, Sha256};

use super::paths::{LocatedPath, WorktreeRoot};
use super::protocol::ToolboxReply;
use super::{ToolError, names, show};
use crate::tools::args;
use codebutler_guides::text::clip_text;

pub use edit::{edit_files, plan_edit};
pub use missing::not_found;
pub use seen::SeenFiles;

/// Largest file that is read or edited, in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;
const DEFAULT_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// Most text that one Read answers with, in bytes.
const MAX_TEXT: usize = 60_000;
/// Nobody writes one file for this long.
const ABANDONED: Duration = Duration::from_hours(1);

/// Numbered lines of a text file, or a picture.
pub fn read_file(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    args: &args::ReadArgs,
) -> Result<ToolboxReply, ToolError> {
    let (at, alike) = names::locate_existing(tree, &args.path)?;
    let bytes = load_existing(tree, &at)?;
    if let Some(media_type) = show::media_type(&bytes) {
        return show::read_picture(&at, media_type, &bytes).map(ToolboxReply::Picture);
    }
    if bytes.iter().take(8192).any(|b| *b == 0) {
        let size = bytes.len();
        return Err(ToolError::refused(format!(
            "`{}` is a binary file of {size} bytes: look at it with a program of the workspace, in Bash",
            at.shown
        )));
    }
    seen.remember(&at.full, &sha256(&bytes));
    let alike = alike.map(|note| note + "\n").unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    if at.full.extension().is_some_and(|extension| extension == "ipynb")
        && let Some(cells) = show::show_notebook(&text)
    {
        let note = "(a notebook: its cells as text; edit the JSON of the file)\n";
        return number_lines(&at.shown, &cells, args)
            .map(|text| ToolboxReply::Text(format!("{alike}{note}{text}")));
    }
    number_lines(&at.shown, &text, args).map(|text| ToolboxReply::Text(alike + &text))
}

fn number_lines(shown: &str, text: &str, args: &args::ReadArgs) -> Result<String, ToolError> {
    let total = text.lines().count();
    if total == 0 {
        return Ok(format!("`{shown}` is empty"));
    }
    let first = args.offset.map_or(1, |n| n.max(1)) as usize;
    let limit = args.limit.map_or(DEFAULT_LINES, |n| n.max(1) as usize);
    if first > total {
        return Err(ToolError::refused(format!("`{shown}` has only {total} lines")));
    }
    let mut out = String::new();
    let mut last = first - 1;
    for (number, line) in text.lines().enumerate().skip(first - 1).take(limit) {
        if out.len() > MAX_TEXT {
            break;
        }
        let _ = writeln!(out, "{:>6}\t{}", number + 1, clip_text(line, MAX_LINE_CHARS));
        last = number + 1;
    }
    if first > 1 || last < total {
        let _ = write!(out, "(lines {first} to {last} of {total}");
        let _ = match last {
            _ if last < total => writeln!(out, "; read on with offset {})", last + 1),
            _ => writeln!(out, ")"),
        };
    }
    Ok(out)
}

/// Replaces or creates a file.
pub fn write_file(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    scratch: &Path,
    args: &args::WriteArgs,
) -> Result<String, ToolError> {
    let at = tree.locate(&args.path)?;
    let existed = regular_size(&at)?.is_some();
    if !existed && let [alike, ..] = &names::list_alike(tree, &at)[..] {
        return Err(ToolError::refused(format!(
            "`{}` does not exist, and a file whose name looks the same does: \"{}\". Edit that one, or choose a \
             name that differs visibly",
            at.shown,
            names::escape_name(&alike.shown)
        )));
    }
    if let Some(parent) = at.full.parent() {
        fs::create_dir_all(parent).map_err(|e| io_error(&at, "the folder can't be made", &e))?;
    }
    store_file(&at, scratch, args.content.as_bytes())?;
    seen.remember(&at.full, &sha256(args.content.as_bytes()));
    let lines = args.content.lines().count();
    let what = if existed { "Wrote" } else { "Created" };
    Ok(format!("{what} `{}` ({lines} lines)", at.shown))
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

/// All of a file that the model named. Where there is none, the error says what is called alike.
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
            "`{shown}` is too large ({size} bytes): look at parts of it with Bash or Grep"
        )));
    }
    // No link that appeared meanwhile is followed, and no pipe is waited for.
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(&at.full);
    let mut bytes = Vec::new();
    file.and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        .map_err(|e| io_error(at, "can't be read", &e))?;
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

/// All or nothing, whenever the process dies. The scratch folder is on the same volume.
fn store_file(at: &LocatedPath, scratch: &Path, content: &[u8]) -> Result<(), ToolError> {
    let partial = scratch.join(format!("write-{:016x}", rand::random::<u64>()));
    let stored = (|| {
        let mut file = File::create_new(&partial)?;
        file.write_all(content)?;
        if let Ok(meta) = fs::metadata(&at.full) {
            file.set_permissions(meta.permissions())?;
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
