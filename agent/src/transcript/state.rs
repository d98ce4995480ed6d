//! What a transcript adds up to: the conversation for the model, what was taken, and where the
//! current run is. Pure: records in, state out.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use codebutler_crds::SlackTs;
use codebutler_crds::thread::Pending;
use codebutler_crds::wire::{Message, TestRun};
use serde_json::Value;

use self::show::{STILL_COUNTS, show_decision, show_message, shown};
use super::{Consent, Outcome, Picture, Record, ResultKind};
use crate::model::{self, Assistant, ToolCall};
use crate::run::stuck::Step;
use crate::tools::args::TodoItem;

/// See the module.
#[derive(Debug, Default)]
pub struct State {
    chat: Vec<Value>,
    seen: HashSet<SlackTs>,
    newest: Option<SlackTs>,
    decided: HashSet<String>,
    run: Option<Run>,
    last: Option<Ended>,
    /// Chosen by a user.
    model: Option<String>,
    /// Open questions about actions, by hash.
    asked: BTreeMap<String, Asked>,
    tested: Option<TestRun>,
    todo: Vec<TodoItem>,
    /// The model was shown a picture and refused it.
    blind: bool,
    /// Files beside the approved plan, as they were told last.
    deviated: Vec<String>,
}

/// A question about an action.
#[derive(Debug)]
struct Asked {
    key: String,
    call: Option<ToolCall>,
}

/// A run that has not ended.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// Model calls that were answered, readable or not.
    pub turns: u32,
    /// Turns in a row in which the model said something that could not be carried out.
    pub faults: u32,
    /// Pending decisions that it took.
    pub handled: Vec<String>,
    /// The last answer, until the next one is asked for.
    pub answer: Option<OpenAnswer>,
    /// Calls and results since it was last told that it goes in circles.
    pub steps: Vec<Step>,
    /// Hashes of what was said beside calls, as long.
    pub words: Vec<u64>,
    /// How often it was told so.
    pub stuck: u32,
    /// The model that took over.
    pub model: Option<String>,
    /// Runs of the test command that failed, since one succeeded.
    pub failing: u32,
    /// Whether it has put something on the remote.
    pub published: bool,
    /// Keys of questions that were answered with yes, and whose action is to be carried out.
    allowed: VecDeque<String>,
    /// Pictures of the answer's calls, shown once all of them have a result.
    pictures: Vec<Value>,
}

/// An answer of the model that is being carried out.
#[derive(Clone, Debug, Default)]
pub struct OpenAnswer {
    /// What it said.
    pub message: Assistant,
    /// Keys of effects that may have happened, by the call's place.
    pub intents: BTreeMap<usize, String>,
    /// What calls came to, by the call's place.
    pub results: BTreeMap<usize, ResultKind>,
    /// Not said by the model now, but asked for before and allowed since: the question's key.
    pub allowed: Option<String>,
}

/// A run that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The run.
    pub run: Run,
    /// How.
    pub outcome: Outcome,
    /// For the thread.
    pub reason: Option<String>,
    /// Whether the gateway knows.
    pub reported: bool,
}

impl OpenAnswer {
    /// Calls without a result, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = (usize, &ToolCall)> {
        self.message
            .tool_calls
            .iter()
            .enumerate()
            .filter(|(place, _)| !self.results.contains_key(place))
    }

    fn any(&self, kind: ResultKind) -> bool {
        self.results.values().any(|k| *k == kind)
    }
}

/// What a run does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask the model.
    Ask,
    /// Carry out the calls that have no result yet.
    Act,
    /// Begin with the action of this question: people have said yes.
    Allow(String),
    /// Post this text and end.
    Post(String),
    /// End.
    End(Outcome),
    /// End because the model does not get it right.
    GiveUp,
}

/// Turns in a row that may go wrong.
pub const MAX_FAULTS: u32 = 3;

