//! Replies as a provider would send them, good or bad.

use serde_json::{Value, json};

use super::played::FilledAnswer;

/// An answer with all the metadata that a provider adds.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlayedReply {
    pub content: Option<String>,
    pub refusal: Option<String>,
    pub calls: Vec<CallOut>,
    pub reasoning: Option<String>,
    /// The same reasoning, in blocks that have to come back unchanged.
    pub details: Vec<Value>,
    pub finish: &'static str,
    /// Finish reason in the words of the model's maker.
    pub native: &'static str,
    /// Error object inside the choice.
    pub error: Option<Value>,
    pub ending: ReplyEnding,
}

/// A tool call as it is sent to the client.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallOut {
    pub id: Option<String>,
    pub name: String,
    pub arguments: String,
    /// True if it was offered as a free-text tool, and is called so.
    pub free: bool,
    /// Signature that has to come back with it, where the model's API has such.
    pub signature: Option<String>,
}

/// Ways in which a reply ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyEnding {
    /// Complete, as providers end it.
    Whole,
    /// In a stream, it ends with an error event.
    Error,
    /// The connection breaks before the end.
    Cut,
}

impl From<&FilledAnswer> for PlayedReply {
    fn from(answer: &FilledAnswer) -> Self {
        let calls = answer.tools.iter().map(|call| CallOut {
            id: Some(call.id.clone()),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            free: false,
            signature: None,
        });
        let (finish, native) =
            if answer.tools.is_empty() { ("stop", "stop") } else { ("tool_calls", "tool_use") };
        Self {
            content: answer.say.clone(),
            refusal: None,
            calls: calls.collect(),
            reasoning: answer.reasoning.clone(),
            details: Vec::new(),
            finish,
            native,
            error: None,
            ending: ReplyEnding::Whole,
        }
    }
}

impl PlayedReply {
    /// Turns calls of tools that the request offers as free-text ones into such calls: their one argument is the
    /// text.
    pub(super) fn freed(mut self, request: &Value) -> Self {
        let offered = request["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        for call in &mut self.calls {
            let is_free = |tool: &&Value| tool["custom"]["name"] == *call.name;
            let given: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            if let (Some(_), Some(input)) = (offered.iter().find(is_free), given["input"].as_str())
            {
                input.clone_into(&mut call.arguments);
                call.free = true;
            }
        }
        self
    }

    /// Builds the choice object of a whole answer.
    pub(super) fn choice(&self) -> Value {
        let mut message =
            json!({"role": "assistant", "content": self.content, "refusal": self.refusal});
        if !self.calls.is_empty() {
            let calls = self.calls.iter().map(CallOut::json);
            message["tool_calls"] = calls.collect::<Vec<_>>().into();
        }
        if let Some(reasoning) = &self.reasoning {
            message["reasoning"] = json!(reasoning);
            if !self.details.is_empty() {
                message["reasoning_details"] = json!(self.details);
            }
        }
        let mut choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": self.finish,
            "native_finish_reason": self.native,
        });
        if let Some(error) = &self.error {
            choice["error"] = error.clone();
        }
        choice
    }
}

impl CallOut {
    /// The call as an entry of `tool_calls`.
    pub(super) fn json(&self) -> Value {
        let mut call = if self.free {
            json!({"type": "custom", "custom": {"name": self.name, "input": self.arguments}})
        } else {
            json!({
                "type": "function",
                "function": {"name": self.name, "arguments": self.arguments},
            })
        };
        if let Some(id) = &self.id {
            call["id"] = json!(id);
        }
        if let Some(signature) = &self.signature {
            call["extra_content"] = json!({"google": {"thought_signature": signature}});
        }
        call
    }
}
