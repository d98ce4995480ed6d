//! What people say of a role's answers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// Answers that are remembered.
pub const MOST_FEEDBACK: usize = 16;

/// Whether an answer helped one person. Their words stand in a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerFeedback {
    /// The answer.
    pub message: SlackTs,
    /// The role that gave it.
    #[schemars(length(max = 63))]
    pub role: String,
    /// Slack user id of who says so.
    #[schemars(length(max = 64))]
    pub by: String,
    /// It helped.
    pub helps: bool,
    /// When they last pressed a button.
    pub at: SlackTs,
    /// The message that says why it did not help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<SlackTs>,
    /// They were asked to say why in the conversation: their next message does.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asked: bool,
}
