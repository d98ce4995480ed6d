//! OpenAI's chat format, read tolerantly and written strictly: what goes back to the model is
//! always well-formed, whatever it said before.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::text::clip;

/// One answer of the model, as it is recorded and sent back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Assistant {
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// What it wants done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Reasoning that some providers want back unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub reasoning: Map<String, Value>,
}

/// One tool call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id, or one that was made up where it gave none.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// JSON, as the model wrote it: perhaps not JSON at all.
    pub arguments: String,
}

/// A readable reply.
#[derive(Debug, PartialEq)]
pub struct Reply {
    /// The answer.
    pub message: Assistant,
    /// The provider's figures, as they came.
    pub usage: Option<Value>,
}

/// Why a reply is no answer. The text is for the model.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Unreadable(String);

const REASONING: [&str; 3] = ["reasoning", "reasoning_content", "reasoning_details"];
const MAX_WHY: usize = 400;

/// Reads the body of a chat completion.
pub fn parse(body: &[u8]) -> Result<Reply, Unreadable> {
    let no = |why: String| Unreadable(clip(&why, MAX_WHY));
    let body: Value =
        serde_json::from_slice(body).map_err(|e| no(format!("it is not JSON ({e})")))?;
    let Some(message) = body.pointer("/choices/0/message").and_then(Value::as_object) else {
        let error = body.pointer("/error/message").and_then(Value::as_str);
        return Err(no(error.map_or_else(|| "it has no message".to_owned(), ToOwned::to_owned)));
    };
    let content = content(message.get("content")).map_err(no)?;
    let tool_calls = match message.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => calls
            .iter()
            .enumerate()
            .map(|(index, call)| tool_call(index, call).map_err(no))
            .collect::<Result<_, _>>()?,
        Some(_) => return Err(no("`tool_calls` is not a list".to_owned())),
    };
    let reasoning = REASONING
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), message.get(*name)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    let usage = body.get("usage").filter(|usage| !usage.is_null()).cloned();
    Ok(Reply { message: Assistant { content, tool_calls, reasoning }, usage })
}

/// Text, or the text parts of a list.
fn content(value: Option<&Value>) -> Result<Option<String>, String> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<_> =
                parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join("\n")
        }
        Some(_) => return Err("`content` is neither text nor a list".to_owned()),
    };
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

fn tool_call(index: usize, call: &Value) -> Result<ToolCall, String> {
    let name = call
        .pointer("/function/name")
        .and_then(Value::as_str)
        .ok_or_else(|| format!("tool call {index} has no function name"))?;
    let arguments = match call.pointer("/function/arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(Value::String(text)) if text.trim().is_empty() => "{}".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let id = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = id.map_or_else(|| format!("call_{index}"), ToOwned::to_owned);
    Ok(ToolCall { id, name: name.to_owned(), arguments })
}

impl Assistant {
    /// The message as the API wants it back. Arguments that are no JSON object are replaced, since
    /// some providers refuse a whole request over them.
    pub fn to_chat(&self) -> Value {
        let mut message = self.reasoning.clone();
        message.insert("role".to_owned(), json!("assistant"));
        message.insert("content".to_owned(), json!(self.content));
        if !self.tool_calls.is_empty() {
            let calls: Vec<_> = self.tool_calls.iter().map(ToolCall::to_chat).collect();
            message.insert("tool_calls".to_owned(), json!(calls));
        } else if self.content.is_none() {
            message.insert("content".to_owned(), json!("(nothing)"));
        }
        Value::Object(message)
    }
}

impl ToolCall {
    fn to_chat(&self) -> Value {
        let usable = serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok();
        let arguments = if usable { self.arguments.as_str() } else { "{}" };
        json!({
            "id": self.id,
            "type": "function",
            "function": {"name": self.name, "arguments": arguments},
        })
    }
}

/// A picture for the model, with a word about it.
pub fn picture(text: &str, url: &str) -> Value {
    json!({"role": "user", "content": [
        {"type": "text", "text": text},
        {"type": "image_url", "image_url": {"url": url}},
    ]})
}

/// A message from outside the model.
pub fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// What a tool said.
pub fn tool(id: &str, text: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &Value) -> Result<Assistant, Unreadable> {
        parse(json!({"choices": [{"message": message}]}).to_string().as_bytes()).map(|r| r.message)
    }

    #[test]
    fn what_providers_really_send_is_read() {
        let text = read(&json!({"role": "assistant", "content": "hi", "refusal": null})).unwrap();
        assert_eq!(text.content.as_deref(), Some("hi"));
        let parts = read(
            &json!({"content": [{"type": "text", "text": "a"}, {"type": "x"}, {"text": "b"}]}),
        )
        .unwrap();
        assert_eq!(parts.content.as_deref(), Some("a\nb"));
        assert_eq!(read(&json!({"content": " \n"})).unwrap(), Assistant::default());
        let calls = read(&json!({"content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"x\"}"}},
            {"function": {"name": "Read", "arguments": {"path": "y"}}},
            {"id": "", "function": {"name": "GitPush", "arguments": ""}},
        ], "reasoning_details": [{"id": 1}], "reasoning": null}))
        .unwrap();
        let shown: Vec<_> = calls
            .tool_calls
            .iter()
            .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "Read", r#"{"path":"x"}"#),
                ("call_1", "Read", r#"{"path":"y"}"#),
                ("call_2", "GitPush", "{}")
            ]
        );
        assert_eq!(calls.to_chat()["reasoning_details"], json!([{"id": 1}]));
        assert!(calls.to_chat().get("reasoning").is_none());
    }

    #[test]
    fn what_is_no_answer_says_why() {
        for (body, why) in [
            ("<html>", "not JSON"),
            ("{}", "no message"),
            (r#"{"choices": []}"#, "no message"),
            (r#"{"error": {"message": "overloaded"}}"#, "overloaded"),
            (r#"{"choices": [{"message": {"tool_calls": 1}}]}"#, "not a list"),
            (r#"{"choices": [{"message": {"content": 1}}]}"#, "neither"),
            (
                r#"{"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}"#,
                "no function name",
            ),
        ] {
            let error = parse(body.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(why), "{body}: {error}");
        }
    }

    #[test]
    fn broken_arguments_are_not_sent_back() {
        let call = |arguments: &str| ToolCall {
            id: "a".into(),
            name: "X".into(),
            arguments: arguments.into(),
        };
        assert_eq!(call("{\"a\": ").to_chat()["function"]["arguments"], "{}");
        assert_eq!(call("[1]").to_chat()["function"]["arguments"], "{}");
        assert_eq!(call("{\"a\": 1}").to_chat()["function"]["arguments"], "{\"a\": 1}");
    }
}
