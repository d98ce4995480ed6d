//! Parser of arguments: JSON, and what models write instead, as far as only one thing can be meant. Text that was cut
//! off is never completed.

use serde_json::{Map, Value};

/// Levels of JSON in JSON strings that are unwrapped.
const DEPTH: u32 = 3;

/// Parses the object that a text is meant to be, or says why it can't.
pub(super) fn read_object(text: &str) -> Result<Map<String, Value>, String> {
    match read_value(text, 0)? {
        Value::Object(map) => Ok(map),
        Value::Null => Ok(Map::new()),
        other => Err(format!("they are {}", kind_name(&other))),
    }
}

/// Name of a JSON value's type, as models read it.
pub(super) fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn read_value(text: &str, depth: u32) -> Result<Value, String> {
    let text = strip_fence(text.trim());
    if text.is_empty() {
        return Ok(Value::Null);
    }
    let read = read_json(text).or_else(|first| match repair_json(text) {
        Some(repaired) => read_json(&repaired).map_err(|_| first),
        None => Err(first),
    })?;
    match read {
        Value::String(inner) if depth < DEPTH => read_value(&inner, depth + 1),
        Value::Array(mut list) if list.len() == 1 && list[0].is_object() => Ok(list.remove(0)),
        read => Ok(read),
    }
}

/// Removes the fence of a code block.
fn strip_fence(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("```") else { return text };
    let Some((first, body)) = rest.split_once('\n') else { return text };
    let named = first.trim().chars().all(char::is_alphanumeric);
    match body.trim_end().strip_suffix("```") {
        Some(body) if named => body.trim(),
        _ => text,
    }
}

/// Parses one value. Empty objects beside it, as lost pieces of a stream leave them, and closing brackets too many
/// mean nothing.
fn read_json(text: &str) -> Result<Value, String> {
    let mut found: Vec<Value> = Vec::new();
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
    let mut end = 0;
    while let Some(value) = values.next() {
        match value {
            Ok(value) => {
                end = values.byte_offset();
                found.push(value);
            }
            Err(error) => {
                let rest = &text[end..];
                let closing = rest.chars().all(|c| c.is_whitespace() || "}]`".contains(c));
                if found.is_empty() || !closing {
                    let cut = if error.is_eof() {
                        " (they end in the middle: perhaps they were too long; do it in parts)"
                    } else {
                        ""
                    };
                    return Err(format!("{error}{cut}"));
                }
                break;
            }
        }
    }
    let empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    if found.len() > 1 && found.iter().any(|value| !empty(value)) {
        found.retain(|value| !empty(value));
    }
    found.dedup();
    match found.len() {
        1 => Ok(found.remove(0)),
        many => Err(format!("they are {many} values, one after the other")),
    }
}

/// Repairs what can be meant in one way only: commas before a closing bracket left out, ends of lines inside a text
/// escaped, and other escapes that JSON does not know taken as they stand.
fn repair_json(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    let mut inside = false;
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                inside = !inside;
                out.push(c);
            }
            '\\' if inside => match chars.next()? {
                c @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't') => out.extend(['\\', c]),
                'u' => {
                    let ahead = chars.clone().take(4);
                    let hex = ahead.filter(char::is_ascii_hexdigit).count() == 4;
                    out.push_str(if hex { "\\u" } else { "\\\\u" });
                }
                '\'' => out.push('\''),
                c => {
                    out.push_str("\\\\");
                    out.push(c);
                }
            },
            '\n' if inside => out.push_str("\\n"),
            '\r' if inside => out.push_str("\\r"),
            '\t' if inside => out.push_str("\\t"),
            ',' if !inside => {
                let next = chars.clone().find(|c| !c.is_whitespace());
                if !matches!(next, Some('}' | ']')) {
                    out.push(c);
                }
            }
            c if !inside && c.is_ascii_alphabetic() => {
                let mut word = c.to_string();
                while let Some(c) = chars.next_if(char::is_ascii_alphabetic) {
                    word.push(c);
                }
                out.push_str(match word.as_str() {
                    "True" => "true",
                    "False" => "false",
                    "None" => "null",
                    word => word,
                });
            }
            c => out.push(c),
        }
    }
    (!inside).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_meant_in_one_way_is_read() {
        for (text, expected) in [
            (r#"{"a": 1}"#, r#"{"a":1}"#),
            ("", "{}"),
            ("null", "{}"),
            (r#""{\"a\": \"b\"}""#, r#"{"a":"b"}"#),
            ("```json\n{\"a\": 1}\n```", r#"{"a":1}"#),
            (r#"{"a": [1, 2,], "b": "x,}",}"#, r#"{"a":[1,2],"b":"x,}"}"#),
            ("{\"a\": \"one\n\ttwo\"}", r#"{"a":"one\n\ttwo"}"#),
            (r#"{"a": "\d+\(", "b": "it\'s"}"#, r#"{"a":"\\d+\\(","b":"it's"}"#),
            (r#"{"a": True, "b": None}"#, r#"{"a":true,"b":null}"#),
            (r#"{}{"a": 1}"#, r#"{"a":1}"#),
            (r#"{"a": 1}{"a": 1}"#, r#"{"a":1}"#),
            (r#"{"a": 1}}"#, r#"{"a":1}"#),
            (r#"[{"a": 1}]"#, r#"{"a":1}"#),
        ] {
            let read = read_object(text).map(|map| Value::Object(map).to_string());
            assert_eq!(read.as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_was_cut_off_or_means_two_things_is_not() {
        for (text, why) in [
            (r#"{"content": "half of"#, "cut"),
            (r#"{"content": "whole", "#, "cut"),
            (r#"{"a": 1}{"a": 2}"#, "2 values"),
            ("[1, 2]", "a list"),
            ("ls -la", "expected"),
            (r"{'a': 1}", "key must be a string"),
        ] {
            let refused = read_object(text).unwrap_err();
            let why = if why == "cut" { "end in the middle" } else { why };
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }
}