impl Run {
    /// Decided by what is recorded alone, so that a restart decides the same.
    pub fn next(&self) -> Next {
        let Some(answer) = &self.answer else {
            return if self.faults >= MAX_FAULTS { Next::GiveUp } else { self.go_on() };
        };
        if answer.open_calls().next().is_some() {
            return Next::Act;
        }
        if answer.message.tool_calls.is_empty() {
            return match &answer.message.content {
                Some(text) => Next::Post(text.clone()),
                None => Next::End(Outcome::Idle),
            };
        }
        if answer.any(ResultKind::Closes) {
            Next::End(Outcome::Closed)
        } else if answer.any(ResultKind::Waits) {
            Next::End(Outcome::Waiting)
        } else if self.faults >= MAX_FAULTS {
            Next::GiveUp
        } else {
            self.go_on()
        }
    }

    fn go_on(&self) -> Next {
        self.allowed.front().map_or(Next::Ask, |key| Next::Allow(key.clone()))
    }
}

impl State {
    /// The conversation so far, without the system prompt.
    pub fn chat(&self) -> &[Value] {
        &self.chat
    }

    /// Name and arguments of the tool that was called last.
    pub fn last_call(&self) -> Option<(&str, &str)> {
        let call =
            self.chat.iter().rev().find_map(|m| m.pointer("/tool_calls")?.as_array()?.last())?;
        let text = |path| call.pointer(path).and_then(Value::as_str);
        Some((text("/function/name")?, text("/function/arguments")?))
    }

    /// The model that answers instead of the session's own.
    pub fn model(&self) -> Option<&str> {
        let own = self.run.as_ref().and_then(|run| run.model.as_ref());
        own.or(self.model.as_ref()).map(String::as_str)
    }

    /// The role's own list.
    pub fn todo(&self) -> &[TodoItem] {
        &self.todo
    }

    /// Whether the model can't be shown pictures.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Files beside the approved plan, as they were told last.
    pub fn deviated(&self) -> &[String] {
        &self.deviated
    }

    /// What the role said last beside a call.
    pub fn last_words(&self) -> Option<&str> {
        let said = |message: &Value| message["role"] == "assistant";
        self.chat.iter().rev().filter(|message| said(message)).find_map(|m| m["content"].as_str())
    }

    /// The newest run of the test command.
    pub fn tested(&self) -> Option<&TestRun> {
        self.tested.as_ref()
    }

    /// The key by which people were asked about an action.
    pub fn asked(&self, hash: &str) -> Option<&str> {
        self.asked.get(hash).map(|asked| asked.key.as_str())
    }

    /// Whether nothing was ever taken.
    pub fn is_new(&self) -> bool {
        self.run.is_none() && self.last.is_none()
    }

    /// Whether a message was taken.
    pub fn has_seen(&self, ts: &SlackTs) -> bool {
        self.seen.contains(ts)
    }

    /// Whether a decision was taken.
    pub fn has_decided(&self, id: &str) -> bool {
        self.decided.contains(id)
    }

    /// Newest message taken.
    pub fn newest(&self) -> Option<&SlackTs> {
        self.newest.as_ref()
    }

    /// The run that has not ended.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// The run that ended last.
    pub fn last(&self) -> Option<&Ended> {
        self.last.as_ref()
    }

