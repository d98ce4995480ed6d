//! Messages that serde can't read, though the server meant something by them.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::weight::has_more_values;

/// Bytes at both ends of a message in which its id is looked for.
const ENDS: usize = 4096;

/// JSON-RPC's error code in place of an answer that can't be read.
pub(super) const UNREADABLE_CODE: i64 = -32_700;

/// Values of one message: in memory they take many times their bytes.
const VALUES: usize = 200_000;

/// A message that is not read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParseFault {
    /// The answer is not JSON.
    #[error("the server's answer is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The answer would take too much memory.
    #[error("the server's answer has more than {VALUES} values")]
    Crowded,
}

/// Reason for not reading a message above the limit.
pub(super) fn too_large(limit: usize) -> String {
    if limit >= 1 << 20 {
        format!("the server's answer is larger than {} MiB", limit >> 20)
    } else {
        format!("the server's answer is larger than {} KiB", limit >> 10)
    }
}

/// Reads JSON; broken UTF-8 and halves of UTF-16 pairs (JavaScript's `JSON.stringify` writes both kinds of text that
/// was cut between them) become U+FFFD.
pub(super) fn parse_leniently(raw: &[u8]) -> Result<Value, ParseFault> {
    if has_more_values(raw, VALUES) {
        return Err(ParseFault::Crowded);
    }
    let error = match serde_json::from_slice(raw) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let text = String::from_utf8_lossy(raw);
    let repaired = replace_lone_surrogates(&text);
    if matches!((&text, &repaired), (Cow::Borrowed(_), Cow::Borrowed(_))) {
        return Err(error.into());
    }
    Ok(serde_json::from_str(&repaired)?)
}

fn replace_lone_surrogates(text: &str) -> Cow<'_, str> {
    if !text.contains("\\ud") && !text.contains("\\uD") {
        return Cow::Borrowed(text);
    }
    let bytes = text.as_bytes();
    let (mut at, mut kept, mut repaired) = (0, 0, String::new());
    while at < bytes.len() {
        if bytes[at] != b'\\' {
            at += 1;
            continue;
        }
        match escaped_unit(bytes, at) {
            Some(0xD800..=0xDBFF) if is_low(escaped_unit(bytes, at + 6)) => at += 12,
            Some(0xD800..=0xDFFF) => {
                repaired.push_str(&text[kept..at]);
                repaired.push_str("\\ufffd");
                at += 6;
                kept = at;
            }
            Some(_) => at += 6,
            None => at += 2,
        }
    }
    if kept == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[kept..]);
    Cow::Owned(repaired)
}

fn is_low(unit: Option<u16>) -> bool {
    matches!(unit, Some(0xDC00..=0xDFFF))
}

fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// An error in place of an answer that can't be read, so that its caller does not wait for the time-out. Only the
/// ends of the message are looked at: SDKs write the id first or last.
pub(super) fn answer_unreadable(head: &[u8], tail: &[u8], reason: &str) -> Option<Value> {
    let (head, tail) = (&head[..head.len().min(ENDS)], &tail[tail.len().saturating_sub(ENDS)..]);
    let head = String::from_utf8_lossy(head);
    let tail = String::from_utf8_lossy(tail);
    let before_result = head.find("\"result\"").map_or(&*head, |at| &head[..at]);
    if before_result.contains("\"method\"") {
        return None;
    }
    let id = id_in(before_result)
        .or_else(|| id_in(tail.rsplit_once('}')?.0.rsplit(['}', ']']).next()?))?;
    let error = json!({"code": UNREADABLE_CODE, "message": reason});
    Some(json!({"jsonrpc": "2.0", "id": id, "error": error}))
}

fn id_in(text: &str) -> Option<Value> {
    let after = text[text.rfind("\"id\"")? + 4..].trim_start().strip_prefix(':')?.trim_start();
    let end = after.find([',', '}', '\n']).unwrap_or(after.len());
    let id: Value = serde_json::from_str(after[..end].trim()).ok()?;
    (id.is_number() || id.is_string()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_and_broken_bytes_do_not_lose_the_message() {
        let cut = br#"{"a":"x\ud83d","b":"\uDE00y","c":"\ud83d\ude00","d":"\\ud83d"}"#;
        let read = parse_leniently(cut).unwrap();
        let expected = json!({"a": "x\u{fffd}", "b": "\u{fffd}y", "c": "😀", "d": "\\ud83d"});
        assert_eq!(read, expected);
        assert_eq!(parse_leniently(b"{\"a\":\"\xff\"}").unwrap(), json!({"a": "\u{fffd}"}));
        assert!(parse_leniently(b"{\"a\":").is_err());
    }

    #[test]
    fn the_id_of_an_unreadable_answer_is_found_at_either_end() {
        let id = |text: &str| {
            let message = answer_unreadable(text.as_bytes(), text.as_bytes(), "too large")?;
            Some(message["id"].clone())
        };
        assert_eq!(id(r#"{"jsonrpc":"2.0","id":7,"result":{"id":9"#), Some(json!(7)));
        assert_eq!(id(r#"{"result":{"id":9,"x":[1]},"jsonrpc":"2.0","id":"a"}"#), Some(json!("a")));
        assert_eq!(id(r#"{"result":{"content":[{"id":9}]}"#), None);
        assert_eq!(id(r#"{"method":"x","id":3,"params":{}}"#), None);
    }
}
