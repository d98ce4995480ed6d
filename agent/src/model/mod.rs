//! OpenAI's chat format, read tolerantly and written strictly: what goes back to the model is
//! always well-formed, whatever it said before.
//!
//! [`read`] makes a [`ModelReply`] of a body, [`judge`] says whether it is an answer, [`ids`] keeps the ids of
//! calls such that every provider takes them, and [`quirk`] and [`window`] learn from a refusal what a
//! provider does not take, and how much. Nothing in here knows a model's name.

pub mod ids;
pub mod judge;
mod leak;
pub mod media;
mod narration;
pub mod quirk;
mod read;
mod thought;
pub mod window;

use codebutler_wire::EditForm;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

pub use read::{FinishReason, ModelReply, UnreadableReply, parse_reply};

/// Field of a message that names the model whose reasoning it holds. Never sent.
pub const THINKER: &str = "codebutler.thinker";
/// Newest pictures that the model is shown again with each answer.
pub const PICTURES: usize = 4;
/// First words of the message that replaces everything said before a compaction.
pub const EARLIER: &str =
    "[CodeButler] What was said and done before, as you wrote it down yourself.";
/// Type of the part of a message that is a sound.
const SOUND: &str = "input_audio";
/// Stands in place of the others.
pub const HIDDEN_PICTURE: &str = "[a picture that is not shown here]";
/// Field of a message with the form of tools in which the answer was given. Never sent.
pub const FORM: &str = "codebutler.form";
/// Field of a message with its calls in the one form, where they were written otherwise. Never sent.
pub const CALLS: &str = "codebutler.calls";
/// Fields in which providers send reasoning, and want it back unchanged. The last one is LiteLLM's.
pub const REASONING: [&str; 4] =
    ["reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"];
/// Fields of a call that go back with it unchanged: in them Gemini's API, and LiteLLM before it, send the signature of
/// the thoughts that led to the call.
pub const SIGNATURES: [&str; 2] = ["extra_content", "provider_specific_fields"];

/// One answer of the model, as it is recorded and sent back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssistantMessage {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCall>,
    /// Reasoning that some providers want back unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub reasoning: Map<String, Value>,
    /// The form of tools that the model was offered.
    #[serde(default, skip_serializing_if = "is_plain")]
    pub form: EditForm,
    /// Calls as the model wrote them, where their one form is another.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub written: Vec<WrittenCall>,
    /// Signatures of calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signed: Vec<SignedCall>,
}

/// The signature of a call, as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SignedCall {
    /// Index of the call in the answer.
    pub call: usize,
    /// Those of [`SIGNATURES`] that it had.
    pub fields: Map<String, Value>,
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenCall {
    /// Index of the call in the answer.
    pub call: usize,
    pub name: String,
    pub arguments: String,
    /// The arguments are free text, not JSON.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub free: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_plain(form: &EditForm) -> bool {
    *form == EditForm::default()
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The model's id, or one that was made up where it gave none that can be used.
    pub id: String,
    pub name: String,
    /// JSON, as the model wrote it: perhaps not JSON at all.
    pub arguments: String,
}

/// Origin of an answer: the model that was asked, the one that answered, and the size of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerSource {
    /// The model that was asked.
    pub model: String,
    /// The provider's name for the model that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Tokens that the request was taken to have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown: Option<u32>,
    /// The model that answered in place of the one that was asked, as the role calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<String>,
}

impl AnswerSource {
    /// Key of the model whose reasoning the answer holds.
    pub fn thinker(&self) -> String {
        format!("{} {}", self.model, self.by.as_deref().unwrap_or_default())
    }
}

impl AssistantMessage {
    /// The message as the API wants it back. Arguments that are no JSON object, and odd names of tools, are replaced:
    /// some providers refuse a whole request over them.
    ///
    /// Calls stand there as the model wrote them; their one form is beside them, for a model that knows
    /// other tools.
    pub fn to_chat(&self, thinker: Option<&str>) -> Value {
        let mut message = Map::new();
        message.insert("role".to_owned(), json!("assistant"));
        // Some servers refuse a whole conversation over a null.
        message.insert("content".to_owned(), json!(self.content.as_deref().unwrap_or_default()));
        if self.tool_calls.is_empty() && self.content.is_none() {
            message.insert("content".to_owned(), json!("(nothing)"));
        }
        message.extend(self.reasoning.clone());
        if !self.tool_calls.is_empty() {
            let shown = |(place, call): (usize, &ToolCall)| {
                let written = self.written.iter().find(|written| written.call == place);
                let shown =
                    written.map_or_else(|| call.to_chat(), |written| written.to_chat(&call.id));
                self.sign_call(place, shown)
            };
            let calls: Vec<_> = self.tool_calls.iter().enumerate().map(shown).collect();
            message.insert("tool_calls".to_owned(), json!(calls));
            if !is_plain(&self.form) {
                message.insert(FORM.to_owned(), json!(self.form));
            }
            if !self.written.is_empty() {
                let calls: Vec<_> = self.tool_calls.iter().map(ToolCall::to_chat).collect();
                message.insert(CALLS.to_owned(), json!(calls));
            }
        }
        let is_own = !self.reasoning.is_empty() || !self.signed.is_empty();
        if let Some(thinker) = thinker.filter(|_| is_own) {
            message.insert(THINKER.to_owned(), json!(thinker));
        }
        Value::Object(message)
    }

