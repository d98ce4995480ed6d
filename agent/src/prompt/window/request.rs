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
use super::forms::{shorten_ids, split_calls, tell_calls};
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
    quirks: &'a BTreeSet<ModelQuirk>,
    #[serde(skip)]
    size: usize,
}

impl<'a> WindowRequest<'a> {
    /// One more message at the end, that the next request does not have.
    pub fn push(&mut self, message: Value) {
        self.add(ShownMessage { message: Cow::Owned(message), reasoning: false });
    }

    /// Messages of people that follow each other are one: many models' templates insist on turns.
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
        let blank = has(ModelQuirk::BlankReasoning) && !shown.reasoning && calls;
        match self.messages.last_mut().filter(|_| shown.is("user")) {
            Some(last) if last.shown.is("user") => last.more.push(shown),
            Some(last) if last.shown.is("tool") && has(ModelQuirk::Bridge) => {
                self.messages.push(Sent::made(json!({"role": "assistant", "content": BRIDGE})));
                self.messages.push(Sent::from(shown));
            }
            _ => self.messages.push(Sent { blank, ..Sent::from(shown) }),
        }
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
    let has = |quirk| look.quirks.contains(&quirk);
    let messages = Vec::with_capacity(chat.len() + 3);
    let tool_choice = (!tools.is_empty()).then_some("auto");
    let (model, quirks) = (look.model, look.quirks);
    let mut body = WindowRequest { messages, model, tool_choice, tools, quirks, size };
    let first = if has(ModelQuirk::NoSystem) { "user" } else { "system" };
    body.push(json!({"role": first, "content": system}));
    let chat = if has(ModelQuirk::OneByOne) { split_calls(chat) } else { chat };
    for shown in chat {
        body.add(shown);
    }
    if look.marked && !has(ModelQuirk::NoMarks) {
        for sent in &mut body.messages {
            sent.parts = sent.last_markable().is_some();
        }
        mark_messages(&mut body.messages);
    }
    body
}

/// Marks the instructions, the end of the conversation, and where it ended the last time: the provider
/// looks for what it has kept only a little way before a mark.
fn mark_messages(messages: &mut [Sent<'_>]) {
    let before_answer = messages.iter().rposition(|sent| sent.shown.is("assistant"));
    for end in [Some(1), before_answer, Some(messages.len())].into_iter().flatten() {
        let mut before = messages[..end].iter_mut().rev();
        if let Some(last) = before.find(|sent| sent.last_markable().is_some()) {
            last.mark = last.last_markable();
        }
    }
}

/// A message as it is written down.
#[derive(Debug)]
struct Sent<'a> {
    shown: ShownMessage<'a>,
    /// What the same author said behind it.
    more: Vec<ShownMessage<'a>>,
    /// With an empty field for reasoning.
    blank: bool,
    /// Its content as a list of parts, in which a mark can stand: with or without one, so that what a
    /// mark leaves stays as it was.
    parts: bool,
    /// The provider keeps everything up to this one of its messages.
    mark: Option<usize>,
}

impl<'a> From<ShownMessage<'a>> for Sent<'a> {
    fn from(shown: ShownMessage<'a>) -> Self {
        Self { shown, more: Vec::new(), blank: false, parts: false, mark: None }
    }
}

impl Sent<'_> {
    fn made(message: Value) -> Self {
        ShownMessage { message: Cow::Owned(message), reasoning: false }.into()
    }

    fn contents(&self) -> Vec<&Value> {
        let all = [&self.shown].into_iter().chain(&self.more);
        all.map(|shown| &shown.message["content"]).collect()
    }

    /// The last of its messages that a mark can stand on: an empty one can't be marked, and what a model
    /// said is left as it said it.
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
            return map.serialize_entry("content", &Parts { contents, mark: self.mark });
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

impl Serialize for Sent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ShownMessage { message, reasoning } = &self.shown;
        let Some(fields) = message.as_object() else { return message.serialize(serializer) };
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            if key == THINKER || (!reasoning && REASONING.contains(&key.as_str())) {
                continue;
            }
            if key == "content" {
                self.serialize_content(&mut map)?;
            } else {
                map.serialize_entry(key, value)?;
            }
        }
        if self.blank {
            map.serialize_entry("reasoning_content", "")?;
        }
        map.end()
    }
}

