//! Texts that are too large to be held: so many lines of them, read as they come.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};

use codebutler_guides::text::clip_text;

use super::super::paths::LocatedPath;
use super::super::{ToolError, kinds};
use super::{DEFAULT_LINES, MAX_LINE_CHARS, MAX_TEXT, io_error};
use crate::tool_args as args;

/// Bytes of a line that are held; the rest of it is passed over.
const MAX_HELD: u64 = 4 * MAX_LINE_CHARS as u64 + 4;
/// Bytes at the beginning in which a zero means that it is no text, as Git has it.
const BINARY_HEAD: usize = 8000;

/// Numbered lines of a file of any size.
pub(super) fn read_large(
    at: &LocatedPath,
    file: File,
    args: &args::ReadArgs,
) -> Result<String, ToolError> {
    let fail = |e: std::io::Error| io_error(at, "can't be read", &e);
    let size = file.metadata().map_err(fail)?.len();
    let mut reader = BufReader::with_capacity(256 * 1024, file);
    let head = reader.fill_buf().map_err(fail)?;
    let wide = head.starts_with(b"\xff\xfe") || head.starts_with(b"\xfe\xff");
    if wide || head[..head.len().min(BINARY_HEAD)].contains(&0) {
        let what = if wide { "text in UTF-16" } else { kinds::binary_name(head) };
        return Err(ToolError::refused(format!(
            "`{}` is {what} of {size} bytes: look at it with a program of the workspace, if you have Bash",
            at.shown
        )));
    }
    let first = args.offset.map_or(1, |n| n.max(1)) as usize;
    let limit = args.limit.map_or(DEFAULT_LINES, |n| n.max(1) as usize);
    let (mut number, mut last, mut out) = (0, first - 1, String::new());
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.by_ref().take(MAX_HELD).read_until(b'\n', &mut line).map_err(fail)?;
        if read == 0 {
            break;
        }
        if line.last() != Some(&b'\n') {
            reader.skip_until(b'\n').map_err(fail)?;
        }
        number += 1;
        if number >= first && number < first.saturating_add(limit) && out.len() <= MAX_TEXT {
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end_matches(['\n', '\r']);
            let _ = writeln!(out, "{number:>6}\t{}", clip_text(text, MAX_LINE_CHARS));
            last = number;
        }
    }
    if first > number {
        return Err(ToolError::refused(format!("`{}` has only {number} lines", at.shown)));
    }
    let note = format!("({size} bytes: Read shows it, Edit and Write do not take it)\n");
    let more =
        if last < number { format!("; read on with offset {}", last + 1) } else { String::new() };
    let _ = writeln!(out, "(lines {first} to {last} of {number}{more})");
    Ok(note + &out)
}