    fn sign_call(&self, place: usize, mut call: Value) -> Value {
        let signed = self.signed.iter().find(|signed| signed.call == place);
        if let (Some(signed), Some(call)) = (signed, call.as_object_mut()) {
            call.extend(signed.fields.clone());
        }
        call
    }
}

impl WrittenCall {
    /// The call as the API wants it back, under the id that its result has.
    pub fn to_chat(&self, id: &str) -> Value {
        let id = ids::safe_id(id);
        if self.free {
            let custom = json!({"name": self.name, "input": self.arguments});
            return json!({"id": id, "type": "custom", "custom": custom});
        }
        let function = json!({"name": self.name, "arguments": self.arguments});
        json!({"id": id, "type": "function", "function": function})
    }
}

/// Name and arguments of a call of a conversation.
pub fn call_parts(call: &Value) -> Option<(&str, &str)> {
    let (function, arguments) = match &call["custom"] {
        Value::Null => (&call["function"], "arguments"),
        custom => (custom, "input"),
    };
    Some((function["name"].as_str()?, function[arguments].as_str()?))
}

impl ToolCall {
    /// True if the arguments are a JSON object.
    pub fn is_whole(&self) -> bool {
        serde_json::from_str::<Map<String, Value>>(&self.arguments).is_ok()
    }

    fn to_chat(&self) -> Value {
        let arguments = if self.is_whole() { self.arguments.as_str() } else { "{}" };
        json!({
            "id": ids::safe_id(&self.id),
            "type": "function",
            "function": {"name": ids::safe_name(&self.name), "arguments": arguments},
        })
    }
}

/// A picture for the model, or a sound, with a word about it.
pub fn picture_message(text: &str, url: &str) -> Value {
    let sound = url.strip_prefix("data:audio/").and_then(|rest| rest.split_once(";base64,"));
    let part = match sound {
        Some((format, data)) => {
            json!({"type": SOUND, SOUND: {"data": data, "format": format}})
        }
        None => json!({"type": "image_url", "image_url": {"url": url}}),
    };
    json!({"role": "user", "content": [{"type": "text", "text": text}, part]})
}

/// True for a message that has a sound for the model.
pub fn has_sound(message: &Value) -> bool {
    message["content"]
        .as_array()
        .is_some_and(|parts| parts.iter().any(|part| part["type"] == SOUND))
}

/// A message from outside the model.
pub fn user_message(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

/// The result of a call. An empty one gets a word: Bedrock refuses a conversation over it.
pub fn tool_message(id: &str, text: &str) -> Value {
    let text = if text.trim().is_empty() { "(nothing)" } else { text };
    json!({"role": "tool", "tool_call_id": ids::safe_id(id), "content": text})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_arguments_and_odd_ids_are_not_sent_back() {
        let call = |arguments: &str| ToolCall {
            id: "functions.Grep:0".into(),
            name: "X".into(),
            arguments: arguments.into(),
        };
        assert_eq!(call("{\"a\": ").to_chat()["function"]["arguments"], "{}");
        assert_eq!(call("[1]").to_chat()["function"]["arguments"], "{}");
        assert_eq!(call("{\"a\": 1}").to_chat()["function"]["arguments"], "{\"a\": 1}");
        // As an older transcript may hold them; the result goes with its call.
        assert_eq!(call("{}").to_chat()["id"], "functions_Grep_0");
        assert_eq!(tool_message("functions.Grep:0", "x")["tool_call_id"], "functions_Grep_0");
    }

    #[test]
    fn a_result_always_says_something() {
        assert_eq!(tool_message("a", " x")["content"], " x");
        for nothing in ["", " \n"] {
            assert_eq!(tool_message("a", nothing)["content"], "(nothing)");
        }
    }

    #[test]
    fn reasoning_says_whose_it_is() {
        let mut answer =
            AssistantMessage { content: Some("hi".into()), ..AssistantMessage::default() };
        assert!(answer.to_chat(Some("m")).get(THINKER).is_none());
        answer.reasoning.insert("reasoning".into(), json!("hm"));
        assert_eq!(answer.to_chat(Some("m"))[THINKER], "m");
        assert!(answer.to_chat(None).get(THINKER).is_none());
    }
}
