//! State that a transcript's records add up to: the conversation for the model, the messages taken, and the progress
//! of the current run. Pure: records in, state out.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use codebutler_guides::voice::speak;
use codebutler_wire::{PendingDecision, PendingItem, SlackTs, TestRun, ThreadMessage};
use serde_json::Value;

use self::calls::AskedAction;
use self::show::{
    STILL_COUNTS, forget_pictures, is_peoples, mark_decision, show_decision, show_message,
    show_picture, show_request,
};
use super::desk::RequestDesk;
use super::improvements::SuggestedImprovements;
use super::{ModelPicture, RunOutcome, TranscriptRecord};
use crate::memory::LearningChange;
use crate::model;
use crate::model::media::refuse_pictures;
use crate::model::quirk::ModelQuirk;
use crate::tool_args::TodoItem;
pub use look_back::LookBack;
pub use proposals::NewestProposals;
pub use reviews::RoleReviews;
pub use run::{EndedRun, HashedStep, MAX_FAULTS, NextStep, OpenAnswer, OpenRun, RunAsker, RunKind};
use servers::KnownServers;
use wishes::UserWishes;
use words::{KeptWords, PostKind};

#[derive(Debug, Default)]
pub struct TranscriptState {
    chat: Vec<Value>,
    seen: HashSet<SlackTs>,
    newest: Option<SlackTs>,
    decided: HashSet<String>,
    run: Option<OpenRun>,
    last: Option<EndedRun>,
    model: Option<String>,
    /// The role's own model has taken over from the one that looked first.
    handed_up: bool,
    /// Open questions about actions, by hash.
    asked: BTreeMap<String, AskedAction>,
    tested: Option<TestRun>,
    todo: Vec<TodoItem>,
    /// The model was shown a picture and refused it.
    blind: bool,
    /// The model was sent a sound and refused it.
    deaf: bool,
    /// Forms of conversation that this model's provider insists on.
    quirks: BTreeSet<ModelQuirk>,
    /// Those of them with which nothing was answered yet.
    untested: BTreeSet<ModelQuirk>,
    /// Tokens that were too many for the model.
    too_long: Option<u32>,
    /// Context window of the model in tokens, if its server says so.
    window: Option<u32>,
    /// Tokens that a provider counts for one that is estimated here.
    scale: Option<f64>,
    /// Model whose reasoning the newest answer holds.
    thinker: Option<String>,
    /// The model that was asked last, and the one that answered in its place.
    stand_in: Option<(String, String)>,
    /// Facts on the plan and the pull request that the role was told last.
    facts: Option<String>,
    /// The approved plan as the role was shown it last, and what counts for its files.
    plan: (Option<String>, Option<String>),
    /// Files that were written, the newest last.
    changed: Vec<String>,
    /// Files beside the approved plan, as they were told last.
    deviated: Vec<String>,
    desk: RequestDesk,
    proposals: NewestProposals,
    improvements: Option<SuggestedImprovements>,
    reviews: RoleReviews,
    look_back: LookBack,
    wishes: UserWishes,
    words: KeptWords,
    /// The newest summary of what was before.
    summary: Option<String>,
    /// Tools whose results imitated the system's voice.
    forgers: BTreeSet<String>,
    servers: KnownServers,
}

impl TranscriptState {
    /// The conversation so far, without the system prompt.
    pub fn chat(&self) -> &[Value] {
        &self.chat
    }

    /// Name and arguments of the tool that was called last in this run.
    pub fn last_call(&self) -> Option<(&str, &str)> {
        let (name, arguments) = self.run.as_ref()?.called.as_ref()?;
        Some((name, arguments))
    }

    pub fn todo(&self) -> &[TodoItem] {
        &self.todo
    }

    /// Returns true if the model can't be shown pictures.
    pub fn is_blind(&self) -> bool {
        self.blind
    }

    /// Returns true if the model can't be sent sounds.
    pub fn is_deaf(&self) -> bool {
        self.deaf
    }

    /// Files beside the approved plan, as they were told last.
    pub fn deviated(&self) -> &[String] {
        &self.deviated
    }

    /// Last text of the role in this run.
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

    /// Returns true if no message was ever taken.
    pub fn is_new(&self) -> bool {
        self.run.is_none() && self.last.is_none() && self.desk.is_empty()
    }

