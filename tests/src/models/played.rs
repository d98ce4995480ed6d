//! Answers as they are played, and what a message in a request says.

use std::collections::BTreeMap;

use serde_json::Value;

/// Prefix of every answer of a model that has left its script, and of no other.
pub(super) const MARK: &str = "🎭";

/// An answer with every `{{name}}` filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FilledAnswer {
    pub say: Option<String>,
    pub tools: Vec<PlayedCall>,
    pub reasoning: Option<String>,
    /// Values captured so far, by name.
    pub values: BTreeMap<String, String>,
}

impl FilledAnswer {
    /// An answer of text alone, without calls.
    pub(super) fn say(text: &str) -> Self {
        Self { say: Some(text.to_owned()), ..Self::default() }
    }
}

/// One tool call of an answer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlayedCall {
    pub id: String,
    pub name: String,
    /// Arguments as JSON, or what the script says instead.
    pub arguments: String,
}

/// True if a message of the model is no step of its script.
pub(super) fn is_aside(message: &Value) -> bool {
    let said = message["content"].as_str().is_some_and(|text| text.starts_with(MARK));
    let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
    said || calls.iter().any(|call| {
        let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
        let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
        arguments["message"].as_str().is_some_and(|text| text.starts_with(MARK))
    })
}

/// Returns a message's content as text.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
