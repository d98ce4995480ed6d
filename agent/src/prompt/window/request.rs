//! The body of a model call. What stays the same from call to call comes first, so that the provider's
//! cache hits: instructions, tools, the conversation; what changes is the last message, behind the
//! last mark.

use std::borrow::Cow;

use bytes::Bytes;
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::fit::fit_conversation;
use super::{PER_TOKEN, ShownMessage, WindowLook, told_length, total_weight};
use crate::model::quirk::ModelQuirk;
use crate::model::{REASONING, THINKER};

/// What an answer is taken to have said where a provider wants words between a result and a message.
const BRIDGE: &str = "Understood.";

/// The body of a model call. What is shown as it is kept is not copied.
#[derive(Debug, Serialize)]
pub struct WindowRequest<'a> {
    messages: Vec<Sent<'a>>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
    #[serde(skip)]
    bridges: bool,
    #[serde(skip)]
    size: usize,
}

impl WindowRequest<'_> {
    /// One more message at the end, that the next request does not have.
    pub fn push(&mut self, message: Value) {
        let after_result = self.messages.last().is_some_and(|last| last.shown.is("tool"));
        if self.bridges && after_result {
            self.messages.push(Sent::made(json!({"role": "assistant", "content": BRIDGE})));
        }
        self.messages.push(Sent::made(message));
    }

    /// The answer has to be words.
    #[must_use]
    pub fn without_calls(mut self) -> Self {
        self.tool_choice = self.tool_choice.map(|_| "none");
        self
    }

    /// Tokens that it is taken to have.
    pub fn tokens(&self) -> u32 {
        u32::try_from(self.size / PER_TOKEN).unwrap_or(u32::MAX)
    }

    /// As JSON.
    pub fn to_bytes(&self) -> Bytes {
        // Values, and names that are strings: there is nothing to go wrong.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The body of a model call with the whole conversation, as far as there is room for it.
pub fn build_request<'a>(
    look: &WindowLook<'a>,
    system: &str,
    chat: &'a [Value],
    tools: &'a [Value],
) -> WindowRequest<'a> {
    request_body(look, system, fit_conversation(chat, look), tools)
}

/// The body of a call about a part of it.
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
    let bridges = look.quirks.contains(&ModelQuirk::Bridge);
    let blanks = look.quirks.contains(&ModelQuirk::BlankReasoning);
    let mut messages = Vec::with_capacity(chat.len() + 3);
    messages.push(Sent::made(json!({"role": "system", "content": system})));
    for shown in chat {
        let after_result = messages.last().is_some_and(|last: &Sent<'_>| last.shown.is("tool"));
        if bridges && after_result && shown.is("user") {
            messages.push(Sent::made(json!({"role": "assistant", "content": BRIDGE})));
        }
        let blank = blanks && !shown.reasoning && shown.message.get("tool_calls").is_some();
        messages.push(Sent { blank, ..Sent::from(shown) });
    }
    if look.marked && !look.quirks.contains(&ModelQuirk::NoMarks) {
        for sent in &mut messages {
            sent.parts = sent.can_be_marked();
        }
        mark_messages(&mut messages);
    }
    let tool_choice = (!tools.is_empty()).then_some("auto");
    WindowRequest { messages, model: look.model, tool_choice, tools, bridges, size }
}

/// Marks the instructions, the end of the conversation, and where it ended the last time: the provider
/// looks for what it has kept only a little way before a mark.
fn mark_messages(messages: &mut [Sent<'_>]) {
    let before_answer = messages.iter().rposition(|sent| sent.shown.is("assistant"));
    for end in [Some(1), before_answer, Some(messages.len())].into_iter().flatten() {
        if let Some(last) = messages[..end].iter().rposition(Sent::can_be_marked) {
            messages[last].mark = true;
        }
    }
}

/// A message as it is written down.
#[derive(Debug)]
struct Sent<'a> {
    shown: ShownMessage<'a>,
    /// With an empty field for reasoning.
    blank: bool,
    /// Its content as a list of parts, in which a mark can stand: with or without one, so that what a
    /// mark leaves stays as it was.
    parts: bool,
    /// The provider keeps everything up to here.
    mark: bool,
}

impl<'a> From<ShownMessage<'a>> for Sent<'a> {
    fn from(shown: ShownMessage<'a>) -> Self {
        Self { shown, blank: false, parts: false, mark: false }
    }
}

impl Sent<'_> {
    fn made(message: Value) -> Self {
        ShownMessage { message: Cow::Owned(message), reasoning: false }.into()
    }

    /// An empty part can't, and what a model said is left as it said it.
    fn can_be_marked(&self) -> bool {
        let has_text = match &self.shown.message["content"] {
            Value::String(text) => !text.trim().is_empty(),
            Value::Array(parts) => parts.iter().any(|part| part["type"] == "text"),
            _ => false,
        };
        has_text && !self.shown.is("assistant")
    }
}

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { shown: ShownMessage { message, reasoning }, blank, parts, mark } = self;
        let Some(fields) = message.as_object() else { return message.serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            if key == THINKER || (!reasoning && REASONING.contains(&key.as_str())) {
                continue;
            }
            if *parts && key == "content" {
                map.serialize_entry(key, &Parts { content: value, mark: *mark })?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        if *blank {
            map.serialize_entry("reasoning_content", "")?;
        }
        map.end()
    }
}