    /// Takes in one record.
    pub fn apply(&mut self, record: &Record) {
        match record {
            Record::RunStarted { run, .. } => {
                self.answer_dangling_calls();
                self.run = Some(Run { id: run.clone(), ..Run::default() });
            }
            Record::Taken { messages, pending, pictures } => self.take(messages, pending, pictures),
            Record::Answer { message, .. } => {
                self.chat.push(message.to_chat());
                if let Some(run) = &mut self.run {
                    run.turns += 1;
                    if message.tool_calls.is_empty() {
                        run.faults = 0;
                    }
                    if let Some(said) = &message.content {
                        run.words.push(hash(&[said]));
                    }
                    run.answer =
                        Some(OpenAnswer { message: message.clone(), ..OpenAnswer::default() });
                }
            }
            Record::Unreadable { why } => {
                self.answer_dangling_calls();
                self.chat.push(model::user(&format!(
                    "[CodeButler] Your last reply could not be read: {why}. Answer again."
                )));
                if let Some(run) = &mut self.run {
                    run.turns += 1;
                    run.faults += 1;
                    run.answer = None;
                }
            }
            Record::Intent { call, key, consent } => {
                if let Some(consent) = consent {
                    self.used_up(consent);
                }
                if let Some(answer) = self.run.as_mut().and_then(|run| run.answer.as_mut()) {
                    answer.intents.insert(*call, key.clone());
                }
            }
            Record::Result { call, text, kind } => self.result(*call, text, *kind),
            Record::Stuck { why, model } => {
                self.answer_dangling_calls();
                self.chat.push(model::user(&format!(
                    "[CodeButler] You go in circles: {why}. Say to yourself what you want to know, and try \
                     another way; if something is missing that only people have, ask them."
                )));
                if let Some(run) = &mut self.run {
                    run.stuck += 1;
                    run.steps.clear();
                    run.words.clear();
                    run.model = model.clone().or(run.model.take());
                    run.answer = None;
                }
            }
            Record::Asked { hash, key, call } => {
                let asked = Asked { key: key.clone(), call: call.clone() };
                self.asked.insert(hash.clone(), asked);
            }
            Record::Allowed { key } => self.allow(key),
            Record::Planned { .. } => {}
            Record::Deviated { files } => self.deviated.clone_from(files),
            Record::NotAllowed(consent) => self.used_up(consent),
            Record::Model { model } => {
                self.model = Some(model.clone());
                self.blind = false;
            }
            Record::Todo { items } => self.todo.clone_from(items),
            Record::Picture(picture) => self.picture(picture),
            Record::Blind => self.blind = true,
            Record::Compacted { upto, summary } => self.compact(*upto, summary),
            Record::Tested { test } => {
                self.tested = Some(test.clone());
                if let Some(run) = &mut self.run {
                    run.failing = if test.exit_code == Some(0) { 0 } else { run.failing + 1 };
                }
            }
            Record::Escalated { model } => {
                if let Some(run) = &mut self.run {
                    run.model = Some(model.clone());
                }
            }
            Record::RunEnded { outcome, reason } => {
                self.answer_dangling_calls();
                let left = self.run.iter().flat_map(|run| &run.allowed);
                let left: Vec<_> = left.map(|_| model::user(STILL_COUNTS)).collect();
                self.chat.extend(left);
                if let Some(run) = self.run.take() {
                    let reason = reason.clone();
                    self.last = Some(Ended { run, outcome: *outcome, reason, reported: false });
                }
            }
            Record::Reported => {
                if let Some(last) = &mut self.last {
                    last.reported = true;
                }
            }
        }
    }

    fn take(&mut self, messages: &[Message], pending: &[Pending], pictures: &[Picture]) {
        self.answer_dangling_calls();
        for message in messages {
            self.seen.insert(message.ts.clone());
            if self.newest.as_ref().is_none_or(|newest| *newest < message.ts) {
                self.newest = Some(message.ts.clone());
            }
        }
        self.decided.extend(pending.iter().map(|p| p.id.clone()));
        let allowed: Vec<_> = pending.iter().map(|item| self.allowed(item)).collect();
        let decisions = pending.iter().zip(&allowed);
        let decisions = decisions.map(|(item, allowed)| show_decision(item, allowed.is_some()));
        let parts: Vec<_> = messages.iter().map(show_message).chain(decisions).collect();
        if !parts.is_empty() {
            self.chat.push(model::user(&parts.join("\n\n")));
        }
        self.chat.extend(pictures.iter().map(shown));
        if let Some(run) = &mut self.run {
            run.handled.extend(pending.iter().map(|p| p.id.clone()));
            run.allowed.extend(allowed.into_iter().flatten());
        }
    }

