//! What a transcript adds up to: the conversation for the model, what was taken, and where the
//! current run is. Pure: records in, state out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use codebutler_wire::{Message, Pending, PendingDecision, SlackTs, TestRun};
use serde_json::Value;

use self::calls::Asked;
use self::show::{STILL_COUNTS, show_decision, show_message, show_picture, show_request};
use super::desk::Desk;
use super::{Outcome, Picture, Record};
use crate::memory::LearningChange;
use crate::model;
use crate::model::quirk::Quirk;
use crate::tools::args::TodoItem;
pub use look_back::LookBack;
pub use proposals::Proposals;
pub use reviews::Reviews;
pub use run::{Ended, MAX_FAULTS, Next, OpenAnswer, Run, RunKind};
use wishes::Wishes;

#[derive(Debug, Default)]
pub struct State {
    chat: Vec<Value>,
    seen: HashSet<SlackTs>,
    newest: Option<SlackTs>,
    decided: HashSet<String>,
    run: Option<Run>,
    last: Option<Ended>,
    model: Option<String>,
    /// Open questions about actions, by hash.
    asked: BTreeMap<String, Asked>,
    tested: Option<TestRun>,
    todo: Vec<TodoItem>,
    /// The model was shown a picture and refused it.
    blind: bool,
    /// What the provider takes of this model's conversations.
    quirks: BTreeSet<Quirk>,
    /// Tokens that were too many for the model.
    too_long: Option<u32>,
    /// Tokens that a provider counts for one that is estimated here.
    scale: Option<f64>,
    /// Whose reasoning the newest answer holds.
    thinker: Option<String>,
    /// What the role was told last of the plan and the pull request.
    facts: Option<String>,
    /// Files that were written, the newest last.
    changed: Vec<String>,
    /// Files beside the approved plan, as they were told last.
    deviated: Vec<String>,
    desk: Desk,
    proposals: Proposals,
    reviews: Reviews,
    look_back: LookBack,
    wishes: Wishes,
}

impl State {
    /// The conversation so far, without the system prompt.
    pub fn chat(&self) -> &[Value] {
        &self.chat
    }

    /// Name and arguments of the tool that was called last in this run.
    pub fn last_call(&self) -> Option<(&str, &str)> {
        let (name, arguments) = self.run.as_ref()?.called.as_ref()?;
        Some((name, arguments))
    }

    /// The model that answers instead of the session's own.
    pub fn model(&self) -> Option<&str> {
        let own = self.run.as_ref().and_then(|run| run.model.as_ref());
        own.or(self.model.as_ref()).map(String::as_str)
    }

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

    /// What the role said last in this run.
    pub fn last_words(&self) -> Option<&str> {
        self.run.as_ref()?.said.as_deref()
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
        self.run.is_none() && self.last.is_none() && self.desk.is_empty()
    }

    /// What reviews have come to.
    pub fn reviews(&self) -> &Reviews {
        &self.reviews
    }

    /// How far the role is with looking back.
    pub fn look_back(&self) -> &LookBack {
        &self.look_back
    }

    /// Messages that were taken.
    pub fn seen(&self) -> &HashSet<SlackTs> {
        &self.seen
    }

    /// What the role proposed to remember, and what people say to it.
    pub fn proposals(&self) -> &Proposals {
        &self.proposals
    }

    /// Requests that are answered in conversations of their own.
    pub fn desk(&self) -> &Desk {
        &self.desk
    }

