//! The body of a model call. What stays the same from call to call comes first, so that the provider's
//! cache hits: instructions, tools, the conversation; what changes is the last message, behind the
//! last mark.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use serde::ser::{SerializeMap, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::fit::fit_conversation;
use super::forms::{shorten_ids, split_calls, suit_calls, tell_calls};
use super::{ShownMessage, WindowLook, told_length, total_weight};
use crate::model::quirk::ModelQuirk;
use crate::model::{CALLS, FORM, REASONING, SIGNATURES, THINKER};
use crate::tokens::count_tokens;

/// Assistant text put between a tool result and a message, for providers that require one there.
const BRIDGE: &str = "Understood.";
/// Reasoning in place of none: to Moonshot's and DeepSeek's APIs an empty text is a missing one.
const BLANK: &str = " ";
/// The field that it stands in.
const BLANKED: &str = "reasoning_content";
/// Google's word in place of the signature of a call that another model has made.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// The body of a model call. Messages that are sent as stored are borrowed, not copied.
#[derive(Debug, Serialize)]
pub struct WindowRequest<'a> {
    messages: Vec<SentMessage<'a>>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
    #[serde(skip)]
    quirks: &'a BTreeSet<ModelQuirk>,
    #[serde(skip)]
    size: usize,
}

impl<'a> WindowRequest<'a> {
    /// Adds a message at the end of this request alone: the next one does not have it.
    pub fn push(&mut self, message: Value) {
        self.add(ShownMessage { message: Cow::Owned(message), reasoning: false });
    }

    /// Adds a message. Consecutive messages of people are merged into one: many models' templates insist on turns.
    fn add(&mut self, mut shown: ShownMessage<'a>) {
        let quirks = self.quirks;
        let has = |quirk| quirks.contains(&quirk);
        if has(ModelQuirk::ToldCalls) {
            tell_calls(&mut shown);
        } else if has(ModelQuirk::ShortIds) {
            shorten_ids(&mut shown);
        }
        let calls = shown.message.get("tool_calls").is_some();
        if has(ModelQuirk::NullContent) && calls && shown.message["content"] == "" {
            shown.message.to_mut()["content"] = Value::Null;
        }
        let wants_reasoning = has(ModelQuirk::BlankReasoning);
        let blank = wants_reasoning && shown.is("assistant") && !shown.has_reasoning();
        let is_unsigned = calls && !(shown.reasoning && shown.is_signed());
        let signature = (has(ModelQuirk::BlankSignatures) && is_unsigned).then_some(UNSIGNED);
        match self.messages.last_mut().filter(|_| shown.is("user")) {
            Some(last) if last.shown.is("user") => last.more.push(shown),
            Some(last) if last.shown.is("tool") && has(ModelQuirk::Bridge) => {
                let bridge = SentMessage::made(json!({"role": "assistant", "content": BRIDGE}));
                self.messages.push(SentMessage { blank: wants_reasoning, ..bridge });
                self.messages.push(SentMessage::from(shown));
            }
            _ => self.messages.push(SentMessage { blank, signature, ..SentMessage::from(shown) }),
        }
    }

    /// Requires an answer in words: forbids tool calls.
    #[must_use]
    pub fn without_calls(mut self) -> Self {
        self.tool_choice = self.tool_choice.map(|_| "none");
        self
    }

    /// Estimated size of the request, in tokens.
    pub fn tokens(&self) -> u32 {
        count_tokens(self.size)
    }

    /// Serializes the request body as JSON.
    pub fn to_bytes(&self) -> Bytes {
        // Serialization can't fail: the body has JSON values and string keys only.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// Builds the body of a model call with the whole conversation, as far as there is room for it.
pub fn build_request<'a>(
    look: &WindowLook<'a>,
    system: &str,
    chat: &'a [Value],
    tools: &'a [Value],
) -> WindowRequest<'a> {
    request_body(look, system, fit_conversation(chat, look), tools)
}

