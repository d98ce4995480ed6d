//! Undoes what hides a secret from a reader of bytes but not from a person: characters without
//! width, full-width letters, and escapes (`%67`, `\x67`, `\u0067`, `&#103;`).

use std::ops::Range;

/// A text without disguise, and where its bytes came from.
pub(crate) struct FoldedText {
    /// Text as a person would read it.
    pub text: String,
    /// Offset in the original of each byte of `text`, and of its end.
    origins: Vec<usize>,
}

impl FoldedText {
    /// The part of the original that a part of the folded text was made from.
    pub(crate) fn origin(&self, range: Range<usize>) -> Range<usize> {
        let at = |i: usize| self.origins.get(i).copied().unwrap_or_default();
        at(range.start)..at(range.end)
    }
}

/// The parts of a text that wear a disguise, without it: whole lines, so that what stands around
/// it is seen too.
pub(crate) fn visit_folds(text: &str, mut visit: impl FnMut(FoldedText)) {
    let mut done = 0;
    while let Some(first) = find_suspicious(&text[done..]).map(|at| done + at) {
        let start = text[done..first].rfind('\n').map_or(done, |line| done + line + 1);
        let mut end = line_end(text, first);
        // Lines that follow and are disguised too belong to it.
        while find_suspicious(&text[end..line_end(text, end)]).is_some() {
            end = line_end(text, end);
        }
        visit(fold_text(&text[start..end], start));
        done = end;
    }
}

/// The end of the line that `at` is in, its line break included.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |line| at + line + 1)
}

fn fold_text(text: &str, offset: usize) -> FoldedText {
    let mut folded = FoldedText { text: String::with_capacity(text.len()), origins: Vec::new() };
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let at = text.len() - rest.len();
        let (plain, length) = match c {
            '%' | '\\' | '&' => {
                unescape_char(rest).map_or((Some(c), 1), |(plain, n)| (Some(plain), n))
            }
            _ if is_invisible(c) => (None, c.len_utf8()),
            '\u{ff01}'..='\u{ff5e}' => (char::from_u32(u32::from(c) - 0xfee0), c.len_utf8()),
            _ => (Some(c), c.len_utf8()),
        };
        if let Some(plain) = plain {
            folded.text.push(plain);
            folded.origins.resize(folded.text.len(), offset + at);
        }
        rest = &rest[length..];
    }
    folded.origins.push(offset + text.len());
    folded
}

/// Offset of the first byte that may disguise something.
fn find_suspicious(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        // Nearly all text ends this here: one fast look for four bytes and for anything not ASCII.
        at += bytes[at..].iter().position(|b| matches!(b, b'%' | b'\\' | b'&') || !b.is_ascii())?;
        let rest = text.get(at..)?;
        let c = rest.chars().next()?;
        let hides = match c {
            '%' | '\\' | '&' => unescape_char(rest).is_some(),
            _ => is_invisible(c) || ('\u{ff01}'..='\u{ff5e}').contains(&c),
        };
        if hides {
            return Some(at);
        }
        at += c.len_utf8();
    }
}

/// True if a character leaves no mark of its own: it stands between others, and shows nothing.
#[must_use]
pub const fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// An escaped visible character at the beginning of `text`, and how many bytes it takes.
fn unescape_char(text: &str) -> Option<(char, usize)> {
    let hex = |from: usize, to: usize| u32::from_str_radix(text.get(from..to)?, 16).ok();
    let (code, length) = match text.as_bytes() {
        [b'%', ..] => (hex(1, 3)?, 3),
        [b'\\', b'x', ..] => (hex(2, 4)?, 4),
        [b'\\', b'u', b'{', ..] => {
            let end = text.get(..12).unwrap_or(text).find('}')?;
            (hex(3, end)?, end + 1)
        }
        [b'\\', b'u', ..] => (hex(2, 6)?, 6),
        [b'&', b'#', b'x' | b'X', ..] => {
            let end = text.as_bytes().iter().take(10).position(|b| *b == b';')?;
            (hex(3, end)?, end + 1)
        }
        [b'&', b'#', ..] => {
            let end = text.as_bytes().iter().take(10).position(|b| *b == b';')?;
            (text.get(2..end)?.parse().ok()?, end + 1)
        }
        _ => return None,
    };
    let c = char::from_u32(code)?;
    (c.is_ascii_graphic() || is_invisible(c)).then_some((c, length))
}