/// Contents as one list of parts, the first text of one of them perhaps with a mark.
struct Parts<'a> {
    contents: Vec<&'a Value>,
    mark: Option<usize>,
}

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for (n, content) in self.contents.iter().enumerate() {
            let cache_control = (self.mark == Some(n)).then_some(KEPT);
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
mod tests {
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

    fn sent_after(look: &WindowLook<'_>, chat: &[Value]) -> Vec<Value> {
        let mut body = build_request(look, "s", chat, &[]);
        body.push(model::user_message("list"));
        json!(body)["messages"].as_array().unwrap().clone()
    }

    #[test]
    fn what_people_say_in_a_row_is_one_message() {
        let picture = model::picture_message("look", "data:image/png;base64,AA==");
        let chat =
            [model::user_message("go"), model::user_message("[CodeButler] facts"), called("a")];
        let words = sent_after(&look(9000), &chat[..2]);
        assert_eq!(words[1..], [model::user_message("go\n\n[CodeButler] facts\n\nlist")]);
        // What is sent again begins as it did.
        let later = sent_after(&look(9000), &chat);
        assert_eq!(later[1]["content"], "go\n\n[CodeButler] facts");
        let shown = sent_after(&look(9000), &[chat[0].clone(), picture.clone(), chat[1].clone()]);
        let parts = shown[1]["content"].as_array().unwrap();
        let text = |at: usize| parts[at]["text"].as_str();
        assert_eq!((shown.len(), parts.len()), (2, 5));
        assert_eq!(
            [text(0), text(1), text(3)],
            [Some("go"), Some("look"), Some("[CodeButler] facts")]
        );
        assert_eq!(parts[2], picture["content"][1]);
        let marked = WindowLook { marked: true, ..look(9000) };
        let parts = sent_after(&marked, &chat[..2])[1]["content"].clone();
        let marks: Vec<bool> = (0..3).map(|n| parts[n].get("cache_control").is_some()).collect();
        assert_eq!(marks, [false, true, false]);
    }

    #[test]
    fn templates_that_insist_on_turns_and_short_ids_get_them() {
        let two = json!({"role": "assistant", "content": "", "tool_calls": [
            {"id": "call_one", "type": "function", "function": {"name": "X", "arguments": "{}"}},
            {"id": "call_two", "type": "function", "function": {"name": "X", "arguments": "{}"}}]});
        let chat = [
            model::user_message("go"),
            two,
            model::tool_message("call_two", "2"),
            model::tool_message("call_one", "1"),
            model::user_message("news"),
            json!({"role": "assistant", "content": "done"}),
            model::user_message("again"),
        ];
        let quirks = BTreeSet::from([
            ModelQuirk::Bridge,
            ModelQuirk::OneByOne,
            ModelQuirk::ShortIds,
            ModelQuirk::NoSystem,
        ]);
        let sent = sent_after(&WindowLook { quirks: &quirks, ..look(9000) }, &chat);
        let roles: Vec<_> = sent.iter().map(|m| m["role"].as_str().unwrap()).collect();
        // A result counts as what a person says, or not at all.
        for (n, role) in roles.iter().enumerate() {
            assert_eq!(["user", "tool"].contains(role), n % 2 == 0, "{roles:?}");
        }
        let asked = roles.iter().filter(|role| **role == "tool").count();
        assert_eq!(asked, 2);
        for n in [1, 3] {
            let id = sent[n]["tool_calls"][0]["id"].as_str().unwrap();
            assert!(id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric()), "{id}");
            assert_eq!(sent[n + 1]["tool_call_id"], id);
        }
        assert_eq!((&sent[2]["content"], &sent[4]["content"]), (&json!("1"), &json!("2")));
        let told = BTreeSet::from([ModelQuirk::ToldCalls, ModelQuirk::NoSystem]);
        let sent = sent_after(&WindowLook { quirks: &told, ..look(9000) }, &chat);
        let roles: Vec<_> = sent.iter().map(|m| m["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
        let results = sent[2]["content"].as_str().unwrap();
        assert!(results.contains("[result of call_two]\n2") && results.ends_with("\n\nnews"));
        assert!(sent[1]["content"].as_str().unwrap().contains("[call call_one] X {}"));
        let none = BTreeSet::from([ModelQuirk::NullContent]);
        let sent = sent_after(&WindowLook { quirks: &none, ..look(9000) }, &chat);
        assert!(sent[2]["content"].is_null());
    }
}