/// Builds the body of a call that summarizes a part of the conversation.
pub fn summary_request<'a>(
    look: &WindowLook<'a>,
    system: &str,
    chat: Vec<ShownMessage<'a>>,
    tools: &'a [Value],
) -> WindowRequest<'a> {
    request_body(look, system, chat, tools)
}

fn request_body<'a>(
    look: &WindowLook<'a>,
    system: &str,
    chat: Vec<ShownMessage<'a>>,
    tools: &'a [Value],
) -> WindowRequest<'a> {
    let size = told_length(system, tools) + total_weight(&chat);
    let has = |quirk| look.quirks.contains(&quirk);
    let messages = Vec::with_capacity(chat.len() + 3);
    let tool_choice = (!tools.is_empty() && !has(ModelQuirk::NoToolChoice)).then_some("auto");
    let (model, quirks) = (look.model, look.quirks);
    let mut body = WindowRequest { messages, model, tool_choice, tools, quirks, size };
    let first = if has(ModelQuirk::NoSystem) { "user" } else { "system" };
    let marked = look.marked && !has(ModelQuirk::NoMarks);
    let (shared, own) = system.split_at_checked(look.shared).unwrap_or(("", system));
    if marked && !shared.trim().is_empty() && !own.trim().is_empty() {
        // Two parts of one message, so that a mark can stand between them.
        let part = |text: &str| SentMessage::made(json!({"role": first, "content": text})).shown;
        let more = vec![part(own)];
        body.messages.push(SentMessage {
            shown: part(shared),
            more,
            shared: true,
            ..SentMessage::made(Value::Null)
        });
    } else {
        body.push(json!({"role": first, "content": system}));
    }
    let mut chat = chat;
    for shown in &mut chat {
        suit_calls(shown, look.form);
    }
    let chat = if has(ModelQuirk::OneByOne) { split_calls(chat) } else { chat };
    for shown in chat {
        body.add(shown);
    }
    if marked {
        for sent in &mut body.messages {
            sent.parts = sent.last_markable().is_some();
        }
        mark_messages(&mut body.messages);
    }
    body
}

/// Marks the instructions, the end of the conversation, and where it ended the last time: the provider
/// looks for what it has kept only a little way before a mark.
fn mark_messages(messages: &mut [SentMessage<'_>]) {
    let before_answer = messages.iter().rposition(|sent| sent.shown.is("assistant"));
    for end in [Some(1), before_answer, Some(messages.len())].into_iter().flatten() {
        let mut before = messages[..end].iter_mut().rev();
        if let Some(last) = before.find(|sent| sent.last_markable().is_some()) {
            last.mark = last.last_markable();
        }
    }
}

/// A message as it is serialized.
#[derive(Debug)]
struct SentMessage<'a> {
    shown: ShownMessage<'a>,
    /// Later messages of the same author that are merged into this one.
    more: Vec<ShownMessage<'a>>,
    /// True if it gets a blank field for reasoning.
    blank: bool,
    /// The signature that its first call gets in place of one of its own.
    signature: Option<&'static str>,
    /// True if its content is written as a list of parts, in which a mark can stand: with or without one, so that the
    /// text stays the same once the mark has moved on.
    parts: bool,
    /// Index of the merged message up to which the provider caches.
    mark: Option<usize>,
    /// True if the first of them is also cached for other conversations.
    shared: bool,
}

impl<'a> From<ShownMessage<'a>> for SentMessage<'a> {
    fn from(shown: ShownMessage<'a>) -> Self {
        Self {
            shown,
            more: Vec::new(),
            blank: false,
            signature: None,
            parts: false,
            mark: None,
            shared: false,
        }
    }
}

