//! A run as its records tell it, and what it does next.

use std::collections::{BTreeMap, VecDeque};

use codebutler_wire::{MessageAuthor, NanoUsd, ThreadMessage};
use serde_json::Value;

use crate::model::judge::{ReplyFlaw, join_parts};
use crate::model::{AssistantMessage, ToolCall};
use crate::run::stuck::HashedStep;
use crate::transcript::{ResultKind, RunOutcome};

/// What a run is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunKind {
    /// A model is asked what to do.
    #[default]
    Work,
    /// What people wanted has been done: it only says what was taken.
    Brief,
}

/// Which model looks at the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunLook {
    /// The role's own, or the one that took over from it.
    #[default]
    Own,
    /// The cheaper one that looks first.
    First,
}

/// Whom a run answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAsker {
    /// Nobody said anything to it: a decision, or CodeButler itself, began it.
    #[default]
    Nobody,
    Person,
    Role,
}

/// A run that has not ended.
#[derive(Clone, Debug, Default)]
pub struct OpenRun {
    pub id: String,
    /// What it is for.
    pub kind: RunKind,
    /// Model calls that were answered, readable or not.
    pub turns: u32,
    /// What its answers cost, as far as the provider tells.
    pub cost: NanoUsd,
    /// Turns in a row in which the model said something that could not be carried out.
    pub faults: u32,
    /// What was wrong with the last reply, and how often in a row.
    pub flaw: Option<(ReplyFlaw, u32)>,
    /// What the model has said of an answer that was cut off.
    pub begun: String,
    /// The turn in which something was posted last.
    pub(super) posted: Option<u32>,
    /// How often it was told that saying so is not doing it.
    pub nudges: u32,
    /// How often in a row the conversation was longer than the model takes.
    pub overflows: u32,
    /// Pending decisions that it took.
    pub handled: Vec<String>,
    /// The last answer, until the next one is asked for.
    pub answer: Option<OpenAnswer>,
    /// Calls and results since it was last told that it goes in circles.
    pub steps: Vec<HashedStep>,
    /// Hashes of what was said beside calls, as long.
    pub words: Vec<u64>,
    /// What the model said last.
    pub(super) said: Option<String>,
    /// Name and arguments of what it called last.
    pub(super) called: Option<(String, String)>,
    /// How often it was told so.
    pub stuck: u32,
    /// The model that took over.
    pub model: Option<String>,
    /// Which model looks at the conversation.
    pub look: RunLook,
    /// Runs of the test command that failed, since one succeeded.
    pub failing: u32,
    /// Who asked for it last.
    pub asker: RunAsker,
    /// What is known about its verdict.
    pub review: RunReview,
    /// Whether it has put something on the remote.
    pub published: bool,
    /// Whether it has tried to push.
    pub tried_push: bool,
    /// What is known about its last words.
    pub parting: RunParting,
    /// Whether a user ended it.
    pub stopped: bool,
    /// Keys of questions that were answered with yes, and whose action is to be carried out.
    pub(super) allowed: VecDeque<String>,
    /// Pictures of the answer's calls, shown once all of them have a result.
    pub(super) pictures: Vec<Value>,
}

/// About the verdict of a run that reviews.
#[derive(Clone, Debug, Default)]
pub struct RunReview {
    /// The role whose words it took last, where no person's came after them.
    pub asked_by: Option<String>,
    /// The test command ran in it.
    pub tested: bool,
    /// It was told that it did not.
    pub reminded: bool,
    /// How often a verdict was not said.
    pub corrections: u32,
}

/// About the last words of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunParting {
    /// It was told that the work would rest with them.
    pub held: bool,
    /// The last message that it sent hands over already.
    pub handed_over: bool,
}

/// An answer of the model that is being carried out.
#[derive(Clone, Debug, Default)]
pub struct OpenAnswer {
    pub message: AssistantMessage,
    /// Keys of effects that may have happened, by the call's place.
    pub intents: BTreeMap<usize, String>,
    /// What calls came to, by the call's place.
    pub results: BTreeMap<usize, ResultKind>,
    /// Not said by the model now, but asked for before and allowed since: the question's key.
    pub allowed: Option<String>,
}

