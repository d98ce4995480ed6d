//! Finds a conversation's position in its script, from the request and from what went wrong before.
//!
//! Where nothing went wrong, every assistant message is a step. Where something did, a message counts
//! only if it says what the step says: the client may have kept the bad answer, changed it, put
//! something in its place, or dropped it. Ids of calls name their steps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::mischief::is_but_for_mentions;
use super::played::{FilledAnswer, is_aside, text_of};
use super::script::ScriptStep;

/// The server's memory of conversations. Without it, positions are found as if nothing had gone wrong.
#[derive(Debug, Default)]
pub(super) struct FollowMemory {
    /// Spoilt steps by conversation and index.
    pub spoilt: BTreeMap<(u64, usize), SpoiltStep>,
    /// Index of the list that each conversation plays.
    pub lists: BTreeMap<u64, usize>,
    /// Values captured in each conversation.
    pub values: BTreeMap<u64, BTreeMap<String, String>>,
}

/// A step that was replaced by another answer at least once.
#[derive(Debug)]
pub(super) struct SpoiltStep {
    /// Answer that the script has for the step.
    pub real: FilledAnswer,
    /// True if it was given with another hand-over, which may have been understood.
    pub mention: bool,
}

/// Position of a conversation in its script.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FollowedConversation {
    /// Index of the step to play.
    pub index: usize,
    /// Incoming text before each step; the last is for the step to play.
    pub parts: Vec<String>,
}

impl FollowedConversation {
    fn at(index: usize) -> Self {
        Self { index, parts: vec![String::new(); index + 1] }
    }

    fn go_to(&mut self, index: usize) {
        self.index = index;
        self.parts.resize(index + 1, String::new());
    }

    fn take(&mut self, text: &str) {
        if let Some(part) = self.parts.last_mut() {
            part.push_str(text);
            part.push('\n');
        }
    }
}

/// Follows a conversation that begins at step `base`.
pub(super) fn follow_conversation(
    messages: &[Value],
    conversation: u64,
    base: usize,
    steps: &[ScriptStep],
    memory: &FollowMemory,
) -> FollowedConversation {
    let mut followed = FollowedConversation::at(base);
    for (n, message) in messages.iter().enumerate() {
        match message["role"].as_str() {
            Some("assistant") if is_aside(message) => {}
            Some("assistant") => {
                let index = followed.index;
                if let Some(told) = step_by_id(message, conversation) {
                    followed.go_to(told + 1);
                } else if memory.spoilt.get(&(conversation, index)).is_none_or(|spoilt| {
                    spoilt.is_step(message, &messages[n + 1..], steps.get(index + 1))
                }) {
                    followed.go_to(index + 1);
                }
            }
            Some("user" | "tool") => followed.take(&text_of(message)),
            _ => {}
        }
    }
    followed
}

/// Builds the id of a step's call.
pub(super) fn call_id(conversation: u64, step: usize, call: usize) -> String {
    format!("call_{conversation:016x}_{step}_{call}")
}

/// Parses conversation and step from a call's id.
pub(super) fn parse_id(id: &str) -> Option<(u64, usize)> {
    let mut parts = id.strip_prefix("call_")?.split('_');
    let conversation = parts.next().filter(|part| part.len() == 16)?;
    let step = parts.next()?.parse().ok()?;
    Some((u64::from_str_radix(conversation, 16).ok()?, step))
}

fn message_calls(message: &Value) -> &[Value] {
    message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn step_by_id(message: &Value, conversation: u64) -> Option<usize> {
    let ids = message_calls(message).iter().filter_map(|call| parse_id(call["id"].as_str()?));
    let mut own = ids.filter(|(of, _)| *of == conversation);
    own.next().map(|(_, step)| step)
}

/// Finds the conversation of the first call with a known id.
pub(super) fn conversation_by_id(messages: &[Value]) -> Option<u64> {
    let calls = messages.iter().flat_map(message_calls);
    calls.filter_map(|call| parse_id(call["id"].as_str()?)).map(|(of, _)| of).next()
}

impl SpoiltStep {
    /// True if a message that came back counts as the step after all. `after` follows it.
    fn is_step(&self, message: &Value, after: &[Value], next: Option<&ScriptStep>) -> bool {
        let said = text_of(message);
        if !self.real.tools.is_empty() {
            return self.calls_the_same(message);
        }
        let real = self.real.say.as_deref().unwrap_or_default();
        if squeeze_text(&said).contains(&squeeze_text(real))
            && !(self.mention && is_doubled(&said, real))
        {
            return true;
        }
        self.mention && is_but_for_mentions(&said, real) && is_answered(after, next)
    }

    fn calls_the_same(&self, message: &Value) -> bool {
        let read = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let made: Vec<(&str, Value)> = message_calls(message)
            .iter()
            .map(|call| &call["function"])
            .map(|f| {
                (
                    f["name"].as_str().unwrap_or_default(),
                    read(f["arguments"].as_str().unwrap_or_default()),
                )
            })
            .collect();
        let wanted = self.real.tools.iter();
        wanted
            .map(|call| (call.name.as_str(), read(&call.arguments)))
            .all(|call| made.contains(&call))
    }
}

fn squeeze_text(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// True if a text has more hand-overs than the real one.
fn is_doubled(said: &str, real: &str) -> bool {
    let count = |text: &str| text.matches("@codebutler.").count();
    count(said) > count(real)
}

/// True if somebody went on after a message: anything but the client's own word to the model.
fn is_answered(after: &[Value], next: Option<&ScriptStep>) -> bool {
    let upto = after.iter().position(|m| m["role"] == "assistant").unwrap_or(after.len());
    let texts: Vec<String> = after[..upto].iter().map(text_of).collect();
    let mail = texts.iter().any(|text| text.lines().any(|line| line.starts_with("[message ")));
    let all = texts.join("\n");
    let awaited = next.filter(|step| !step.expect.is_empty());
    mail || awaited.is_some_and(|step| step.expect.iter().all(|text| text.is_in(&all)))
}
