//! What of a conversation a model is shown: what fits, the newest pictures, old results hidden. What is
//! shown as it is kept is borrowed: a long conversation is not copied for each answer.

use std::borrow::Cow;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::text_of;
use crate::text::clip;

/// Characters that count as a token: less than in most texts, so that estimates are on the safe side.
const PER_TOKEN: usize = 3;
/// Tokens that the model can be shown where nobody says.
const DEFAULT_CONTEXT: u32 = 128_000;
/// Tokens that are left for the answer.
const ANSWER: usize = 16_000;
/// Least room for a conversation, in characters, however long the instructions are.
const LEAST_ROOM: usize = 8_000;
/// What a picture counts as, in characters.
const PICTURE: usize = 4_000;
/// Newest pictures that the model is shown again with each answer.
const PICTURES: usize = 4;
/// Characters of a message in what a summary is made from, where even that is too long.
const SQUEEZED: usize = 2_000;
/// Shorter results are never hidden.
const SHORT: usize = 500;
/// The newest messages are never touched.
const RECENT: usize = 12;

/// The body of a model call. What is shown as it is kept is not copied.
#[derive(Debug, Serialize)]
pub struct Request<'a> {
    messages: Vec<Cow<'a, Value>>,
    model: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'static str>,
    #[serde(skip_serializing_if = "<[Value]>::is_empty")]
    tools: &'a [Value],
}

impl Request<'_> {
    /// One more message at the end.
    pub fn push(&mut self, message: Value) {
        self.messages.push(Cow::Owned(message));
    }

    /// The answer has to be words.
    #[must_use]
    pub fn without_calls(mut self) -> Self {
        self.tool_choice = self.tool_choice.map(|_| "none");
        self
    }

    /// As JSON.
    pub fn to_bytes(&self) -> Bytes {
        // Values, and names that are strings: there is nothing to go wrong.
        serde_json::to_vec(self).unwrap_or_default().into()
    }
}

/// The body of a model call; `room` is what the conversation may take, in characters.
pub fn request<'a>(
    model: &'a str,
    system: &str,
    chat: Vec<Cow<'a, Value>>,
    tools: &'a [Value],
    room: usize,
) -> Request<'a> {
    let mut messages = Vec::with_capacity(chat.len() + 2);
    messages.push(Cow::Owned(json!({"role": "system", "content": system})));
    messages.extend(fitted(chat, room, room / 3));
    let tool_choice = (!tools.is_empty()).then_some("auto");
    Request { messages, model, tool_choice, tools }
}

/// Characters of conversation that fit beside instructions and tools.
pub fn room(context_tokens: Option<u32>, system: &str, tools: &[Value]) -> usize {
    let context = context_tokens.unwrap_or(DEFAULT_CONTEXT) as usize;
    let answer = ANSWER.min(context / 4);
    let told = system.len() + tools.iter().map(|tool| tool.to_string().len()).sum::<usize>();
    (context - answer).saturating_mul(PER_TOKEN).saturating_sub(told).max(LEAST_ROOM)
}

/// Where the older part of the conversation ends, if all of it is too long even with old results
/// hidden. What is kept begins with no result of a call before it.
pub fn overlong(chat: &[Value], room: usize) -> Option<usize> {
    if chat.iter().map(size).sum::<usize>() <= room {
        return None;
    }
    let shown = fitted(chat.iter().map(Cow::Borrowed).collect(), room, room / 3);
    if total(&shown) <= room {
        return None;
    }
    let mut left = room / 4;
    let newest = shown.iter().rev().take_while(|message| {
        let size = size(message);
        let fits = size <= left;
        left = left.saturating_sub(size);
        fits
    });
    let mut upto = chat.len() - newest.count().min(chat.len() - 1);
    while upto < chat.len() && chat[upto]["role"] == "tool" {
        upto += 1;
    }
    // One message stands for them: fewer than two are no gain.
    (upto >= 2).then_some(upto)
}

/// What a summary is made from: as much as fits, without results and pictures.
pub fn squeezed(chat: &[Value], room: usize) -> Vec<Cow<'_, Value>> {
    let mut chat: Vec<_> = chat.iter().map(|message| without_picture(message, HIDDEN)).collect();
    let last = chat.len();
    hide(&mut chat, last, usize::MAX);
    if total(&chat) > room {
        for message in &mut chat {
            if let Some(text) = message["content"].as_str().map(|text| clip(text, SQUEEZED)) {
                message.to_mut()["content"] = json!(text);
            }
        }
    }
    let mut total = total(&chat);
    let mut first = 0;
    while first < chat.len() && (total > room || chat[first]["role"] == "tool") {
        total -= size(&chat[first]);
        first += 1;
    }
    chat.split_off(first)
}

/// Whether a conversation holds a picture.
pub fn has_pictures(chat: &[Value]) -> bool {
    chat.iter().any(|message| message["content"].is_array())
}

/// The conversation with its newest pictures only, or none.
pub fn with_pictures(chat: &[Value], blind: bool) -> Vec<Cow<'_, Value>> {
    let mut left = if blind { 0 } else { PICTURES };
    let mut shown: Vec<_> = chat
        .iter()
        .rev()
        .map(|message| {
            if !message["content"].is_array() {
                return Cow::Borrowed(message);
            }
            let keep = left > 0;
            left = left.saturating_sub(1);
            match (keep, blind) {
                (true, _) => Cow::Borrowed(message),
                (false, true) => without_picture(message, UNSEEN),
                (false, false) => without_picture(message, HIDDEN),
            }
        })
        .collect();
    shown.reverse();
    shown
}