#[derive(Clone, Debug)]
pub struct EndedRun {
    pub run: OpenRun,
    pub outcome: RunOutcome,
    /// For the thread.
    pub reason: Option<String>,
    /// Whether the gateway knows.
    pub reported: bool,
}

impl OpenRun {
    /// Whether the cheaper model answers now.
    pub fn looks_first(&self) -> bool {
        self.look == RunLook::First
    }

    /// Who asks it now.
    pub(super) fn hear(&mut self, messages: &[ThreadMessage]) {
        for message in messages {
            match &message.author {
                MessageAuthor::User { .. } if message.addressed => self.asker = RunAsker::Person,
                MessageAuthor::Role { .. } if message.addressed => self.asker = RunAsker::Role,
                _ => {}
            }
            match &message.author {
                MessageAuthor::Role { role } => self.review.asked_by = Some(role.clone()),
                MessageAuthor::User { .. } | MessageAuthor::Prompt { .. } => {
                    self.review.asked_by = None;
                }
                MessageAuthor::Bot { .. } | MessageAuthor::System => {}
            }
        }
    }

    /// The test command ran.
    pub(super) fn test(&mut self, exit_code: Option<i32>) {
        self.review.tested = true;
        self.failing = if exit_code == Some(0) { 0 } else { self.failing + 1 };
    }
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

    /// Whether a call has come to this.
    pub fn any(&self, kind: ResultKind) -> bool {
        self.results.values().any(|k| *k == kind)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    Ask,
    /// Carry out the calls that have no result yet.
    Act,
    /// Begin with the action of this question: people have said yes.
    Allow(String),
    Post(String),
    End(RunOutcome),
    /// End because the model does not get it right.
    GiveUp,
}

/// Turns in a row that may go wrong.
pub const MAX_FAULTS: u32 = 5;

impl OpenRun {
    pub fn new(id: String, brief: bool) -> Self {
        let kind = if brief { RunKind::Brief } else { RunKind::Work };
        Self { id, kind, ..Self::default() }
    }

    /// Decided by what is recorded alone, so that a restart decides the same.
    pub fn next(&self) -> NextStep {
        let Some(answer) = &self.answer else {
            let hopeless = self.faults >= MAX_FAULTS
                || self.flaw.as_ref().is_some_and(|(flaw, times)| *times >= flaw.limit());
            return if hopeless { NextStep::GiveUp } else { self.go_on() };
        };
        if answer.open_calls().next().is_some() {
            return NextStep::Act;
        }
        if answer.message.tool_calls.is_empty() {
            let text =
                join_parts(&self.begun, answer.message.content.as_deref().unwrap_or_default());
            let nothing = text.trim().is_empty();
            return if nothing { NextStep::End(RunOutcome::Idle) } else { NextStep::Post(text) };
        }
        if answer.any(ResultKind::Closes) {
            NextStep::End(RunOutcome::Closed)
        } else if answer.any(ResultKind::Waits) {
            NextStep::End(RunOutcome::Waiting)
        } else if self.faults >= MAX_FAULTS {
            NextStep::GiveUp
        } else {
            self.go_on()
        }
    }

    /// Whether the last thing that was done was to post.
    pub fn spoke(&self) -> bool {
        self.posted == Some(self.turns)
    }

    /// Takes in that a reply was no answer.
    pub(super) fn flawed(&mut self, flaw: &ReplyFlaw) {
        let before = self.flaw.take().filter(|(last, _)| last.is_like(flaw));
        self.flaw = Some((flaw.clone(), before.map_or(0, |(_, times)| times) + 1));
        self.nudges += u32::from(*flaw == ReplyFlaw::Announced);
        self.turns += 1;
        self.answer = None;
    }

    fn go_on(&self) -> NextStep {
        self.allowed.front().map_or(NextStep::Ask, |key| NextStep::Allow(key.clone()))
    }
}
