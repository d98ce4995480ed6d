//! A large request that a role proposes to build in several parts.

use serde::{Deserialize, Serialize};

use super::SlackTs;

/// The proposal, with the key that [`PostMessage`](super::PostMessage) has too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposeSplit {
    /// Idempotency key of the proposal.
    pub key: String,
    /// Parts in order, 2 to 10 of them.
    pub parts: Vec<ProposedPart>,
}

/// One part of a proposed split.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposedPart {
    /// Title of the part: one line of at most 80 characters.
    pub title: String,
    /// Request of the part: at most 2,000 characters.
    pub request: String,
    /// The Repo in which it is built; the Thread's own if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repo: Option<String>,
    /// Numbers of earlier parts, from 1, that come before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
}

/// Reply that says that people are asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SplitAsked {
    /// `ts` of the message that asks.
    pub ts: SlackTs,
}
