//! Ledger of requests, answers and their cost: the truth that the product is compared with.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_crds::NanoUsd;
use serde_json::Value;

use super::follow::{FollowMemory, SpoiltStep};
use super::generation::BilledGeneration;
use super::mischief::MischiefKind;
use super::play::PlayPlace;
use super::played::FilledAnswer;
use super::usage::ScriptUsage;

/// A request as it arrived at the server.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Role of the request, if its model is in the script.
    pub role: Option<String>,
    /// Body of the request; null if it was no JSON.
    pub body: Value,
    /// HTTP status of the answer.
    pub status: u16,
}

/// An answer that was given and billed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedAnswer {
    /// Role that sent the request.
    pub role: String,
    /// Id that tells conversations of a role apart.
    pub conversation: u64,
    /// Index of the role's conversation in the script that it was taken for.
    pub list: usize,
    /// Index of the step in that conversation.
    pub step: usize,
    /// True if the same step of the same conversation had been answered before.
    pub repeat: bool,
    /// Names of the tools that it called.
    pub tools: Vec<String>,
    /// Cost that was billed, in USD.
    pub cost: NanoUsd,
    /// Number of prompt tokens that were billed.
    pub prompt_tokens: u64,
    /// Number of those tokens that were read from the provider's cache.
    pub cached_tokens: u64,
    /// Number of those tokens that were written to the provider's cache.
    pub written_tokens: u64,
    /// Number of completion tokens that were billed.
    pub completion_tokens: u64,
}

/// A fault that was played on purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlayedMischief {
    /// Role that sent the request.
    pub role: String,
    /// Id that tells conversations of a role apart.
    pub conversation: u64,
    /// Opening text of the conversation.
    pub opening: String,
    /// Index of the step that was asked for.
    pub step: usize,
    /// Kind of fault that was played.
    pub kind: MischiefKind,
    /// Cost that was billed, in USD.
    pub cost: NanoUsd,
    /// Number of prompt tokens that were billed.
    pub prompt_tokens: u64,
    /// Number of completion tokens that were billed.
    pub completion_tokens: u64,
}

/// Totals billed to one role.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoleBill {
    /// Cost of all answers, in USD.
    pub cost: NanoUsd,
    /// Number of prompt tokens that were billed.
    pub prompt_tokens: u64,
    /// Number of completion tokens that were billed.
    pub completion_tokens: u64,
    /// Number of answers given to the role.
    pub calls: u64,
    /// Number of answers that had been given before: paid twice.
    pub repeats: u64,
    /// Number of tool calls in the answers.
    pub tool_calls: u64,
    /// Number of faults played on purpose: no answers, but billed where they cost something.
    pub misplayed: u64,
}

/// Totals billed to all roles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelBill {
    /// Totals by the role's name.
    pub roles: BTreeMap<String, RoleBill>,
}

impl ModelBill {
    /// Total cost of all roles, in USD.
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
    /// Memory of the conversations so far.
    pub memory: FollowMemory,
    /// Failures of the script, each only once, however often the request is repeated.
    pub failures: Vec<String>,
    /// Billed answers by their id.
    pub generations: BTreeMap<String, BilledGeneration>,
    /// True if costs are not told afterwards.
    pub secret: bool,
    faults: BTreeMap<(u64, usize), u32>,
    /// Number of requests for each step, faults aside.
    asked: BTreeMap<(u64, usize), u32>,
    answered: BTreeSet<(u64, usize)>,
}

impl ModelLedger {
    /// Counts one more fault of a step. Returns false once it has had all its faults.
    pub(super) fn take_fault(&mut self, conversation: u64, step: usize, times: u32) -> bool {
        let count = self.faults.entry((conversation, step)).or_default();
        *count += 1;
        *count <= times
    }

    /// Number of earlier requests for the place; counts this one.
    pub(super) fn ask(&mut self, place: &PlayPlace<'_>) -> u32 {
        let count = self.asked.entry((place.conversation, place.index)).or_default();
        *count += 1;
        *count - 1
    }

    /// Records the script's real answer of a step that is answered differently.
    pub(super) fn spoil(&mut self, place: &PlayPlace<'_>, answer: &FilledAnswer, mention: bool) {
        let spoilt = SpoiltStep { real: answer.clone(), mention };
        self.memory.spoilt.insert((place.conversation, place.index), spoilt);
    }

    /// Lets a step be played once more without counting as a repeat.
    pub(super) fn forgive(&mut self, place: &PlayPlace<'_>) {
        self.answered.remove(&(place.conversation, place.index));
    }

    /// Records the list and the captured values, which can't be derived again once the conversation is shortened.
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
