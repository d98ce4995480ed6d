//! Colours for the lines of a diff: comments, strings, keywords and numbers. Pure.
//!
//! A diff has parts of files, without what stands before them, so no grammar can be right about all of it; one
//! pass over each line tells what helps the eye, in linear time whatever stands there. The kept highlighters
//! bring grammars in C, regular expressions that backtrack, or a format whose reader nobody maintains.

mod languages;

use std::fmt::Write as _;

use self::languages::{CodeLanguage, find_language};

/// Longest escape in the place of a character, with its quotes.
const LITERAL: usize = 12;
/// Most that is looked through for the partner of a quote that may stand alone.
const NEAR: usize = 200;

/// Colours the lines of one side of a file, one after another.
#[derive(Clone, Debug, Default)]
pub(crate) struct LinePainter {
    language: Option<&'static CodeLanguage>,
    /// Terminator and class of a comment or string that the last line left open.
    open: Option<(&'static str, &'static str)>,
}

impl LinePainter {
    /// Chooses the language by the file's name. Text of an unknown language stays plain.
    pub(crate) fn of(path: &str) -> Self {
        Self { language: find_language(path), open: None }
    }

    /// Resets the state: the next line is from elsewhere in the file.
    pub(crate) fn begin_again(&mut self) {
        self.open = None;
    }

    /// Highlights the next line, as HTML.
    pub(crate) fn paint(&mut self, line: &str) -> String {
        let mut html = String::with_capacity(line.len() + 16);
        let Some(language) = self.language else {
            escape(&mut html, line);
            return html;
        };
        let mut rest = line;
        let mut before = None;
        while !rest.is_empty() {
            let (class, length) = match self.open.take() {
                Some((end, class)) => (class, self.go_on(rest, 0, (end, class))),
                None => self.next(language, rest, before),
            };
            let (token, after) = rest.split_at(length.min(rest.len()));
            span(&mut html, class, token);
            before = token.chars().next_back();
            rest = after;
        }
        html
    }

    /// The class and length of what begins here. `before`: the character that it follows.
    fn next(
        &mut self,
        language: &CodeLanguage,
        rest: &str,
        before: Option<char>,
    ) -> (&'static str, usize) {
        let first = rest.chars().next().unwrap_or_default();
        // A digit that follows a letter is part of a name.
        let in_name = before.is_some_and(is_name);
        if !in_name && let Some(token) = name_or_number(language, rest, first) {
            return token;
        }
        // Within a word `#` and `;` are something else.
        let apart = before.is_none_or(char::is_whitespace);
        let comment = |begin: &&str| rest.starts_with(*begin) && (apart || begin.len() > 1);
        let blocks = language.blocks.iter().any(|(begin, _)| rest.starts_with(begin));
        if !blocks && language.line.iter().any(comment) {
            return (COMMENT, rest.len());
        }
        for &(begin, end) in language.blocks {
            if rest.starts_with(begin) {
                return (COMMENT, self.go_on(rest, begin.len(), (end, COMMENT)));
            }
        }
        for &quote in language.long_quotes {
            if rest.starts_with(quote) {
                return (STRING, self.go_on(rest, quote.len(), (quote, STRING)));
            }
        }
        if language.quotes.contains(first) {
            let end = if first == '\'' && language.characters {
                end_of_character(rest)
            } else {
                let whole = (first != '\'' || !language.lone_quotes).then_some(rest.len());
                let near =
                    if whole.is_some() { rest.len() } else { rest.floor_char_boundary(NEAR) };
                end_of_string(&rest[..near], first).or(whole)
            };
            if let Some(end) = end {
                return (STRING, end);
            }
        }
        ("", first.len_utf8())
    }

    /// Up to the end of what is open, or all of the line if that comes later.
    fn go_on(
        &mut self,
        rest: &str,
        begin: usize,
        (end, class): (&'static str, &'static str),
    ) -> usize {
        let Some(found) = rest.get(begin..).and_then(|inside| inside.find(end)) else {
            self.open = Some((end, class));
            return rest.len();
        };
        begin + found + end.len()
    }
}

const COMMENT: &str = "sc";
const STRING: &str = "ss";
const KEYWORD: &str = "sk";
const NUMBER: &str = "sn";

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_or_number(
    language: &CodeLanguage,
    rest: &str,
    first: char,
) -> Option<(&'static str, usize)> {
    if !is_name(first) {
        return None;
    }
    if first.is_ascii_digit() {
        let part = |c: char| is_name(c) || c == '.';
        let length = rest.find(|c| !part(c)).unwrap_or(rest.len());
        return Some((NUMBER, length));
    }
    let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
    let word = &rest[..length];
    let same =
        |known: &str| known == word || (language.any_case && known.eq_ignore_ascii_case(word));
    let known = language.keywords.split_ascii_whitespace().any(same);
    Some((if known { KEYWORD } else { "" }, length))
}

/// Behind a character in quotes: `'a` alone is something else.
fn end_of_character(rest: &str) -> Option<usize> {
    // No further than a literal is long: a line of quotes would be looked through again for each of them.
    let near = rest.get(..rest.floor_char_boundary(LITERAL))?;
    let end = end_of_string(near, '\'')?;
    let inside = rest.get(1..end - 1)?;
    let escaped = inside.starts_with('\\') && end <= LITERAL;
    (escaped || inside.chars().count() == 1).then_some(end)
}

/// Behind the closing quote.
fn end_of_string(rest: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + c.len_utf8()),
            _ => {}
        }
    }
    None
}

fn span(html: &mut String, class: &str, token: &str) {
    if class.is_empty() {
        return escape(html, token);
    }
    let _ = write!(html, "<span class=\"{class}\">");
    escape(html, token);
    html.push_str("</span>");
}

fn escape(html: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => html.push_str("&#60;"),
            '>' => html.push_str("&#62;"),
            '&' => html.push_str("&#38;"),
            '"' => html.push_str("&#34;"),
            '\'' => html.push_str("&#39;"),
            c => html.push(c),
        }
    }
}

#[cfg(test)]
mod tests;
