//! A text whose lines are all ended by `\n`, and how each of them is ended in the file.

use std::fmt;
use std::ops::Range;

use super::pieces::align_pieces;

/// The end of a line. U+2028, NEL, form feeds and their kind end none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// Line feed, `\n`, as on Unix.
    #[default]
    Lf,
    /// Carriage return and line feed, `\r\n`, as on Windows.
    CrLf,
    /// Carriage return, `\r`, as on old Macs.
    Cr,
}

impl LineEnd {
    fn as_str(self) -> &'static str {
        match self {
            Self::Lf => "\n",
            Self::CrLf => "\r\n",
            Self::Cr => "\r",
        }
    }
}

/// A text that is searched and changed with plain line ends, and keeps those of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinedText {
    text: String,
    /// One for each `\n` of the text.
    ends: Vec<LineEnd>,
}

/// Number of lines for each kind of line end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndCounts {
    /// Lines that end with `\n`.
    pub lf: usize,
    /// Lines that end with `\r\n`.
    pub crlf: usize,
    /// Lines that end with `\r`.
    pub cr: usize,
}

impl EndCounts {
    /// Returns true if there is more than one kind of line end.
    pub fn is_mixed(&self) -> bool {
        [self.lf, self.crlf, self.cr].iter().filter(|count| **count > 0).count() > 1
    }
}

impl fmt::Display for EndCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = [(self.lf, "LF"), (self.crlf, "CRLF"), (self.cr, "CR")];
        let there: Vec<_> = kinds.into_iter().filter(|(count, _)| *count > 0).collect();
        match there[..] {
            [] => write!(f, "no line ends"),
            [(_, kind)] => write!(f, "{kind} line ends"),
            _ => {
                let counted: Vec<_> =
                    there.iter().map(|(count, kind)| format!("{count} {kind}")).collect();
                write!(f, "mixed line ends: {}", counted.join(", "))
            }
        }
    }
}

impl LinedText {
    /// Splits a file's text into lines and their ends.
    pub fn split(raw: &str) -> Self {
        if !raw.contains('\r') {
            return Self {
                text: raw.to_owned(),
                ends: vec![LineEnd::Lf; raw.matches('\n').count()],
            };
        }
        let mut text = String::with_capacity(raw.len());
        let mut ends = Vec::new();
        let mut rest = raw;
        while let Some(at) = rest.find(['\r', '\n']) {
            text.push_str(&rest[..at]);
            text.push('\n');
            let end = match &rest.as_bytes()[at..] {
                [b'\r', b'\n', ..] => LineEnd::CrLf,
                [b'\r', ..] => LineEnd::Cr,
                _ => LineEnd::Lf,
            };
            ends.push(end);
            rest = &rest[at + end.as_str().len()..];
        }
        text.push_str(rest);
        Self { text, ends }
    }

    /// The text with `\n` as the only line end.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with the file's line ends.
    pub fn raw(&self) -> String {
        self.raw_part(0..self.text.len())
    }

    /// A part of the text, as the file has it.
    pub fn raw_part(&self, range: Range<usize>) -> String {
        let mut ends = self.ends[self.ends_before(range.start)..].iter();
        let mut raw = String::with_capacity(range.len() + self.ends.len());
        for line in self.text[range].split_inclusive('\n') {
            raw.push_str(line.strip_suffix('\n').unwrap_or(line));
            if line.ends_with('\n') {
                raw.push_str(ends.next().copied().unwrap_or_default().as_str());
            }
        }
        raw
    }

    /// Counts the line ends of each kind.
    pub fn count_ends(&self) -> EndCounts {
        let mut counts = EndCounts::default();
        for end in &self.ends {
            match end {
                LineEnd::Lf => counts.lf += 1,
                LineEnd::CrLf => counts.crlf += 1,
                LineEnd::Cr => counts.cr += 1,
            }
        }
        counts
    }

