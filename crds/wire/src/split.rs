//! A large request that a role proposes to build in several parts.

use serde::{Deserialize, Serialize};

use super::SlackTs;

/// The proposal, with the key that [`PostMessage`](super::PostMessage) has too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposeSplit {
    /// Identity of the effect.
    pub key: String,
    /// 2 to 10, in order.
    pub parts: Vec<ProposedPart>,
}

/// One part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPart {
    /// One line of at most 80 characters.
    pub title: String,
    /// What is wanted: at most 2,000 characters.
    pub request: String,
    /// The Repo in which it is built; the Thread's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Numbers of earlier parts, from 1, that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
}

/// People are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitAsked {
    /// The message that asks.
    pub ts: SlackTs,
}
