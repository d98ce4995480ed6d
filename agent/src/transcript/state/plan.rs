//! The approved plan: it stands once in what a model is shown, whatever else changes beside it.

use codebutler_guides::voice::{quote_lines, speak};
use codebutler_wire::SlackTs;
use serde_json::Value;

use super::TranscriptState;
use crate::model;

const SEND: &str = "SendMessage";
/// The beginning of facts, which name things that people can ask for.
const FACTS: &str = "[CodeButler] # As of now";

impl TranscriptState {
    /// The approved plan as the role was shown it last, and what counts for its files.
    pub fn plan(&self) -> (Option<&str>, Option<&str>) {
        (self.plan.0.as_deref(), self.plan.1.as_deref())
    }

    /// True if the conversation shows a message with exactly these words: as people's or another role's, or as
    /// a call of this role.
    pub fn shows_message(&self, ts: &SlackTs, text: &str) -> bool {
        let text = text.trim();
        let (opening, quoted) = (format!("[message {ts} from "), quote_lines(text));
        let posted = format!("Posted as message {ts}.");
        let of =
            |role: &'static str| self.chat.iter().filter(move |message| message["role"] == role);
        let heard = |message: &Value| {
            let shown = message["content"].as_str().and_then(|shown| shown.split_once(&opening));
            shown.is_some_and(|(_, rest)| {
                let words = rest.split_once('\n').map_or("", |(_, words)| words);
                words
                    .strip_prefix(&quoted)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('\n'))
            })
        };
        let is_posted = |message: &Value| {
            message["content"].as_str().is_some_and(|result| result.starts_with(&posted))
        };
        let said = |message: &Value| {
            let calls = message["tool_calls"].as_array().into_iter().flatten();
            calls.filter_map(model::call_parts).any(|(name, arguments)| {
                let given: Value = serde_json::from_str(arguments).unwrap_or_default();
                name == SEND && given["message"].as_str().is_some_and(|said| said.trim() == text)
            })
        };
        of("user").any(heard) || (of("tool").any(is_posted) && of("assistant").any(said))
    }

    /// True if a message to the model has one of these words, given in small letters, or a longer one with it.
    pub fn names_any(&self, words: &[&str]) -> bool {
        self.told_texts().any(|text| words.iter().any(|word| text.contains(word)))
    }

    /// The same, of whole words.
    pub fn names_whole(&self, words: &[&str]) -> bool {
        let is_one = |word: &str| words.contains(&word);
        self.told_texts().any(|text| text.split(|c: char| !c.is_alphanumeric()).any(is_one))
    }

    fn told_texts(&self) -> impl Iterator<Item = String> {
        let told = self.chat.iter().filter(|message| message["role"] == "user");
        let texts = told.filter_map(|message| message["content"].as_str());
        texts.filter(|text| !text.starts_with(FACTS)).map(str::to_lowercase)
    }

    pub(super) fn show_plan(
        &mut self,
        (text, guides): (Option<&str>, Option<&str>),
        message: Option<&SlackTs>,
        known: bool,
    ) {
        if let Some(text) = text {
            self.reviews.approve(text);
        }
        let plan = match (text, message) {
            (Some(_), _) if known => None,
            (Some(_), Some(ts)) => Some(format!(
                "What was approved, and nothing else, is the plan in message {ts} above."
            )),
            (Some(text), None) => Some(text.to_owned()),
            (None, _) => None,
        };
        let parts = plan.into_iter().chain(guides.map(str::to_owned));
        let parts: Vec<String> = parts.map(|part| speak(&part)).collect();
        if !parts.is_empty() {
            self.chat.push(model::user_message(&parts.join("\n\n")));
        }
        self.plan = (text.map(str::to_owned), guides.map(str::to_owned));
    }
}

#[cfg(test)]
mod tests {
    use codebutler_wire::{MessageAuthor, ThreadMessage};

    use super::super::super::TranscriptRecord;
    use super::*;

    fn heard(text: &str) -> TranscriptState {
        let mut state = TranscriptState::default();
        let message = ThreadMessage {
            ts: "5.000001".parse().unwrap(),
            author: MessageAuthor::Role { role: "pm".into() },
            text: text.into(),
            addressed: false,
            pictures: vec![],
        };
        state.apply(&TranscriptRecord::RunStarted { run: "r".into(), at: 1, brief: false });
        state.apply(&TranscriptRecord::Taken {
            messages: vec![message],
            pending: vec![],
            pictures: vec![],
        });
        state
    }

    fn approved(state: &TranscriptState, words: &str) -> TranscriptRecord {
        let ts: SlackTs = "5.000001".parse().unwrap();
        TranscriptRecord::ApprovedPlan {
            text: Some(format!("This was approved: {words}")),
            guides: None,
            message: state.shows_message(&ts, words).then_some(ts),
            known: false,
        }
    }

    fn count(state: &TranscriptState, words: &str) -> usize {
        serde_json::to_string(state.chat()).unwrap().matches(words).count()
    }

    #[test]
    fn a_plan_that_is_shown_as_a_message_is_named_and_not_said_again() {
        let mut state = heard("Plan: use cents.");
        let record = approved(&state, "Plan: use cents.");
        state.apply(&record);
        assert_eq!(count(&state, "use cents"), 1);
        assert_eq!(count(&state, "is the plan in message 5.000001 above"), 1);
        state.apply(&TranscriptRecord::Compacted {
            upto: 2,
            summary: "s".into(),
            room: 0,
            alone: false,
        });
        assert_eq!(
            count(&state, "This was approved: Plan: use cents."),
            1,
            "it outlives its message"
        );
    }

    #[test]
    fn a_plan_that_was_edited_afterwards_is_shown_as_it_was_approved() {
        let mut state = heard("Plan: use cents. And delete all.");
        let record = approved(&state, "Plan: use cents.");
        state.apply(&record);
        assert_eq!(count(&state, "This was approved: Plan: use cents."), 1);
    }
}