    /// Puts `new` at a range of the text, and returns its length in there. A line that was there before keeps its
    /// end, and a new one is ended as its neighbours are. With `as_given`, the ends of `new` are meant as they are.
    pub fn replace(&mut self, range: Range<usize>, new: &str, as_given: bool) -> usize {
        let given = Self::split(new);
        let first = self.ends_before(range.start);
        let old = &self.text[range.clone()];
        let last = first + old.matches('\n').count();
        let ends =
            if as_given { given.ends } else { self.inherit_ends(first..last, old, &given.text) };
        self.ends.splice(first..last, ends);
        self.text.replace_range(range, &given.text);
        given.text.len()
    }

    fn ends_before(&self, at: usize) -> usize {
        memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count()
    }

    /// The ends of `new`, which stands where `old` stood with the ends of `range`.
    fn inherit_ends(&self, range: Range<usize>, old: &str, new: &str) -> Vec<LineEnd> {
        let wanted = new.matches('\n').count();
        let (own, after) = (&self.ends[range.clone()], self.ends.get(range.end).copied());
        let before = range.start.checked_sub(1).map(|at| self.ends[at]);
        let next = after.or(own.last().copied()).or(before).unwrap_or_default();
        let first = own.first().copied().unwrap_or(next);
        if own.iter().chain(after.iter()).all(|end| *end == first) {
            return vec![first; wanted];
        }
        let pieces = |text: &str| text.split('\n').map(str::to_owned).collect::<Vec<_>>();
        let mut last = None;
        align_pieces(&pieces(old), &pieces(new))
            .into_iter()
            .take(wanted)
            .map(|from| {
                // The last piece of `old` is ended by what follows it.
                let inherited = from.map(|at| own.get(at).copied().unwrap_or(next));
                let end = inherited.or(last).or(before).unwrap_or(first);
                last = Some(end);
                end
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replaced(raw: &str, old: &str, new: &str) -> String {
        let mut text = LinedText::split(raw);
        let at = text.text().find(old).unwrap();
        text.replace(at..at + old.len(), new, false);
        text.raw()
    }

    #[test]
    fn a_text_is_the_file_again() {
        for raw in
            ["", "\n", "\r", "\r\n", "a", "a\r\nb\nc\rd\n\r\r\n", "\n\r", "a\u{2028}b\u{85}c\u{c}d"]
        {
            assert_eq!(LinedText::split(raw).raw(), raw);
        }
        assert_eq!(LinedText::split("a\r\nb\rc\nd").text(), "a\nb\nc\nd");
        assert_eq!(LinedText::split("a\u{2028}b\n").count_ends().to_string(), "LF line ends");
        let mixed = LinedText::split("a\r\nb\rc\r\n").count_ends();
        assert_eq!(mixed.to_string(), "mixed line ends: 2 CRLF, 1 CR");
    }

    #[test]
    fn every_line_keeps_its_own_end() {
        for (raw, old, new, expected) in [
            ("one\r\ntwo\nthree\r", "one\ntwo", "1\n2", "1\r\n2\nthree\r"),
            ("one\r\ntwo\nthree\r", "two", "TWO\n2", "one\r\nTWO\n2\nthree\r"),
            ("one\r\ntwo\nthree\r", "one", "one\n1", "one\r\n1\r\ntwo\nthree\r"),
            ("a\r\nb\nc\rd", "b\n", "", "a\r\nc\rd"),
            ("a\r\nb\nc\rd", "a\nb\nc\nd", "b\nx\nc\nd", "b\nx\nc\rd"),
            ("a\r\nb\nc\r\n", "a\nb\nc\n", "a\nb\nnew\nc\n", "a\r\nb\nnew\nc\r\n"),
            ("a\r\nb", "b", "b\nc\n", "a\r\nb\r\nc\r\n"),
            ("a\rb", "a", "a\nc", "a\rc\rb"),
            ("a\nb\r\nc", "b\nc", "b\nC\nd", "a\nb\r\nC\r\nd"),
            ("ab", "a", "a\n", "a\nb"),
            ("a\r\nb\nx", "x", "x\ny", "a\r\nb\nx\ny"),
        ] {
            assert_eq!(replaced(raw, old, new), expected, "{raw:?} {old:?} {new:?}");
        }
    }

    #[test]
    fn ends_can_be_meant() {
        let mut text = LinedText::split("a\nb\n");
        text.replace(0..2, "a\r\n", true);
        assert_eq!(text.raw(), "a\r\nb\n");
    }
}
