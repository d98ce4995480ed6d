//! Edits: exact, unique, all or nothing, and decided before they are done.

use std::borrow::Cow;
use std::path::Path;

use super::super::ToolError;
use super::super::paths::{Located, Tree};
use super::super::protocol::EditPlan;
use super::{Seen, existing, load, sha256, store};
use crate::tools::args;

/// Most lines that are named for a text that occurs several times.
const LINES_NAMED: usize = 6;

/// What an edit would do.
pub fn plan_edit(tree: &Tree, seen: &Seen, args: &args::Edit) -> Result<EditPlan, ToolError> {
    let at = tree.locate(&args.path)?;
    let bytes = existing(tree, &at)?;
    let before = sha256(&bytes);
    match seen.hash(&at.full) {
        None => {
            return Err(ToolError::refused(format!(
                "read `{}` first (what was read before a restart of the pod does not count)",
                at.shown
            )));
        }
        Some(known) if known != before => {
            return Err(ToolError::refused(format!(
                "`{}` has changed since you read it: read it again",
                at.shown
            )));
        }
        Some(_) => {}
    }
    let after = sha256(replaced(&at, &bytes, args)?.as_bytes());
    Ok(EditPlan { before, after })
}

/// Does a planned edit. A repetition after a crash finds it done, or does it now.
pub fn edit(
    tree: &Tree,
    seen: &Seen,
    scratch: &Path,
    args: &args::Edit,
    plan: &EditPlan,
) -> Result<String, ToolError> {
    let at = tree.locate(&args.path)?;
    let bytes = load(&at)?;
    let now = sha256(&bytes);
    if now == plan.before {
        let text = replaced(&at, &bytes, args)?;
        store(&at, scratch, text.as_bytes())?;
    } else if now != plan.after {
        return Err(ToolError::refused(format!(
            "`{}` was changed by something else meanwhile: read it again",
            at.shown
        )));
    }
    seen.remember(&at.full, &plan.after);
    let count = args.edits.len();
    Ok(format!("Edited `{}` ({count} replacement{})", at.shown, if count == 1 { "" } else { "s" }))
}

fn replaced(at: &Located, bytes: &[u8], args: &args::Edit) -> Result<String, ToolError> {
    let refuse = |why: String| Err(ToolError::refused(why));
    let Ok(text) = std::str::from_utf8(bytes) else {
        return refuse(format!("`{}` is not UTF-8 text", at.shown));
    };
    if args.edits.is_empty() {
        return refuse("`edits` is empty".to_owned());
    }
    let shown = &at.shown;
    let ends = LineEnds::of(text);
    let mut text = text.to_owned();
    for (index, edit) in args.edits.iter().enumerate() {
        let number = index + 1;
        if edit.old.is_empty() {
            return refuse(format!("edit {number}: `old` is empty: use Write for a new file"));
        }
        if edit.old == edit.new {
            return refuse(format!("edit {number}: `old` and `new` are the same"));
        }
        let (old, new) = (ends.as_in_file(&edit.old), ends.as_in_file(&edit.new));
        match text.matches(&*old).count() {
            1 => text = text.replacen(&*old, &new, 1),
            0 => {
                let hint = nearly(&text, &old).unwrap_or_else(|| {
                    "whitespace counts; line numbers are not part of the text".to_owned()
                });
                return refuse(format!(
                    "edit {number}: `old` does not occur in `{shown}` ({hint}). Nothing was changed"
                ));
            }
            times => {
                let lines = lines_of(&text, &old);
                return refuse(format!(
                    "edit {number}: `old` occurs {times} times in `{shown}` (lines {lines}): add \
                     lines around it until it is unique. Nothing was changed"
                ));
            }
        }
    }
    Ok(text)
}

/// How a file ends its lines. Read shows them without their ends, so an edit names them without.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
}

impl LineEnds {
    /// Mixed ones are taken as they are.
    fn of(text: &str) -> Self {
        let both = text.matches("\r\n").count();
        if both > 0 && both == text.matches('\n').count() { Self::CrLf } else { Self::Lf }
    }

    fn as_in_file(self, part: &str) -> Cow<'_, str> {
        if self == Self::Lf || part.contains('\r') {
            return Cow::Borrowed(part);
        }
        Cow::Owned(part.replace('\n', "\r\n"))
    }
}

/// The first lines at which `part` begins, by number.
fn lines_of(text: &str, part: &str) -> String {
    let starts = text.match_indices(part).map(|(at, _)| 1 + text[..at].matches('\n').count());
    let mut named: Vec<String> = starts.take(LINES_NAMED + 1).map(|n| n.to_string()).collect();
    if named.len() > LINES_NAMED {
        named.truncate(LINES_NAMED);
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// Where `old` would be, if whitespace did not count, or at least its first line.
fn nearly(text: &str, old: &str) -> Option<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = old.trim_end_matches(['\r', '\n']).lines().map(squeezed).collect();
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let meant = wanted.iter().any(|line| !line.is_empty());
    let found =
        lines.windows(wanted.len().max(1)).position(|window| meant && fits(window, &wanted));
    if let Some(at) = found {
        let (first, last) = (at + 1, at + wanted.len());
        return Some(match wanted.len() {
            1 => format!("line {first} differs from it only in whitespace: read it again"),
            _ => format!(
                "lines {first} to {last} differ from it only in whitespace: read them again"
            ),
        });
    }
    let first = wanted.iter().find(|line| !line.is_empty())?;
    let at = lines.iter().position(|line| line == first)?;
    Some(format!("its first line is line {}, what follows differs: read on from there", at + 1))
}

/// Whether `wanted` is in `window`, from somewhere in its first line to somewhere in its last.
fn fits(window: &[String], wanted: &[String]) -> bool {
    match (window, wanted) {
        ([line], [part]) => line.contains(part.as_str()),
        ([first, middle @ .., last], [start, between @ .., end]) => {
            first.ends_with(start.as_str()) && middle == between && last.starts_with(end.as_str())
        }
        _ => false,
    }
}
