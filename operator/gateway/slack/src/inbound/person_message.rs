//! What a person said, as far as a Thread is concerned with it. Pure.

use codebutler_crds::SlackTs;

use crate::inbound::decision_words::MessageIntent;
use crate::inbound::numbered_reply::ItemVerdict;

/// A person's message, as far as a Thread is concerned with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonMessage {
    pub ts: SlackTs,
    pub user: String,
    pub mentioned: Vec<String>,
    /// Set if it is nothing but a decision.
    pub intent: Option<MessageIntent>,
    /// Which of several things are to be kept, if it is nothing but that.
    pub verdict: Option<ItemVerdict>,
    /// As it was written, if it is a decision: of what the harness answers itself no role reads the words.
    pub words: Option<String>,
    /// Said by a bot that may write here.
    pub is_bot: bool,
}

impl PersonMessage {
    /// Whether it can let something happen, or not.
    pub fn decides(&self) -> bool {
        self.verdict.is_some()
            || !matches!(
                self.intent,
                None | Some(MessageIntent::Stop | MessageIntent::Revoke | MessageIntent::Thanks)
            )
    }
}
