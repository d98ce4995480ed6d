//! Read: numbered lines of a text, cells of a notebook, or a picture; and what a file is when it is not plain text.
//! Documents are found here and read elsewhere.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;

use codebutler_documents::is_document;
use codebutler_guides::text::{clip_text, head_and_tail};
use codebutler_textform::{CellOutput, LinedText, TextForm, UnfitText, read_text};

use super::super::paths::{LocatedPath, WorktreeRoot};
use super::super::protocol::ToolboxReply;
use super::super::{ToolError, kinds, names, show};
use super::hints::EncodingHints;
use super::large::read_large;
use super::opened::{CONVERT, OpenedFile, describe_mismatch, is_lfs_pointer};
use super::{
    DEFAULT_LINES, MAX_FILE, MAX_LINE_CHARS, MAX_TEXT, SeenFiles, io_error, not_found,
    regular_size, sha256,
};
use crate::tool_args as args;
use nix::fcntl::OFlag;

/// Characters of one output of a notebook.
const MAX_OUTPUT: usize = 2_000;

/// Bytes by which a document is known.
const HEAD: u64 = 1024;

/// The content that Read finds.
#[derive(Debug)]
pub enum FileRead {
    /// An answer that can be shown at once.
    Shown(Box<ToolboxReply>),
    /// A document, which is not looked into in this process.
    Document(DocumentPlace),
}

/// A document that was opened, to be read in another process.
#[derive(Debug)]
pub struct DocumentPlace {
    pub at: LocatedPath,
    /// Part inside the document that was asked for.
    pub part: Option<String>,
    /// Open file, positioned at its beginning.
    pub file: File,
}

/// Numbered lines of a text file, a picture, or a document that somebody else reads.
pub fn read_file(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    args: &args::ReadArgs,
) -> Result<FileRead, ToolError> {
    if let Some(found) = find_inside(tree, &args.path)? {
        return Ok(FileRead::Document(found));
    }
    let (at, alike) = names::locate_existing(tree, &args.path)?;
    let Some(size) = regular_size(&at)? else { return Err(not_found(tree, &at)) };
    let (mut file, head) = open_plain(&at)?;
    if is_document(&head) && kinds::media_type(&head).is_none() {
        return Ok(FileRead::Document(DocumentPlace { at, part: None, file }));
    }
    if size > MAX_FILE && kinds::media_type(&head).is_none() {
        let text = read_large(&at, file, args)?;
        let reply = ToolboxReply::Text(alike.unwrap_or_default() + &text);
        return Ok(FileRead::Shown(Box::new(reply)));
    }
    let mut bytes = Vec::new();
    file.by_ref()
        .take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| io_error(&at, "can't be read", &e))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(ToolError::refused(format!("`{}` grows while it is read", at.shown)));
    }
    show_file(tree, seen, &at, &bytes, alike, args).map(|reply| FileRead::Shown(Box::new(reply)))
}

/// A document of which the path names a part, as if it were a folder.
fn find_inside(tree: &WorktreeRoot, path: &str) -> Result<Option<DocumentPlace>, ToolError> {
    let Ok(asked) = tree.locate(path) else { return Ok(None) };
    if asked.full.symlink_metadata().is_ok() {
        return Ok(None);
    }
    for full in asked.full.ancestors().skip(1).take_while(|full| full.starts_with(tree.root())) {
        let Ok(meta) = full.symlink_metadata() else { continue };
        let (Ok(inside), Ok(shown)) =
            (asked.full.strip_prefix(full), full.strip_prefix(tree.root()))
        else {
            break;
        };
        if !meta.is_file() {
            break;
        }
        let at = LocatedPath { full: full.to_owned(), shown: shown.to_string_lossy().into_owned() };
        let (file, head) = open_plain(&at)?;
        let part = Some(inside.to_string_lossy().into_owned());
        return Ok(is_document(&head).then_some(DocumentPlace { at, part, file }));
    }
    Ok(None)
}

/// A file and its first bytes; it is at its beginning again. No link that appeared meanwhile is followed, and no
/// pipe is waited for.
fn open_plain(at: &LocatedPath) -> Result<(File, Vec<u8>), ToolError> {
    let fail = |e: std::io::Error| io_error(at, "can't be read", &e);
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let mut file =
        OpenOptions::new().read(true).custom_flags(flags.bits()).open(&at.full).map_err(fail)?;
    let mut head = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head).map_err(fail)?;
    file.rewind().map_err(fail)?;
    Ok((file, head))
}

