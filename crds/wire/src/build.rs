//! Build slots: how many commands of a Repo may build at the same time.

use serde::{Deserialize, Serialize};

/// Seconds after which a slot that was not renewed is free again.
pub const BUILD_SLOT_SECONDS: u64 = 30;

/// What a role's pod says of its build slot. A pod has one at most, whatever it builds with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildClaim {
    /// Random, for one stretch of building: an answer or a release that comes late is told from
    /// that of the next one by it.
    pub id: String,
    /// What is wanted.
    pub want: BuildWant,
}

/// What a pod wants of its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BuildWant {
    /// To have one.
    Slot,
    /// To keep the one that it has; more often than every [`BUILD_SLOT_SECONDS`].
    Keep,
    /// To give it back, or to leave the queue.
    Release,
}

/// How a claim stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildTurn {
    /// The pod may build.
    pub granted: bool,
    /// Slots in use.
    pub used: u32,
    /// The Repo's `worktree.maxConcurrentBuilds`.
    pub limit: u32,
}
