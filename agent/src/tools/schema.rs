//! JSON schemas as model APIs like them: everything inline, no `$ref`, no nulls.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::Mutex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Schema key of an argument that is accepted but not shown to models.
const HIDDEN: &str = "x-hidden";

/// Schemas by the type of the arguments. Each turn needs all of them, and none of them ever changes.
static DERIVED: LazyLock<Mutex<HashMap<TypeId, Value>>> = LazyLock::new(Mutex::default);

/// Builds the schema of a tool's arguments as a model is shown it.
pub(super) fn told_schema<T: JsonSchema + 'static>() -> Value {
    let mut schema = whole_schema::<T>();
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.retain(|_, property| property.get(HIDDEN).is_none());
    }
    drop_closing(&mut schema);
    schema
}

/// Drops `additionalProperties: false`: models add no arguments of their own, so its tokens would be paid in every
/// request for nothing. Calls are checked against the whole schema.
fn drop_closing(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("additionalProperties") == Some(&Value::Bool(false)) {
                object.shift_remove("additionalProperties");
            }
            object.values_mut().for_each(drop_closing);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_closing),
        _ => {}
    }
}

/// Builds the schema with the arguments that a model is not shown, once for each type.
pub(super) fn whole_schema<T: JsonSchema + 'static>() -> Value {
    let kind = TypeId::of::<T>();
    let known = DERIVED.lock().get(&kind).cloned();
    known.unwrap_or_else(|| {
        let schema = derive_schema::<T>();
        DERIVED.lock().insert(kind, schema.clone());
        schema
    })
}

fn derive_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(object) = schema.as_object_mut() {
        object.shift_remove("description");
        object.entry("properties").or_insert_with(|| Value::Object(serde_json::Map::new()));
    }
    plain_schema(&mut schema);
    schema
}

/// Simplifies a schema: an optional argument is one that may be left out; `null` adds nothing to that.
fn plain_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if object.get("title").is_some_and(Value::is_string) {
                object.shift_remove("title");
            }
            object.shift_remove("format");
            // Numbers of tokens, lines or files are never negative, so a minimum of 0 says nothing.
            if object.get("minimum").is_some_and(|least| least == 0) {
                object.shift_remove("minimum");
            }
            // The empty default of an optional argument says nothing.
            let nothing = |value: &Value| match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(items) => items.is_empty(),
                _ => false,
            };
            if object.get("default").is_some_and(nothing) {
                object.shift_remove("default");
            }
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|kind| kind != "null");
                if let [one] = &types[..] {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(values)) = object.get_mut("enum") {
                values.retain(|value| !value.is_null());
            }
            if let Some(Value::Array(options)) = object.get_mut("anyOf") {
                options.retain(|option| option.get("type").is_none_or(|kind| kind != "null"));
                if let [Value::Object(one)] = &options[..] {
                    let one = one.clone();
                    object.shift_remove("anyOf");
                    for (key, value) in one {
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(Value::Array(options)) = object.get("oneOf") {
                let values: Option<Vec<_>> =
                    options.iter().map(|o| o.get("const").cloned()).collect();
                if let Some(values) = values {
                    object.shift_remove("oneOf");
                    object.insert("type".to_owned(), "string".into());
                    object.insert("enum".to_owned(), values.into());
                }
            }
            if let Some(Value::String(description)) = object.get_mut("description") {
                *description = description.replace('\n', " ");
            }
            for value in object.values_mut() {
                plain_schema(value);
            }
        }
        Value::Array(items) => {
            for item in items {
                plain_schema(item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool_args as args;

    #[test]
    fn a_schema_is_derived_once_for_each_type() {
        let first = whole_schema::<args::ReadArgs>();
        assert_eq!(whole_schema::<args::ReadArgs>(), first);
        assert_eq!(derive_schema::<args::ReadArgs>(), first);
        assert_ne!(whole_schema::<args::NoArgs>(), first);
        assert!(DERIVED.lock().contains_key(&TypeId::of::<args::ReadArgs>()));
    }

    #[test]
    fn schemas_are_inline_and_plain() {
        insta::assert_json_snapshot!(told_schema::<args::SendMessage>());
        insta::assert_json_snapshot!(told_schema::<args::EditArgs>());
        insta::assert_json_snapshot!(told_schema::<args::NoArgs>());
        let read = told_schema::<args::ReadArgs>();
        assert_eq!(read["properties"]["offset"]["type"], "integer");
        assert_eq!(read["required"], serde_json::json!(["path"]));
    }
}
