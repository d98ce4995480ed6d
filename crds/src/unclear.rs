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
    /// Slack user id of the message's author.
    #[schemars(length(max = 64))]
    pub user: String,
    /// Time since which an answer is waited for.
    pub since: Time,
    /// The newest that is known to have been said there.
    pub heard: SlackTs,
    /// The message that asks which Repo is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<SlackTs>,
    /// Repo that somebody chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen: Option<ChosenRepo>,
}

/// A Repo that somebody chose for a conversation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenRepo {
    /// UID of the chosen Repo.
    #[schemars(length(max = 64))]
    pub uid: String,
    /// Slack user id of the person who chose it.
    #[schemars(length(max = 64))]
    pub by: String,
}
