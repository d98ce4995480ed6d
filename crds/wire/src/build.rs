//! Build slots: how many commands of a Repo may build at the same time.

use serde::{Deserialize, Serialize};

/// Seconds after which a slot that was not renewed is free again.
pub const BUILD_SLOT_SECONDS: u64 = 30;

/// A pod's claim of a build slot. A pod has one at most, whatever it builds with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildClaim {
    /// Random, for one stretch of building: an answer or a release that comes late is told from
    /// that of the next one by it.
    pub id: String,
    /// Request of the pod about its slot.
    pub want: BuildWant,
}

/// Request of a pod about its build slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BuildWant {
    /// The pod wants to get a slot.
    Slot,
    /// The pod keeps the slot that it has; to be sent more often than every [`BUILD_SLOT_SECONDS`].
    Keep,
    /// The pod gives its slot back, or leaves the queue.
    Release,
}

/// State of a claim of a build slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildTurn {
    /// True if the pod may build now.
    pub granted: bool,
    /// Number of slots in use.
    pub used: u32,
    /// The Repo's `worktree.maxConcurrentBuilds`.
    pub limit: u32,
}
