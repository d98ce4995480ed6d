//! Validation of an object against the OpenAPI part of a schema.

use std::collections::{HashMap, HashSet};

use regex::Regex;
use serde_json::Value;

use crate::apiserver::schema::{ListKind, SchemaNode, join_path};
use crate::apiserver::status::StatusCause;

/// Context of a validation, besides schema and object.
pub(crate) struct SchemaChecks<'a> {
    /// The schema's patterns, compiled.
    pub patterns: &'a HashMap<String, Regex>,
}

impl SchemaChecks<'_> {
    /// Everything that is wrong with a value.
    pub(crate) fn run(&self, value: &Value, node: SchemaNode<'_>) -> Vec<StatusCause> {
        let mut causes = Vec::new();
        self.walk(value, node, "", &mut causes);
        causes
    }

    fn walk(&self, value: &Value, node: SchemaNode<'_>, path: &str, causes: &mut Vec<StatusCause>) {
        let named = node.keyword("enum").and_then(Value::as_array);
        if value.is_null() && node.flag("nullable") {
            // The real validation finds no null among named values, not even one that is named.
            if let Some(allowed) = named {
                causes.push(StatusCause::unsupported(path, value, &name_values(allowed)));
            }
            return;
        }
        if let Some(wanted) = wrong_type(value, node) {
            causes.push(StatusCause::wrong_type(
                path,
                type_name(value),
                &format!("{path} in body must be of type {wanted}: \"{}\"", type_name(value)),
            ));
            return;
        }
        if let Some(allowed) = named.filter(|allowed| !allowed.contains(value)) {
            causes.push(StatusCause::unsupported(path, value, &name_values(allowed)));
        }
        match value {
            Value::Object(map) => {
                check_required(map, node, path, causes);
                check_count(
                    map.len(),
                    node,
                    path,
                    ("minProperties", "maxProperties", "properties"),
                    causes,
                );
                for (name, child) in map {
                    if let Some(schema) = node.field(name) {
                        self.walk(child, schema, &join_path(path, name), causes);
                    }
                }
            }
            Value::Array(items) => {
                check_count(items.len(), node, path, ("minItems", "maxItems", "items"), causes);
                find_duplicates(items, node, path, causes);
                if let Some(schema) = node.items() {
                    for (index, item) in items.iter().enumerate() {
                        self.walk(item, schema, &format!("{path}[{index}]"), causes);
                    }
                }
            }
            Value::String(text) => self.string(text, value, node, path, causes),
            Value::Number(number) => check_range(number.as_f64(), value, node, path, causes),
            Value::Bool(_) | Value::Null => {}
        }
        self.combined(value, node, path, causes);
    }

    fn string(
        &self,
        text: &str,
        value: &Value,
        node: SchemaNode<'_>,
        path: &str,
        causes: &mut Vec<StatusCause>,
    ) {
        let length = text.chars().count();
        if let Some(min) = schema_limit(node, "minLength")
            && length < min
        {
            causes.push(StatusCause::invalid(
                path,
                value,
                &format!("{path} in body should be at least {min} chars long"),
            ));
        }
        if let Some(max) = schema_limit(node, "maxLength")
            && length > max
        {
            causes.push(StatusCause {
                field: path.to_owned(),
                reason: "FieldValueTooLong",
                detail: format!("Too long: may not be more than {max} bytes"),
            });
        }
        if let Some(pattern) = node.keyword("pattern").and_then(Value::as_str)
            && self.patterns.get(pattern).is_some_and(|regex| !regex.is_match(text))
        {
            causes.push(StatusCause::invalid(
                path,
                value,
                &format!("{path} in body should match '{pattern}'"),
            ));
        }
        if let Some(format) = node.keyword("format").and_then(Value::as_str)
            && !has_format(text, format)
        {
            let why = format!("{path} in body must be of type {format}: \"{text}\"");
            causes.push(StatusCause::wrong_type(path, text, &why));
        }
    }

    fn combined(
        &self,
        value: &Value,
        node: SchemaNode<'_>,
        path: &str,
        causes: &mut Vec<StatusCause>,
    ) {
        for (keyword, sentence) in [
            ("allOf", "must validate all the schemas (allOf)"),
            ("anyOf", "must validate at least one schema (anyOf)"),
            ("oneOf", "must validate one and only one schema (oneOf)"),
        ] {
            let branches = node.branches(keyword);
            if branches.is_empty() || (keyword == "anyOf" && node.is_int_or_string()) {
                continue;
            }
            let mut failures = Vec::new();
            let passed = branches
                .iter()
                .filter(|branch| {
                    let before = failures.len();
                    self.walk(value, **branch, path, &mut failures);
                    failures.len() == before
                })
                .count();
            let ok = match keyword {
                "allOf" => passed == branches.len(),
                "anyOf" => passed > 0,
                _ => passed == 1,
            };
            if !ok {
                let shown = path.rsplit('.').next().unwrap_or(path);
                causes.push(StatusCause::invalid(path, value, &format!("\"{shown}\" {sentence}")));
                if keyword == "allOf" || passed == 0 {
                    causes.extend(failures);
                }
            }
        }
        if let Some(not) = node.branch("not") {
            let mut failures = Vec::new();
            self.walk(value, not, path, &mut failures);
            if failures.is_empty() {
                causes.push(StatusCause::invalid(
                    path,
                    value,
                    &format!("{path} in body must not validate the schema (not)"),
                ));
            }
        }
    }
}

