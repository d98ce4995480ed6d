//! Conversations of a channel with several Repos, until it is clear which of them each is about.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SlackTs;

/// A conversation of which nobody has said which Repo it is about. What was said is in Slack alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnclearConversation {
    /// `ts` of its first message.
    pub root: SlackTs,
    /// The first message that names no Repo: from it on it is for the one that is chosen.
    pub message: SlackTs,
    /// Who wrote that.
    #[schemars(length(max = 64))]
    pub user: String,
    /// Since when an answer is waited for.
    pub since: Time,
    /// The newest that is known to have been said there.
    pub heard: SlackTs,
    /// The message that asks which Repo is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SlackTs>,
    /// What somebody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenRepo>,
}

/// A Repo that somebody chose for a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenRepo {
    /// Its UID.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// Slack user id of who chose it.
    #[schemars(length(max = 64))]
    pub by: String,
}
