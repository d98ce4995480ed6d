//! Prepared volumes: one clone of the base branch, set up once, from which the volumes of new Threads are made.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the volumes of new Threads get what a set-up of the base branch has made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PreparedVolumes {
    /// Each Thread's volume is empty, and each Thread does its own set-up.
    #[default]
    None,
    /// They are clones of one volume that is prepared for each state of the lock files. The StorageClass needs a CSI
    /// driver that can clone volumes.
    Clone,
    /// They are restored from a snapshot of that volume, for drivers that take snapshots and make no clones. The
    /// cluster needs the definitions of VolumeSnapshots and their controller.
    Snapshot,
}

impl PreparedVolumes {
    /// True if there is none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

pub(crate) const fn clone_seconds() -> u32 {
    60
}

/// Left out then, so that nothing is replaced because the field is new.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) const fn is_usual(seconds: &u32) -> bool {
    *seconds == clone_seconds()
}

/// The state of a Repo's prepared volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreparedStatus {
    /// Claim of the volume that those of new Threads are made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Time since which it can be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Class, access mode and size of its claim, and the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
    /// Pod that prepares one now: it may read the repository's branches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PreparingPod>,
    /// VolumeSnapshot of the claim that those of new Threads are restored from: it has the claim's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Claim that could not be cloned: Threads do without until it is replaced, or the spec is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Claim that was replaced, as long as a volume may still be made from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaced: Option<String>,
}

/// A pod that prepares a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreparingPod {
    /// Name of the pod.
    pub name: String,
    /// UID of the pod.
    pub uid: String,
}
