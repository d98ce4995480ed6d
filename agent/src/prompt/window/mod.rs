//! The window of a conversation that a model is shown: what fits, the newest pictures, old results hidden. Messages
//! shown as stored are borrowed: a long conversation is not copied for each answer.
//!
//! [`fit`] decides what there is room for, [`request`] writes it down, in the [`forms`] that models want.

mod fit;
mod forms;
mod request;

use std::borrow::Cow;
use std::collections::BTreeSet;

use codebutler_wire::{CacheForm, EditForm, ModelFacts, RoleSession};
use serde_json::Value;

use crate::model::quirk::ModelQuirk;
use crate::model::{REASONING, SIGNATURES, THINKER, call_parts};
use crate::tokens::PER_TOKEN;

pub use fit::{find_overlong, has_giant, squeeze_conversation};
pub use request::{WindowRequest, build_request, summary_request};

/// Longest answer, in tokens, where neither role nor model sets one.
const ANSWER: u32 = 16_000;
/// Least room for a conversation, in characters, however long the instructions are.
const LEAST_ROOM: usize = 8_000;
/// Characters that a picture counts as.
const PICTURE: usize = 4_000;

/// Settings for how a model is shown a conversation.
#[derive(Clone, Copy, Debug)]
pub struct WindowLook<'a> {
    pub model: &'a str,
    /// True if the model can't be shown pictures.
    pub blind: bool,
    /// True if the model is not known to hear.
    pub deaf: bool,
    /// Origin of the reasoning that is sent back: the newest answer's, if it was this model's.
    pub thinker: Option<&'a str>,
    /// Request features that its provider does not take.
    pub quirks: &'a BTreeSet<ModelQuirk>,
    /// True if its provider caches marked prefixes.
    pub marked: bool,
    /// Form of tools that the model knows.
    pub form: EditForm,
    /// Length in bytes of the instructions that all conversations of the role share: they get a cache mark of their
    /// own.
    pub shared: usize,
    /// Room for the conversation, in characters.
    pub room: usize,
}

impl WindowLook<'_> {
    fn keeps_reasoning(&self, message: &Value) -> bool {
        let Some(thinker) =
            self.thinker.filter(|_| !self.quirks.contains(&ModelQuirk::NoReasoning))
        else {
            return false;
        };
        let asked = thinker.strip_prefix(self.model);
        asked.is_some_and(|by| by.starts_with(' ')) && message[THINKER] == thinker
    }
}

/// One message as it is shown.
#[derive(Clone, Debug)]
pub struct ShownMessage<'a> {
    message: Cow<'a, Value>,
    reasoning: bool,
}

impl<'a> ShownMessage<'a> {
    fn new(message: &'a Value, look: &WindowLook<'_>) -> Self {
        let reasoning = look.keeps_reasoning(message);
        Self { message: Cow::Borrowed(message), reasoning }
    }

    /// Length as shown, in characters.
    fn size(&self) -> usize {
        let message = &self.message;
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        let signed = calls.iter().filter(|_| self.reasoning);
        let signatures = signed.flat_map(|call| SIGNATURES.map(|name| text_weight(&call[name])));
        let calls = calls.iter().filter_map(call_parts).map(|(_, arguments)| arguments.len());
        let content = match &message["content"] {
            Value::Array(_) => PICTURE,
            content => content.as_str().map_or(0, str::len),
        };
        // A provider may repeat the same reasoning in several fields.
        let thoughts =
            REASONING.iter().filter(|_| self.reasoning).map(|key| text_weight(&message[*key]));
        let said = content + calls.sum::<usize>();
        said + signatures.sum::<usize>() + thoughts.max().unwrap_or(0)
    }

    fn is(&self, role: &str) -> bool {
        self.message["role"] == role
    }

    /// True if reasoning is sent with it.
    fn has_reasoning(&self) -> bool {
        self.reasoning && REASONING.iter().any(|key| text_weight(&self.message[*key]) > 0)
    }

    /// True if its first call has a signature.
    fn is_signed(&self) -> bool {
        let first = &self.message["tool_calls"][0];
        SIGNATURES.iter().any(|name| first.get(*name).is_some())
    }
}

/// Total length of the texts in a value.
fn text_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(text_weight).sum(),
        Value::Object(fields) => fields.values().map(text_weight).sum(),
        _ => 0,
    }
}