    /// State of the reviews in this conversation.
    pub fn reviews(&self) -> &RoleReviews {
        &self.reviews
    }

    /// Progress of the role's look back.
    pub fn look_back(&self) -> &LookBack {
        &self.look_back
    }

    /// Messages that were taken.
    pub fn seen(&self) -> &HashSet<SlackTs> {
        &self.seen
    }

    /// Learnings that the role proposed, and people's verdicts on them.
    pub fn proposals(&self) -> &NewestProposals {
        &self.proposals
    }

    /// Requests that are answered in conversations of their own.
    pub fn desk(&self) -> &RequestDesk {
        &self.desk
    }

    /// Requests of users that were not compared with skills yet.
    pub fn wishes(&self) -> &UserWishes {
        &self.wishes
    }

    /// Messages in people's own words, which are kept beside a summary of the rest.
    pub fn words(&self) -> &KeptWords {
        &self.words
    }

    /// The newest summary of what was before.
    pub fn summary(&self) -> Option<&str> {
        self.summary.as_deref()
    }

    /// Returns true if the last run ended to wait for this decision.
    pub fn awaits(&self, item: &PendingItem) -> bool {
        let waits = self.run.is_none().then_some(self.last.as_ref()).flatten();
        let Some(last) = waits.filter(|last| last.outcome == RunOutcome::Waiting) else {
            return false;
        };
        let posted = format!("Posted as message {}.", item.message);
        let says = |message: &Value| {
            let text = message["content"].as_str().filter(|_| message["role"] == "tool");
            text.is_some_and(|text| text.starts_with(&posted))
        };
        match item.decision() {
            Some(PendingDecision::Budget { .. }) => {
                !last.run.stopped && last.run.next() == NextStep::Ask
            }
            Some(PendingDecision::Action(_)) => self.asked.values().any(|asked| asked.is_in(item)),
            _ => self.wishes.asks_in(&item.message) || self.chat.iter().any(says),
        }
    }

    /// Tools whose results imitated the system's voice.
    pub fn forgers(&self) -> &BTreeSet<String> {
        &self.forgers
    }

    /// Servers of the company, as far as the role knows them.
    pub fn servers(&self) -> &KnownServers {
        &self.servers
    }

    /// Returns true if a message was taken.
    pub fn has_seen(&self, ts: &SlackTs) -> bool {
        self.seen.contains(ts)
    }

    /// Returns true if a decision was taken.
    pub fn has_decided(&self, id: &str) -> bool {
        self.decided.contains(id)
    }

    /// Timestamp of the newest message that was taken.
    pub fn newest(&self) -> Option<&SlackTs> {
        self.newest.as_ref()
    }

    /// The run that has not ended.
    pub fn run(&self) -> Option<&OpenRun> {
        self.run.as_ref()
    }

    /// The last run that has ended.
    pub fn last(&self) -> Option<&EndedRun> {
        self.last.as_ref()
    }

