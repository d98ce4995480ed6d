//! Detection of a file's encoding: by its byte order mark, by hints and declarations, and at last by its bytes.

use std::sync::LazyLock;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};
use regex::bytes::Regex;

use super::encoding::{TextEncoding, TextForm, narrow_encoding};

/// Bytes at the start of a file in which a NUL means that it is no text, as Git has it.
const BINARY_HEAD: usize = 8000;
/// Bytes at the start of a file in which it may name its own encoding.
const DECLARED_HEAD: usize = 1024;
/// Number of characters beyond ASCII whose valid UTF-8 is no accident.
const NO_ACCIDENT: usize = 3;

/// Hints from elsewhere on a file's encoding, the weightiest first.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormHints<'a> {
    /// `working-tree-encoding` of `.gitattributes`.
    pub attribute: Option<&'a str>,
    /// `charset` of `.editorconfig`.
    pub charset: Option<&'a str>,
}

/// The file can't be edited as text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfitText {
    /// The file is binary.
    #[error("is a binary file")]
    Binary,
    /// The file is UTF-8 but for some bytes.
    #[error("is UTF-8 text with bytes in it that are no UTF-8 (the first in line {line})")]
    BrokenUtf8 {
        /// First line with such bytes, from 1.
        line: usize,
    },
    /// UTF-16 or UTF-32 that ends in the middle of a character, or has half of one.
    #[error("begins as {form}, but has bytes in it that are none")]
    BrokenWide {
        /// Form that its byte order mark stands for.
        form: TextForm,
    },
    /// Several byte sequences stand for the same text.
    #[error("is {name} text that could not be written back byte for byte")]
    Inexact {
        /// Name of the encoding.
        name: String,
    },
    /// The bytes fit no encoding that is known here.
    #[error("is text in no encoding that is known here")]
    Unknown,
}

impl UnfitText {
    /// The line that is wrong, where one is known.
    pub fn line(&self) -> Option<usize> {
        match self {
            Self::BrokenUtf8 { line } => Some(*line),
            _ => None,
        }
    }
}

/// Detects the form of a file and decodes its text.
pub fn read_text(bytes: &[u8], hints: &FormHints<'_>) -> Result<(TextForm, String), UnfitText> {
    if let Some(marked) = read_marked(bytes) {
        return marked;
    }
    let fits = |encoding| {
        let form = TextForm { encoding, mark: false };
        form.decode(bytes).map(|text| (form, text))
    };
    let attribute = hints.attribute.and_then(label_encoding).map(|form| form.encoding);
    let charset = hints.charset.and_then(label_encoding).map(|form| form.encoding);
    let head = &bytes[..bytes.len().min(BINARY_HEAD)];
    if head.contains(&0) {
        let named = [attribute, charset].into_iter().flatten().filter(|e| !e.extends_ascii());
        let wide = named.chain(guess_wide(bytes));
        return wide.filter_map(fits).find(|found| is_prose(&found.1)).ok_or(UnfitText::Binary);
    }
    let declared = declared_encoding(bytes);
    let narrow =
        || [attribute, declared, charset].into_iter().flatten().filter(|e| e.extends_ascii());
    let Ok(text) = std::str::from_utf8(bytes) else {
        let named = narrow().filter(|encoding| *encoding != TextEncoding::Utf8);
        return named
            .filter_map(fits)
            .find(|found| is_prose(&found.1))
            .map_or_else(|| guess_legacy(bytes), Ok);
    };
    if is_stateful(bytes) {
        return Err(UnfitText::Inexact { name: "ISO-2022-JP".to_owned() });
    }
    let named = match text.chars().filter(|c| !c.is_ascii()).take(NO_ACCIDENT).count() {
        0 => narrow().next(),
        NO_ACCIDENT.. => None,
        _ => narrow().find(|encoding| is_double_byte(*encoding)),
    };
    Ok(named.and_then(fits).unwrap_or_else(|| (TextForm::PLAIN, text.to_owned())))
}

