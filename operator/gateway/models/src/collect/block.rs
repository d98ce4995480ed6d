//! Texts and blocks of an answer, put together from their pieces. Pure.

use serde_json::{Map, Value, json};

/// Texts of a block of reasoning that come in pieces.
const BLOCK_TEXTS: [&str; 5] = ["text", "summary", "data", "arguments", "thinking"];

/// Adds a text to a field of which there may be a part already.
pub(super) fn append_text(message: &mut Map<String, Value>, name: &str, text: &str) {
    match message.entry(name).or_insert_with(|| "".into()) {
        Value::String(known) => known.push_str(text),
        // Some think in parts, and speak in text.
        Value::Array(parts) => {
            let last = parts.last_mut().filter(|part| part["type"] == "text");
            match last.and_then(|part| part.get_mut("text")) {
                Some(Value::String(known)) => known.push_str(text),
                _ if text.is_empty() => {}
                _ => parts.push(json!({"type": "text", "text": text})),
            }
        }
        other => *other = text.into(),
    }
}

/// A block of reasoning that goes on, or another one: what is signed has to come back as it was.
pub(super) fn merge_block(known: &mut Vec<Value>, block: Value) {
    let is_indexed = !block["index"].is_null();
    let same = |other: &Value| {
        // Without indexes a thought goes on until its signature has come.
        let goes_on =
            || block["type"] == "thinking" && other["signature"].as_str().is_none_or(str::is_empty);
        let is_own = block["id"].is_null() || other["id"].is_null() || other["id"] == block["id"];
        other["type"] == block["type"]
            && is_own
            && (if is_indexed { other["index"] == block["index"] } else { goes_on() })
    };
    // There are streams that give all blocks the same index: then a block ends where one of another kind begins.
    let is_told_apart =
        |last: &Value| same(last) || (is_indexed && last["index"] != block["index"]);
    let is_open = known.last().is_some_and(is_told_apart);
    let place = known.iter().rposition(same).filter(|_| is_open).unwrap_or(known.len());
    let Some(Value::Object(target)) = known.get_mut(place) else {
        known.push(block);
        return;
    };
    let Value::Object(block) = block else { return };
    for (name, value) in block {
        match value {
            Value::Null => {}
            Value::String(text) if BLOCK_TEXTS.contains(&name.as_str()) => {
                append_text(target, &name, &text);
            }
            value => drop(target.insert(name, value)),
        }
    }
}