/// A part of a document that is none itself, as a file of that name would be shown.
pub fn show_bytes(
    shown: &str,
    bytes: &[u8],
    args: &args::ReadArgs,
) -> Result<ToolboxReply, ToolError> {
    let at = LocatedPath { full: shown.into(), shown: shown.to_owned() };
    if let Some(media_type) = kinds::media_type(bytes) {
        return show::read_picture(&at, media_type, bytes).map(ToolboxReply::Picture);
    }
    match read_text(bytes, &EncodingHints::default().as_form()) {
        Ok((_, text)) => number_lines(shown, &text, &[], args).map(ToolboxReply::Text),
        Err(UnfitText::Binary) => {
            let (what, size) = (kinds::binary_name(bytes), bytes.len());
            Err(ToolError::refused(format!("`{shown}` is {what} of {size} bytes")))
        }
        Err(_) => {
            number_lines(shown, &String::from_utf8_lossy(bytes), &[], args).map(ToolboxReply::Text)
        }
    }
}

fn show_file(
    tree: &WorktreeRoot,
    seen: &SeenFiles,
    at: &LocatedPath,
    bytes: &[u8],
    alike: Option<String>,
    args: &args::ReadArgs,
) -> Result<ToolboxReply, ToolError> {
    if let Some(media_type) = kinds::media_type(bytes) {
        return show::read_picture(at, media_type, bytes).map(ToolboxReply::Picture);
    }
    // Plain ASCII is the same in whatever is said of it.
    let hints = if bytes.is_ascii() && !bytes.contains(&0) {
        EncodingHints::default()
    } else {
        EncodingHints::find(tree, at)
    };
    let shown = match read_text(bytes, &hints.as_form()) {
        Ok((form, raw)) => show_text(at, args, form, raw, &hints, is_lfs_pointer(bytes))?,
        Err(UnfitText::Binary) => {
            let (what, size) = (kinds::binary_name(bytes), bytes.len());
            return Err(ToolError::refused(format!(
                "`{}` is {what} of {size} bytes: look at it with a program of the workspace, if you have Bash",
                at.shown
            )));
        }
        Err(unfit) => {
            let note = format!(
                "({unfit}; what is not known is shown as \u{fffd}. Edit and Write leave it alone: {CONVERT})\n"
            );
            let note = note.replacen("(is ", "(", 1);
            let text = LinedText::split(&String::from_utf8_lossy(bytes));
            note + &number_lines(&at.shown, text.text(), &[], args)?
        }
    };
    seen.remember(&at.full, &sha256(bytes));
    let alike = alike.map(|note| note + "\n").unwrap_or_default();
    Ok(ToolboxReply::Text(alike + &shown))
}

fn show_text(
    at: &LocatedPath,
    args: &args::ReadArgs,
    form: TextForm,
    raw: String,
    hints: &EncodingHints,
    is_pointer: bool,
) -> Result<String, ToolError> {
    let source = describe_source(&at.shown, &raw);
    let file = OpenedFile::of_text(at, form, raw);
    let mut notes: Vec<String> = source.into_iter().map(str::to_owned).collect();
    if is_pointer {
        notes.push("a pointer to a file that Git LFS keeps; its content is not here".to_owned());
    }
    if file.notebook().is_some() {
        notes.push(
            "a notebook: Edit changes the cells as they are numbered here; a line `# [code]` or `# [markdown]` begins \
             a new one"
                .to_owned(),
        );
    }
    notes.extend(
        file.describe_form().map(|described| format!("{described}: Edit and Write keep that")),
    );
    notes.extend(describe_mismatch(form, hints));
    let outputs =
        file.notebook().map(codebutler_textform::NotebookText::outputs).unwrap_or_default();
    let text = number_lines(&at.shown, file.text().text(), &outputs, args)?;
    let mut shown = String::new();
    for note in notes {
        let _ = writeln!(shown, "({note})");
    }
    Ok(shown + &text)
}

/// The remark on a text that is the source of something else, with the way to what it says.
fn describe_source(shown: &str, raw: &str) -> Option<&'static str> {
    if raw.starts_with("{\\rtf") {
        return Some(
            "the source of a rich text file (RTF): where its words are lost in markup, ask for a .docx, a PDF or plain text",
        );
    }
    let is_mail = shown.rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("eml"));
    let is_encoded =
        |line: &str| line.trim().eq_ignore_ascii_case("content-transfer-encoding: base64");
    (is_mail && raw.lines().any(is_encoded)).then_some(
        "the source of a mail with parts in base64: decode them with a program of the workspace, if you have Bash, or ask for its \
         attachments as files",
    )
}

/// Lines with their numbers, so many from so many on.
pub fn number_lines(
    shown: &str,
    text: &str,
    outputs: &[CellOutput],
    args: &args::ReadArgs,
) -> Result<String, ToolError> {
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
        // Outputs have no line numbers: they are not part of the text that can be edited.
        for text in outputs.iter().filter(|output| output.line == last).flat_map(|o| &o.texts) {
            let _ = writeln!(out, "# [output]\n{}", head_and_tail(text.trim_end(), MAX_OUTPUT));
        }
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