/// The encoding that a label of Git, `.editorconfig`, XML, Python or HTML means, with its mark.
pub fn label_encoding(label: &str) -> Option<TextForm> {
    let name = label.trim().to_ascii_uppercase().replace('_', "-");
    let form = |encoding, mark| Some(TextForm { encoding, mark });
    match name.as_str() {
        "UTF-8" | "UTF8" => return form(TextEncoding::Utf8, false),
        "UTF-8-BOM" | "UTF-8-SIG" => return form(TextEncoding::Utf8, true),
        "UTF-16LE" | "UTF16LE" => return form(TextEncoding::Utf16Le, false),
        "UTF-16BE" | "UTF16BE" => return form(TextEncoding::Utf16Be, false),
        "UTF-16LE-BOM" => return form(TextEncoding::Utf16Le, true),
        "UTF-16BE-BOM" | "UTF-16" | "UTF16" => return form(TextEncoding::Utf16Be, true),
        "UTF-32LE" => return form(TextEncoding::Utf32Le, false),
        "UTF-32BE" => return form(TextEncoding::Utf32Be, false),
        "UTF-32" => return form(TextEncoding::Utf32Be, true),
        "ISO-8859-1" | "ISO8859-1" | "LATIN1" | "LATIN-1" | "L1" => {
            return form(TextEncoding::Latin1, false);
        }
        _ => {}
    }
    let name = match name.as_str() {
        "CP932" | "MS932" | "SHIFT-JIS" | "SJIS" => "shift_jis".to_owned(),
        "CP936" | "MS936" => "gbk".to_owned(),
        "CP949" | "MS949" | "UHC" => "euc-kr".to_owned(),
        "CP950" => "big5".to_owned(),
        "CP866" => "ibm866".to_owned(),
        name if name.starts_with("CP125") => format!("windows-{}", &name[2..]),
        _ => label.trim().to_ascii_lowercase(),
    };
    let encoding = Encoding::for_label_no_replacement(name.as_bytes())?;
    let is_wide =
        [encoding_rs::UTF_8, encoding_rs::UTF_16LE, encoding_rs::UTF_16BE].contains(&encoding);
    let is_usable = encoding.is_ascii_compatible() && !is_wide;
    is_usable.then_some(TextForm { encoding: TextEncoding::Legacy(encoding), mark: false })
}

/// A file that begins with a byte order mark.
fn read_marked(bytes: &[u8]) -> Option<Result<(TextForm, String), UnfitText>> {
    let form = |encoding| TextForm { encoding, mark: true };
    let (marked, start): (&[TextEncoding], &[u8]) = match bytes {
        [0xef, 0xbb, 0xbf, rest @ ..] => {
            return Some(match std::str::from_utf8(rest) {
                Ok(_) if rest[..rest.len().min(BINARY_HEAD)].contains(&0) => Err(UnfitText::Binary),
                Ok(text) => Ok((form(TextEncoding::Utf8), text.to_owned())),
                Err(error) => Err(broken_utf8(rest, error.valid_up_to())),
            });
        }
        [0xff, 0xfe, 0, 0, ..] => (&[TextEncoding::Utf32Le, TextEncoding::Utf16Le], bytes),
        [0xff, 0xfe, ..] => (&[TextEncoding::Utf16Le], bytes),
        [0xfe, 0xff, ..] => (&[TextEncoding::Utf16Be], bytes),
        [0, 0, 0xfe, 0xff, ..] => (&[TextEncoding::Utf32Be], bytes),
        _ => return None,
    };
    let read = marked.iter().find_map(|encoding| {
        let text = form(*encoding).decode(start)?;
        is_prose(&text).then_some((form(*encoding), text))
    });
    match read {
        Some(read) => Some(Ok(read)),
        // Two bytes prove little where nothing else fits.
        None if bytes.len() % 2 == 1 && !bytes.contains(&0) => None,
        None => Some(Err(UnfitText::BrokenWide { form: form(marked[0]) })),
    }
}

fn broken_utf8(bytes: &[u8], at: usize) -> UnfitText {
    UnfitText::BrokenUtf8 { line: 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count() }
}

/// UTF-16 and UTF-32 without a mark, the likely ones: what is written most has zeros at one place.
fn guess_wide(bytes: &[u8]) -> Vec<TextEncoding> {
    let ascii = |encoding: TextEncoding| {
        let text = TextForm { encoding, mark: false }.decode(bytes)?;
        let all = text.chars().count();
        let plain = text.chars().filter(char::is_ascii).count();
        (plain * 4 >= all).then_some(encoding)
    };
    [TextEncoding::Utf32Le, TextEncoding::Utf32Be, TextEncoding::Utf16Le, TextEncoding::Utf16Be]
        .into_iter()
        .filter_map(ascii)
        .collect()
}

