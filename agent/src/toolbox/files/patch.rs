//! Patches as Codex' `apply_patch` takes them: several files, by their text and not by line numbers.

use codebutler_textform::LinedText;

use super::lenient;
use super::replace::{ReplacedText, find_places};

/// Change of a patch to one file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PatchChange {
    Add {
        path: String,
        text: String,
    },
    Delete {
        path: String,
    },
    /// A file that changes, and perhaps gets another name.
    Update {
        path: String,
        to: Option<String>,
        /// Hunks in the order of their places in the file.
        hunks: Vec<PatchHunk>,
    },
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PatchHunk {
    /// Lines that stand before it, each somewhere after the last.
    after: Vec<String>,
    old: Vec<String>,
    new: Vec<String>,
    /// True if the hunk is at the end of the file.
    at_end: bool,
}

const MAX_FILES: usize = 20;

pub(super) fn parse_patch(patch: &str) -> Result<Vec<PatchChange>, String> {
    let mut lines = patch.trim().lines().peekable();
    if lines.next().map(str::trim_end) != Some("*** Begin Patch") {
        return Err("a patch begins with `*** Begin Patch`".to_owned());
    }
    let mut changes = Vec::new();
    let mut ended = false;
    while let Some(line) = lines.next() {
        let line = line.trim_end();
        if line == "*** End Patch" {
            ended = true;
            break;
        }
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            let mut text = String::new();
            while let Some(added) = lines.next_if(|line| line.starts_with('+')) {
                text.push_str(&added[1..]);
                text.push('\n');
            }
            changes.push(PatchChange::Add { path: path.trim().to_owned(), text });
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            changes.push(PatchChange::Delete { path: path.trim().to_owned() });
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            let moved = lines.next_if(|line| line.starts_with("*** Move to: "));
            let to = moved.map(|line| line["*** Move to: ".len()..].trim().to_owned());
            let hunks = parse_hunks(&mut lines)?;
            if hunks.is_empty() && to.is_none() {
                return Err(format!("the patch says nothing about `{}`", path.trim()));
            }
            changes.push(PatchChange::Update { path: path.trim().to_owned(), to, hunks });
        } else if !line.trim().is_empty() {
            return Err(format!(
                "`{}` is not `*** Add File: `, `*** Update File: ` or `*** Delete File: `",
                codebutler_guides::text::clip_text(line, 80)
            ));
        }
    }
    match changes.len() {
        _ if !ended => Err("a patch ends with `*** End Patch`: perhaps it was cut off".to_owned()),
        0 => Err("the patch changes no file".to_owned()),
        1..=MAX_FILES => Ok(changes),
        many => Err(format!("a patch changes at most {MAX_FILES} files, this one {many}")),
    }
}

fn parse_hunks<'a>(
    lines: &mut std::iter::Peekable<impl Iterator<Item = &'a str>>,
) -> Result<Vec<PatchHunk>, String> {
    let mut hunks: Vec<PatchHunk> = Vec::new();
    let outer = |line: &str| line.starts_with("*** ") && line.trim_end() != "*** End of File";
    while let Some(line) = lines.next_if(|line| !outer(line)) {
        if let Some(header) = line.strip_prefix("@@") {
            let bare = hunks.last().is_some_and(|hunk| hunk.old.is_empty() && hunk.new.is_empty());
            if !bare {
                hunks.push(PatchHunk::default());
            }
            let header = header.trim().trim_end_matches("@@").trim();
            // `-1,2 +1,3`: line numbers are not looked at.
            let numbers = header.starts_with('-') && header.contains(" +");
            if let Some(hunk) = hunks.last_mut().filter(|_| !header.is_empty() && !numbers) {
                hunk.after.push(header.to_owned());
            }
            continue;
        }
        if hunks.is_empty() {
            hunks.push(PatchHunk::default());
        }
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.trim_end() == "*** End of File" {
            hunk.at_end = true;
            continue;
        }
        match line.split_at_checked(1) {
            Some(("+", line)) => hunk.new.push(line.to_owned()),
            Some(("-", line)) => hunk.old.push(line.to_owned()),
            Some((" ", line)) => {
                hunk.old.push(line.to_owned());
                hunk.new.push(line.to_owned());
            }
            None => {
                hunk.old.push(String::new());
                hunk.new.push(String::new());
            }
            Some(_) => {
                return Err(format!(
                    "a line of a patch begins with a space, `+` or `-`: `{}`",
                    codebutler_guides::text::clip_text(line, 80)
                ));
            }
        }
    }
    hunks.retain(|hunk| hunk.old != hunk.new);
    Ok(hunks)
}

/// The text after its hunks; otherwise why not.
pub(super) fn apply_hunks(
    shown: &str,
    text: &LinedText,
    hunks: &[PatchHunk],
) -> Result<ReplacedText, String> {
    let mut done = ReplacedText::begin(text);
    let mut from = 0;
    for (index, hunk) in hunks.iter().enumerate() {
        let number = index + 1;
        for header in &hunk.after {
            from = line_after(done.text.text(), from, header).ok_or_else(|| {
                format!("place {number}: `@@ {header}` is no line of `{shown}` from there on")
            })?;
        }
        // A patch has no line ends of its own, wherever in a line a carriage return stands.
        let joined = |lines: &[String]| -> String {
            let raw: String = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect();
            LinedText::split(&raw).text().to_owned()
        };
        let (old, new) = (joined(&hunk.old), joined(&hunk.new));
        let (range, new) = if hunk.old.is_empty() {
            let text = done.text.text();
            let at = if hunk.after.is_empty() || hunk.at_end { text.len() } else { from };
            let is_open = at > 0 && !text[..at].ends_with('\n');
            // A last line without an end stays one: the new last line has none either.
            let new = match new.strip_suffix('\n') {
                Some(bare) if is_open => format!("\n{bare}"),
                _ => new,
            };
            (at..at, new)
        } else {
            place_hunk(&mut done, shown, number, from, (&old, &new), !hunk.after.is_empty())?
        };
        from = done.put(range, &new, false);
    }
    Ok(done)
}

