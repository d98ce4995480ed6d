//! Effects of tool calls on the state: their results for the model, and the actions that people were asked about.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use codebutler_wire::{ActionChoice, PendingDecision, PendingItem};
use serde_json::Value;

use super::show::{STILL_COUNTS, forget_pictures, show_picture};
use super::words::{PostKind, READ_BACK};
use super::{HashedStep, OpenAnswer, TranscriptState};
use crate::mentions::hands_over;
use crate::model::{self, AssistantMessage, ToolCall};
use crate::transcript::{ActionConsent, ModelPicture, ResultKind};
use codebutler_guides::voice::{annotate, append_notes, has_orders, quote_lines};

/// A question about an action.
#[derive(Debug)]
pub(super) struct AskedAction {
    pub(super) key: String,
    pub(super) call: Option<ToolCall>,
}

impl AskedAction {
    pub(super) fn new(key: &str, call: Option<&ToolCall>) -> Self {
        Self { key: key.to_owned(), call: call.cloned() }
    }

    pub(super) fn is_in(&self, item: &PendingItem) -> bool {
        item.id.ends_with(&format!(":{}", self.key))
    }
}

impl TranscriptState {
    /// The key of the question whose action can be carried out now, if this says yes to one.
    pub(super) fn allowed(&self, item: &PendingItem) -> Option<String> {
        if item.decision() != Some(PendingDecision::Action(ActionChoice::Approved)) {
            return None;
        }
        let known = self.asked.values().filter(|asked| asked.call.is_some());
        known.filter(|asked| asked.is_in(item)).map(|asked| asked.key.clone()).next()
    }

    /// The call that people were asked about, as if the model made it now.
    pub(super) fn allow(&mut self, key: &str) {
        self.answer_dangling_calls();
        let call = self.asked.values().find(|asked| asked.key == key);
        let call = call.and_then(|asked| asked.call.clone());
        let Some(run) = &mut self.run else { return };
        run.allowed.retain(|waiting| waiting != key);
        let message = AssistantMessage {
            tool_calls: call.into_iter().collect(),
            ..AssistantMessage::default()
        };
        // Without a call there is nothing to do.
        run.answer = (!message.tool_calls.is_empty()).then(|| OpenAnswer {
            message,
            allowed: Some(key.to_owned()),
            ..OpenAnswer::default()
        });
    }

    pub(super) fn used_up(&mut self, consent: &ActionConsent) {
        self.asked.remove(&consent.hash);
        // The pending item says nothing new any more.
        if let (Some(id), Some(run)) = (&consent.pending, &mut self.run)
            && self.decided.insert(id.clone())
        {
            run.handled.push(id.clone());
        }
    }

    pub(super) fn result(
        &mut self,
        call: usize,
        (text, notes): (&str, &[String]),
        kind: ResultKind,
    ) {
        let Some(run) = &mut self.run else { return };
        let Some(answer) = &mut run.answer else { return };
        let Some(asked) = answer.message.tool_calls.get(call) else { return };
        self.chat.push(match &answer.allowed {
            // A tool message has to stand behind the call that it is the result of.
            None => model::tool_message(&asked.id, &annotate(text, notes)),
            Some(_) => model::user_message(&format!(
                "[CodeButler] {} was carried out, as it was allowed. Its result:\n{}",
                asked.name,
                append_notes(quote_lines(text), notes)
            )),
        });
        // Messages that are read back from this conversation have the system's own lines in them.
        if asked.name != READ_BACK && has_orders(text) {
            self.forgers.insert(asked.name.clone());
        }
        run.steps.push(HashedStep {
            call: hash_parts(&[&asked.name, &asked.arguments]),
            result: hash_parts(&[without_time(text)]),
            failed: text.starts_with("Error: "),
        });
        run.published |= kind == ResultKind::Published;
        run.tried_push |= asked.name == PUSH;
        if asked.name == SEND && !text.starts_with("Error: ") {
            run.posted = Some(run.turns);
            let said = message_of(&asked.arguments);
            run.parting.handed_over = said.as_deref().is_some_and(hands_over);
            if let Some(said) = said {
                let at = self.chat.len().saturating_sub(1);
                self.words.post(&said, at, kind_of_post(&asked.arguments, kind));
            }
        }
        answer.results.insert(call, kind);
        if answer.open_calls().next().is_none() {
            append_pictures(&mut self.chat, &mut run.pictures);
            run.faults = if answer.any(ResultKind::Fault) { run.faults + 1 } else { 0 };
        }
    }

    /// Results are text alone: a picture follows them.
    pub(super) fn picture(&mut self, picture: &ModelPicture) {
        let Some(run) = &mut self.run else { return };
        run.pictures.push(show_picture(picture));
        forget_pictures(&mut run.pictures);
    }

    /// The API wants an answer to every call before anything else is said.
    pub(super) fn answer_dangling_calls(&mut self) {
        self.answer_calls("the run ended first");
    }

    /// Says of each open call why nothing came of it.
    pub(super) fn answer_calls(&mut self, why: &str) {
        let Some(answer) = self.run.as_ref().and_then(|run| run.answer.as_ref()) else { return };
        let missing: Vec<_> = answer
            .open_calls()
            .map(|(_, call)| match &answer.allowed {
                None => model::tool_message(
                    &call.id,
                    &annotate("", &[format!("Not carried out: {why}.")]),
                ),
                Some(_) => model::user_message(STILL_COUNTS),
            })
            .collect();
        self.chat.extend(missing);
        if let Some(run) = &mut self.run {
            append_pictures(&mut self.chat, &mut run.pictures);
        }
    }
}

fn append_pictures(chat: &mut Vec<Value>, pictures: &mut Vec<Value>) {
    if !pictures.is_empty() {
        chat.append(pictures);
        forget_pictures(chat);
    }
}

const PUSH: &str = "GitPush";
const SEND: &str = "SendMessage";

/// Message text in the arguments of a call of [`SEND`].
fn message_of(arguments: &str) -> Option<String> {
    let value: Value = serde_json::from_str(arguments).ok()?;
    Some(value.get("message")?.as_str()?.to_owned())
}

/// Kind of the post that a call of [`SEND`] with this result made.
fn kind_of_post(arguments: &str, kind: ResultKind) -> PostKind {
    let value: Value = serde_json::from_str(arguments).unwrap_or_default();
    match kind {
        _ if value["decision"] == "plan" => PostKind::Plan,
        ResultKind::Waits => PostKind::Asked,
        _ => PostKind::Said,
    }
}

pub(super) fn hash_parts(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// A command that did the same took another tenth of a second.
fn without_time(text: &str) -> &str {
    text.strip_suffix(" s]").and_then(|rest| rest.rsplit_once(", ")).map_or(text, |(rest, _)| rest)
}
