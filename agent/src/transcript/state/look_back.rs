//! Progress of a role's look back on the conversation.

use std::collections::{BTreeMap, BTreeSet};

use codebutler_guides::voice::speak;
use codebutler_wire::{NanoUsd, TokenUsage};

use super::TranscriptState;
use crate::model;
use crate::transcript::TranscriptRecord;

/// Progress and cost of the look back.
#[derive(Clone, Debug, Default)]
pub struct LookBack {
    /// Cost of each role when the look back began; none before.
    pub(super) spent: Option<BTreeMap<String, NanoUsd>>,
    /// Roles that were asked a question.
    pub(super) asked: BTreeSet<String>,
    /// True if the look back has cost as much as it may.
    pub(super) over: bool,
    /// The retrospective is in the thread.
    pub(super) done: bool,
}

impl LookBack {
    pub fn has_begun(&self) -> bool {
        self.spent.is_some()
    }

    pub fn is_done(&self) -> bool {
        self.done
    }

    pub fn is_over(&self) -> bool {
        self.over
    }

    pub fn asked(&self) -> &BTreeSet<String> {
        &self.asked
    }

    /// Cost of the look back, to the role itself and those that it asked, by the ledger.
    pub fn cost(&self, role: &str, usage: &[(String, TokenUsage)]) -> NanoUsd {
        let Some(before) = &self.spent else { return NanoUsd::ZERO };
        let counts = |name: &String| name == role || self.asked.contains(name);
        let since = usage.iter().filter(|(name, _)| counts(name)).map(|(name, usage)| {
            usage.cost.less(before.get(name).copied().unwrap_or(NanoUsd::ZERO))
        });
        since.fold(NanoUsd::ZERO, |sum, one| sum + one)
    }
}

impl TranscriptState {
    pub(super) fn looked_back(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::LookedBack { spent } => self.look_back.spent = Some(spent.clone()),
            TranscriptRecord::RolesAsked { roles } => {
                self.look_back.asked.extend(roles.iter().cloned());
            }
            TranscriptRecord::LookBackOver { why } => {
                self.look_back.over = true;
                self.chat.push(model::user_message(&speak(why)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_costs_is_counted_from_its_beginning_and_with_whom_it_asked() {
        let cost = |nanos| TokenUsage { cost: NanoUsd(nanos), ..TokenUsage::default() };
        let usage = [
            ("lead".to_owned(), cost(9)),
            ("coder".to_owned(), cost(50)),
            ("pm".to_owned(), cost(7)),
        ];
        let mut look = LookBack::default();
        assert_eq!(look.cost("lead", &usage), NanoUsd::ZERO);
        let spent =
            BTreeMap::from([("lead".to_owned(), NanoUsd(2)), ("coder".to_owned(), NanoUsd(40))]);
        look.spent = Some(spent);
        assert_eq!(look.cost("lead", &usage), NanoUsd(7));
        look.asked.insert("coder".to_owned());
        assert_eq!(look.cost("lead", &usage), NanoUsd(17));
    }
}
