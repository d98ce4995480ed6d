//! A person's message, as far as a Thread is concerned with it. Pure.

use codebutler_crds::SlackTs;

use crate::text::decision_words::MessageIntent;
use crate::text::numbered_reply::ItemVerdict;

/// A person's message, as far as a Thread is concerned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonMessage {
    pub ts: SlackTs,
    pub user: String,
    pub mentioned: Vec<String>,
    /// Decision, if the message is nothing but that.
    pub intent: Option<MessageIntent>,
    /// Choice among several numbered things, if the message is nothing but that.
    pub verdict: Option<ItemVerdict>,
    /// Text as it was written, if it is a decision: what the harness answers itself is read by no role.
    pub words: Option<String>,
    /// True if a bot said it that may write here.
    pub is_bot: bool,
    /// True if its text would be a decision, and is none because the message brings more than that.
    pub is_overlooked: bool,
}

impl PersonMessage {
    /// True if it can let something happen, or not.
    pub fn decides(&self) -> bool {
        self.verdict.is_some()
            || !matches!(
                self.intent,
                None | Some(MessageIntent::Stop | MessageIntent::Revoke | MessageIntent::Thanks)
            )
    }

    /// A message of somebody, with the decision that its words are.
    #[cfg(test)]
    pub(crate) fn test(ts: SlackTs, text: &str) -> Self {
        Self {
            ts,
            user: "U1".to_owned(),
            mentioned: Vec::new(),
            intent: crate::text::decision_words::read_intent(text),
            verdict: None,
            words: None,
            is_bot: false,
            is_overlooked: false,
        }
    }
}
