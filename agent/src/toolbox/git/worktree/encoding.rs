//! `working-tree-encoding`: files that are UTF-8 in the repository and something else in the worktree.

use encoding_rs::Encoding;

/// An encoding as `.gitattributes` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorktreeEncoding {
    /// Width in bytes, whether the low byte comes first, and the byte order mark.
    Wide {
        width: usize,
        little: bool,
        mark: Mark,
    },
    Latin1,
    /// An encoding with one byte for each character.
    Narrow(&'static Encoding),
}

/// Byte order mark that Git expects at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The name has a byte order: there is no mark.
    None,
    /// The name has no byte order: the mark says it, and must be there.
    Says,
    /// The name asks for a mark: `UTF-16LE-BOM` and its like.
    Always,
}

impl WorktreeEncoding {
    /// None for an encoding that only `iconv` knows, since two tables for it may differ in single characters.
    pub(super) fn named(name: &str) -> Option<Self> {
        let plain = name.to_ascii_uppercase().replace("UTF16", "UTF-16").replace("UTF32", "UTF-32");
        let wide = |width, little, mark| Some(Self::Wide { width, little, mark });
        match plain.as_str() {
            "UTF-16" => wide(2, true, Mark::Says),
            "UTF-16LE" => wide(2, true, Mark::None),
            "UTF-16BE" => wide(2, false, Mark::None),
            "UTF-16LE-BOM" => wide(2, true, Mark::Always),
            "UTF-16BE-BOM" => wide(2, false, Mark::Always),
            "UTF-32" => wide(4, true, Mark::Says),
            "UTF-32LE" => wide(4, true, Mark::None),
            "UTF-32BE" => wide(4, false, Mark::None),
            "ISO-8859-1" | "ISO8859-1" | "ISO_8859-1" | "LATIN1" | "LATIN-1" => Some(Self::Latin1),
            _ => Encoding::for_label(plain.as_bytes())
                .filter(|known| known.is_single_byte())
                .map(Self::Narrow),
        }
    }

    /// The text of a file in the worktree, as the repository holds it. None if the file is not in this
    /// encoding.
    pub(super) fn decode(self, bytes: &[u8]) -> Option<String> {
        // An empty file is valid in any encoding, without a mark too.
        if bytes.is_empty() {
            return Some(String::new());
        }
        match self {
            Self::Latin1 => Some(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Self::Narrow(encoding) => {
                let text = encoding.decode_without_bom_handling_and_without_replacement(bytes)?;
                Some(text.into_owned())
            }
            Self::Wide { width, little, mark } => {
                let (low, high) = (order_mark(width, true), order_mark(width, false));
                let (little, rest) = match (bytes.strip_prefix(low), bytes.strip_prefix(high), mark)
                {
                    (_, _, Mark::None) if bytes.starts_with(low) || bytes.starts_with(high) => {
                        return None;
                    }
                    (_, _, Mark::None) => (little, bytes),
                    (Some(rest), _, Mark::Says) => (true, rest),
                    (_, Some(rest), Mark::Says) => (false, rest),
                    (Some(rest), _, Mark::Always) if little => (true, rest),
                    (_, Some(rest), Mark::Always) if !little => (false, rest),
                    _ => return None,
                };
                decode_wide(rest, width, little)
            }
        }
    }

    /// The bytes of a file in the worktree. None if the text has a character that this encoding lacks.
    pub(super) fn encode(self, text: &str) -> Option<Vec<u8>> {
        if text.is_empty() {
            return Some(Vec::new());
        }
        match self {
            Self::Latin1 => text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect(),
            Self::Narrow(encoding) => {
                let (bytes, _, is_lossy) = encoding.encode(text);
                (!is_lossy).then(|| bytes.into_owned())
            }
            Self::Wide { width, little, mark } => {
                let mut out = if mark == Mark::None {
                    Vec::new()
                } else {
                    order_mark(width, little).to_vec()
                };
                let mut push = |value: u32| {
                    let bytes = value.to_be_bytes();
                    let mut unit = bytes[4 - width..].to_vec();
                    if little {
                        unit.reverse();
                    }
                    out.extend(unit);
                };
                if width == 2 {
                    text.encode_utf16().for_each(|unit| push(u32::from(unit)));
                } else {
                    text.chars().for_each(|c| push(u32::from(c)));
                }
                Some(out)
            }
        }
    }
}

fn order_mark(width: usize, little: bool) -> &'static [u8] {
    match (width, little) {
        (2, true) => b"\xff\xfe",
        (2, false) => b"\xfe\xff",
        (_, true) => b"\xff\xfe\0\0",
        (_, false) => b"\0\0\xfe\xff",
    }
}

fn decode_wide(bytes: &[u8], width: usize, little: bool) -> Option<String> {
    if !bytes.len().is_multiple_of(width) {
        return None;
    }
    let value = |unit: &[u8]| {
        let step = |sum: u32, byte: &u8| (sum << 8) | u32::from(*byte);
        if little { unit.iter().rev().fold(0, step) } else { unit.iter().fold(0, step) }
    };
    let values = bytes.chunks(width).map(value);
    if width == 2 {
        let units = values.map(|unit| u16::try_from(unit).unwrap_or_default());
        char::decode_utf16(units).collect::<Result<_, _>>().ok()
    } else {
        values.map(char::from_u32).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_to_the_same_text() {
        let text = "Grüße\r\n€ 𝄞\n";
        for name in ["utf-16", "UTF-16LE", "UTF-16BE-BOM", "UTF-16LE-BOM", "UTF-32", "utf32be"] {
            let encoding = WorktreeEncoding::named(name).unwrap();
            let bytes = encoding.encode(text).unwrap();
            assert_eq!(encoding.decode(&bytes).as_deref(), Some(text), "{name}");
        }
        let narrow = WorktreeEncoding::named("windows-1252").unwrap();
        assert_eq!(narrow.encode("€").as_deref(), Some(b"\x80".as_slice()));
        assert_eq!(narrow.encode("𝄞"), None);
        let latin = WorktreeEncoding::named("ISO-8859-1").unwrap();
        assert_eq!(latin.decode(b"caf\xe9").as_deref(), Some("café"));
        assert_eq!(latin.encode("€"), None);
        assert_eq!(WorktreeEncoding::named("SHIFT-JIS"), None, "left to iconv");
    }

    #[test]
    fn a_byte_order_mark_is_where_git_wants_it() {
        let named = |name: &str| WorktreeEncoding::named(name).unwrap();
        assert_eq!(named("UTF-16").decode(b"a\0"), None);
        assert_eq!(named("UTF-16").decode(b"\xff\xfea\0").as_deref(), Some("a"));
        assert_eq!(named("UTF-16LE").decode(b"\xff\xfea\0"), None);
        assert_eq!(named("UTF-16LE-BOM").decode(b"\xfe\xff\0a"), None);
        assert_eq!(named("UTF-16LE").decode(b"a"), None);
        assert_eq!(named("UTF-16LE-BOM").decode(b"").as_deref(), Some(""));
        assert_eq!(named("UTF-16LE-BOM").encode("").as_deref(), Some(b"".as_slice()));
    }
}
