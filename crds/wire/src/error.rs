//! The body of every refusal, and the codes that an agent acts on.

use serde::{Deserialize, Serialize};

/// Body of every refusal, in the shape of OpenAI's errors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// Details of the error.
    pub error: ErrorDetail,
}

/// An error: what went wrong and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorDetail {
    /// Stable; see [`ErrorCode`].
    pub code: ErrorCode,
    /// A sentence for the model or the log.
    pub message: String,
    /// OpenAI's field: always `codebutler_error`.
    #[serde(rename = "type", default)]
    pub type_: String,
    /// Seconds after which a repetition may be worth it, where somebody said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u32>,
}

/// Stable codes that the agent acts on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    /// 401: no token, or one that proves nothing here.
    Unauthenticated,
    /// 403 `not_registered`: a valid pod token, but no role of a Thread has this pod (yet): retry
    /// for a while, then exit.
    NotRegistered,
    /// 403: the role lacks the right; retrying changes nothing.
    Forbidden,
    /// 403: a user has to approve the plan (or the merge) first.
    NeedsApproval,
    /// 402: a limit of the Repo is reached. The thread was asked: wait for the pending decision
    /// `budget`, then go on.
    BudgetExceeded,
    /// 409: the Thread is closed.
    ThreadClosed,
    /// 400: the request itself is wrong.
    InvalidRequest,
    /// 502: Slack, the model API or the Git host refused or failed; the message says what.
    Upstream,
    /// 400: the conversation is longer than the model takes. Shorten it, then ask again.
    ContextOverflow,
    /// 502: a model's answer was lost, garbled, or an error in its place. The same question may be
    /// asked again; what was lost counts as spent.
    Unanswered,
    /// 403: the provider does not let this content pass. The same question is refused again.
    ContentRefused,
    /// 503: a retry may succeed.
    Unavailable,
}