    /// What users asked for that was not compared with skills yet.
    pub fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Whether the last run ended to wait for this decision.
    pub fn awaits(&self, item: &Pending) -> bool {
        let waits = self.run.is_none().then_some(self.last.as_ref()).flatten();
        let Some(last) = waits.filter(|last| last.outcome == Outcome::Waiting) else {
            return false;
        };
        let posted = format!("Posted as message {}.", item.message);
        let says = |message: &Value| {
            let text = message["content"].as_str().filter(|_| message["role"] == "tool");
            text.is_some_and(|text| text.starts_with(&posted))
        };
        match item.decision() {
            Some(PendingDecision::Budget { .. }) => {
                !last.run.stopped && last.run.next() == Next::Ask
            }
            Some(PendingDecision::Action(_)) => self.asked.values().any(|asked| asked.is_in(item)),
            _ => self.wishes.asks_in(&item.message) || self.chat.iter().any(says),
        }
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
            Record::RunStarted { run, brief, .. } => self.start(Run::new(run.clone(), *brief)),
            Record::Taken { messages, pending, pictures } => self.take(messages, pending, pictures),
            Record::Request { request, messages, pending } => {
                self.see(messages);
                self.decided.extend(pending.iter().map(|p| p.id.clone()));
                self.chat.extend(messages.iter().map(show_request));
                self.desk.give(request, messages, pending);
            }
            Record::Answered { request, answered } => self.desk.answer(request, answered),
            Record::Answer { message, usage, source } => {
                self.answered(message, usage.as_ref(), source.as_ref());
            }
            Record::Flawed { flaw, message, .. } => self.flawed(flaw, message),
            Record::Unreadable { why } => self.unreadable(why),
            Record::Intent { call, key, consent } => {
                if let Some(consent) = consent {
                    self.used_up(consent);
                }
                if let Some(answer) = self.run.as_mut().and_then(|run| run.answer.as_mut()) {
                    answer.intents.insert(*call, key.clone());
                }
            }
            Record::Result { call, text, kind } => self.result(*call, text, *kind),
            Record::Held { why } => self.go_on(why, |run| run.parting.held = true),
            Record::Stuck { why, model } => self.stuck(why, model.as_deref()),
            Record::Asked { hash, key, call } => {
                let asked = Asked { key: key.clone(), call: call.clone() };
                self.asked.insert(hash.clone(), asked);
            }
            Record::Allowed { key } => self.allow(key),
            Record::Planned { .. } => {}
            Record::Proposed { message, changes } => {
                self.proposals = Proposals::new(message.clone(), changes.clone());
                self.look_back.done |= !changes.iter().any(LearningChange::is_whole);
            }
            Record::Landed { items, text } => {
                self.proposals.land(items);
                self.chat.push(model::user_message(&format!("[CodeButler] {text}")));
            }
            Record::LookedBack { .. } | Record::RolesAsked { .. } | Record::LookBackOver { .. } => {
                self.looked_back(record);
            }
            Record::ReviewPlanned { .. }
            | Record::ReviewCorrected { .. }
            | Record::SecondPass { .. } => self.review(record),
            Record::Deviated { files } => self.deviated.clone_from(files),
            Record::NotAllowed(consent) => self.used_up(consent),
            Record::Model { model } => {
                self.model = Some(model.clone());
                self.think_anew();
                if let Some(run) = &mut self.run {
                    run.model = None;
                }
            }
            Record::Todo { items } => self.todo.clone_from(items),
            Record::Picture(picture) => self.picture(picture),
            Record::Blind => self.blind = true,
            Record::Learned { quirk } => {
                self.quirks.insert(*quirk);
            }
            Record::Overflowed { shown } => self.overflowed(*shown),
            Record::Facts { text } => {
                self.chat.push(model::user_message(text));
                self.facts = Some(text.clone());
            }
            Record::Skill { .. } | Record::Offered(_) => self.wish(record),
            Record::Note { text } => self.chat.push(model::user_message(text)),
            Record::Compacted { upto, summary } => self.compact(*upto, summary),
            Record::Tested { test } => {
                self.tested = Some(test.clone());
                if let Some(run) = &mut self.run {
                    run.test(test.exit_code);
                }
            }
            Record::Escalated { model } => self.escalate(model),
            Record::RunEnded { outcome, reason } => {
                self.answer_dangling_calls();
                let left = self.run.iter().flat_map(|run| &run.allowed);
                let left: Vec<_> = left.map(|_| model::user_message(STILL_COUNTS)).collect();
                self.chat.extend(left);
                if let Some(run) = self.run.take() {
                    if run.model.is_some() {
                        self.think_anew();
                    }
                    let reason = reason.clone();
                    self.last = Some(Ended { run, outcome: *outcome, reason, reported: false });
                }
            }
            Record::Reported => {
                self.desk.report();
                if let Some(last) = &mut self.last {
                    last.reported = true;
                }
            }
        }
    }

    fn start(&mut self, run: Run) {
        self.answer_dangling_calls();
        self.wishes.begin();
        self.run = Some(run);
    }

    fn unreadable(&mut self, why: &str) {
        self.answer_dangling_calls();
        self.chat.push(model::user_message(&format!(
            "[CodeButler] Your last reply could not be read: {why}. Answer again."
        )));
        if let Some(run) = &mut self.run {
            run.turns += 1;
            run.faults += 1;
            run.answer = None;
        }
    }

    fn escalate(&mut self, model: &str) {
        self.think_anew();
        if let Some(run) = &mut self.run {
            run.model = Some(model.to_owned());
        }
    }

    /// Its last words are not said: the model is told why, and goes on.
    fn go_on(&mut self, why: &str, change: impl FnOnce(&mut Run)) {
        self.chat.push(model::user_message(&format!("[CodeButler] {why}")));
        if let Some(run) = &mut self.run {
            run.answer = None;
            change(run);
        }
    }

    fn stuck(&mut self, why: &str, model: Option<&str>) {
        self.answer_dangling_calls();
        self.chat.push(model::user_message(&format!(
            "[CodeButler] You go in circles: {why}. Say to yourself what you want to know, and try \
             another way; if something is missing that only people have, ask them."
        )));
        if model.is_some() {
            self.think_anew();
        }
        if let Some(run) = &mut self.run {
            run.stuck += 1;
            run.steps.clear();
            run.words.clear();
            run.model = model.map(ToOwned::to_owned).or(run.model.take());
            run.answer = None;
        }
    }

    fn see(&mut self, messages: &[Message]) {
        for message in messages {
            self.seen.insert(message.ts.clone());
            self.newest = self.newest.take().max(Some(message.ts.clone()));
        }
    }

    fn take(&mut self, messages: &[Message], pending: &[Pending], pictures: &[Picture]) {
        self.answer_dangling_calls();
        self.see(messages);
        self.wishes.take(messages, pending);
        self.decided.extend(pending.iter().map(|p| p.id.clone()));
        self.proposals.judge(messages, pending);
        let allowed: Vec<_> = pending.iter().map(|item| self.allowed(item)).collect();
        let decisions = pending.iter().zip(&allowed);
        let decisions = decisions.map(|(item, allowed)| show_decision(item, allowed.is_some()));
        let parts: Vec<_> = messages.iter().map(show_message).chain(decisions).collect();
        if !parts.is_empty() {
            self.chat.push(model::user_message(&parts.join("\n\n")));
        }
        self.chat.extend(pictures.iter().map(show_picture));
        if let Some(run) = &mut self.run {
            run.posted = None;
            run.hear(messages);
            run.handled.extend(pending.iter().map(|p| p.id.clone()));
            run.stopped |= pending.iter().any(|p| p.decision() == Some(PendingDecision::Stop));
            run.allowed.extend(allowed.into_iter().flatten());
        }
    }
}

mod answers;
mod calls;
mod look_back;
mod proposals;
mod reviews;
mod run;
mod show;
pub mod wishes;

#[cfg(test)]
mod tests;
