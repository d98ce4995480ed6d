//! Data of an event as JSON, read leniently. Pure.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct WithUsage<'a> {
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
}

/// A piece with its usage inside: Moonshot's has it in the choice.
#[derive(Deserialize)]
struct WithChoices<'a> {
    #[serde(borrow)]
    choices: Vec<WithUsage<'a>>,
}

/// The usage that a piece tells, as it came.
pub(crate) fn find_usage(data: &[u8]) -> Option<&RawValue> {
    let is_told = |usage: &&RawValue| usage.get().starts_with('{');
    let own: Option<WithUsage<'_>> = serde_json::from_slice(data).ok();
    own.and_then(|own| own.usage).filter(is_told).or_else(|| {
        let inner: WithChoices<'_> = serde_json::from_slice(data).ok()?;
        inner.choices.into_iter().filter_map(|choice| choice.usage).find(is_told)
    })
}

/// A piece of the stream. Servers that cut a character in two write bytes that are no UTF-8, or half a surrogate pair.
pub(super) fn read_piece(data: &[u8]) -> Option<Value> {
    if let Ok(piece) = serde_json::from_slice(data) {
        return Some(piece);
    }
    let text = String::from_utf8_lossy(data);
    serde_json::from_str(&text).or_else(|_| serde_json::from_str(&without_surrogates(&text))).ok()
}

/// JSON in which no escape stands for half of a surrogate pair.
fn without_surrogates(json: &str) -> String {
    let unit = |text: &str| u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok();
    let is_half = |unit: u16| (0xd800..0xe000).contains(&unit);
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let next = rest.get(6..).and_then(unit);
        let (kept, length) = match unit(rest) {
            Some(0xd800..=0xdbff) if next.is_some_and(|low| (0xdc00..0xe000).contains(&low)) => {
                (rest.get(..12), 12)
            }
            Some(unit) if is_half(unit) => (Some("\\ufffd"), 6),
            _ => (rest.get(..2), 2),
        };
        let Some(kept) = kept else { break };
        out.push_str(kept);
        rest = &rest[length..];
    }
    out + rest
}