    /// The key of the question whose action can be carried out now, if this says yes to one.
    fn allowed(&self, item: &Pending) -> Option<String> {
        if item.kind != "approval" || item.choice != "approved" {
            return None;
        }
        let known = self.asked.values().filter(|asked| asked.call.is_some());
        let of = |asked: &&Asked| item.id.ends_with(&format!(":{}", asked.key));
        known.filter(of).map(|asked| asked.key.clone()).next()
    }

    /// The call that people were asked about, as if the model made it now.
    fn allow(&mut self, key: &str) {
        self.answer_dangling_calls();
        let call = self.asked.values().find(|asked| asked.key == key);
        let call = call.and_then(|asked| asked.call.clone());
        let Some(run) = &mut self.run else { return };
        run.allowed.retain(|waiting| waiting != key);
        let message = Assistant { tool_calls: call.into_iter().collect(), ..Assistant::default() };
        // Without a call there is nothing to do.
        run.answer = (!message.tool_calls.is_empty()).then(|| OpenAnswer {
            message,
            allowed: Some(key.to_owned()),
            ..OpenAnswer::default()
        });
    }

    fn used_up(&mut self, consent: &Consent) {
        self.asked.remove(&consent.hash);
        // The pending item says nothing new any more.
        if let (Some(id), Some(run)) = (&consent.pending, &mut self.run)
            && self.decided.insert(id.clone())
        {
            run.handled.push(id.clone());
        }
    }

    fn result(&mut self, call: usize, text: &str, kind: ResultKind) {
        let Some(run) = &mut self.run else { return };
        let Some(answer) = &mut run.answer else { return };
        let Some(asked) = answer.message.tool_calls.get(call) else { return };
        self.chat.push(match &answer.allowed {
            // It stands where the call was made that it is the result of.
            None => model::tool(&asked.id, text),
            Some(_) => model::user(&format!(
                "[CodeButler] {} was carried out, as it was allowed. It came to:\n{text}",
                asked.name
            )),
        });
        run.steps.push(Step {
            call: hash(&[&asked.name, &asked.arguments]),
            result: hash(&[without_time(text)]),
            failed: text.starts_with("Error: "),
        });
        run.published |= kind == ResultKind::Published;
        answer.results.insert(call, kind);
        if answer.open_calls().next().is_none() {
            self.chat.append(&mut run.pictures);
            run.faults = if answer.any(ResultKind::Fault) { run.faults + 1 } else { 0 };
        }
    }

    /// Results are text alone: a picture follows them.
    fn picture(&mut self, picture: &Picture) {
        let Some(run) = &mut self.run else { return };
        run.pictures.push(shown(picture));
    }

    fn compact(&mut self, upto: usize, summary: &str) {
        let text = format!(
            "[CodeButler] What was said and done before, as you wrote it down yourself:\n\n{summary}"
        );
        self.chat.splice(..upto.min(self.chat.len()), [model::user(&text)]);
    }

    /// The API wants an answer to every call before anything else is said.
    fn answer_dangling_calls(&mut self) {
        let Some(answer) = self.run.as_ref().and_then(|run| run.answer.as_ref()) else { return };
        let missing: Vec<_> = answer
            .open_calls()
            .map(|(_, call)| match &answer.allowed {
                None => model::tool(&call.id, "[CodeButler] Not carried out: the run ended first."),
                Some(_) => model::user(STILL_COUNTS),
            })
            .collect();
        self.chat.extend(missing);
        if let Some(run) = &mut self.run {
            self.chat.append(&mut run.pictures);
        }
    }
}

fn hash(parts: &[&str]) -> u64 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    hasher.finish()
}

/// A command that did the same took another tenth of a second.
fn without_time(text: &str) -> &str {
    text.strip_suffix(" s]").and_then(|rest| rest.rsplit_once(", ")).map_or(text, |(rest, _)| rest)
}

mod show;

#[cfg(test)]
mod tests;
