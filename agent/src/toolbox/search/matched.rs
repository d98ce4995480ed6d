//! Matches in a file, and the lines in which they are shown.

use std::borrow::Cow;
use std::io;
use std::time::SystemTime;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkMatch};

use crate::tool_args::GrepMode;
use codebutler_guides::text::clip_text;

/// Lines that one Grep answers with: matches alone, and with the lines around them.
const MAX_LINES: usize = 250;
const MAX_LINES_AROUND: usize = 600;
/// Files that one Grep names.
const MAX_FILES: usize = 500;
/// Matches after which a search stops looking: enough to show the first ones by path.
pub(super) const ENOUGH_MATCHES: usize = 10_000;
/// Matches of one file that are shown; the others are counted.
const MAX_PER_FILE: usize = 100;
const MAX_LINE_CHARS: usize = 400;

/// Matches in one file.
pub(super) struct FoundLines {
    matcher: RegexMatcher,
    pub path: String,
    lines: Vec<MatchedLine>,
    pub matches: usize,
    /// Number of matches that are among the lines.
    pub kept: usize,
    /// True if there are more matches than were counted.
    pub is_cut: bool,
    /// A line has bytes that are no UTF-8.
    pub is_lossy: bool,
    /// Offset from which the file is binary, and was not searched.
    pub binary: Option<u64>,
    /// Time of its last change, if results are sorted by it.
    pub modified: Option<SystemTime>,
    mode: GrepMode,
}

struct MatchedLine {
    number: u64,
    text: String,
    is_match: bool,
    /// Does not follow the line before it.
    starts: bool,
}

impl FoundLines {
    pub(super) fn new(matcher: RegexMatcher, mode: GrepMode) -> Self {
        Self {
            matcher,
            path: String::new(),
            lines: Vec::new(),
            matches: 0,
            kept: 0,
            is_cut: false,
            is_lossy: false,
            binary: None,
            modified: None,
            mode,
        }
    }

    /// `found`: where a match is in it, and how many are.
    fn push(&mut self, number: Option<u64>, bytes: &[u8], found: Option<LineMatches>) {
        let number = number.unwrap_or_default();
        let is_match = found.is_some();
        let text = String::from_utf8_lossy(bytes);
        self.is_lossy |= matches!(text, Cow::Owned(_));
        let text = text.trim_end_matches(['\n', '\r']);
        let text = match found {
            Some(LineMatches { first: Some(first), times }) if text.len() > MAX_LINE_CHARS => {
                cut_around(bytes, first, times)
            }
            _ => clip_text(text, MAX_LINE_CHARS),
        };
        // In a binary file, control characters that could move a terminal's cursor are replaced.
        let text = if self.binary.is_some() || text.contains('\0') {
            text.replace(|c: char| c.is_control() && c != '\t', "\u{fffd}")
        } else {
            text
        };
        let starts = self.lines.last().is_none_or(|before| before.number + 1 != number);
        self.lines.push(MatchedLine { number, text, is_match, starts });
    }

    /// Ranges of the matches, of which one may go over several lines.
    fn find_matches(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        let _ = self.matcher.find_iter(bytes, |found| {
            all.push((found.start(), found.end()));
            all.len() < MAX_PER_FILE
        });
        all
    }
}

/// First match in a line, and number of all.
#[derive(Clone, Copy, Default)]
struct LineMatches {
    first: Option<(usize, usize)>,
    times: usize,
}

impl LineMatches {
    /// The matches of `all` within the line from `start` to `end`, cut to the line.
    fn within(all: &[(usize, usize)], (start, end): (usize, usize)) -> Self {
        let mut here =
            all.iter().filter(|found| found.0 < end && (found.1 > start || found.0 >= start));
        let times = here.clone().count();
        let first = here.next().map(|found| (found.0.max(start) - start, found.1.min(end) - start));
        Self { first, times }
    }
}

