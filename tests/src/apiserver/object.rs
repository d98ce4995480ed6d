//! Reading and writing the metadata of an untyped object.

use serde_json::{Map, Value, json};

/// `group/version`, or the version alone in the core group.
pub(super) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// A string at a JSON pointer, or nothing.
pub(super) fn text_at<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer).and_then(Value::as_str)
}

/// `metadata.name`, or the empty string.
pub(super) fn object_name(object: &Value) -> &str {
    text_at(object, "/metadata/name").unwrap_or_default()
}

/// `metadata.namespace`, or the empty string.
pub(super) fn object_namespace(object: &Value) -> &str {
    text_at(object, "/metadata/namespace").unwrap_or_default()
}

/// `metadata.uid`, or the empty string.
pub(super) fn object_uid(object: &Value) -> &str {
    text_at(object, "/metadata/uid").unwrap_or_default()
}

/// `metadata.resourceVersion`, or the empty string.
pub(super) fn object_version(object: &Value) -> &str {
    text_at(object, "/metadata/resourceVersion").unwrap_or_default()
}

/// Reads a field of `metadata`, if it is there.
pub(super) fn meta_field<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
    object.get("metadata")?.get(field)
}

/// `metadata` for writing, made where it is missing.
pub(super) fn meta_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_at(object, "metadata")
}

/// The map in a field for writing, made where it is missing or something else.
pub(super) fn map_at<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let slot = object_fields(object).entry(field).or_insert_with(|| json!({}));
    object_fields(slot)
}

/// The fields of a value, which becomes an empty object if it was none.
pub(super) fn object_fields(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        // Made an object two lines above.
        _ => unreachable!(),
    }
}

/// Sets a field of `metadata`, or removes it for `None`.
pub(super) fn set_meta(object: &mut Value, field: &str, value: Option<Value>) {
    let meta = meta_mut(object);
    match value {
        Some(value) => {
            meta.insert(field.to_owned(), value);
        }
        None => {
            meta.remove(field);
        }
    }
}

/// Sets a top-level field, or removes it for `None`.
pub(super) fn set_field(object: &mut Value, field: &str, value: Option<Value>) {
    let map = object_fields(object);
    match value {
        Some(value) => {
            map.insert(field.to_owned(), value);
        }
        None => {
            map.remove(field);
        }
    }
}

/// True if deletion has been requested.
pub(super) fn is_terminating(object: &Value) -> bool {
    text_at(object, "/metadata/deletionTimestamp").is_some()
}

/// Finalizers of the object, from `metadata.finalizers`.
pub(super) fn list_finalizers(object: &Value) -> impl Iterator<Item = &str> {
    meta_field(object, "finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

/// The present moment as Kubernetes writes it (whole seconds, UTC).
pub(super) fn now_text() -> String {
    whole_seconds(jiff::Timestamp::now())
}

/// A moment as Kubernetes writes it (whole seconds, UTC).
pub(super) fn whole_seconds(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Copies a map's field from one object to another, or removes it.
pub(super) fn copy_field(from: &Value, to: &mut Value, field: &str) {
    set_field(to, field, from.get(field).cloned());
}

/// Copies a field of `metadata` from one object to another, or removes it.
pub(super) fn copy_meta(from: &Value, to: &mut Value, field: &str) {
    set_meta(to, field, meta_field(from, field).cloned());
}

/// Inserts a default where a field is absent or null.
pub(super) fn default_to(map: &mut Map<String, Value>, field: &str, value: impl Into<Value>) {
    if map.get(field).is_none_or(Value::is_null) {
        map.insert(field.to_owned(), value.into());
    }
}
