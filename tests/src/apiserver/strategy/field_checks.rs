//! Reads fields of objects, and checks those that take a few values only.

use serde_json::Value;

use crate::apiserver::status::StatusCause;

pub(super) fn list_field<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text_field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

pub(super) fn one_of(
    value: &Value,
    name: &str,
    path: &str,
    allowed: &[&str],
    causes: &mut Vec<StatusCause>,
) {
    if let Some(found) = value.get(name)
        && !allowed.iter().any(|a| found == a)
    {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        causes.push(StatusCause::unsupported(format!("{path}.{name}"), found, &allowed));
    }
}
