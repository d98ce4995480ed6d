//! Encodings: bytes to text and back, exactly or not at all.

use std::fmt;

use encoding_rs::{Encoding, WINDOWS_1252};

/// Character encoding of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEncoding {
    Utf8,
    /// UTF-16, little-endian.
    Utf16Le,
    /// UTF-16, big-endian.
    Utf16Be,
    /// UTF-32, little-endian.
    Utf32Le,
    /// UTF-32, big-endian.
    Utf32Be,
    /// ISO-8859-1 without the controls from 0x80 to 0x9F, which no text has.
    Latin1,
    /// One of the legacy encodings of the Web.
    Legacy(&'static Encoding),
}

/// Encoding and byte order mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextForm {
    pub encoding: TextEncoding,
    /// The file begins with a byte order mark.
    pub mark: bool,
}

/// A character that a file's encoding does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{encoding} has no “{character}” (U+{:04X}), which is in line {line} of the new text", u32::from(*.character))]
pub struct UnmappableText {
    pub encoding: TextEncoding,
    /// The first character that the encoding lacks.
    pub character: char,
    /// Line of the character, from 1.
    pub line: usize,
}

impl TextForm {
    /// UTF-8 without a mark: what needs no word.
    pub const PLAIN: Self = Self { encoding: TextEncoding::Utf8, mark: false };

    /// The bytes of a whole file.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, UnmappableText> {
        let mut bytes = Vec::with_capacity(text.len() + 4);
        if self.mark {
            bytes.extend_from_slice(self.encoding.mark());
        }
        match self.encoding.encode(text, &mut bytes) {
            Ok(()) => Ok(bytes),
            Err(at) => Err(UnmappableText {
                encoding: self.encoding,
                character: text[at..].chars().next().unwrap_or_default(),
                line: 1 + text[..at].matches('\n').count(),
            }),
        }
    }

    /// The text of a whole file. None if writing it back would not give the same bytes.
    pub fn decode(self, bytes: &[u8]) -> Option<String> {
        let mark: &[u8] = if self.mark { self.encoding.mark() } else { &[] };
        let text = self.encoding.decode(bytes.strip_prefix(mark)?)?;
        (self.encode(&text).ok()? == bytes).then_some(text)
    }
}

impl fmt::Display for TextForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.encoding, if self.mark { " with byte order mark" } else { "" })
    }
}

impl fmt::Display for TextEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16 LE",
            Self::Utf16Be => "UTF-16 BE",
            Self::Utf32Le => "UTF-32 LE",
            Self::Utf32Be => "UTF-32 BE",
            Self::Latin1 => "Latin-1",
            Self::Legacy(encoding) if encoding.name().starts_with("windows-") => {
                return write!(f, "Windows-{}", &encoding.name()["windows-".len()..]);
            }
            Self::Legacy(encoding) => encoding.name(),
        })
    }
}

impl TextEncoding {
    /// The name under which `iconv` and Git know it.
    pub fn iconv_name(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF-8",
            Self::Utf16Le => "UTF-16LE",
            Self::Utf16Be => "UTF-16BE",
            Self::Utf32Le => "UTF-32LE",
            Self::Utf32Be => "UTF-32BE",
            Self::Latin1 => "ISO-8859-1",
            Self::Legacy(encoding) => encoding.name(),
        }
    }

    /// Returns true if text of ASCII characters only is the same bytes in this encoding.
    pub fn extends_ascii(self) -> bool {
        matches!(self, Self::Utf8 | Self::Latin1 | Self::Legacy(_))
    }

    /// Byte order mark of the encoding; empty if it has none.
    fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 => b"\xef\xbb\xbf",
            Self::Utf16Le => b"\xff\xfe",
            Self::Utf16Be => b"\xfe\xff",
            Self::Utf32Le => b"\xff\xfe\0\0",
            Self::Utf32Be => b"\0\0\xfe\xff",
            Self::Latin1 | Self::Legacy(_) => b"",
        }
    }

    /// The text, whether or not it can be written back.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        match self {
            Self::Utf8 => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Self::Utf16Le => decode_wide(bytes, u16::from_le_bytes),
            Self::Utf16Be => decode_wide(bytes, u16::from_be_bytes),
            Self::Utf32Le => decode_full(bytes, u32::from_le_bytes),
            Self::Utf32Be => decode_full(bytes, u32::from_be_bytes),
            Self::Latin1 => bytes.iter().map(|b| latin1_char(*b)).collect(),
            Self::Legacy(encoding) => encoding
                .decode_without_bom_handling_and_without_replacement(bytes)
                .map(std::borrow::Cow::into_owned),
        }
    }

    /// Adds the bytes of `text`, or says where the first character is that can't be written.
    fn encode(self, text: &str, out: &mut Vec<u8>) -> Result<(), usize> {
        match self {
            Self::Utf8 => out.extend_from_slice(text.as_bytes()),
            Self::Utf16Le => out.extend(text.encode_utf16().flat_map(u16::to_le_bytes)),
            Self::Utf16Be => out.extend(text.encode_utf16().flat_map(u16::to_be_bytes)),
            Self::Utf32Le => out.extend(text.chars().flat_map(|c| u32::from(c).to_le_bytes())),
            Self::Utf32Be => out.extend(text.chars().flat_map(|c| u32::from(c).to_be_bytes())),
            Self::Latin1 => {
                for (at, c) in text.char_indices() {
                    let byte = u8::try_from(u32::from(c)).map_err(|_| at)?;
                    latin1_char(byte).ok_or(at)?;
                    out.push(byte);
                }
            }
            Self::Legacy(encoding) => {
                // Some encoders write another character that looks alike: `¥` becomes a backslash.
                let exact = |text: &str| {
                    let (bytes, _, missing) = encoding.encode(text);
                    let read =
                        || encoding.decode_without_bom_handling_and_without_replacement(&bytes);
                    let is_same = !missing && read().is_some_and(|read| read == text);
                    is_same.then(|| bytes.into_owned())
                };
                let Some(bytes) = exact(text) else {
                    let mut chars = text.char_indices();
                    let odd = chars.find(|(at, c)| exact(&text[*at..*at + c.len_utf8()]).is_none());
                    return Err(odd.map_or(0, |(at, _)| at));
                };
                out.extend_from_slice(&bytes);
            }
        }
        Ok(())
    }
}

/// The legacy encoding, or Latin-1 where nothing in `bytes` says that it is more than that.
pub(crate) fn narrow_encoding(encoding: &'static Encoding, bytes: &[u8]) -> TextEncoding {
    let beyond = bytes.iter().any(|b| (0x80..0xa0).contains(b));
    if encoding == WINDOWS_1252 && !beyond {
        return TextEncoding::Latin1;
    }
    TextEncoding::Legacy(encoding)
}

fn latin1_char(byte: u8) -> Option<char> {
    (!(0x80..0xa0).contains(&byte)).then(|| char::from(byte))
}

fn decode_wide(bytes: &[u8], unit: impl Fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>().ok()
}

fn decode_full(bytes: &[u8], unit: impl Fn([u8; 4]) -> u32) -> Option<String> {
    let (units, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return None;
    }
    units.iter().map(|four| char::from_u32(unit(*four))).collect()
}