const HIDDEN: &str = "[a picture that is not shown here]";
const UNSEEN: &str = "[a picture: the model that you are can't be shown any. If it matters, say so, and ask \
                      for its content in words.]";

fn without_picture<'a>(message: &'a Value, instead: &str) -> Cow<'a, Value> {
    if !message["content"].is_array() {
        return Cow::Borrowed(message);
    }
    let text = format!("{} {instead}", text_of(message));
    let mut message = message.clone();
    message["content"] = json!(text);
    Cow::Owned(message)
}

fn total(chat: &[Cow<'_, Value>]) -> usize {
    chat.iter().map(|message| size(message)).sum()
}

fn size(message: &Value) -> usize {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.filter_map(|call| call["function"]["arguments"].as_str()).map(str::len);
    let content = match &message["content"] {
        Value::Array(_) => PICTURE,
        content => content.as_str().map_or(0, str::len),
    };
    content + calls.sum::<usize>()
}

/// The conversation with its oldest tool results hidden where it is too long. The record keeps
/// them. They are hidden in steps: between steps the beginning of the conversation stays as it is,
/// and cached.
fn fitted(mut chat: Vec<Cow<'_, Value>>, max: usize, step: usize) -> Vec<Cow<'_, Value>> {
    let Some(over) = total(&chat).checked_sub(max).filter(|over| *over > 0) else { return chat };
    let old = chat.len().saturating_sub(RECENT);
    hide(&mut chat, old, over.div_ceil(step) * step);
    chat
}

/// Hides results among the first `old` messages, until so much is gone.
fn hide(chat: &mut [Cow<'_, Value>], old: usize, mut to_hide: usize) {
    for message in &mut chat[..old] {
        let length = size(message);
        if message["role"] == "tool" && length > SHORT {
            message.to_mut()["content"] = json!(format!(
                "[CodeButler] {length} characters of an old result are hidden: call the tool again."
            ));
            to_hide = to_hide.saturating_sub(length);
            if to_hide == 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;

    fn shown(chat: &[Value]) -> Vec<Cow<'_, Value>> {
        chat.iter().map(Cow::Borrowed).collect()
    }

    fn plain(chat: Vec<Cow<'_, Value>>) -> Vec<Value> {
        chat.into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn old_results_are_hidden_in_steps_and_recent_ones_kept() {
        let mut chat = vec![model::user(&"u".repeat(2000))];
        for n in 0..20 {
            chat.push(model::tool(&format!("c{n}"), &"x".repeat(1000)));
        }
        assert_eq!(plain(fitted(shown(&chat), 22_000, 4000)), chat);
        let hidden = |max| {
            let fitted = plain(fitted(shown(&chat), max, 4000));
            assert_eq!(fitted[0], chat[0]);
            assert_eq!(fitted[9..], chat[9..]);
            fitted.iter().filter(|m| m["content"].as_str().unwrap().contains("hidden")).count()
        };
        assert_eq!(hidden(21_999), 4);
        assert_eq!(hidden(18_001), 4);
        assert_eq!(hidden(17_999), 8);
        assert_eq!(hidden(10), 8);
    }

    #[test]
    fn a_request_without_tools_names_none() {
        let hi = [model::user("hi")];
        let body = request("m", "s", shown(&hi), &[], 1000);
        assert_eq!(
            json!(body),
            json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}]})
        );
        let tools = [json!({})];
        let body = request("m", "s", vec![], &tools, 1000);
        assert_eq!(json!(body)["tool_choice"], "auto");
        assert_eq!(json!(body.without_calls())["tool_choice"], "none");
    }

    #[test]
    fn a_conversation_that_is_too_long_is_cut_between_messages() {
        let said = |text: &str| json!({"role": "assistant", "content": text});
        let mut chat = vec![model::user(&"u".repeat(500))];
        for n in 0..20 {
            chat.push(said(&"x".repeat(400)));
            chat.push(model::tool(&format!("c{n}"), &"x".repeat(100)));
        }
        assert_eq!(overlong(&chat, 11_000), None);
        let upto = overlong(&chat, 9_000).unwrap();
        assert_eq!((upto, chat[upto]["role"].as_str()), (33, Some("assistant")));
        // A single message that is too long can't be helped.
        assert_eq!(overlong(&[model::user(&"u".repeat(500))], 100), None);
        let squeezed = squeezed(&chat[..upto], 4_000);
        assert!(total(&squeezed) <= 4_000);
        assert_ne!(squeezed[0]["role"], "tool");
    }

    #[test]
    fn room_is_what_instructions_leave() {
        assert_eq!(room(Some(8_000), &"s".repeat(2_000), &[]), 16_000);
        assert_eq!(room(Some(8_000), &"s".repeat(90_000), &[]), LEAST_ROOM);
        assert_eq!(room(None, "", &[]), 336_000);
    }

    #[test]
    fn the_newest_pictures_are_shown_to_models_that_see() {
        let picture = |n: u32| model::picture(&format!("p{n}"), "data:image/png;base64,AA==");
        let chat: Vec<_> = (0..6).map(picture).collect();
        assert!(has_pictures(&chat) && !has_pictures(&plain(with_pictures(&chat, true))));
        let shown = plain(with_pictures(&chat, false));
        assert_eq!(shown[0]["content"], "p0 [a picture that is not shown here]");
        assert_eq!(shown[2..], chat[2..]);
    }
}