/// Bytes that are neither UTF-8 nor named by anybody.
fn guess_legacy(bytes: &[u8]) -> Result<(TextForm, String), UnfitText> {
    if count_controls(bytes) * 20 > bytes.len() {
        return Err(UnfitText::Binary);
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let guess = detector.guess(None, Utf8Detection::Deny);
    let (valid, invalid, first) = count_utf8(bytes);
    let guessed = narrow_encoding(guess, bytes);
    let most = if is_double_byte(guessed) { 2 * invalid } else { invalid - 1 };
    if valid > most {
        return Err(broken_utf8(bytes, first));
    }
    let mut candidates = vec![guessed];
    if guess == GBK {
        candidates.push(TextEncoding::Legacy(GB18030));
    }
    let form = |encoding| TextForm { encoding, mark: false };
    let decoded: Vec<_> =
        candidates.iter().filter_map(|e| Some((form(*e), e.decode(bytes)?))).collect();
    let exact = decoded.iter().find(|(form, text)| {
        is_prose(text) && form.encode(text).is_ok_and(|written| written == bytes)
    });
    match (exact, decoded.first()) {
        (Some((form, text)), _) => Ok((*form, text.clone())),
        (None, Some((form, text))) if is_prose(text) => {
            Err(UnfitText::Inexact { name: form.encoding.to_string() })
        }
        _ => Err(UnfitText::Unknown),
    }
}

/// Sequences that are right in UTF-8, bytes that are not, and where the first of those is.
fn count_utf8(bytes: &[u8]) -> (usize, usize, usize) {
    let (mut valid, mut invalid, mut first, mut at) = (0, 0, None, 0);
    for chunk in bytes.utf8_chunks() {
        valid += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        at += chunk.valid().len();
        if !chunk.invalid().is_empty() {
            first.get_or_insert(at);
        }
        invalid += usize::from(!chunk.invalid().is_empty());
        at += chunk.invalid().len();
    }
    (valid, invalid.max(1), first.unwrap_or_default())
}

fn count_controls(bytes: &[u8]) -> usize {
    let is_control = |b: &&u8| matches!(b, 0..=7 | 14..=25 | 28..=31 | 127);
    bytes.iter().filter(is_control).count()
}

/// No NUL and none of the controls and codes that stand in no text.
fn is_prose(text: &str) -> bool {
    text.chars().all(|c| match c {
        '\0' | '\u{80}'..='\u{84}' | '\u{86}'..='\u{9f}' => false,
        c => (u32::from(c) & 0xfffe) != 0xfffe && !('\u{fdd0}'..='\u{fdef}').contains(&c),
    })
}

/// Seven bits with shifts between alphabets: what stands behind an edit depends on what stands in it.
fn is_stateful(bytes: &[u8]) -> bool {
    static SHIFT: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\x1b(?:\$[@B]|\(J)").ok());
    bytes.contains(&0x1b) && SHIFT.as_ref().is_some_and(|shift| shift.is_match(bytes))
}

fn is_double_byte(encoding: TextEncoding) -> bool {
    let double = [SHIFT_JIS, EUC_JP, EUC_KR, GBK, GB18030, BIG5];
    matches!(encoding, TextEncoding::Legacy(encoding) if double.contains(&encoding))
}

/// Encoding that a file declares: XML, HTML, CSS, and a comment in its first two lines.
fn declared_encoding(bytes: &[u8]) -> Option<TextEncoding> {
    const NAMED: [&str; 4] = [
        r#"^<\?xml\s[^>]*?\bencoding\s*=\s*["']([\w.:-]+)"#,
        r#"^@charset\s+"([\w.:-]+)""#,
        r"^(?:[^\n]*\n)?[^\n]*(?:\W|\bfile(?:en)?)coding\s*[:=]\s*([\w.:-]+)",
        // Of a page alone, or a template of one: a program or a text may only speak of pages.
        r#"(?is-u)^\s*(?:(?:<|\{[%{#]|@).*?)?<meta\s[^>]*?charset\s*=\s*["']?([\w.:-]+)"#,
    ];
    static PATTERNS: LazyLock<Vec<Regex>> =
        LazyLock::new(|| NAMED.iter().filter_map(|named| Regex::new(named).ok()).collect());
    let head = &bytes[..bytes.len().min(DECLARED_HEAD)];
    let label = PATTERNS.iter().find_map(|pattern| pattern.captures(head)?.get(1))?;
    label_encoding(std::str::from_utf8(label.as_bytes()).ok()?).map(|form| form.encoding)
}

#[cfg(test)]
mod tests;
