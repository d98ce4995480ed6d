//! Verdicts of a review: kept to the protocol, and looked at twice where the Repo says so.

use codebutler_wire::RoleCard;

use super::view::{RunEnding, failed_end};
use super::{Agent, RunError};
use crate::decisions::LoggedKind;
use crate::review::{ReviewDuty, ReviewFault, ReviewGate, ReviewParts, ReviewStep};
use crate::transcript::TranscriptRecord;

/// Most corrections of a verdict before the run ends.
const MOST_CORRECTIONS: u32 = 3;
/// Name of the tool that reviewing roles have.
const PLANS: &str = "PlanReview";

/// Verdict on the model's last words.
pub(super) enum SpokenWords {
    /// They can be posted as they are.
    Fine,
    /// The model was told why they can't be.
    Again,
    Over(RunEnding),
}

impl Agent {
    /// Rules that a review has to keep to, as it stands now.
    pub(super) fn review_gate(&self) -> ReviewGate {
        let state = self.transcript.state();
        let (reviews, run) = (state.reviews(), state.run());
        let session = &self.session;
        let find = |is: fn(&RoleCard) -> bool| {
            session.roles.iter().find(|card| is(card)).map(|card| card.role.clone())
        };
        let has = |tool: &str| session.tools.iter().any(|one| one == tool);
        let maker = find(|card| card.implements);
        let asked_by = run.and_then(|run| run.review.asked_by.as_ref());
        let (reviewer, lead) = (find(|card| card.reviews), find(|card| card.leads));
        let duty = ReviewDuty::find(ReviewParts {
            own: &session.role,
            plans_reviews: has(PLANS),
            has_pull_request: session.pull_request.is_some(),
            maker: maker.as_deref(),
            reviewer: reviewer.as_deref(),
            lead: lead.as_deref(),
            asked_by: asked_by.map(String::as_str),
        });
        ReviewGate {
            duty,
            is_planned: reviews.is_planned,
            missing_tests: reviews.missing_tests.clone(),
            maker,
            lead,
            test: session.test.clone().filter(|_| has("Bash")),
            has_tested: run.is_some_and(|run| run.review.tested || run.review.reminded),
            other: asked_by.cloned(),
            is_reminded: run.is_some_and(|run| run.review.reminded),
        }
    }

    /// Starts a review with the cheaper model.
    pub(super) fn begin_first_pass(&mut self) -> Result<(), RunError> {
        let Some(first) = self.session.first_pass.clone() else { return Ok(()) };
        let state = self.transcript.state();
        let own = self.model().to_owned();
        let lead = self.session.roles.iter().find(|card| card.leads).map(|card| &card.role);
        let fresh = state.run().is_some_and(|run| {
            let asker = run.review.asked_by.as_ref();
            run.model.is_none() && (asker.is_none() || asker != lead)
        });
        if !fresh || state.model().is_some() || own == first {
            return Ok(());
        }
        let run = state.run().map(|run| run.id.clone()).unwrap_or_default();
        self.log.note(
            &run,
            LoggedKind::Model,
            &first,
            &[&own],
            "the first of two passes of a review",
        );
        Ok(self.transcript.append(&TranscriptRecord::Escalated { model: first })?)
    }

    /// Checks a verdict against the review's rules before it is posted.
    pub(super) fn judge_verdict(&mut self, text: &str) -> Result<SpokenWords, RunError> {
        let gate = self.review_gate();
        let judged = gate.duty != ReviewDuty::None;
        let Some(run) = self.transcript.state().run().filter(|_| judged) else {
            return Ok(SpokenWords::Fine);
        };
        let (id, corrections) = (run.id.clone(), run.review.corrections);
        let (why, reminder) = match gate.find_fault(text) {
            Some(ReviewFault::Rule(why)) if corrections >= MOST_CORRECTIONS => {
                return Ok(SpokenWords::Over(failed_end(format!("a verdict was not said: {why}"))));
            }
            Some(ReviewFault::Rule(why)) => (why, false),
            Some(ReviewFault::Reminder(why)) => (why, true),
            None => return self.pass_verdict(&gate, text, &id),
        };
        tracing::info!(why, "verdict_corrected");
        self.transcript.append(&TranscriptRecord::ReviewCorrected { why, reminder })?;
        Ok(SpokenWords::Again)
    }

    /// Has a change that the first pass lets through reviewed a second time.
    fn pass_verdict(
        &mut self,
        gate: &ReviewGate,
        text: &str,
        run: &str,
    ) -> Result<SpokenWords, RunError> {
        let state = self.transcript.state();
        let passing = state.run().and_then(|run| run.model.clone());
        let passes = [ReviewStep::PassesOn, ReviewStep::AddressesNobody];
        let Some(first) = passing.filter(|first| Some(first) == self.session.first_pass.as_ref())
        else {
            return Ok(SpokenWords::Fine);
        };
        if !passes.contains(&gate.step_of(text)) {
            return Ok(SpokenWords::Fine);
        }
        let why = format!(
            "That was the first pass, by {first}; it was not posted. Review a second time what it may have \
             missed: read the changes yourself, try what looks risky, and give your own verdict."
        );
        let own = self.session.model.clone();
        self.log.note(run, LoggedKind::Model, &own, &[&first], "the second pass of a review");
        self.transcript.append(&TranscriptRecord::SecondPass { why })?;
        Ok(SpokenWords::Again)
    }
}
