//! String literals of JSON, and how a file writes its characters in them.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Numbers that no JSON has, and ones of the same length.
const NON_FINITE: [(&str, &str); 2] = [("NaN", "0e0"), ("Infinity", "0e000000")];

/// Spelling of characters beyond ASCII in a file's string literals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EscapeStyle {
    Plain,
    /// Lowercase escapes, such as `\u00e9`.
    Lower,
    /// Uppercase escapes, such as `\u00E9`.
    Upper,
}

impl EscapeStyle {
    /// Detects the style that the file uses.
    pub(super) fn of(json: &str) -> Self {
        if !json.is_ascii() {
            return Self::Plain;
        }
        let codes = json.split("\\u").skip(1).filter_map(|rest| rest.get(..4));
        let beyond: Vec<&str> = codes
            .filter(|code| u32::from_str_radix(code, 16).is_ok_and(|code| code >= 0x80))
            .collect();
        if beyond.is_empty() {
            Self::Plain
        } else if beyond.iter().any(|code| code.contains(|c: char| c.is_ascii_uppercase())) {
            Self::Upper
        } else {
            Self::Lower
        }
    }

    /// Escapes a text for the inside of a literal.
    pub(super) fn escape(self, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 8);
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => self.push_code(&mut out, c),
                c if c.is_ascii() || self == Self::Plain => out.push(c),
                c => self.push_code(&mut out, c),
            }
        }
        out
    }

    fn push_code(self, out: &mut String, c: char) {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = match self {
                Self::Upper => write!(out, "\\u{unit:04X}"),
                Self::Plain | Self::Lower => write!(out, "\\u{unit:04x}"),
            };
        }
    }
}

/// A character of a literal, as it is written there.
pub(super) struct LiteralChar<'a> {
    pub(super) character: char,
    pub(super) raw: &'a str,
}

/// The characters of a literal with its quotes. None if it is none.
pub(super) fn split_literal(literal: &str) -> Option<Vec<LiteralChar<'_>>> {
    let mut rest = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut found = Vec::new();
    while let Some(first) = rest.chars().next() {
        let (character, length) =
            if first == '\\' { read_escape(rest)? } else { (first, first.len_utf8()) };
        let (raw, behind) = rest.split_at(length);
        found.push(LiteralChar { character, raw });
        rest = behind;
    }
    Some(found)
}

/// Decodes the text of a literal.
pub(super) fn read_literal(literal: &str) -> Option<String> {
    split_literal(literal).map(|found| found.iter().map(|one| one.character).collect())
}

fn read_escape(text: &str) -> Option<(char, usize)> {
    let simple = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let unit = |at: usize| u16::from_str_radix(text.get(at..at + 4)?, 16).ok();
            let first = unit(2)?;
            if !(0xd800..0xe000).contains(&first) {
                return Some((char::from_u32(first.into())?, 6));
            }
            let second = (text.get(6..8)? == "\\u").then(|| unit(8))??;
            let pair = char::decode_utf16([first, second]).next()?.ok()?;
            return Some((pair, 12));
        }
        _ => return None,
    };
    Some((simple, 2))
}

/// JSON of the same length with zeros for `NaN` and `Infinity`, which Python writes and Jupyter reads, though no
/// standard has them.
pub(crate) fn with_finite_numbers(json: &str) -> Cow<'_, str> {
    if !NON_FINITE.iter().any(|(word, _)| json.contains(word)) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len());
    let (mut in_string, mut is_escaped) = (false, false);
    // After a minus sign only `Infinity` is a number.
    let mut last = ' ';
    let mut rest = json;
    while let Some(c) = rest.chars().next() {
        let number = NON_FINITE.iter().find(|(word, _)| {
            let after = rest.strip_prefix(word).map(|after| after.chars().next());
            let is_whole = after.is_some_and(|next| next.is_none_or(|next| !is_word(next)));
            is_whole && !is_word(last) && !(last == '-' && *word == "NaN")
        });
        if let Some((word, zero)) = number.filter(|_| !in_string) {
            out.push_str(zero);
            rest = &rest[word.len()..];
            last = '0';
            continue;
        }
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = in_string,
            '"' => in_string = !in_string,
            _ => {}
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
        last = c;
    }
    Cow::Owned(out)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_are_read_and_written_as_the_file_does() {
        let text = "a\"\\\n\té\u{1f600}\u{1}";
        for (style, written) in [
            (EscapeStyle::Plain, "a\\\"\\\\\\n\\té\u{1f600}\\u0001"),
            (EscapeStyle::Lower, "a\\\"\\\\\\n\\t\\u00e9\\ud83d\\ude00\\u0001"),
            (EscapeStyle::Upper, "a\\\"\\\\\\n\\t\\u00E9\\uD83D\\uDE00\\u0001"),
        ] {
            assert_eq!(style.escape(text), written);
            assert_eq!(read_literal(&format!("\"{written}\"")).as_deref(), Some(text));
        }
        assert_eq!(EscapeStyle::of(r#"{"a": "\u00e9"}"#), EscapeStyle::Lower);
        assert_eq!(EscapeStyle::of(r#"{"a": "\u00E9"}"#), EscapeStyle::Upper);
        assert_eq!(EscapeStyle::of(r#"{"a": "\u003c é"}"#), EscapeStyle::Plain);
        assert_eq!(EscapeStyle::of(r#"{"a": "\u001b"}"#), EscapeStyle::Plain);
        assert_eq!(read_literal(r#""\ud83d""#), None);
    }
}
