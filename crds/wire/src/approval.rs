//! Asking people whether exactly one action may happen.

use serde::{Deserialize, Serialize};

/// Asks the people of the thread whether exactly one action may happen. Whoever the Repo permits
/// answers with a button, 👍 or a plain “yes” or “no”; the answer also comes as a pending item of
/// kind `approval` (`choice`: `approved`, `denied` or `expired`; `id`: `approval:` and the reply's
/// `id`) so that a role that ended its run waiting is woken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRequest {
    /// Identity of the request, such as the tool call's id: an answer counts for this one call. At
    /// most 64 characters of `[A-Za-z0-9_.:-]`.
    pub key: String,
    /// Tool that the role wants to use.
    pub tool: String,
    /// The action that is to happen, in one line.
    pub summary: String,
    /// SHA-256 over tool and arguments, in hex: a request with this `key` and another hash is
    /// refused.
    pub hash: String,
    /// The exact action, such as the command line; shown as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// State of an approval request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalReply {
    /// Id of the request in the Thread's status.
    pub id: String,
    /// State of the request, or its answer.
    pub state: ApprovalState,
    /// Slack user id of the person who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// True if nobody was asked this time: somebody has said yes to the same words for the whole thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub standing: bool,
}

/// State of a request for people's approval. Only `approved` is a yes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Pending,
    /// A person allowed exactly this action.
    Approved,
    /// A person refused the action.
    Denied,
    /// Nobody answered in time: neither a yes nor a no.
    Expired,
}
