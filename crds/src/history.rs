//! History of a Repo: the one line that remains of a Thread that was closed long ago.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::thread::ThreadState;
use crate::{NanoUsd, Thread};

/// Maximum number of lines that a Repo keeps.
pub const KEPT: usize = 64;

/// Retention of closed Threads, by age and by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionSpec {
    /// Days after which a closed Thread is deleted.
    #[serde(default = "days")]
    #[schemars(range(min = 1, max = 36_500))]
    pub days: u32,
    /// Maximum number of closed Threads that are kept: the newest.
    #[serde(default = "keep")]
    #[schemars(range(min = 0, max = 10_000))]
    pub keep: u32,
}

impl Default for RetentionSpec {
    fn default() -> Self {
        Self { days: days(), keep: keep() }
    }
}

/// Policy for a Repo's Threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ThreadsSpec {
    /// Retention of closed Threads. Of a Thread that is deleted, a line remains in `status.history` and in the
    /// controller's log; a message in its conversation begins it anew.
    #[serde(default)]
    pub retention: RetentionSpec,
}

/// One line about a Thread that was closed and is deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClosedThread {
    /// Name of the Thread, which says when its conversation began.
    pub name: String,
    /// UID of the deleted Thread.
    pub uid: String,
    /// Time at which it was closed.
    pub closed: Time,
    /// Person who started it, as its `spec.requestedBy` said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub requested_by: Option<String>,
    /// Page of its pull request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<String>,
    /// The commit on the base branch, if it was merged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merge_commit: Option<String>,
    /// Person who approved its plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan_approved_by: Option<String>,
    /// Person who decided how it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<String>,
    /// Total cost of the Thread, in USD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<NanoUsd>,
}

impl ClosedThread {
    /// The line about a Thread; nothing if it is not at its end.
    #[must_use]
    pub fn of(thread: &Thread, closed: Time) -> Option<Self> {
        let meta = &thread.metadata;
        if thread.spec.state != ThreadState::Closed || thread.is_going() {
            return None;
        }
        let status = thread.status.clone().unwrap_or_default();
        let pull = status.pull_request;
        Some(Self {
            name: meta.name.clone()?,
            uid: meta.uid.clone()?,
            closed,
            requested_by: thread.spec.requested_by.clone(),
            merge_commit: pull.as_ref().and_then(|pull| pull.merge_commit.clone()),
            pull_request: pull.map(|pull| pull.url),
            plan_approved_by: status.plan.and_then(|plan| plan.approved_by),
            closed_by: status.closing.and_then(|closing| closing.decided_by),
            cost: status.cost,
        })
    }
}

const fn days() -> u32 {
    30
}
const fn keep() -> u32 {
    200
}
