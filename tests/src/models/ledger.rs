//! What was asked, what was answered, and what it cost: the truth that the product is compared with.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::NanoUsd;
use serde_json::Value;

use super::follow::{FollowMemory, SpoiltStep};
use super::generation::BilledGeneration;
use super::mischief::MischiefKind;
use super::play::{FilledAnswer, PlayPlace};
use super::script::ScriptUsage;

/// A request as it arrived.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// The role, if its model is in the script.
    pub role: Option<String>,
    /// The body; null if it was no JSON.
    pub body: Value,
    /// The answer's status.
    pub status: u16,
}

/// An answer that was given and billed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedAnswer {
    /// Who asked.
    pub role: String,
    /// Tells conversations of a role apart.
    pub conversation: u64,
    /// Which of the role's conversations in the script it was taken for.
    pub list: usize,
    /// Index of the step in it.
    pub step: usize,
    /// Whether the same step of the same conversation had been answered before.
    pub repeat: bool,
    /// Tools it called.
    pub tools: Vec<String>,
    /// USD.
    pub cost: NanoUsd,
    /// Tokens in.
    pub prompt_tokens: u64,
    /// Of those, what the provider had kept.
    pub cached_tokens: u64,
    /// Of those, what it keeps from now on.
    pub written_tokens: u64,
    /// Tokens out.
    pub completion_tokens: u64,
}

/// Something that went wrong on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedMischief {
    /// Who asked.
    pub role: String,
    /// Tells conversations of a role apart.
    pub conversation: u64,
    /// What the conversation began with.
    pub opening: String,
    /// Index of the step that was asked for.
    pub step: usize,
    /// What went wrong.
    pub kind: MischiefKind,
    /// USD.
    pub cost: NanoUsd,
    /// Tokens in.
    pub prompt_tokens: u64,
    /// Tokens out.
    pub completion_tokens: u64,
}

/// What a role was billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleBill {
    /// USD.
    pub cost: NanoUsd,
    /// Tokens in.
    pub prompt_tokens: u64,
    /// Tokens out.
    pub completion_tokens: u64,
    /// Answers.
    pub calls: u64,
    /// Answers that had been given before: paid twice.
    pub repeats: u64,
    /// Tool calls in them.
    pub tool_calls: u64,
    /// What went wrong on purpose: no answers, but billed where they cost something.
    pub misplayed: u64,
}

/// What everything was billed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelBill {
    /// By role.
    pub roles: BTreeMap<String, RoleBill>,
}

impl ModelBill {
    /// USD of all roles.
    #[must_use]
    pub fn total(&self) -> NanoUsd {
        self.roles.values().map(|r| r.cost).sum()
    }
}

#[derive(Debug, Default)]
pub(super) struct ModelLedger {
    pub requests: Vec<ModelRequest>,
    pub served: Vec<ServedAnswer>,
    pub misplayed: Vec<PlayedMischief>,
    /// What is kept of conversations.
    pub memory: FollowMemory,
    /// Each only once, however often the request is repeated.
    pub failures: Vec<String>,
    /// What was billed, by the answer's id.
    pub generations: BTreeMap<String, BilledGeneration>,
    /// Whether that is kept back.
    pub secret: bool,
    faults: BTreeMap<(u64, usize), u32>,
    /// How often a step was asked for, faults aside.
    asked: BTreeMap<(u64, usize), u32>,
    answered: BTreeSet<(u64, usize)>,
}

impl ModelLedger {
    /// Counts one more fault of a step, unless it has had its number of them.
    pub(super) fn take_fault(&mut self, conversation: u64, step: usize, times: u32) -> bool {
        let count = self.faults.entry((conversation, step)).or_default();
        *count += 1;
        *count <= times
    }

    /// How often the place has been asked for before; counts this time.
    pub(super) fn ask(&mut self, place: &PlayPlace<'_>) -> u32 {
        let count = self.asked.entry((place.conversation, place.index)).or_default();
        *count += 1;
        *count - 1
    }

    /// Keeps what a place's step really says, since something else is said.
    pub(super) fn spoil(&mut self, place: &PlayPlace<'_>, answer: &FilledAnswer, mention: bool) {
        let spoilt = SpoiltStep { real: answer.clone(), mention };
        self.memory.spoilt.insert((place.conversation, place.index), spoilt);
    }

    /// Lets a step be played once more without being paid twice.
    pub(super) fn forgive(&mut self, place: &PlayPlace<'_>) {
        self.answered.remove(&(place.conversation, place.index));
    }

    /// Keeps what a conversation can't be asked for again once it is shortened.
    pub(super) fn remember(&mut self, place: &PlayPlace<'_>, answer: &FilledAnswer) {
        self.memory.lists.insert(place.conversation, place.list);
        self.memory.values.insert(place.conversation, answer.values.clone());
    }

    pub(super) fn misplay(
        &mut self,
        place: &PlayPlace<'_>,
        kind: MischiefKind,
        usage: &ScriptUsage,
    ) {
        self.misplayed.push(PlayedMischief {
            role: place.role.to_owned(),
            conversation: place.conversation,
            opening: place.opening.clone(),
            step: place.index,
            kind,
            cost: usage.cost.amount,
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
        });
    }

    pub(super) fn fail(&mut self, failure: String) {
        if !self.failures.contains(&failure) {
            self.failures.push(failure);
        }
    }

    pub(super) fn serve(
        &mut self,
        role: &str,
        (conversation, list, step): (u64, usize, usize),
        tools: Vec<String>,
        usage: &ScriptUsage,
    ) {
        self.served.push(ServedAnswer {
            role: role.to_owned(),
            conversation,
            list,
            step,
            repeat: !self.answered.insert((conversation, step)),
            tools,
            cost: usage.cost.amount,
            prompt_tokens: usage.prompt,
            cached_tokens: usage.cached,
            written_tokens: usage.written,
            completion_tokens: usage.completion,
        });
    }

    pub(super) fn bill(&self) -> ModelBill {
        let mut bill = ModelBill::default();
        for served in &self.served {
            let role = bill.roles.entry(served.role.clone()).or_default();
            role.cost += served.cost;
            role.prompt_tokens += served.prompt_tokens;
            role.completion_tokens += served.completion_tokens;
            role.calls += 1;
            role.repeats += u64::from(served.repeat);
            role.tool_calls += served.tools.len() as u64;
        }
        for misplayed in &self.misplayed {
            let role = bill.roles.entry(misplayed.role.clone()).or_default();
            role.cost += misplayed.cost;
            role.prompt_tokens += misplayed.prompt_tokens;
            role.completion_tokens += misplayed.completion_tokens;
            role.misplayed += 1;
        }
        bill
    }
}
