//! Facts of a Thread that its status shows and its agents are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NanoUsd, SlackTs};

/// A pull request on the remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its page.
    pub url: String,
    /// One line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub title: String,
    /// The squash commit on the base branch, once merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// How it stood when it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PullState>,
    /// Newest remark of a person that the thread was told of: when it was written, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub seen: Option<String>,
    /// Its last change of which the thread was told, or that told nothing: in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub updated: Option<String>,
}

impl PullRequest {
    /// One of which nothing else is known.
    #[must_use]
    pub fn of(number: u64, url: &str) -> Self {
        let url = url.to_owned();
        let (title, merge_commit) = (String::new(), None);
        Self { number, url, title, merge_commit, state: None, seen: None, updated: None }
    }
}

/// Whether a pull request can still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PullState {
    /// Open.
    Open,
    /// Closed without merging.
    Closed,
    /// Merged.
    Merged,
}

/// A plan as it was posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostedPlan {
    /// The message that shows it.
    pub ts: SlackTs,
    /// SHA-256 of its text, in hex.
    pub hash: String,
    /// The role that proposed it.
    pub role: String,
    /// Slack user id of who approved exactly this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// Slack user id of who rejected it or wants it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined_by: Option<String>,
}

/// How hard work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PlanComplexity {
    /// A line or two, one place.
    Simple,
    /// Several files, known ground.
    Medium,
    /// New ground, or something that many things depend on.
    Complex,
}

/// What a role's pod last said of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RoleState {
    /// In a run.
    Running,
    /// The last run ended and waits for an answer.
    Waiting,
    /// The last run ended; nothing is expected.
    Idle,
    /// The last run failed; the thread was told why.
    Failed,
}

/// Tokens and money. Exact: sums of what the provider billed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// USD.
    #[serde(default)]
    pub cost: NanoUsd,
    /// Tokens sent.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Tokens received.
    #[serde(default)]
    pub completion_tokens: u64,
    /// Tokens sent that the provider had kept, and sells for less: a part of `promptTokens`.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub cached_tokens: u64,
    /// Tokens sent that the provider keeps from now on, for which some take more: a part of
    /// `promptTokens`.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub written_tokens: u64,
    /// Tokens of thinking: a part of `completionTokens`.
    #[serde(default, skip_serializing_if = "is_none_yet")]
    pub reasoning_tokens: u64,
    /// Answered model calls.
    #[serde(default)]
    pub calls: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_none_yet(n: &u64) -> bool {
    *n == 0
}