/// Content as a list of parts, the first text among them perhaps with a mark.
struct Parts<'a> {
    content: &'a Value,
    mark: bool,
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cache_control = self.mark.then_some(KEPT);
        let Value::Array(parts) = self.content else {
            let text = self.content.as_str().unwrap_or_default();
            return [RequestPart { kind: "text", text, cache_control }].serialize(serializer);
        };
        let first = parts.iter().position(|part| part["type"] == "text");
        let mut list = serializer.serialize_seq(Some(parts.len()))?;
        for (at, part) in parts.iter().enumerate() {
            match part["text"].as_str().filter(|_| Some(at) == first) {
                Some(text) => {
                    list.serialize_element(&RequestPart { kind: "text", text, cache_control })?;
                }
                None => list.serialize_element(part)?,
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
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::look;
    use super::*;
    use crate::model;

    fn called(id: &str) -> Value {
        json!({"role": "assistant", "content": null, THINKER: "m x", "reasoning": "hm",
               "tool_calls": [{"id": id, "type": "function", "function": {"name": "X", "arguments": "{}"}}]})
    }

    fn marks(body: &WindowRequest<'_>) -> Vec<usize> {
        let sent = json!(body);
        let messages = sent["messages"].as_array().unwrap();
        let marked = |message: &Value| message["content"][0].get("cache_control").is_some();
        (0..messages.len()).filter(|at| marked(&messages[*at])).collect()
    }

    #[test]
    fn a_request_without_tools_names_none() {
        let hi = [model::user_message("hi")];
        let body = build_request(&look(1000), "s", &hi, &[]);
        assert_eq!(
            json!(body),
            json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})
        );
        let tools = [json!({})];
        let body = build_request(&look(1000), "s", &[], &tools);
        assert_eq!(json!(body)["tool_choice"], "auto");
        assert_eq!(json!(body.without_calls())["tool_choice"], "none");
    }

    #[test]
    fn marks_stand_where_they_hit_and_never_on_what_changes() {
        let chat = [
            model::user_message("go"),
            called("a"),
            model::tool_message("a", "one"),
            called("b"),
            model::tool_message("b", "two"),
            model::tool_message("c", ""),
        ];
        let look = WindowLook { marked: true, ..look(1000) };
        let mut body = build_request(&look, "s", &chat, &[]);
        body.push(model::user_message("[CodeButler] Your list"));
        assert_eq!(marks(&body), [0, 3, 5]);
        let sent = json!(body);
        assert_eq!(
            sent["messages"][5],
            json!({"role": "tool", "tool_call_id": "b", "content":
                [{"type": "text", "text": "two", "cache_control": {"type": "ephemeral"}}]})
        );
        assert_eq!(sent["messages"][7]["content"], "[CodeButler] Your list");
        // The conversation before a mark is the same, call after call.
        let before = json!(build_request(&look, "s", &chat[..3], &[]));
        for at in 0..=3 {
            let plain = |body: &Value| {
                let text = body["messages"][at].to_string();
                text.replace(r#""cache_control":{"type":"ephemeral"},"#, "")
            };
            assert_eq!(plain(&before), plain(&sent), "{at}");
        }
        let quirks = BTreeSet::from([ModelQuirk::NoMarks]);
        let look = WindowLook { quirks: &quirks, ..look };
        assert!(marks(&build_request(&look, "s", &chat, &[])).is_empty());
    }

    #[test]
    fn a_picture_is_marked_on_its_words() {
        let chat = [model::picture_message("look", "data:image/png;base64,AA==")];
        let body =
            json!(build_request(&WindowLook { marked: true, ..look(9000) }, "s", &chat, &[]));
        let parts = &body["messages"][1]["content"];
        assert_eq!(parts[0]["cache_control"]["type"], "ephemeral");
        assert_eq!(parts[1], chat[0]["content"][1]);
    }

    #[test]
    fn reasoning_goes_back_only_to_the_model_that_it_came_from() {
        let chat = [model::user_message("go"), called("a"), model::tool_message("a", "x")];
        let sent = |look: &WindowLook<'_>| {
            json!(build_request(look, "s", &chat, &[]))["messages"][2].clone()
        };
        let own = WindowLook { thinker: Some("m x"), ..look(1000) };
        assert_eq!(sent(&own)["reasoning"], "hm");
        assert!(sent(&own).get(THINKER).is_none());
        let none = BTreeSet::from([ModelQuirk::NoReasoning]);
        let blank = BTreeSet::from([ModelQuirk::BlankReasoning]);
        for other in [
            WindowLook { thinker: None, ..own },
            WindowLook { thinker: Some("m y"), ..own },
            WindowLook { model: "other", ..own },
            WindowLook { quirks: &none, ..own },
        ] {
            let sent = sent(&other);
            assert!(sent.get("reasoning").is_none() && sent.get(THINKER).is_none(), "{other:?}");
        }
        let blank = WindowLook { quirks: &blank, thinker: None, ..own };
        assert_eq!(sent(&blank)["reasoning_content"], "");
    }

    #[test]
    fn a_provider_that_wants_words_after_a_result_gets_some() {
        let chat = [
            model::user_message("go"),
            called("a"),
            model::tool_message("a", "x"),
            model::user_message("stop"),
        ];
        let quirks = BTreeSet::from([ModelQuirk::Bridge]);
        let look = WindowLook { quirks: &quirks, ..look(1000) };
        let roles = |body: &WindowRequest<'_>| {
            let sent = json!(body);
            let roles = sent["messages"].as_array().unwrap().iter();
            roles.map(|m| m["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let all = build_request(&look, "s", &chat, &[]);
        assert_eq!(roles(&all), ["system", "user", "assistant", "tool", "assistant", "user"]);
        let mut last = build_request(&look, "s", &chat[..3], &[]);
        last.push(model::user_message("list"));
        assert_eq!(roles(&last), ["system", "user", "assistant", "tool", "assistant", "user"]);
    }
}
