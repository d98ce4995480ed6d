//! End of a run: decides if it may end with the model's last words, and if they still have to be said.

use codebutler_wire::LastWords;

use super::{Agent, RunError};
use crate::gateway::GatewayError;
use crate::mentions::addresses_role;
use crate::step;
use crate::transcript::TranscriptRecord;

/// Longest text, in characters, that can be no more than "done".
const SHORT: usize = 80;
/// Words that make a short text more than a bare "done".
const NEWS: [&str; 12] = [
    "not", "no", "but", "fail", "fails", "failed", "error", "except", "unless", "cannot",
    "missing", "however",
];

impl Agent {
    /// Returns true if the run continues after the model's last words, because the gateway knows that the work would
    /// stall. At most once in a run, and only while a turn is left.
    pub(super) async fn goes_on(&mut self, text: &str) -> Result<bool, RunError> {
        let may = |run: &crate::transcript::state::OpenRun| {
            !run.parting.held && !run.stopped && run.turns < self.session.max_turns
        };
        // One of several conversations answers who asked, and nothing else.
        if self.seat.is_some() || !self.transcript.state().run().is_some_and(may) {
            return Ok(false);
        }
        step::point("before last words");
        let words = LastWords { text: text.to_owned() };
        let why = match self.tools.gateway.last_words(&words).await {
            Ok(verdict) => verdict.nudge,
            // An older gateway does not know the request, or has no say in it.
            Err(GatewayError::Refused { .. } | GatewayError::Unexpected { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let Some(why) = why else { return Ok(false) };
        tracing::info!(why, "run_continued");
        self.transcript.append(&TranscriptRecord::Held { why })?;
        step::point("after last words");
        Ok(true)
    }

    /// True if the run has already handed over and these words add nothing to that.
    pub(super) fn has_said_it(&self, text: &str) -> bool {
        let handed = self.transcript.state().run().is_some_and(|run| run.parting.handed_over);
        handed && adds_nothing(text)
    }
}

/// True if a text is a bare "done" without any news.
fn adds_nothing(text: &str) -> bool {
    let text = text.trim();
    let plain =
        !text.contains(['\n', '`', '?', ':']) && !text.contains(|c: char| c.is_ascii_digit());
    let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '\'');
    let news = words.any(|word| {
        let word = word.to_lowercase();
        NEWS.contains(&word.as_str()) || word.ends_with("n't")
    });
    plain && text.chars().count() <= SHORT && !addresses_role(text) && !news
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mere_done_adds_nothing() {
        for text in
            ["Done.", " Handed over to the reviewer. ", "All set! 🎉", "Waiting for the review."]
        {
            assert!(adds_nothing(text), "{text}");
        }
        for text in [
            "I could not run the tests.",
            "Done, but the linter fails.",
            "I couldn't push.",
            "Which one?",
            "See `a.rs`",
            "It took 3 tries.",
            "@codebutler.reviewer please look",
            "Note: slow",
            "a\nb",
        ] {
            assert!(!adds_nothing(text), "{text}");
        }
    }
}