/// Offset behind the first line from `from` on that equals `header`.
fn line_after(text: &str, from: usize, header: &str) -> Option<usize> {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        at += line.len();
        if line.trim() == header.trim() {
            return Some(at);
        }
    }
    None
}

/// Finds the place of a hunk's old lines: the only one, or the first one behind a line that the hunk names.
fn place_hunk(
    done: &mut ReplacedText,
    shown: &str,
    number: usize,
    from: usize,
    (old, new): (&str, &str),
    named: bool,
) -> Result<(std::ops::Range<usize>, String), String> {
    let rest = &done.text.text()[from..];
    // A last line may have no end.
    let ended = rest.ends_with('\n');
    let padded = if ended { rest.to_owned() } else { format!("{rest}\n") };
    let starts = |at: &usize| *at == 0 || padded[..*at].ends_with('\n');
    let found: Vec<usize> = find_places(&padded, old).filter(starts).take(2).collect();
    let fitting = |at: usize| {
        let end = (at + old.len()).min(rest.len());
        let cut = at + old.len() > rest.len();
        let new = if cut { new.strip_suffix('\n').unwrap_or(new) } else { new };
        (from + at..from + end, new.to_owned())
    };
    match found[..] {
        [at] => Ok(fitting(at)),
        [at, _] if named => Ok(fitting(at)),
        [_, _, ..] => Err(format!(
            "place {number}: its lines occur more than once in `{shown}`: add lines around them, or a line \
             `@@ ` with a line that stands before them. Nothing was changed"
        )),
        [] => match lenient::find_lenient(rest, old, new) {
            Some(lenient::LenientFit { range, new, how }) => {
                done.notes.push(format!(
                    "place {number} of `{shown}` is not there exactly; taken for the one that fits {how}"
                ));
                Ok((from + range.start..from + range.end, new))
            }
            None => Err(format!(
                "place {number}: its lines are not in `{shown}`{}: read it again. Nothing was changed",
                if from > 0 { ", behind what came before" } else { "" }
            )),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(text: &str, body: &str) -> Result<String, String> {
        let changes =
            parse_patch(&format!("*** Begin Patch\n*** Update File: f\n{body}*** End Patch"))?;
        let [PatchChange::Update { hunks, .. }] = &changes[..] else { panic!("{changes:?}") };
        apply_hunks("f", &LinedText::split(text), hunks).map(|done| done.text.raw())
    }

    #[test]
    fn hunks_find_their_place_by_text() {
        for (text, body, expected) in [
            ("a\nb\nc\n", "@@\n a\n-b\n+B\n c\n", "a\nB\nc\n"),
            ("a\nb\nc", " b\n-c\n+d\n", "a\nb\nd"),
            ("f\n x\ng\n x\n", "@@ g\n- x\n+ y\n", "f\n x\ng\n y\n"),
            ("a\nb\n", "@@ -1,2 +1,2 @@\n-a\n+c\n b\n", "c\nb\n"),
            ("a\n", "@@\n+b\n*** End of File\n", "a\nb\n"),
            ("a\r\nb\r\n", "-a\n+c\n b\n", "c\r\nb\r\n"),
            ("a\nx\nb\nx\n", "@@ a\n-x\n+1\n@@ b\n-x\n+2\n", "a\n1\nb\n2\n"),
            // A line around the change keeps the spaces that it has, and each its own end.
            ("a \nb\n", " a\n-b\n+c\n", "a \nc\n"),
            ("a\r\nb\nc\r\n", " a\n-b\n+B\n+x\n c\n", "a\r\nB\nx\nc\r\n"),
            ("a\r\nb", " a\n-b\n+c\n+d\n", "a\r\nc\r\nd"),
            ("a\r\nb", "@@\n+c\n", "a\r\nb\r\nc"),
            ("a\nb", "@@\n+c\n", "a\nb\nc"),
            ("a\nb ", " a\n-b\n+c\n", "a\nc"),
            ("a\nb", "-b\n+c\n+\n+\n", "a\nc\n\n"),
            ("a\rb\r", "-a\n+c\n", "c\rb\r"),
            ("log\rdone\nb\n", " done\n-b\n+c\n", "log\rdone\nc\n"),
        ] {
            assert_eq!(patched(text, body).as_deref(), Ok(expected), "{text:?} {body:?}");
        }
    }

    #[test]
    fn what_is_not_sure_is_refused() {
        for (text, body, why) in [
            ("x\nx\n", "-x\n+y\n", "more than once"),
            ("a\nb\na\nb\na\n", "-a\n-b\n-a\n+x\n", "more than once"),
            ("a\n", "-b\n+c\n", "are not in `f`"),
            ("a\n", "@@ nowhere\n-a\n+b\n", "is no line"),
            ("a\n", "?a\n", "begins with a space"),
            ("a\n", "", "says nothing"),
        ] {
            assert!(patched(text, body).unwrap_err().contains(why), "{text:?} {body:?}");
        }
        for (patch, why) in [
            ("*** Begin Patch\n*** Add File: a\n+x", "cut off"),
            ("*** Begin Patch\n*** End Patch", "no file"),
            ("--- a\n+++ b", "begins with"),
            ("*** Begin Patch\nhello\n*** End Patch", "is not `*** Add"),
        ] {
            assert!(parse_patch(patch).unwrap_err().contains(why), "{patch}");
        }
    }
}
