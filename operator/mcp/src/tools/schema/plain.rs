//! Keywords of a schema that are kept as they are.

use serde_json::{Map, Value, json};

/// Keywords that are kept as they are in a full dialect.
const PLAIN: [&str; 19] = [
    "title",
    "description",
    "default",
    "examples",
    "format",
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
/// Keywords of these that Gemini knows.
const GEMINI: [&str; 10] = [
    "title",
    "description",
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

/// Limits above it limit nothing, and some checkers can't read them.
const LARGEST: u64 = i32::MAX as u64;

/// The types that stand for any value where one has to be named.
const ANY_TYPES: [&str; 6] = ["string", "number", "boolean", "object", "array", "null"];

/// Keywords that may stand beside several types, and beside a union.
const WORDS: [&str; 2] = ["title", "description"];

/// Names the types of each place that has none. Nothing but words may stand beside several, and no list or object is
/// a default.
pub(super) fn name_types(schema: &mut Value) {
    let Value::Object(fields) = schema else { return };
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        for property in properties.values_mut() {
            name_types(property);
        }
    }
    for keyword in ["items", "additionalProperties"] {
        if let Some(inner) = fields.get_mut(keyword) {
            name_types(inner);
        }
    }
    if let Some(Value::Array(branches)) = fields.get_mut("anyOf") {
        for branch in branches {
            name_types(branch);
        }
    }
    if fields.get("default").is_some_and(|value| value.is_array() || value.is_object()) {
        fields.remove("default");
    }
    if fields.contains_key("anyOf") {
        fields.retain(|keyword, _| keyword == "anyOf" || is_word(keyword));
    } else if !fields.contains_key("type") {
        fields.retain(|keyword, _| is_word(keyword));
        fields.insert("type".to_owned(), json!(ANY_TYPES));
    }
    part_types(fields);
}

/// Gives each of several types a place of its own where more is said than their names.
fn part_types(fields: &mut Map<String, Value>) {
    let Some(Value::Array(mut kinds)) = fields.get("type").cloned() else { return };
    if fields.keys().all(|keyword| keyword == "type" || is_word(keyword)) {
        return;
    }
    kinds.retain(|kind| *kind != "null");
    let [kind] = &*kinds else {
        fields.retain(|keyword, _| keyword == "type" || is_word(keyword));
        return;
    };
    let mut only = std::mem::take(fields);
    for keyword in WORDS {
        if let Some(text) = only.remove(keyword) {
            fields.insert(keyword.to_owned(), text);
        }
    }
    only.insert("type".to_owned(), kind.clone());
    if let Some(Value::Array(choices)) = only.get_mut("enum") {
        choices.retain(|choice| !choice.is_null());
    }
    fields.insert("anyOf".to_owned(), json!([only, {"type": "null"}]));
}

fn is_word(keyword: &str) -> bool {
    WORDS.contains(&keyword)
}

/// The keywords of a schema that a provider takes, with their values, and those whose value is none that they can
/// have: a provider that looks at one of these refuses the whole request.
pub(super) fn plain_fields(
    fields: &Map<String, Value>,
    is_gemini: bool,
    description_chars: usize,
) -> (Vec<(&'static str, Value)>, Vec<&'static str>) {
    let kept: &[&'static str] = if is_gemini { &GEMINI } else { &PLAIN };
    let (mut plain, mut unfit) = (Vec::new(), Vec::new());
    for keyword in kept {
        let Some(value) = fields.get(*keyword) else { continue };
        match fit_value(keyword, value, fields, description_chars) {
            Fit::Kept(value) => plain.push((*keyword, value)),
            Fit::Idle => {}
            Fit::Unfit => unfit.push(*keyword),
        }
    }
    if is_gemini && fields.get("format") == Some(&json!("date-time")) {
        plain.push(("format", json!("date-time")));
    }
    (plain, unfit)
}

enum Fit {
    /// The value that a provider takes.
    Kept(Value),
    /// The keyword has no effect and can go.
    Idle,
    /// The value is none that the keyword can have.
    Unfit,
}

fn fit_value(
    keyword: &str,
    value: &Value,
    fields: &Map<String, Value>,
    description_chars: usize,
) -> Fit {
    let kept = |fits: bool| if fits { Fit::Kept(value.clone()) } else { Fit::Unfit };
    match keyword {
        "title" | "description" => value.as_str().map_or(Fit::Unfit, |text| {
            let text = codebutler_mcp_file::clean_text(text);
            Fit::Kept(json!(text.chars().take(description_chars).collect::<String>()))
        }),
        "format" => kept(value.is_string()),
        "default" => kept(true),
        "examples" => kept(value.is_array()),
        "uniqueItems" | "readOnly" | "deprecated" => kept(value.is_boolean()),
        "minimum" | "maximum" => kept(value.is_number()),
        "multipleOf" => kept(value.as_f64().is_some_and(|step| step > 0.0)),
        // Draft-04 had a flag beside the limit.
        "exclusiveMinimum" => fit_exclusive(value, fields.get("minimum")),
        "exclusiveMaximum" => fit_exclusive(value, fields.get("maximum")),
        // Counts: of letters, entries and properties.
        _ => read_count(value).map_or(Fit::Unfit, |count| Fit::Kept(json!(count))),
    }
}

fn fit_exclusive(value: &Value, limit: Option<&Value>) -> Fit {
    match (value, limit) {
        (Value::Number(_), _) => Fit::Kept(value.clone()),
        (Value::Bool(true), Some(limit @ Value::Number(_))) => Fit::Kept(limit.clone()),
        (Value::Bool(_), _) => Fit::Idle,
        _ => Fit::Unfit,
    }
}

/// A whole number from zero on; some write it with a fraction of zero.
fn read_count(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is whole, and neither negative nor large"
    )]
    let whole = value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        let fits = number.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&number);
        fits.then_some(number as u64)
    });
    whole.filter(|count| *count <= LARGEST)
}