fn check_required(
    map: &serde_json::Map<String, Value>,
    node: SchemaNode<'_>,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    let names = node.keyword("required").and_then(Value::as_array);
    for name in names.into_iter().flatten().filter_map(Value::as_str) {
        if !map.contains_key(name) {
            causes.push(StatusCause::required(join_path(path, name), ""));
        }
    }
}

fn check_count(
    length: usize,
    node: SchemaNode<'_>,
    path: &str,
    (min, max, noun): (&str, &str, &str),
    causes: &mut Vec<StatusCause>,
) {
    if let Some(min) = schema_limit(node, min)
        && length < min
    {
        causes.push(StatusCause::invalid(
            path,
            &length.into(),
            &format!("{path} in body should have at least {min} {noun}"),
        ));
    }
    if let Some(max) = schema_limit(node, max)
        && length > max
    {
        // Upstream calls properties items here.
        let items = if max == 1 { "item" } else { "items" };
        causes.push(StatusCause {
            field: path.to_owned(),
            reason: "FieldValueTooMany",
            detail: format!("Too many: {length}: must have at most {max} {items}"),
        });
    }
}

fn find_duplicates(
    items: &[Value],
    node: SchemaNode<'_>,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    let mut seen = HashSet::new();
    let kind = node.list_kind();
    for (index, item) in items.iter().enumerate() {
        let identity = match &kind {
            ListKind::Atomic => return,
            ListKind::Set => item.clone(),
            ListKind::Map(keys) => keys
                .iter()
                .map(|key| {
                    let default = || node.items()?.property(key)?.keyword("default").cloned();
                    (key.clone(), item.get(key).cloned().or_else(default).unwrap_or(Value::Null))
                })
                .collect::<serde_json::Map<_, _>>()
                .into(),
        };
        if !seen.insert(identity.to_string()) {
            causes.push(StatusCause::duplicate(format!("{path}[{index}]"), &identity));
        }
    }
}

fn check_range(
    number: Option<f64>,
    value: &Value,
    node: SchemaNode<'_>,
    path: &str,
    causes: &mut Vec<StatusCause>,
) {
    let Some(number) = number else { return };
    let bound = |name: &str| node.keyword(name).and_then(Value::as_f64);
    let mut fail = |sentence: String| {
        causes.push(StatusCause::invalid(
            path,
            value,
            &format!("{path} in body should be {sentence}"),
        ));
    };
    if let Some(min) = bound("minimum") {
        if node.flag("exclusiveMinimum") && number <= min {
            fail(format!("greater than {min}"));
        } else if number < min {
            fail(format!("greater than or equal to {min}"));
        }
    }
    if let Some(max) = bound("maximum") {
        if node.flag("exclusiveMaximum") && number >= max {
            fail(format!("less than {max}"));
        } else if number > max {
            fail(format!("less than or equal to {max}"));
        }
    }
    if let Some(step) = bound("multipleOf")
        && step > 0.0
        && (number / step).fract() != 0.0
    {
        fail(format!("a multiple of {step}"));
    }
}

fn schema_limit(node: SchemaNode<'_>, name: &str) -> Option<usize> {
    node.keyword(name)?.as_u64().and_then(|n| usize::try_from(n).ok())
}

fn name_values(allowed: &[Value]) -> Vec<String> {
    let name = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    allowed.iter().map(name).collect()
}

fn wrong_type(value: &Value, node: SchemaNode<'_>) -> Option<&'static str> {
    if node.is_int_or_string() {
        let ok = value.is_string() || value.as_i64().is_some();
        return (!ok).then_some("integer,string");
    }
    let (wanted, ok) = match node.kind()? {
        "object" => ("object", value.is_object()),
        "array" => ("array", value.is_array()),
        "string" => ("string", value.is_string()),
        "boolean" => ("boolean", value.is_boolean()),
        "integer" => ("integer", value.is_i64() || value.is_u64() || is_whole(value)),
        "number" => ("number", value.is_number()),
        _ => return None,
    };
    (!ok).then_some(wanted)
}

fn is_whole(value: &Value) -> bool {
    value.as_f64().is_some_and(|n| n.fract() == 0.0)
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn has_format(text: &str, format: &str) -> bool {
    match format {
        "date-time" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok(),
        "uuid" => uuid::Uuid::parse_str(text).is_ok(),
        "uri" => url::Url::parse(text).is_ok(),
        "ipv4" => text.parse::<std::net::Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<std::net::Ipv6Addr>().is_ok(),
        // Formats that the API server does not know are not checked.
        _ => true,
    }
}
