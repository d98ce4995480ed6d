//! Escalation when work goes badly: the model is told, then a stronger model takes over, and at last people are
//! asked.

use super::view::RunEnding;
use super::{Agent, RunError, stuck};
use crate::decisions::LoggedKind;
use crate::transcript::{RunOutcome, TranscriptRecord};

/// Consecutive test failures after which work counts as harder than it looked.
const FAILING: u32 = 2;

impl Agent {
    /// Switches to the stronger model once half of the turns are used and the tests fail again and again.
    pub(super) fn escalate(&mut self) -> Result<(), RunError> {
        let state = self.transcript.state();
        let Some(run) = state.run().filter(|run| run.model.is_none()) else { return Ok(()) };
        let late = run.turns.saturating_mul(2) > self.session.max_turns;
        let current = self.model().to_owned();
        let stronger = self.session.stronger.clone().filter(|model| *model != current);
        let Some(model) = stronger.filter(|_| late && run.failing >= FAILING) else {
            return Ok(());
        };
        let why = format!(
            "{} of {} turns are used, and the tests failed {} times in a row",
            run.turns, self.session.max_turns, run.failing
        );
        let id = run.id.clone();
        self.log.note(&id, LoggedKind::Model, &model, &[&current], &why);
        Ok(self.transcript.append(&TranscriptRecord::Escalated { model })?)
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