impl SentMessage<'_> {
    fn made(message: Value) -> Self {
        ShownMessage { message: Cow::Owned(message), reasoning: false }.into()
    }

    fn contents(&self) -> Vec<&Value> {
        let all = [&self.shown].into_iter().chain(&self.more);
        all.map(|shown| &shown.message["content"]).collect()
    }

    /// Index of the last merged message that can carry a mark: an empty one can't, and what a model said is left as
    /// it said it.
    fn last_markable(&self) -> Option<usize> {
        let has_text = |content: &&Value| match content {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(parts) => parts.iter().any(|part| part["type"] == "text"),
            _ => false,
        };
        let last = self.contents().iter().rposition(has_text);
        last.filter(|_| !self.shown.is("assistant"))
    }

    fn serialize_content<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let contents = self.contents();
        let pictured = contents.iter().any(|content| content.is_array());
        if self.parts || (pictured && contents.len() > 1) {
            return map.serialize_entry(
                "content",
                &ContentParts { contents, mark: self.mark, shared: self.shared },
            );
        }
        match &contents[..] {
            [one] => map.serialize_entry("content", one),
            several => {
                let texts: Vec<_> = several.iter().filter_map(|text| text.as_str()).collect();
                map.serialize_entry("content", &texts.join("\n\n"))
            }
        }
    }
}

impl Serialize for SentMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownMessage { message, reasoning } = &self.shown;
        let Some(fields) = message.as_object() else { return message.serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            if [THINKER, FORM, CALLS].contains(&key.as_str())
                || (!reasoning && REASONING.contains(&key.as_str()))
            {
                continue;
            }
            if self.blank && key == BLANKED {
                continue;
            }
            if key == "content" {
                self.serialize_content(&mut map)?;
            } else if key == "tool_calls" && (!reasoning || self.signature.is_some()) {
                map.serialize_entry(key, &UnsignedCalls { calls: value, first: self.signature })?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        if self.blank {
            map.serialize_entry(BLANKED, BLANK)?;
        }
        map.end()
    }
}

/// Calls without the signatures that only the model can read which made them.
struct UnsignedCalls<'a> {
    calls: &'a Value,
    /// The signature that the first one gets all the same.
    first: Option<&'static str>,
}

impl Serialize for UnsignedCalls<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let calls = self.calls.as_array().into_iter().flatten().enumerate();
        serializer.collect_seq(calls.map(|(n, call)| {
            let signature = self.first.filter(|_| n == 0);
            UnsignedCall { call, signature }
        }))
    }
}

struct UnsignedCall<'a> {
    call: &'a Value,
    signature: Option<&'static str>,
}

impl Serialize for UnsignedCall<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in self.call.as_object().into_iter().flatten() {
            if !SIGNATURES.contains(&name.as_str()) {
                map.serialize_entry(name, value)?;
            }
        }
        if let Some(signature) = self.signature {
            let content = json!({"google": {"thought_signature": signature}});
            map.serialize_entry(SIGNATURES[0], &content)?;
        }
        map.end()
    }
}

/// Contents as one list of parts, the first text of one of them perhaps with a mark.
struct ContentParts<'a> {
    contents: Vec<&'a Value>,
    mark: Option<usize>,
    shared: bool,
}

impl Serialize for ContentParts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for (n, content) in self.contents.iter().enumerate() {
            let is_marked = self.mark == Some(n) || (self.shared && n == 0);
            let cache_control = is_marked.then_some(KEPT);
            let Value::Array(parts) = content else {
                let text = content.as_str().unwrap_or_default();
                list.serialize_element(&RequestPart { kind: "text", text, cache_control })?;
                continue;
            };
            let first = parts.iter().position(|part| part["type"] == "text");
            for (at, part) in parts.iter().enumerate() {
                match part["text"].as_str().filter(|_| Some(at) == first) {
                    Some(text) => {
                        list.serialize_element(&RequestPart { kind: "text", text, cache_control })?;
                    }
                    None => list.serialize_element(part)?,
                }
            }
        }
        list.end()
    }
}

#[derive(Serialize)]
struct RequestPart<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<KeptMessages>,
}

#[derive(Clone, Copy, Serialize)]
struct KeptMessages {
    #[serde(rename = "type")]
    kind: &'static str,
}

const KEPT: KeptMessages = KeptMessages { kind: "ephemeral" };

#[cfg(test)]
mod tests;
