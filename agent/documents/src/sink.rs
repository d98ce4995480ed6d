//! The bounded text that readers write to, with the line at which each page, slide or sheet begins.

use serde::{Deserialize, Serialize};

use super::{DocumentContent, DocumentText, MAX_TEXT, PartEntry};

/// The beginning of a page, slide or sheet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionStart {
    /// The page, slide or sheet.
    pub title: String,
    /// First line of the page, slide or sheet, from 1.
    pub line: usize,
}

/// Text of a document, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct TextSink {
    text: String,
    lines: usize,
    places: Vec<SectionStart>,
    full: bool,
}

impl TextSink {
    /// Begins a page, slide or sheet with a line of its own.
    pub(crate) fn begin(&mut self, title: &str) {
        if self.lines > 0 {
            self.line("");
        }
        let title = one_line(title);
        self.line(&format!("== {title} =="));
        if !self.full {
            self.places.push(SectionStart { title, line: self.lines });
        }
    }

    /// Appends text; drops it once the limit is reached.
    pub(crate) fn line(&mut self, text: &str) {
        for line in text.split('\n') {
            if self.full || self.text.len() + line.len() >= MAX_TEXT {
                self.full = true;
                return;
            }
            self.text.extend(line.trim_end().chars().filter(|c| *c == '\t' || !c.is_control()));
            self.text.push('\n');
            self.lines += 1;
        }
    }

    /// True if nothing more is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// True if there are no words but titles.
    pub(crate) fn is_blank(&self) -> bool {
        let is_title = |line: &str| line.starts_with("== ") && line.ends_with(" ==");
        self.text.lines().all(|line| line.trim().is_empty() || is_title(line))
    }

    /// True if these words are on one line of it.
    pub(crate) fn contains(&self, words: &str) -> bool {
        self.text.contains(words)
    }

    /// The text alone, without its places.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// The document of this text, with a remark if some of it is left out.
    pub(crate) fn finish(self, mut notes: Vec<String>, parts: Vec<PartEntry>) -> DocumentContent {
        if self.full {
            let most = MAX_TEXT / (1024 * 1024);
            notes.push(format!("only the first {most} MiB of its text are here"));
        }
        let Self { text, places, .. } = self;
        let read = DocumentText { notes, places, parts, text, ..DocumentText::default() };
        DocumentContent::Text(read)
    }
}

/// Joins a text to one line.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Puts `^` before what was added to a text from `start` on, where that is an exponent: 10 with a raised 6 is not 106.
pub(crate) fn mark_exponent(text: &mut String, start: usize) {
    let (Some(before), Some(raised)) = (text.get(..start), text.get(start..)) else { return };
    let is_figure = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '\u{2212}');
    let is_letter = raised.len() == 1 && raised.chars().all(|c| c.is_ascii_alphabetic());
    let is_number = !raised.is_empty() && raised.chars().all(is_figure);
    // A number that is stored in several pieces has one mark.
    let is_marked = before.trim_end_matches(is_figure).ends_with('^');
    let has_base = before.ends_with(|c: char| c.is_alphanumeric() || c == ')');
    if (is_letter || is_number) && has_base && !is_marked {
        text.insert(start, '^');
    }
}

/// A cell of a table that is printed with bars.
pub(crate) fn table_cell(text: &str) -> String {
    one_line(text).replace('|', "\\|")
}

/// Formats a table row in Markdown.
pub(crate) fn table_row<'a>(cells: impl IntoIterator<Item = &'a str>) -> String {
    let mut row = String::from("|");
    for cell in cells {
        row.push(' ');
        row.push_str(cell);
        row.push_str(" |");
    }
    row
}
