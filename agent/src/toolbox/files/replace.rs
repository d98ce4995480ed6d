//! Replacements in a text: exact and unique, all of them, or the one place that almost fits; and what is
//! shown of them afterwards.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use codebutler_guides::text::clip_text;
use codebutler_textform::LinedText;

use super::lenient;
use crate::tool_args::EditReplacement;

/// Most lines that are named for a text that occurs several times.
const LINES_NAMED: usize = 6;
/// Lines that are shown around a change, and of it at either end.
const AROUND: usize = 3;
/// Lines that are shown in all.
const MAX_SHOWN: usize = 60;
const MAX_LINE_CHARS: usize = 200;

#[derive(Debug, Default)]
pub(super) struct ReplacedText {
    pub text: LinedText,
    /// Pieces that were replaced.
    pub count: usize,
    /// Notes on the replacements, for the model.
    pub notes: Vec<String>,
    /// Changed ranges, in bytes of the new text.
    places: Vec<Range<usize>>,
}

impl ReplacedText {
    /// A text before anything is done to it.
    pub(super) fn begin(text: &LinedText) -> Self {
        Self { text: text.clone(), ..Self::default() }
    }

    /// Puts `new` at `range`, and says where it ends. With `as_given`, its line ends are meant as they are.
    pub(super) fn put(&mut self, range: Range<usize>, new: &str, as_given: bool) -> usize {
        let (start, end) = (range.start, range.end);
        let grown = start + self.text.replace(range, new, as_given);
        for place in &mut self.places {
            if place.start >= end {
                place.start = place.start - end + grown;
                place.end = place.end - end + grown;
            } else if place.end > start {
                // This replacement overlaps an earlier one: the ranges are joined.
                *place = place.start.min(start)..(place.end.max(end) - end + grown).max(grown);
            }
        }
        self.places.push(start..grown);
        self.count += 1;
        grown
    }

    /// The changed places with the lines around them, numbered as Read does.
    pub(super) fn shown(&self) -> String {
        let text = self.text.text();
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let line_of = |at: usize| starts.partition_point(|start| *start <= at).saturating_sub(1);
        let lines: Vec<&str> = text.lines().collect();
        let mut wanted = BTreeSet::new();
        for place in &self.places {
            let last = place.end.saturating_sub(1).max(place.start);
            for edge in [line_of(place.start), line_of(last)] {
                wanted.extend(edge.saturating_sub(AROUND)..=edge + AROUND);
            }
        }
        let wanted: Vec<usize> = wanted.into_iter().filter(|line| *line < lines.len()).collect();
        let mut out = String::new();
        let mut before = None;
        for number in wanted.iter().take(MAX_SHOWN) {
            if before.is_some_and(|before| before + 1 != *number) {
                out.push_str("     …\n");
            }
            before = Some(*number);
            let _ =
                writeln!(out, "{:>6}\t{}", number + 1, clip_text(lines[*number], MAX_LINE_CHARS));
        }
        if wanted.len() > MAX_SHOWN {
            out.push_str("     … (more places are not shown)\n");
        }
        out
    }
}

