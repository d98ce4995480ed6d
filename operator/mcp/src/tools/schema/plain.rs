//! Keywords of a schema that are kept as they are.

use serde_json::{Map, Value, json};

/// Keywords that are kept as they are in a full dialect.
const PLAIN: [&str; 20] = [
    "title",
    "description",
    "default",
    "examples",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "readOnly",
    "deprecated",
];
/// Those that Gemini knows.
const GEMINI: [&str; 11] = [
    "title",
    "description",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
];

/// Keywords that no provider's checker is sure to know: the server checks them.
pub(super) const CONDITIONS: [&str; 9] = [
    "if",
    "then",
    "else",
    "not",
    "dependencies",
    "dependentSchemas",
    "dependentRequired",
    "patternProperties",
    "propertyNames",
];

/// The keywords of a schema that a provider takes, with their values.
pub(super) fn plain_fields(
    fields: &Map<String, Value>,
    is_gemini: bool,
    description_chars: usize,
) -> Vec<(&'static str, Value)> {
    let kept: &[&'static str] = if is_gemini { &GEMINI } else { &PLAIN };
    let mut plain = Vec::new();
    for keyword in kept {
        let Some(value) = fields.get(*keyword) else { continue };
        let value = match (*keyword, value) {
            ("title" | "description", Value::String(text)) => {
                let text = codebutler_mcp_file::clean_text(text);
                json!(text.chars().take(description_chars).collect::<String>())
            }
            ("format" | "pattern", Value::String(_))
            | ("default", _)
            | ("examples", Value::Array(_))
            | ("uniqueItems" | "readOnly" | "deprecated", Value::Bool(_)) => value.clone(),
            // Draft-04 had a flag beside the limit.
            ("exclusiveMinimum", Value::Bool(true)) => match fields.get("minimum") {
                Some(limit) => limit.clone(),
                None => continue,
            },
            ("exclusiveMaximum", Value::Bool(true)) => match fields.get("maximum") {
                Some(limit) => limit.clone(),
                None => continue,
            },
            ("title" | "description" | "format" | "pattern" | "examples", _) => continue,
            (_, Value::Number(_)) => value.clone(),
            _ => continue,
        };
        plain.push((*keyword, value));
    }
    if is_gemini && fields.get("format") == Some(&json!("date-time")) {
        plain.push(("format", json!("date-time")));
    }
    plain
}
