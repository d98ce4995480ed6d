//! A run as its records tell it, and what it does next.

use std::collections::{BTreeMap, VecDeque};

use codebutler_wire::{MessageAuthor, NanoUsd, ThreadMessage};
use serde_json::Value;

use crate::model::judge::{ReplyFlaw, join_parts};
use crate::model::{AssistantMessage, ToolCall};
use crate::transcript::{ResultKind, RunOutcome};

/// Purpose of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunKind {
    /// A model is asked what to do.
    #[default]
    Work,
    /// No model is called: what people wanted has been done, and the run only says what was taken.
    Brief,
}

/// The model that answers in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunLook {
    /// The role's own, or the one that took over from it.
    #[default]
    Own,
    /// The cheaper one that looks first.
    First,
}

/// Kind of author that a run answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunAsker {
    /// Nobody said anything to it: a decision, or CodeButler itself, began it.
    #[default]
    Nobody,
    Person,
    Role,
}

/// One tool call with its result, by hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedStep {
    pub call: u64,
    pub result: u64,
    /// True if the call ended with an error.
    pub failed: bool,
}

/// A run that has not ended.
#[derive(Clone, Debug, Default)]
pub struct OpenRun {
    pub id: String,
    /// Purpose of the run.
    pub kind: RunKind,
    /// Model calls that were answered, readable or not.
    pub turns: u32,
    /// Cost of its answers, as far as the provider tells.
    pub cost: NanoUsd,
    /// Turns in a row in which the model said something that could not be carried out.
    pub faults: u32,
    /// Flaw of the last reply, and number of times in a row.
    pub flaw: Option<(ReplyFlaw, u32)>,
    /// Text so far of an answer that was cut off.
    pub begun: String,
    /// The turn in which something was posted last.
    pub(super) posted: Option<u32>,
    /// Number of times that the model was told that announcing an action is not doing it.
    pub nudges: u32,
    /// Number of overflows in a row: the conversation was longer than the model takes.
    pub overflows: u32,
    /// Pending decisions that it took.
    pub handled: Vec<String>,
    /// The last answer, until the next one is asked for.
    pub answer: Option<OpenAnswer>,
    /// Calls and results since it was last told that it goes in circles.
    pub steps: Vec<HashedStep>,
    /// Hashes of what was said beside calls, as long.
    pub words: Vec<u64>,
    /// Last text of the model.
    pub(super) said: Option<String>,
    /// Name and arguments of the last call.
    pub(super) called: Option<(String, String)>,
    /// Number of times that it was told that it goes in circles.
    pub stuck: u32,
    /// The model that took over.
    pub model: Option<String>,
    /// The model that answers now: the role's own, or the cheaper one.
    pub look: RunLook,
    /// Runs of the test command that failed, since one succeeded.
    pub failing: u32,
    /// Kind of author of the last message that was addressed to the role.
    pub asker: RunAsker,
    /// State of the run's verdict in a review.
    pub review: RunReview,
    /// True once the run has put something on the remote.
    pub published: bool,
    /// True once the run has tried to push.
    pub tried_push: bool,
    /// State of the run's last words.
    pub parting: RunParting,
    /// True if a user ended the run.
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
    /// True if the run was told that it did not run the tests.
    pub reminded: bool,
    /// Number of verdicts that were held back.
    pub corrections: u32,
}

/// About the last words of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunParting {
    /// True if the run was told that the work would rest with its last words.
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
    /// Consequences of the calls that have a result, by their index in the answer.
    pub results: BTreeMap<usize, ResultKind>,
    /// Key of the question, if the call was asked for before and allowed since, not made by the model now.
    pub allowed: Option<String>,
}

#[derive(Clone, Debug)]
pub struct EndedRun {
    pub run: OpenRun,
    pub outcome: RunOutcome,
    /// Reason of a failure, for the thread.
    pub reason: Option<String>,
    /// True once the gateway knows that it ended.
    pub reported: bool,
}

impl OpenRun {
    /// Returns true while the cheaper model answers.
    pub fn looks_first(&self) -> bool {
        self.look == RunLook::First
    }

    /// Notes the authors of new messages: who asks now, and the role whose words came last.
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

    /// Notes a run of the test command.
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

    /// Returns true if a call has this consequence.
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

    /// Returns true if the last thing that was done was to post.
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
