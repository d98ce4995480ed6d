//! Choice of the model that answers.

use super::TranscriptState;
use super::run::RunLook;
use crate::transcript::TranscriptRecord;

impl TranscriptState {
    /// The model that answers instead of the session's own.
    pub fn model(&self) -> Option<&str> {
        let own = self.run.as_ref().and_then(|run| run.model.as_ref());
        own.or(self.model.as_ref()).map(String::as_str)
    }

    /// Returns true once the role's own model has taken over from the one that looked first.
    pub fn is_handed_up(&self) -> bool {
        self.handed_up
    }

    /// Another model answers from now on.
    pub(super) fn switch_model(&mut self, record: &TranscriptRecord) {
        match record {
            TranscriptRecord::Model { model } => {
                self.model = Some(model.clone());
                self.think_anew();
                if let Some(run) = &mut self.run {
                    run.model = None;
                    run.look = RunLook::Own;
                }
            }
            TranscriptRecord::Escalated { model } => self.escalate(model),
            TranscriptRecord::FirstLook { model } => {
                self.escalate(model);
                if let Some(run) = &mut self.run {
                    run.look = RunLook::First;
                }
            }
            TranscriptRecord::HandedUp { model, text, .. } => self.hand_up(model, text.as_deref()),
            _ => {}
        }
    }

    /// Has another model answer for the rest of the run.
    fn escalate(&mut self, model: &str) {
        self.think_anew();
        if let Some(run) = &mut self.run {
            run.model = Some(model.to_owned());
        }
    }

    fn hand_up(&mut self, model: &str, text: Option<&str>) {
        self.handed_up = true;
        self.think_anew();
        self.answer_calls(&format!("`{model}` goes on from here"));
        if let Some(text) = text {
            self.go_on(text, |_| {});
        }
        if let Some(run) = &mut self.run {
            run.model = None;
            run.look = RunLook::Own;
            run.answer = None;
            // Faults of the other model don't count against this one.
            run.faults = 0;
            run.flaw = None;
        }
    }
}
