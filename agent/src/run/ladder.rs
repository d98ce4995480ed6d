//! Escalation when work goes badly: the model is told, then a stronger model takes over, and at last people are
//! asked.

use codebutler_wire::PostMessage;

use super::view::RunEnding;
use super::{Agent, RunError, stuck};
use crate::decisions::LoggedKind;
use crate::review::ReviewDuty;
use crate::step;
use crate::transcript::state::OpenRun;
use crate::transcript::{RunOutcome, TranscriptRecord};

/// Consecutive test failures after which work counts as harder than it looked, late in a run.
const FAILING_LATE: u32 = 2;
/// The same at any time, for the role that makes changes and begins with a cheaper model: a test that shows the bug
/// fails before there is a fix, and the first fix may fall short.
const FAILING: u32 = 3;
/// Times that a reviewer has come back to the change.
const SENT_BACK: u32 = 2;

impl Agent {
    /// Switches to the stronger model for the rest of the run once something speaks against the one that works. The
    /// message is posted before the switch is recorded: repeated after a crash, the same key posts nothing again.
    /// The model for complex work stays: beside it, the others are weaker.
    pub(super) async fn escalate(&mut self) -> Result<(), RunError> {
        if self.session.is_strongest {
            return Ok(());
        }
        let state = self.transcript.state();
        let Some(run) = state.run().filter(|run| run.model.is_none()) else { return Ok(()) };
        let current = self.model().to_owned();
        let stronger = self.session.stronger.clone().filter(|model| *model != current);
        let Some((model, why)) = stronger.zip(self.find_doubt(run)) else { return Ok(()) };
        let id = run.id.clone();
        let text = format!("`{model}` goes on from here: {why}.");
        step::point("before escalation");
        let key = format!("{id}.stronger");
        self.tools.gateway.post(&PostMessage { key, text, ..PostMessage::default() }).await?;
        self.log.note(&id, LoggedKind::Model, &model, &[&current], &why);
        Ok(self.transcript.append(&TranscriptRecord::Escalated { model })?)
    }

    /// Reason for which a run is too hard for its model, if something says so.
    fn find_doubt(&self, run: &OpenRun) -> Option<String> {
        let late = run.turns.saturating_mul(2) > self.session.max_turns;
        if late && run.failing >= FAILING_LATE {
            return Some(format!(
                "{} of {} turns are used, and the tests failed {} times in a row",
                run.turns, self.session.max_turns, run.failing
            ));
        }
        let own = &self.session.role;
        let makes = self.session.roles.iter().any(|card| card.implements && card.role == *own);
        // A role that reproduces a bug sees tests fail, too. The model that a person has chosen stays.
        if !makes || !self.session.steps_up || self.transcript.state().model().is_some() {
            return None;
        }
        if run.failing >= FAILING {
            return Some(format!("the tests failed {} times in a row", run.failing));
        }
        let reviewer = run.review.asked_by.as_deref()?;
        let times = self.transcript.state().reviews().count_times(reviewer);
        let is_sent_back = times >= SENT_BACK && self.review_gate().duty == ReviewDuty::Makes;
        is_sent_back.then(|| format!("the review has come back {times} times"))
    }

    /// Breaks a loop: first with a nudge, then with the stronger model, then with a question to people.
    pub(super) async fn unstick(&mut self) -> Result<Option<RunEnding>, RunError> {
        let Some(run) = self.transcript.state().run() else { return Ok(None) };
        let Some(why) = stuck::find_circle(&run.steps, &run.words) else { return Ok(None) };
        let (id, times) = (run.id.clone(), run.stuck);
        let current = self.model().to_owned();
        let stronger = self.session.stronger.clone().filter(|model| *model != current);
        let (chosen, model) = match (times, stronger) {
            (0, _) => ("a nudge", None),
            (1, Some(model)) => ("the stronger model", Some(model)),
            _ => {
                self.log.note(
                    &id,
                    LoggedKind::Stuck,
                    "a question",
                    &["a nudge", "the stronger model"],
                    why,
                );
                let text = format!(
                    "I am stuck: {why}{}. What should I do differently, or what am I missing?",
                    self.last_step()
                );
                let ended = self.answer(format!("{id}.stuck"), &text).await?;
                let asked = ended == (RunOutcome::Idle, None);
                return Ok(Some(if asked { (RunOutcome::Waiting, None) } else { ended }));
            }
        };
        self.log.note(&id, LoggedKind::Stuck, chosen, &["a question"], why);
        self.transcript.append(&TranscriptRecord::Stuck { why: why.to_owned(), model })?;
        Ok(None)
    }
}