    /// Applies a record to the state.
    pub fn apply(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::RunStarted { run, brief, .. } => {
                self.start(OpenRun::new(run.clone(), *brief));
            }
            TranscriptRecord::Taken { messages, pending, pictures } => {
                self.take(messages, pending, pictures);
            }
            TranscriptRecord::Request { request, messages, pending } => {
                self.follow_request(messages, pending);
                self.desk.give(request, messages, pending);
            }
            TranscriptRecord::Answered { request, answered } => self.desk.answer(request, answered),
            TranscriptRecord::Answer { message, usage, source } => {
                self.answered(message, usage.as_ref(), source.as_ref());
            }
            TranscriptRecord::Flawed { flaw, message, .. } => self.flawed(flaw, message),
            TranscriptRecord::Unreadable { why } => self.unreadable(why),
            TranscriptRecord::Intent { call, key, consent } => {
                if let Some(consent) = consent {
                    self.used_up(consent);
                }
                if let Some(answer) = self.run.as_mut().and_then(|run| run.answer.as_mut()) {
                    answer.intents.insert(*call, key.clone());
                }
            }
            TranscriptRecord::Result { call, text, notes, kind } => {
                self.result(*call, (text, notes), *kind);
            }
            TranscriptRecord::Held { why } => self.go_on(why, |run| run.parting.held = true),
            TranscriptRecord::Stuck { why, model } => self.stuck(why, model.as_deref()),
            TranscriptRecord::Asked { hash, key, call } => {
                self.asked.insert(hash.clone(), AskedAction::new(key, call.as_ref()));
            }
            TranscriptRecord::Allowed { key } => self.allow(key),
            TranscriptRecord::Planned { .. } => {}
            TranscriptRecord::Proposed { message, changes, improvements } => {
                self.improvements = improvements.clone().or(self.improvements.take());
                self.proposals = NewestProposals::new(message.clone(), changes.clone());
                self.look_back.done |= !changes.iter().any(LearningChange::is_whole);
            }
            TranscriptRecord::Landed { items, text } => {
                self.proposals.land(items);
                self.chat.push(model::user_message(&speak(text)));
            }
            TranscriptRecord::LookedBack { .. }
            | TranscriptRecord::RolesAsked { .. }
            | TranscriptRecord::LookBackOver { .. } => {
                self.looked_back(record);
            }
            TranscriptRecord::ReviewPlanned { .. }
            | TranscriptRecord::ReviewCorrected { .. }
            | TranscriptRecord::SecondPass { .. } => self.review(record),
            TranscriptRecord::Deviated { files } => self.deviated.clone_from(files),
            TranscriptRecord::NotAllowed(consent) => self.used_up(consent),
            TranscriptRecord::Todo { items } => self.todo.clone_from(items),
            TranscriptRecord::Picture(picture) => self.picture(picture),
            TranscriptRecord::Blind { newest, .. } if newest.is_empty() => self.blind = true,
            TranscriptRecord::Blind { newest, why } => {
                refuse_pictures(&mut self.chat, newest, why);
            }
            TranscriptRecord::Deaf => self.deaf = true,
            TranscriptRecord::Learned { quirk } => {
                self.quirks.insert(*quirk);
                self.untested.insert(*quirk);
            }
            TranscriptRecord::Overflowed { shown, window } => self.overflowed(*shown, *window),
            TranscriptRecord::Facts { text } => {
                self.chat.push(model::user_message(&speak(text)));
                self.facts = Some(text.clone());
            }
            TranscriptRecord::ApprovedPlan { text, guides, message, known } => {
                self.show_plan((text.as_deref(), guides.as_deref()), message.as_ref(), *known);
            }
            TranscriptRecord::Skill { .. } | TranscriptRecord::Offered(_) => self.wish(record),
            TranscriptRecord::ServerTools { .. } | TranscriptRecord::ToolsFound { .. } => {
                self.learn_servers(record);
            }
            TranscriptRecord::Note { text } => self.chat.push(model::user_message(&speak(text))),
            TranscriptRecord::Compacted { upto, summary, room, alone } => {
                self.compact(*upto, summary, *room, *alone);
            }
            TranscriptRecord::Tested { test } => {
                self.tested = Some(test.clone());
                if let Some(run) = &mut self.run {
                    run.test(test.exit_code);
                }
            }
            TranscriptRecord::Model { .. }
            | TranscriptRecord::Escalated { .. }
            | TranscriptRecord::FirstLook { .. }
            | TranscriptRecord::HandedUp { .. } => self.switch_model(record),
            TranscriptRecord::RunEnded { outcome, reason } => {
                self.end_run(*outcome, reason.as_deref());
            }
            TranscriptRecord::Reported => self.report(),
        }
    }

    /// Notes that the gateway knows of the end of the last run.
    fn report(&mut self) {
        self.desk.report();
        if let Some(last) = &mut self.last {
            last.reported = true;
        }
    }

    /// Notes a request that is answered in a conversation of its own.
    fn follow_request(&mut self, messages: &[ThreadMessage], pending: &[PendingItem]) {
        self.see(messages);
        self.decided.extend(pending.iter().map(|p| p.id.clone()));
        for message in messages {
            self.words.hear(std::slice::from_ref(message), self.chat.len(), false);
            self.chat.push(show_request(message));
        }
    }

    /// Updates the tools of servers that are offered from now on, and tells the model what is new.
    fn learn_servers(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::ServerTools { names, notices, text, told, digests, instructions } => {
                self.servers.order(names, notices);
                self.servers.tell(told, digests);
                let texts = text.iter().chain(instructions);
                self.chat.extend(texts.map(|text| model::user_message(&speak(text))));
            }
            TranscriptRecord::ToolsFound { tools } => self.servers.find(tools),
            _ => {}
        }
    }

    fn end_run(&mut self, outcome: RunOutcome, reason: Option<&str>) {
        self.answer_dangling_calls();
        if let Some(NextStep::Post(text)) = self.run.as_ref().map(OpenRun::next) {
            // The posted message is the last one of the chat.
            self.words.post(&text, self.chat.len().saturating_sub(1), PostKind::Said);
        }
        self.words.end_run(outcome);
        // Something else was wrong: what did not help is no way of this model's.
        for quirk in std::mem::take(&mut self.untested) {
            self.quirks.remove(&quirk);
        }
        let left = self.run.iter().flat_map(|run| &run.allowed);
        let left: Vec<_> = left.map(|_| model::user_message(STILL_COUNTS)).collect();
        self.chat.extend(left);
        if let Some(run) = self.run.take() {
            if run.model.is_some() {
                self.think_anew();
            }
            let reason = reason.map(str::to_owned);
            self.last = Some(EndedRun { run, outcome, reason, reported: false });
        }
    }

    fn start(&mut self, run: OpenRun) {
        self.answer_dangling_calls();
        self.wishes.begin();
        self.run = Some(run);
    }

    fn unreadable(&mut self, why: &str) {
        self.answer_dangling_calls();
        self.chat.push(model::user_message(&speak(&format!(
            "Your last reply could not be read: {why}. Answer again."
        ))));
        if let Some(run) = &mut self.run {
            run.turns += 1;
            run.faults += 1;
            run.answer = None;
        }
    }

    /// Drops the last words: the model is told why, and goes on.
    fn go_on(&mut self, why: &str, change: impl FnOnce(&mut OpenRun)) {
        self.chat.push(model::user_message(&speak(why)));
        if let Some(run) = &mut self.run {
            run.answer = None;
            change(run);
        }
    }

    fn stuck(&mut self, why: &str, model: Option<&str>) {
        self.answer_dangling_calls();
        self.chat.push(model::user_message(&speak(&format!(
            "You repeat yourself: {why}. State what you still need to know and choose a different approach. If \
             only people can tell, ask them."
        ))));
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

    fn see(&mut self, messages: &[ThreadMessage]) {
        for message in messages {
            self.seen.insert(message.ts.clone());
            self.newest = self.newest.take().max(Some(message.ts.clone()));
        }
    }

    fn take(
        &mut self,
        messages: &[ThreadMessage],
        pending: &[PendingItem],
        pictures: &[ModelPicture],
    ) {
        self.answer_dangling_calls();
        self.see(messages);
        self.reviews.hear(self.run.as_ref().map(|run| run.id.as_str()), messages);
        self.wishes.take(messages, pending);
        self.decided.extend(pending.iter().map(|p| p.id.clone()));
        self.proposals.judge(messages, pending);
        let allowed: Vec<_> = pending.iter().map(|item| self.allowed(item)).collect();
        let decisions = pending.iter().zip(&allowed);
        let decisions = decisions.map(|(item, allowed)| {
            let accepted = self.improvements.as_ref().and_then(|known| known.describe(item));
            let accepted = accepted.map(|text| mark_decision(&text));
            accepted.unwrap_or_else(|| show_decision(item, allowed.is_some()))
        });
        let parts: Vec<_> = messages.iter().map(show_message).chain(decisions).collect();
        if !parts.is_empty() {
            self.words.hear(messages, self.chat.len(), true);
            for decision in parts.iter().skip(messages.len()).filter(|text| is_peoples(text)) {
                self.words.decide(decision, self.chat.len());
            }
            self.chat.push(model::user_message(&parts.join("\n\n")));
        }
        if !pictures.is_empty() {
            self.chat.extend(pictures.iter().map(show_picture));
            forget_pictures(&mut self.chat);
        }
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
mod plan;
mod proposals;
mod reviews;
mod run;
pub mod servers;
mod show;
mod switching;
pub mod wishes;
pub mod words;

#[cfg(test)]
mod tests;