/// Does replacements one after the other: all, or none and why. Read shows lines without their ends, so an edit
/// names them without.
pub(super) fn replace_all(
    shown: &str,
    text: &LinedText,
    edits: &[EditReplacement],
) -> Result<ReplacedText, String> {
    if edits.is_empty() {
        return Err("`edits` is empty".to_owned());
    }
    let mut done = ReplacedText::begin(text);
    for (index, edit) in edits.iter().enumerate() {
        let number = index + 1;
        if edit.old.is_empty() {
            return Err(format!("edit {number}: `old` is empty: use Write for a new file"));
        }
        if edit.old == edit.new {
            return Err(format!("edit {number}: `old` and `new` are the same"));
        }
        let plain = LinedText::split(&edit.old);
        let old = plain.text();
        // An end that `new` names and `old` does not is to be changed.
        let as_given = edit.new.contains('\r') && !edit.old.contains('\r');
        if !as_given && LinedText::split(&edit.new).text() == old {
            return Err(format!(
                "edit {number}: `old` and `new` differ only in line ends, and an edit keeps those of the file: \
                 change them with a command, if you have Bash"
            ));
        }
        let text = done.text.text();
        let apart = text.matches(old).count();
        let times = match apart {
            // Two places may share lines, such as those of three closing brackets.
            1 => find_places(text, old).take(2).count(),
            times => times,
        };
        match times {
            0 => replace_leniently(&mut done, shown, number, old, &edit.new, as_given)?,
            times if times == 1 || edit.all => {
                let mut from = 0;
                while let Some(at) = done.text.text()[from..].find(old).map(|at| from + at) {
                    from = done.put(at..at + old.len(), &edit.new, as_given);
                }
            }
            times => {
                let lines = lines_of(done.text.text(), old);
                // Of places that share lines, only the first would be replaced.
                let all = if apart == times {
                    ", or pass `all: true` to replace all of them"
                } else {
                    ": the places share lines"
                };
                return Err(format!(
                    "edit {number}: `old` occurs {times} times in `{shown}` (lines {lines}): add lines around it until \
                     it is unique{all}. Nothing was changed"
                ));
            }
        }
    }
    Ok(done)
}

fn replace_leniently(
    done: &mut ReplacedText,
    shown: &str,
    number: usize,
    old: &str,
    new: &str,
    as_given: bool,
) -> Result<(), String> {
    let text = done.text.text();
    // With its ends where they are meant: what is added to it then has none.
    let plain = LinedText::split(new);
    let meant = if as_given { new } else { plain.text() };
    if let Some(lenient::LenientFit { range, new, how }) = lenient::find_lenient(text, old, meant) {
        let line = 1 + text[..range.start].matches('\n').count();
        done.notes.push(format!(
            "edit {number}: `old` is not in the file exactly; it was taken for what begins at line \
             {line}, the one place that fits {how}"
        ));
        done.put(range, &new, as_given);
        return Ok(());
    }
    let hint = near_miss(text, old)
        .unwrap_or_else(|| "whitespace counts; line numbers are not part of the text".to_owned());
    Err(format!("edit {number}: `old` does not occur in `{shown}` ({hint}). Nothing was changed"))
}

/// All offsets of `part`, also of those that overlap.
pub(super) fn find_places<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text.get(from..)?.find(part)?;
        from = at + text[at..].chars().next().map_or(1, char::len_utf8);
        Some(at)
    })
}

/// The first lines at which `part` begins, by number.
fn lines_of(text: &str, part: &str) -> String {
    let starts = find_places(text, part).map(|at| 1 + text[..at].matches('\n').count());
    let mut named: Vec<String> = starts.take(LINES_NAMED + 1).map(|n| n.to_string()).collect();
    if named.len() > LINES_NAMED {
        named.truncate(LINES_NAMED);
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// Describes the place where `old`, or at least its first line, occurs but for whitespace.
fn near_miss(text: &str, old: &str) -> Option<String> {
    let squeezed = |line: &str| line.split_whitespace().collect::<String>();
    let wanted: Vec<String> = old.trim_end_matches('\n').lines().map(squeezed).collect();
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let meant = wanted.iter().any(|line| !line.is_empty());
    let found =
        lines.windows(wanted.len().max(1)).position(|window| meant && fits_window(window, &wanted));
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

/// Returns true if `wanted` is in `window`, from somewhere in its first line to somewhere in its last.
fn fits_window(window: &[String], wanted: &[String]) -> bool {
    match (window, wanted) {
        ([line], [part]) => line.contains(part.as_str()),
        ([first, middle @ .., last], [start, between @ .., end]) => {
            first.ends_with(start.as_str()) && middle == between && last.starts_with(end.as_str())
        }
        _ => false,
    }
}
