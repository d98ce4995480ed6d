//! Marks around parts of a description, and digests of what is between them.

use sha2::{Digest as _, Sha256};

use crate::OwnPart;

const OPEN: &str = "<!--";
const CLOSE: &str = "-->";
const OURS: &str = "codebutler:";
const TITLE: &str = "title=";
/// Hexadecimal digits of a digest.
const DIGITS: usize = 16;

/// Stamp of a part as last written: its digest and its number of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartStamp {
    digest: String,
    lines: usize,
}

impl PartStamp {
    /// Stamps a text, regardless of its line breaks and the blank lines around it.
    pub(crate) fn of(text: &str) -> Self {
        let plain = plain_lines(text);
        Self { digest: short_digest(&plain), lines: plain.lines().count() }
    }

    fn parse(word: &str) -> Option<Self> {
        let (digest, lines) = word.split_once('/')?;
        let is_digest = digest.len() == DIGITS && digest.bytes().all(|b| b.is_ascii_hexdigit());
        let lines = lines.parse().ok()?;
        is_digest.then(|| Self { digest: digest.to_owned(), lines })
    }

    /// Length of the prefix of `text` that matches this stamp.
    pub(crate) fn length_at_start(&self, text: &str) -> Option<usize> {
        let blank = text.split_inclusive('\n').take_while(|line| line.trim().is_empty()).count();
        let lines = text.split_inclusive('\n').take(blank + self.lines);
        let length = lines.map(str::len).sum();
        (length > 0 && *self == Self::of(&text[..length])).then_some(length)
    }

    /// Length of the suffix of `text` that matches this stamp.
    pub(crate) fn length_at_end(&self, text: &str) -> Option<usize> {
        let lines = || text.split_inclusive('\n').rev();
        let blank = lines().take_while(|line| line.trim().is_empty()).count();
        let length = lines().take(blank + self.lines).map(str::len).sum::<usize>();
        (length > 0 && *self == Self::of(&text[text.len() - length..])).then_some(length)
    }
}

/// A stretch of a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MarkToken<'a> {
    Text(&'a str),
    Open { part: OwnPart, stamp: Option<PartStamp>, title: Option<String> },
    Close { part: OwnPart, stamp: Option<PartStamp> },
}

/// Splits a description at its marks. Comments of others are text.
pub(crate) fn split_marks(body: &str) -> Vec<MarkToken<'_>> {
    let mut tokens = Vec::new();
    let (mut text_from, mut look_from) = (0, 0);
    while let Some(found) = body[look_from..].find(OPEN) {
        let start = look_from + found;
        look_from = start + OPEN.len();
        let Some(end) = body[look_from..].find(CLOSE) else { break };
        let end = look_from + end;
        let Some(mark) = parse_mark(&body[look_from..end]) else { continue };
        if text_from < start {
            tokens.push(MarkToken::Text(&body[text_from..start]));
        }
        tokens.push(mark);
        (text_from, look_from) = (end + CLOSE.len(), end + CLOSE.len());
    }
    if text_from < body.len() {
        tokens.push(MarkToken::Text(&body[text_from..]));
    }
    tokens
}

fn parse_mark(inner: &str) -> Option<MarkToken<'static>> {
    let mut words = inner.split_whitespace();
    let name = words.next()?;
    let (is_close, name) = match name.strip_prefix('/') {
        Some(name) => (true, name),
        None => (false, name),
    };
    let name = name.strip_prefix(OURS)?;
    let part = OwnPart::ALL.into_iter().find(|part| part.name() == name)?;
    let (mut stamp, mut title) = (None, None);
    for word in words {
        match word.strip_prefix(TITLE) {
            Some(digest) => title = Some(digest.to_owned()),
            None => stamp = stamp.or_else(|| PartStamp::parse(word)),
        }
    }
    Some(if is_close {
        MarkToken::Close { part, stamp }
    } else {
        MarkToken::Open { part, stamp, title }
    })
}

pub(crate) fn open_mark(part: OwnPart, stamp: Option<&PartStamp>, title: Option<&str>) -> String {
    let title = title.map(|title| format!(" {TITLE}{title}")).unwrap_or_default();
    format!("{OPEN} {OURS}{}{}{title} {CLOSE}", part.name(), show_stamp(stamp))
}

pub(crate) fn close_mark(part: OwnPart, stamp: Option<&PartStamp>) -> String {
    format!("{OPEN} /{OURS}{}{} {CLOSE}", part.name(), show_stamp(stamp))
}

fn show_stamp(stamp: Option<&PartStamp>) -> String {
    stamp.map(|PartStamp { digest, lines }| format!(" {digest}/{lines}")).unwrap_or_default()
}

/// A text without blank lines around it, and with plain line breaks.
pub(crate) fn plain_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let first = lines.iter().position(|line| !line.is_empty()).unwrap_or(lines.len());
    let end = lines.iter().rposition(|line| !line.is_empty()).map_or(first, |last| last + 1);
    lines[first..end].join("\n")
}

pub(crate) fn title_digest(title: &str) -> String {
    short_digest(&title.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn short_digest(text: &str) -> String {
    let mut digest = hex::encode(Sha256::digest(text));
    digest.truncate(DIGITS);
    digest
}

/// A text in which no code fence stays open: one would swallow all that stands below.
pub(crate) fn close_fence(text: &str) -> String {
    let mut open: Option<(char, usize)> = None;
    for line in text.lines() {
        let bare = line.trim_start();
        let is_indented = line.len() - bare.len() > 3;
        let Some(sign) = bare.chars().next().filter(|c| matches!(c, '`' | '~') && !is_indented)
        else {
            continue;
        };
        let length = bare.chars().take_while(|c| *c == sign).count();
        let rest = &bare[length..];
        match open {
            // A fence of backticks has none in its first line.
            None if length >= 3 && (sign == '~' || !rest.contains('`')) => {
                open = Some((sign, length));
            }
            Some((with, least)) if with == sign && length >= least && rest.trim().is_empty() => {
                open = None;
            }
            _ => {}
        }
    }
    match open {
        Some((sign, length)) => format!("{text}\n{}", sign.to_string().repeat(length)),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_fence_is_closed_and_what_only_looks_like_one_is_not() {
        for (text, added) in [
            ("a\n```rust\nb", "\n```"),
            ("~~~~\n~~~\nb", "\n~~~~"),
            ("```\na\n```", ""),
            ("````\n```\n````", ""),
            ("```a`b``` is code", ""),
            ("    ```\nis indented", ""),
            ("plain", ""),
        ] {
            assert_eq!(close_fence(text), format!("{text}{added}"));
        }
    }

    #[test]
    fn comments_of_others_are_text() {
        let body = "a <!-- note --> <!-- codebutler:0123456789abcdef01234567 --> b <!-- open";
        assert_eq!(split_marks(body), [MarkToken::Text(body)]);
    }
}
