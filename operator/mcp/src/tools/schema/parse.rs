//! Parts of schemas: their types, references and unions.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// Schemas of one property, of different branches, that are kept apart.
const ALTERNATIVES: usize = 32;

/// Takes properties together: those of all branches, or of whichever of them holds.
pub(super) fn merge_branches(
    target: &mut Map<String, Value>,
    branches: &[&Map<String, Value>],
    takes_all: bool,
) {
    let mut properties =
        target.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    // The target's own properties hold in each branch.
    let fixed: BTreeSet<String> = properties.keys().cloned().collect();
    let names = |fields: &Map<String, Value>| -> BTreeSet<String> {
        let names = fields.get("required").and_then(Value::as_array).into_iter().flatten();
        names.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let mut required = names(target);
    let mut in_each: Option<BTreeSet<String>> = None;
    for branch in branches {
        for (name, schema) in
            branch.get("properties").and_then(Value::as_object).into_iter().flatten()
        {
            match properties.get_mut(name) {
                None => drop(properties.insert(name.clone(), schema.clone())),
                Some(known) if !takes_all && !fixed.contains(name) => join_schemas(known, schema),
                Some(_) => {}
            }
        }
        let own = names(branch);
        in_each = Some(match in_each {
            None => own,
            Some(before) if takes_all => &before | &own,
            Some(before) => &before & &own,
        });
        for (key, value) in
            branch.iter().filter(|(key, _)| !["properties", "required"].contains(&&***key))
        {
            target.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    required.extend(in_each.unwrap_or_default());
    if !properties.is_empty() {
        target.insert("properties".to_owned(), Value::Object(properties));
        target.insert("type".to_owned(), json!("object"));
        // Each branch forbids what only others allow, so the union must not.
        if !takes_all {
            target.remove("additionalProperties");
        }
    }
    if !required.is_empty() {
        target.insert("required".to_owned(), json!(required));
    }
}

/// Widens the schema of a property to what another branch takes for it. The value that tells branches apart becomes a
/// choice of all of theirs.
fn join_schemas(known: &mut Value, other: &Value) {
    let is_open = |schema: &Value| match schema {
        Value::Object(fields) => fields.is_empty(),
        schema => *schema == Value::Bool(true),
    };
    if known == other || is_open(known) || *other == Value::Bool(false) {
        return;
    }
    if is_open(other) || *known == Value::Bool(false) {
        known.clone_from(other);
        return;
    }
    if let (Some(mut choices), Some(more)) = (list_choices(known), list_choices(other)) {
        choices.extend(more);
        if let Some(fields) = known.as_object_mut() {
            fields.remove("const");
            if fields.get("type") != other.get("type") {
                fields.remove("type");
            }
            fields.insert("enum".to_owned(), Value::Array(drop_twins(choices)));
        }
        return;
    }
    let alternatives = known.as_object_mut().filter(|fields| fields.len() == 1);
    if let Some(Value::Array(all)) = alternatives.and_then(|fields| fields.get_mut("anyOf")) {
        if all.contains(other) {
            return;
        }
        if all.len() < ALTERNATIVES {
            all.push(other.clone());
        } else {
            *known = json!({});
        }
        return;
    }
    *known = json!({"anyOf": [known.take(), other]});
}

fn list_choices(schema: &Value) -> Option<Vec<Value>> {
    let constant = schema.get("const").map(|value| vec![value.clone()]);
    constant.or_else(|| schema.get("enum")?.as_array().cloned())
}

/// Removes duplicate choices: some checkers refuse them.
pub(super) fn drop_twins(choices: Vec<Value>) -> Vec<Value> {
    let mut unique = Vec::new();
    for choice in choices {
        if !unique.contains(&choice) {
            unique.push(choice);
        }
    }
    unique
}

/// Appends to a description the form in which a value is wanted.
pub(super) fn add_hint(clean: &mut Map<String, Value>, hint: &str) {
    let about = clean.get("description").and_then(Value::as_str).unwrap_or_default();
    let about = if about.is_empty() { hint.to_owned() } else { format!("{about} ({hint})") };
    clean.insert("description".to_owned(), json!(about));
}

/// The type that other keywords speak of.
pub(in crate::tools) fn guess_type(fields: &Map<String, Value>) -> Option<&'static str> {
    let has = |keywords: &[&str]| keywords.iter().any(|keyword| fields.contains_key(*keyword));
    if has(&["properties", "additionalProperties", "patternProperties"])
        || fields.get("required").is_some_and(Value::is_array)
    {
        return Some("object");
    }
    if has(&["items", "prefixItems", "minItems", "maxItems", "uniqueItems"]) {
        return Some("array");
    }
    if has(&["anyOf", "oneOf", "allOf", "$ref"]) {
        return None;
    }
    let samples = fields.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    let samples =
        samples.or_else(|| fields.get("const").map(std::slice::from_ref)).unwrap_or_default();
    if !samples.is_empty() {
        let all = |fits: fn(&Value) -> bool| samples.iter().all(fits);
        return if all(Value::is_string) {
            Some("string")
        } else if all(|one| one.is_i64() || one.is_u64()) {
            Some("integer")
        } else {
            all(Value::is_number).then_some("number")
        };
    }
    if has(&["minLength", "maxLength", "pattern", "format"]) {
        return Some("string");
    }
    has(&["minimum", "maximum", "multipleOf"]).then_some("number")
}

/// True for a value of this type, or of one of several. Where no type is named, each value fits.
pub(super) fn fits_type(value: &Value, kind: Option<&Value>) -> bool {
    let is_of = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "boolean" => value.is_boolean(),
        _ => value.is_null(),
    };
    match kind {
        Some(Value::String(one)) => is_of(one),
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).any(is_of),
        _ => true,
    }
}

pub(super) fn is_plain_property(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// References are percent-encoded; `~0` and `~1` are decoded by the look-up.
pub(in crate::tools) fn decode_pointer(pointer: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail
            .get(..2)
            .filter(|_| *first == b'%')
            .and_then(|code| std::str::from_utf8(code).ok());
        if let Some(byte) = code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
