//! The letters of what a server sent: pages are in many encodings, and say so in the header, in a tag or not at all.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes at the beginning in which a page names its encoding.
const HEAD: usize = 1024;

/// The encoding that a content type names.
pub(super) fn named_encoding(content_type: &str) -> Option<&'static Encoding> {
    content_type.split(';').skip(1).find_map(|parameter| {
        let (name, label) = parameter.split_once('=')?;
        let label = label.trim().trim_matches(['"', '\'']);
        let is_charset = name.trim().eq_ignore_ascii_case("charset");
        Encoding::for_label_no_replacement(label.as_bytes()).filter(|_| is_charset)
    })
}

/// Decodes a body: by its mark of byte order, as UTF-8 where it is that, as the server or the page says, and else
/// as browsers do.
pub(super) fn decode_text<'b>(
    body: &'b [u8],
    named: Option<&'static Encoding>,
    is_markup: bool,
) -> Cow<'b, str> {
    let written = || if is_markup { written_encoding(body) } else { None };
    // Servers with one encoding for everything name a wrong one for UTF-8.
    let encoding = if is_utf8(body) && !body.is_ascii() {
        UTF_8
    } else {
        named.or_else(written).unwrap_or_else(|| guess_encoding(body))
    };
    encoding.decode(body).0
}

/// True for UTF-8, the last letter of which may be cut.
fn is_utf8(body: &[u8]) -> bool {
    std::str::from_utf8(body).map_or_else(|error| error.error_len().is_none(), |_| true)
}

/// The encoding that a page names in a tag of its own.
fn written_encoding(body: &[u8]) -> Option<&'static Encoding> {
    let head = &body[..body.len().min(HEAD)];
    let head: String = head.iter().map(|byte| char::from(*byte).to_ascii_lowercase()).collect();
    let found = head.split('<').find_map(|tag| {
        let mark = if tag.starts_with("?xml") { "encoding=" } else { "charset=" };
        let is_one = tag.starts_with("?xml") || tag.starts_with("meta");
        let (_, label) = tag.split_once(mark).filter(|_| is_one)?;
        let label = label.trim_start_matches(['"', '\'', ' ']);
        let end = label.find(|c: char| !c.is_ascii_alphanumeric() && !"-_.:".contains(c));
        let label = &label[..end.unwrap_or(label.len())];
        Encoding::for_label_no_replacement(label.as_bytes())
    });
    // A tag that can be read as ASCII stands in no page of UTF-16.
    found.map(|encoding| if [UTF_16BE, UTF_16LE].contains(&encoding) { UTF_8 } else { encoding })
}

/// UTF-8 with a few broken letters, or what Western pages were in before.
fn guess_encoding(body: &[u8]) -> &'static Encoding {
    let (mut letters, mut broken) = (0, 0);
    for chunk in body.utf8_chunks() {
        letters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        broken += chunk.invalid().len();
    }
    if broken > letters { WINDOWS_1252 } else { UTF_8 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(body: &[u8], content_type: &str) -> String {
        let is_markup = content_type.contains("html") || content_type.contains("xml");
        decode_text(body, named_encoding(content_type), is_markup).into_owned()
    }

    #[test]
    fn a_page_is_read_in_the_encoding_that_it_has() {
        for (body, content_type, text) in [
            ("Gr\u{fc}\u{df}e".as_bytes(), "text/html; charset=utf-8", "Gr\u{fc}\u{df}e"),
            (b"Gr\xfc\xdfe", "text/html; charset=ISO-8859-1", "Gr\u{fc}\u{df}e"),
            (b"Gr\xfc\xdfe", "text/plain", "Gr\u{fc}\u{df}e"),
            (b"5 \x80", "text/plain;Charset=\"windows-1252\"", "5 \u{20ac}"),
            (b"\xcf\xf0\xe8\xe2\xe5\xf2", "text/html; charset=windows-1251", "Привет"),
            (b"\x93\xfa\x96\x7b\x8c\xea", "text/plain; charset=Shift_JIS", "日本語"),
            (b"\x1b$BF|K\\8l\x1b(B", "text/plain; charset=iso-2022-jp", "日本語"),
            // The header is wrong, as with servers that have one for all.
            ("Gr\u{fc}\u{df}e".as_bytes(), "text/html; charset=iso-8859-1", "Gr\u{fc}\u{df}e"),
            (b"\xff\xfeh\0i\0", "text/plain", "hi"),
            ("\u{feff}hi".as_bytes(), "text/plain", "hi"),
            (b"plain", "text/plain; charset=no-such-thing", "plain"),
        ] {
            assert_eq!(decode(body, content_type), text, "{content_type}");
        }
    }

    #[test]
    fn a_tag_names_the_encoding_where_the_server_does_not() {
        let pages: [(&[u8], &str); 4] = [
            (b"<meta charset=\"shift_jis\"><p>\x93\xfa\x96\x7b", "日本"),
            (
                b"<META http-equiv=Content-Type content='text/html; charset=windows-1251'>\xcf\xf0",
                "Пр",
            ),
            (b"<?xml version='1.0' encoding='EUC-JP'?><a>\xc6\xfc\xcb\xdc", "日本"),
            // Neither a script's encoding nor one that the tag can't be in.
            (b"<script charset=koi8-r></script><meta charset=utf-16>\xfc", "\u{fffd}"),
        ];
        for (page, end) in pages {
            let text = decode(page, "text/html");
            assert!(text.ends_with(end), "{text}");
        }
    }

    #[test]
    fn a_broken_letter_does_not_change_all_others() {
        let cut = &"Grüße".as_bytes()[..3];
        assert_eq!(decode(cut, "text/plain"), "Gr\u{fffd}");
        let odd = ["Grüße aus Köln ".as_bytes(), b"\xff"].concat();
        assert_eq!(decode(&odd, "text/plain"), "Grüße aus Köln \u{fffd}");
    }
}
