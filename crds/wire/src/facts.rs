//! Facts of a Thread that its status shows and its agents are told.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{NanoUsd, SlackTs};

/// A pull request on the remote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PullRequest {
    /// Number at the Git host.
    pub number: u64,
    /// URL of the pull request's page.
    pub url: String,
    /// Title of the pull request, one line.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 256))]
    pub title: String,
    /// The squash commit on the base branch, once merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// State when it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<PullState>,
    /// Time of the newest remark of a person that the thread was told of, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub seen: Option<String>,
    /// Time of its last change of which the thread was told, or that told nothing, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 40))]
    pub updated: Option<String>,
}

impl PullRequest {
    /// A pull request of which nothing else is known.
    #[must_use]
    pub fn of(number: u64, url: &str) -> Self {
        let url = url.to_owned();
        let (title, merge_commit) = (String::new(), None);
        Self { number, url, title, merge_commit, state: None, seen: None, updated: None }
    }
}

/// State of a pull request: open, or at one of its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PullState {
    /// The pull request can still change.
    Open,
    /// The pull request was closed without merging.
    Closed,
    /// The pull request is merged.
    Merged,
}

/// The plan that a role posted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PostedPlan {
    /// The message that shows it.
    pub ts: SlackTs,
    /// SHA-256 of its text, in hex.
    pub hash: String,
    /// The role that proposed it.
    pub role: String,
    /// Slack user id of the person who approved exactly this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_by: Option<String>,
    /// Slack user id of the person who rejected it or wants it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub declined_by: Option<String>,
}

/// Complexity of the planned work.
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

/// State that a role's pod last reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RoleState {
    /// The role is in a run.
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
    /// Cost of the calls, in USD.
    #[serde(default)]
    pub cost: NanoUsd,
    /// Number of tokens sent.
    #[serde(default)]
    pub prompt_tokens: u64,
    /// Number of tokens received.
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
    /// Number of model calls that were answered.
    #[serde(default)]
    pub calls: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
const fn is_none_yet(n: &u64) -> bool {
    *n == 0
}
