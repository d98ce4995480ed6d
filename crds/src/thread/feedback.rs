//! People's feedback on a role's answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// Answers that are remembered.
pub const MOST_FEEDBACK: usize = 16;
/// Requests for help that are on record at once.
pub const MOST_HELPED: usize = 8;

/// Somebody's request for help, whose answer they alone see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelpRequest {
    /// The message that asks for help.
    pub ts: SlackTs,
    /// Slack user id of the person who asks.
    #[schemars(length(max = 64))]
    pub user: String,
}

/// One person's feedback on an answer. Their words stand in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerFeedback {
    /// `ts` of the answer's message.
    pub message: SlackTs,
    /// Role that gave the answer.
    #[schemars(length(max = 63))]
    pub role: String,
    /// Slack user id of the person who says so.
    #[schemars(length(max = 64))]
    pub by: String,
    /// True if the person said that it helped.
    pub helps: bool,
    /// Time at which they last pressed a button.
    pub at: SlackTs,
    /// The message that says why it did not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<SlackTs>,
    /// True if they were asked to say why in the conversation: their next message does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
}
