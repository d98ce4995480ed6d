//! Plan of the steps to take for a Thread: a value.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_runtime::notice::EventNotice;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use serde::Serialize;

use super::shield::EvictionShield;
use super::status::OwnThreadStatus;

/// Steps to take, in this order. A crash between any two leaves something that the next look at the Thread completes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct ThreadPlan {
    /// The claim of a seat whose pod is the Thread's by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub take_claim: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_volume: Option<PersistentVolumeClaim>,
    /// The prepared claim of which no clone was made in time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clone_failed: Option<String>,
    /// A new size for the claim.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expand_volume: Option<String>,
    /// Find out whether the nodes of the volume still exist, and decide anew.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub find_home: bool,
    /// Ask what events say of the pods with these UIDs, and decide anew.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub ask_events: BTreeSet<String>,
    /// Pods to create by role; their UIDs go into `status`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub create_pods: BTreeMap<String, NewPod>,
    /// Roles that run in a pod, or would if they had a slot, besides those of `create_pods`.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub busy: BTreeSet<String>,
    /// Roles whose pod the cache doesn't have: to be checked before `status` forgets them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verify_gone: BTreeMap<String, GonePod>,
    /// Labels that are to be put back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<LabelRepair>,
    /// Pods that autoscalers are to leave alone from now on, or no longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shields: Vec<ShieldChange>,
    /// The controller's part of the status.
    pub status: OwnThreadStatus,
    /// Pods to delete: `(name, UID)`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub delete_pods: Vec<PodId>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub delete_volume: bool,
    /// Let a deleted Thread go although its conversation was not told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub release: bool,
    /// Events, once the status is written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<EventNotice>,
    /// Look again after this long, if nothing happens before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub again: Option<Duration>,
}

impl ThreadPlan {
    /// Shortens the time until the next look.
    pub(super) fn look_again_in(&mut self, delay: Duration) {
        self.again = Some(self.again.map_or(delay, |again| again.min(delay)));
    }
}

/// A pod whose annotations say something else than they should.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ShieldChange {
    pub pod: PodId,
    pub shield: EvictionShield,
}

/// Scope of a repair of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum LabelRepair {
    /// Pods and claim that the caches show.
    Shown,
    /// Also a claim that the cache does not show, since its labels are gone.
    Unseen,
}

/// Reason why a pod is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum PodBegin {
    /// The role has not worked in this Thread before.
    First,
    /// The role has worked here before, and its pod was removed while it slept.
    Woken,
    /// The one before it was lost, or ended before its work did.
    Replaced,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct NewPod {
    pub pod: Box<Pod>,
    pub begins: PodBegin,
    /// A seat to take instead: volume and pod are made where another Thread is quicker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seat: Option<Arc<Pod>>,
}

/// A pod that seems to be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct GonePod {
    pub name: String,
    pub uid: String,
}

pub(super) type PodId = GonePod;
