//! Fuzzy search for the place of a text that is not there to the letter. Only one place may fit, and the model is
//! told what was overlooked.

use std::ops::Range;

use codebutler_textform::align_pieces;

#[derive(Debug, PartialEq, Eq)]
pub(super) struct LenientFit {
    /// Range of the place, in bytes.
    pub range: Range<usize>,
    pub new: String,
    pub how: &'static str,
}

const TRAILING: &str = "apart from spaces at the ends of lines";
const LOOKALIKE: &str = "apart from quotes, dashes or spaces that only look alike";
const INDENTED: &str = "with another indentation, which `new` was given too";

/// The one place that fits `old` but for what is easily mistaken, from the least on. None if there is
/// none, or more than one.
pub(super) fn find_lenient(text: &str, old: &str, new: &str) -> Option<LenientFit> {
    let file = TextLines::of(text);
    let wanted: Vec<&str> = old.strip_suffix('\n').unwrap_or(old).split('\n').collect();
    if wanted.iter().all(|line| line.trim().is_empty()) {
        return None;
    }
    // A last line without an end stays one.
    let fitted = |first: usize, new: String, how| {
        let range = file.range(first, wanted.len(), old.ends_with('\n'));
        let is_open = range.end == text.len() && !text.ends_with('\n') && old.ends_with('\n');
        let new = match new.strip_suffix('\n') {
            Some(bare) if is_open => bare.to_owned(),
            _ => new,
        };
        LenientFit { range, new, how }
    };
    let same = |fits: &dyn Fn(&str, &str) -> bool| {
        file.windows(wanted.len(), |at| {
            wanted.iter().enumerate().all(|(n, line)| fits(file.line(at + n), line))
        })
    };
    let as_is = |places: Vec<usize>, how| match places[..] {
        [first] => {
            let there = (0..wanted.len()).map(|n| file.line(first + n)).collect::<Vec<_>>();
            Some(fitted(first, keep_lines(&there, &wanted, new, new), how))
        }
        _ => None,
    };
    let places = same(&|there, line| there.trim_end() == line.trim_end());
    if !places.is_empty() {
        return as_is(places, TRAILING);
    }
    let lookalikes = find_lookalikes(text, old);
    if let [range] = &lookalikes[..] {
        return Some(LenientFit {
            range: range.clone(),
            new: kept_indent(text, range, old, new),
            how: LOOKALIKE,
        });
    }
    if !lookalikes.is_empty() {
        return None;
    }
    let places = same(&|there, line| fold_text(there).trim_end() == fold_text(line).trim_end());
    if !places.is_empty() {
        return as_is(places, LOOKALIKE);
    }
    let shifts = |at: usize| {
        IndentShift::between(wanted.iter().enumerate().map(|(n, line)| (file.line(at + n), *line)))
    };
    match file.windows(wanted.len(), |at| shifts(at).is_some())[..] {
        [first] => {
            let there = (0..wanted.len()).map(|n| file.line(first + n)).collect::<Vec<_>>();
            let shifted = shifts(first)?.apply(new)?;
            Some(fitted(first, keep_lines(&there, &wanted, new, &shifted), INDENTED))
        }
        _ => None,
    }
}

/// `adapted`, in which the lines that `new` has from `old` are the file's own to the letter.
fn keep_lines(file: &[&str], old: &[&str], new: &str, adapted: &str) -> String {
    let pieces = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
    let (old, new): (Vec<String>, _) = (old.iter().map(|l| (*l).to_owned()).collect(), pieces(new));
    // A last line end begins no further line.
    let lines = if new.last().is_some_and(String::is_empty) { new.len() - 1 } else { new.len() };
    let from = align_pieces(&old, &new[..lines]);
    let kept = adapted.split('\n').enumerate().map(|(at, line)| {
        let own = from.get(at).copied().flatten().filter(|source| old[*source] == new[at]);
        own.map_or(line, |source| file[source])
    });
    kept.collect::<Vec<_>>().join("\n")
}

/// The lines of a text, by where they are in it.
struct TextLines<'a> {
    text: &'a str,
    /// Ranges of the lines, without their ends.
    at: Vec<Range<usize>>,
}

impl<'a> TextLines<'a> {
    fn of(text: &'a str) -> Self {
        let mut at = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let bare = line.trim_end_matches('\n');
            at.push(start..start + bare.len());
            start += line.len();
        }
        Self { text, at }
    }

    fn line(&self, number: usize) -> &'a str {
        self.at.get(number).map_or("", |range| &self.text[range.clone()])
    }

    fn range(&self, first: usize, count: usize, with_end: bool) -> Range<usize> {
        let last = self.at[first + count - 1].end;
        let next = self.at.get(first + count).map_or(self.text.len(), |next| next.start);
        self.at[first].start..if with_end { next } else { last }
    }

    fn windows(&self, count: usize, fits: impl Fn(usize) -> bool) -> Vec<usize> {
        let last = (self.at.len() + 1).saturating_sub(count);
        (0..last).filter(|first| fits(*first)).take(2).collect()
    }
}

/// Maps characters that look alike to one of them.
fn fold_char(c: char) -> char {
    match c {
        '\u{2018}'..='\u{201b}' => '\'',
        '\u{201c}'..='\u{201f}' => '"',
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{3000}' => ' ',
        c => c,
    }
}

fn fold_text(text: &str) -> String {
    text.chars().map(fold_char).collect()
}

