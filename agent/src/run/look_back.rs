//! Cost limit of a retrospective, set by the Repo: counted from its beginning, with the cost of the roles that were
//! asked.

use codebutler_wire::NanoUsd;

use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::tools::LookBackFacts;
use crate::transcript::TranscriptRecord;

impl Agent {
    /// Records the total cost at the beginning.
    pub(super) fn begin_look_back(&mut self) -> Result<(), RunError> {
        if !self.tools.thread.looks_back || self.transcript.state().look_back().has_begun() {
            return Ok(());
        }
        let usage = self.session.usage.iter();
        let spent = usage.map(|(role, usage)| (role.clone(), usage.cost)).collect();
        Ok(self.transcript.append(&TranscriptRecord::LookedBack { spent })?)
    }

    /// Facts about the retrospective that tools need.
    pub(super) fn look_back_facts(&self) -> LookBackFacts {
        let state = self.transcript.state();
        let usage = self.session.usage.iter();
        let took_part = usage.filter(|(role, usage)| usage.calls > 0 && *role != self.session.role);
        LookBackFacts {
            limit: self.session.look_back_limit,
            cost: self.look_back_cost(),
            took_part: took_part.map(|(role, _)| role.clone()).collect(),
            asked: state.look_back().asked().clone(),
            messages: state.seen().iter().cloned().collect(),
            is_over: state.look_back().is_over(),
        }
    }

    /// Cost of the retrospective so far: by the ledger at the run's start, and by its answers since.
    fn look_back_cost(&self) -> NanoUsd {
        let state = self.transcript.state();
        if !state.look_back().has_begun() {
            return NanoUsd::ZERO;
        }
        let now = state.run().map_or(NanoUsd::ZERO, |run| run.cost);
        state.look_back().cost(&self.session.role, &self.session.usage) + now
    }

    /// Tells the model, once, that the retrospective has reached its cost limit.
    pub(super) fn watch_look_back(&mut self) -> Result<(), RunError> {
        let Some(limit) = self.session.look_back_limit else { return Ok(()) };
        if !self.tools.thread.looks_back {
            return Ok(());
        }
        let cost = self.look_back_cost();
        self.tools.thread.look_back.cost = cost;
        if cost < limit || self.transcript.state().look_back().is_over() {
            return Ok(());
        }
        let why = format!(
            "The retrospective has cost ${cost}, and this Repo lets it cost ${limit}. Call ProposeLearnings now with what \
             you have, or ask whether to merge without it."
        );
        let run = self.transcript.state().run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(&run, LoggedKind::Learning, "retrospective ends", &["go on"], &why);
        self.tools.thread.look_back.is_over = true;
        Ok(self.transcript.append(&TranscriptRecord::LookBackOver { why })?)
    }
}