fn total_weight(chat: &[ShownMessage<'_>]) -> usize {
    chat.iter().map(ShownMessage::size).sum()
}

/// Length of everything before the conversation, in characters.
pub fn told_length(system: &str, tools: &[Value]) -> usize {
    system.len() + tools.iter().map(|tool| tool.to_string().len()).sum::<usize>()
}

/// Context window of a model, and its longest answer, both in tokens.
pub fn model_limits(session: &RoleSession, model: &str) -> (u32, u32) {
    let facts = session.facts.get(model);
    let own = session.context_tokens;
    let window = match facts {
        Some(facts) => own.unwrap_or(u32::MAX).min(facts.context_tokens),
        None => own.unwrap_or(ModelFacts::default().context_tokens),
    };
    let most = facts.and_then(|facts| facts.max_tokens).unwrap_or(u32::MAX);
    let answer = session.max_tokens.unwrap_or(ANSWER).min(most);
    (window, answer.min(window / 4))
}

/// True if the model's provider caches marked prefixes.
pub fn is_marked(session: &RoleSession, model: &str) -> bool {
    session.facts.get(model).is_some_and(|facts| facts.cache == CacheForm::Marked)
}

/// Picks the form in which a model edits files best; the plain one where its provider has refused another.
pub fn edit_form(session: &RoleSession, model: &str, quirks: &BTreeSet<ModelQuirk>) -> EditForm {
    match session.facts.get(model).map(|facts| facts.edits).unwrap_or_default() {
        EditForm::FreePatch if quirks.contains(&ModelQuirk::NoFreeText) => EditForm::Patch,
        form => form,
    }
}

/// Characters of conversation that fit beside what is told, with a model that counts `scale` tokens for
/// one that is estimated here, and that can't be shown `too_long`.
pub fn conversation_room(
    (window, answer): (u32, u32),
    told: usize,
    scale: f64,
    too_long: Option<u32>,
) -> usize {
    let free = f64::from(window.saturating_sub(answer)) / scale;
    // A size that was too long once is not tried again, nor one that is hardly shorter.
    let known = too_long.map_or(f64::MAX, |tokens| f64::from(tokens) * 0.8);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let free = free.min(known) as usize;
    free.saturating_mul(PER_TOKEN).saturating_sub(told).max(LEAST_ROOM)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(crate) const NONE: &BTreeSet<ModelQuirk> = &BTreeSet::new();

    pub(crate) fn look(room: usize) -> WindowLook<'static> {
        WindowLook {
            model: "m",
            blind: false,
            deaf: true,
            thinker: None,
            quirks: NONE,
            marked: false,
            form: EditForm::default(),
            shared: 0,
            room,
        }
    }

    #[test]
    fn room_is_what_instructions_leave() {
        assert_eq!(conversation_room((8_000, 2_000), 2_000, 1.0, None), 16_000);
        assert_eq!(conversation_room((8_000, 2_000), 90_000, 1.0, None), LEAST_ROOM);
        assert_eq!(conversation_room((128_000, 16_000), 0, 1.0, None), 336_000);
        assert_eq!(conversation_room((128_000, 16_000), 0, 1.4, None), 240_000);
        assert_eq!(conversation_room((128_000, 16_000), 0, 1.0, Some(10_000)), 24_000);
    }

    #[test]
    fn signatures_count_where_they_are_sent() {
        let call = json!({"id": "a", "type": "function", "function": {"name": "X", "arguments": "{}"},
            "extra_content": {"google": {"thought_signature": "12345"}}});
        let called =
            json!({"role": "assistant", "content": "abc", THINKER: "m x", "tool_calls": [call]});
        let mut look = look(1);
        assert_eq!(ShownMessage::new(&called, &look).size(), 5);
        look.thinker = Some("m x");
        assert_eq!(ShownMessage::new(&called, &look).size(), 10);
    }

    #[test]
    fn reasoning_counts_where_it_is_sent() {
        let thought = json!({"role": "assistant", "content": "abc", THINKER: "m x",
            "reasoning": "12345", "reasoning_details": [{"type": "t", "text": "12345"}]});
        let mut look = look(1);
        assert_eq!(ShownMessage::new(&thought, &look).size(), 3);
        look.thinker = Some("m x");
        assert_eq!(ShownMessage::new(&thought, &look).size(), 9);
        look.model = "other";
        assert_eq!(ShownMessage::new(&thought, &look).size(), 3);
    }
}