/// Finds `old`, also inside a line, with characters that look alike taken as equal.
fn find_lookalikes(text: &str, old: &str) -> Vec<Range<usize>> {
    if text.is_ascii() && old.is_ascii() {
        return Vec::new();
    }
    let (flat, wanted) = (fold_text(text), fold_text(old));
    let count = wanted.chars().count();
    let places = flat.match_indices(&wanted).take(2).map(|(at, _)| {
        // Folding keeps the number of characters, so offsets in characters are the same in both texts.
        let before = flat[..at].chars().count();
        let mut bytes = text.char_indices().map(|(at, _)| at).chain([text.len()]);
        let start = bytes.nth(before).unwrap_or(text.len());
        let end = match count {
            0 => start,
            count => bytes.nth(count - 1).unwrap_or(text.len()),
        };
        start..end
    });
    places.collect()
}

/// `new`, with the file's own characters where it says the same as `old`.
fn kept_indent(text: &str, range: &Range<usize>, old: &str, new: &str) -> String {
    let there: Vec<char> = text[range.clone()].chars().collect();
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let most = old.len().min(new.len());
    let head = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let tail = old.iter().rev().zip(new.iter().rev()).take_while(|(a, b)| a == b).count();
    let tail = tail.min(most - head);
    let middle = &new[head..new.len() - tail];
    there[..head].iter().chain(middle).chain(&there[there.len() - tail..]).collect()
}

/// Difference in indentation, the same for all lines.
enum IndentShift<'a> {
    /// The file has so much more.
    More(&'a str),
    /// The file has so much less.
    Less(&'a str),
}

impl<'a> IndentShift<'a> {
    fn between(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Option<Self> {
        let mut found: Option<(bool, &str)> = None;
        for (there, wanted) in pairs {
            let (bare, meant) = (there.trim(), wanted.trim());
            if fold_text(bare) != fold_text(meant) {
                return None;
            }
            if bare.is_empty() {
                continue;
            }
            let indent = |line: &'a str| &line[..line.len() - line.trim_start().len()];
            let (there, wanted) = (indent(there), indent(wanted));
            let shift = match (there.strip_suffix(wanted), wanted.strip_suffix(there)) {
                (Some(more), _) => (true, more),
                (None, Some(less)) => (false, less),
                (None, None) => return None,
            };
            if found.is_some_and(|found| found != shift) {
                return None;
            }
            found = Some(shift);
        }
        let (more, by) = found?;
        Some(if more { Self::More(by) } else { Self::Less(by) })
    }

    /// The same for `new`; None if a line of it can't be shifted so.
    fn apply(&self, new: &str) -> Option<String> {
        let shifted = new.split('\n').map(|line| match self {
            _ if line.trim().is_empty() => Some(line.to_owned()),
            Self::More(by) => Some(format!("{by}{line}")),
            Self::Less(by) => line.strip_prefix(by).map(str::to_owned),
        });
        shifted.collect::<Option<Vec<_>>>().map(|lines| lines.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(text: &str, old: &str, new: &str) -> Option<(String, &'static str)> {
        let LenientFit { range, new, how } = find_lenient(text, old, new)?;
        let mut text = text.to_owned();
        text.replace_range(range, &new);
        Some((text, how))
    }

    #[test]
    fn one_place_that_fits_almost_is_meant() {
        for (text, old, new, expected, how) in [
            ("a  \nb\n", "a\nb", "c", "c\n", TRAILING),
            ("a\nb\n", "a \nb\n", "c\n", "c\n", TRAILING),
            ("x = “a” – b;\n", "\"a\" - b", "\"a\" - c", "x = “a” – c;\n", LOOKALIKE),
            (
                "    if a {\n        b\n    }\n",
                "if a {\n    b\n}",
                "if c {\n\n    d\n}",
                "    if c {\n\n        d\n    }\n",
                INDENTED,
            ),
            ("if a {\n\tb\n}\n", "\tif a {\n\t\tb\n\t}\n", "\tc\n", "c\n", INDENTED),
            // Unchanged lines keep their spaces, and a last line stays without an end.
            ("a  \nb\n", "a\nb", "a\nB", "a  \nB\n", TRAILING),
            ("a  \nb  ", "a\nb\n", "a\nB\n", "a  \nB", TRAILING),
            ("\ta\n  \n\tb\n", "a\n\nb", "a\n\nc", "\ta\n  \n\tc\n", INDENTED),
            ("“a” \nb\n", "\"a\"\nb", "\"a\"\nc", "“a” \nc\n", LOOKALIKE),
        ] {
            assert_eq!(edited(text, old, new), Some((expected.to_owned(), how)), "{text:?}");
        }
    }

    #[test]
    fn two_places_or_another_text_are_not() {
        for (text, old, new) in [
            ("a \nb\na  \n", "a\t", "c"),
            ("  a\n    a\n", "\ta", "c"),
            // The lines differ in their shift.
            ("  a\n    b\n", "a\nb", "c"),
            ("if x:\n\ta\n", "if x:\n    b", "c"),
            ("“a” “a”\n", "\"a\"", "b"),
            ("a\n\nb\n", "\n", "c"),
            // A line of `new` can't be moved to the left.
            ("a\nb\n", "  a\n  b", "c"),
            ("", "a", "b"),
        ] {
            assert_eq!(edited(text, old, new), None, "{text:?} {old:?}");
        }
    }
}
