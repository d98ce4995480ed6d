//! The tools and calls of a request as the model takes them that is asked in the end: an agent writes for the
//! one that it expects. Pure.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::facts::family;

/// The argument of a tool of free text, where it has to be a function.
const INPUT: &str = "input";

/// A request's `tools` for `model`; nothing if they stay as they came.
pub(crate) fn suit_tools(tools: &RawValue, takes_text: bool, model: &str) -> Option<Box<RawValue>> {
    let unfree = tools.get().contains("\"custom\"") && !takes_text;
    let ordered = family::wants_key_order(model);
    if !unfree && !ordered {
        return None;
    }
    let mut tools: Vec<Value> = serde_json::from_str(tools.get()).ok()?;
    for tool in &mut tools {
        if unfree && tool["type"] == "custom" {
            *tool = as_function(&tool["custom"]);
        }
        if ordered && let Some(schema) = tool.pointer_mut("/function/parameters") {
            order_schema(schema);
        }
    }
    to_raw_value(&tools).ok()
}

/// A message whose calls of free text are calls of functions.
pub(crate) fn suit_calls(message: &mut Map<String, Value>) {
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten().filter(|call| call["type"] == "custom") {
        let (name, input) = (&call["custom"]["name"], &call["custom"]["input"]);
        let arguments = json!({ INPUT: input }).to_string();
        let function = json!({"name": name, "arguments": arguments});
        *call = json!({"id": call["id"], "type": "function", "function": function});
    }
}

fn as_function(custom: &Value) -> Value {
    json!({"type": "function", "function": {
        "name": custom["name"],
        "description": custom["description"],
        "parameters": {
            "type": "object",
            "properties": {INPUT: {"type": "string", "description": "The whole text."}},
            "required": [INPUT],
            "additionalProperties": false,
        },
    }})
}

/// Writes into each object of a schema the order of its properties.
fn order_schema(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let keys =
                object.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty());
            let keys: Option<Vec<Value>> =
                keys.map(|keys| keys.keys().map(|key| json!(key)).collect());
            for (name, value) in object.iter_mut() {
                match value {
                    // The names in it are those of arguments, not words of a schema.
                    Value::Object(properties) if name == "properties" => {
                        properties.values_mut().for_each(order_schema);
                    }
                    value => order_schema(value),
                }
            }
            if let Some(keys) = keys {
                object.insert("propertyOrdering".to_owned(), keys.into());
            }
        }
        Value::Array(items) => items.iter_mut().for_each(order_schema),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        to_raw_value(value).unwrap()
    }

    fn suited(tools: &Value, takes_text: bool, model: &str) -> Option<Value> {
        let tools = suit_tools(&raw(tools), takes_text, model)?;
        serde_json::from_str(tools.get()).ok()
    }

    #[test]
    fn gemini_is_told_the_order_at_every_depth_and_others_nothing() {
        let item = json!({"type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}}});
        let edit = json!([{"type": "function", "function": {"name": "Edit", "parameters": {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": item},
            "properties": {"type": "boolean"},
        }}}}]);
        let sent = suited(&edit, false, "google/gemini-3.1-pro").unwrap();
        let schema = &sent[0]["function"]["parameters"];
        assert_eq!(schema["propertyOrdering"], json!(["path", "edits", "properties"]));
        assert_eq!(
            schema["properties"]["edits"]["items"]["propertyOrdering"],
            json!(["old", "new"])
        );
        assert_eq!(schema["properties"]["properties"], json!({"type": "boolean"}));
        assert_eq!(suited(&edit, false, "openai/gpt-5.6"), None);
    }

    #[test]
    fn free_text_becomes_a_function_for_a_model_that_stands_in() {
        let tools = json!([{"type": "custom", "custom": {"name": "apply_patch", "description": "Patches."}}]);
        assert_eq!(suited(&tools, true, "gpt-5.6"), None, "it takes it");
        let sent = suited(&tools, false, "gpt-4.1").unwrap();
        assert_eq!(sent[0]["function"]["name"], "apply_patch");
        assert_eq!(sent[0]["function"]["parameters"]["required"], json!(["input"]));
        let mut message = json!({"role": "assistant", "tool_calls": [
            {"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** \"x\""}}]});
        suit_calls(message.as_object_mut().unwrap());
        let call = &message["tool_calls"][0];
        assert_eq!((&call["id"], &call["type"]), (&json!("a"), &json!("function")));
        assert_eq!(call["function"]["arguments"], r#"{"input":"*** \"x\""}"#);
    }
}
