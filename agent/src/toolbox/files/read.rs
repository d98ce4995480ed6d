//! Read: numbered lines of a text, cells of a notebook, or a picture; and what a file is when it is not plain text.

use std::fmt::Write as _;

use codebutler_guides::text::{clip_text, head_and_tail};
use codebutler_textform::{CellOutput, LinedText, TextForm, UnfitText, read_text};

use super::super::paths::{LocatedPath, WorktreeRoot};
use super::super::protocol::ToolboxReply;
use super::super::{ToolError, names, show};
use super::hints::EncodingHints;
use super::opened::{CONVERT, OpenedFile, describe_mismatch, is_lfs_pointer};
use super::{SeenFiles, load_existing, sha256};
use crate::tools::args;

const DEFAULT_LINES: usize = 2000;
const MAX_LINE_CHARS: usize = 2000;
/// Most text that one Read answers with, in bytes.
pub(super) const MAX_TEXT: usize = 60_000;
/// Characters of one output of a notebook.
const MAX_OUTPUT: usize = 2_000;

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
    // Plain ASCII is the same in whatever is said of it.
    let hints = if bytes.is_ascii() && !bytes.contains(&0) {
        EncodingHints::default()
    } else {
        EncodingHints::find(tree, &at)
    };
    let shown = match read_text(&bytes, &hints.as_form()) {
        Ok((form, raw)) => show_text(&at, args, form, raw, &hints, is_lfs_pointer(&bytes))?,
        Err(UnfitText::Binary) => {
            let size = bytes.len();
            return Err(ToolError::refused(format!(
                "`{}` is a binary file of {size} bytes: look at it with a program of the workspace, in Bash",
                at.shown
            )));
        }
        Err(unfit) => {
            let note = format!(
                "({unfit}; what is not known is shown as \u{fffd}. Edit and Write leave it alone: {CONVERT})\n"
            );
            let note = note.replacen("(is ", "(", 1);
            let text = LinedText::split(&String::from_utf8_lossy(&bytes));
            note + &number_lines(&at.shown, text.text(), &[], args)?
        }
    };
    seen.remember(&at.full, &sha256(&bytes));
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
    let file = OpenedFile::of_text(at, form, raw);
    let mut notes = Vec::new();
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

fn number_lines(
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
        // Without numbers: they are not part of the text that can be edited.
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