/// A long line around its first match, with the place of that.
fn cut_around(line: &[u8], (start, end): (usize, usize), times: usize) -> String {
    let before = String::from_utf8_lossy(&line[..start]);
    let all = String::from_utf8_lossy(line);
    let all = all.trim_end_matches(['\n', '\r']);
    let column = before.chars().count();
    let total = all.chars().count();
    let length = String::from_utf8_lossy(&line[start..end]).chars().count().min(MAX_LINE_CHARS);
    let first = column.saturating_sub((MAX_LINE_CHARS - length) / 2);
    let shown: String = all.chars().skip(first).take(MAX_LINE_CHARS).collect();
    let left = if first > 0 { "…" } else { "" };
    let right = if first + MAX_LINE_CHARS < total { "…" } else { "" };
    let many = match times {
        0 | 1 => String::new(),
        MAX_PER_FILE.. => format!("; {MAX_PER_FILE} or more matches in it"),
        times => format!("; {times} matches in it"),
    };
    format!("{left}{shown}{right} [column {} of {total}{many}]", column + 1)
}

impl Sink for FoundLines {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        if self.matches == ENOUGH_MATCHES {
            self.is_cut = true;
            return Ok(false);
        }
        self.matches += 1;
        // The rest is counted only.
        if self.mode == GrepMode::Content && self.kept < MAX_PER_FILE {
            self.kept += 1;
            // A match of several lines is shown line by line.
            let first = line.line_number();
            let is_long = line.lines().any(|part| part.len() > MAX_LINE_CHARS);
            let all = if is_long { self.find_matches(line.bytes()) } else { Vec::new() };
            let mut start = 0;
            for (more, part) in line.lines().enumerate() {
                let end = start + part.len();
                let found = LineMatches::within(&all, (start, end));
                self.push(first.map(|number| number + more as u64), part, Some(found));
                start = end;
            }
        }
        Ok(self.mode != GrepMode::Files)
    }

    fn binary_data(&mut self, searcher: &Searcher, offset: u64) -> io::Result<bool> {
        self.binary = self.binary.or(Some(offset));
        // A binary file is searched on only if it was named in the request.
        Ok(searcher.binary_detection().convert_byte().is_some())
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        if self.mode == GrepMode::Content && self.kept == self.matches {
            self.push(line.line_number(), line.bytes(), None);
        }
        Ok(true)
    }
}

/// Window of the results that is shown.
pub(super) struct Page {
    pub offset: usize,
    pub limit: Option<u32>,
}

impl Page {
    fn most(&self, most: usize) -> usize {
        self.limit.map_or(most, |limit| (limit.max(1) as usize).min(most))
    }

    pub(super) fn of_files(&self, lines: Vec<String>) -> String {
        let (total, most) = (lines.len(), self.most(MAX_FILES));
        let mut part: Vec<String> = lines.into_iter().skip(self.offset).take(most).collect();
        if self.offset + part.len() < total || self.offset > 0 {
            part.push(format!(
                "({} of {total} files shown, from {} on: narrow `pattern`, `path` or `glob`, or pass `offset`)",
                part.len(),
                self.offset + 1
            ));
        }
        part.join("\n")
    }
}

pub(super) fn shown_lines(found: &[FoundLines], around: bool, page: &Page) -> String {
    let most = page.most(if around { MAX_LINES_AROUND } else { MAX_LINES });
    let all = || found.iter().flat_map(|file| file.lines.iter().map(move |line| (file, line)));
    let mut text = Vec::new();
    let mut matches = 0;
    for (file, line) in all().skip(page.offset).take(most) {
        if around && line.starts && !text.is_empty() {
            text.push("--".to_owned());
        }
        matches += usize::from(line.is_match);
        let mark = if line.is_match { ':' } else { '-' };
        text.push(format!("{}{mark}{}{mark}{}", file.path, line.number, line.text));
    }
    let total: usize = found.iter().map(|file| file.matches).sum();
    if total > matches {
        let taken: usize = found.iter().map(|file| file.kept).sum();
        let more = taken > ENOUGH_MATCHES || found.iter().any(|file| file.is_cut);
        let many = if more { "more than " } else { "" };
        let cut = found.iter().filter(|file| file.kept < file.matches);
        let cut: Vec<&str> = cut.map(|file| file.path.as_str()).collect();
        let cut = match cut.as_slice() {
            [] => String::new(),
            [one] => format!(", of `{one}` only the first {MAX_PER_FILE}"),
            [one, others @ ..] => {
                format!(", of `{one}` and {} more only the first {MAX_PER_FILE}", others.len())
            }
        };
        text.push(format!(
            "({matches} of {many}{total} matches shown{cut}: narrow `pattern`, `path` or `glob`)"
        ));
    }
    text.join("\n")
}
