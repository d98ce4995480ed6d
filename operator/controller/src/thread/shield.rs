//! What keeps an autoscaler from taking a node away under a pod. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;

/// Cluster-autoscaler's; pods with folders of the node's disk keep their node without it.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Whether autoscalers are to leave a pod alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum EvictionShield {
    Up,
    /// It may go: its role has nothing to do.
    Down,
}

impl EvictionShield {
    /// As a pod has it.
    pub(super) fn annotations(self) -> BTreeMap<String, String> {
        let value = |yes: bool| yes.to_string();
        [
            (SAFE_TO_EVICT.to_owned(), value(self == Self::Down)),
            (DO_NOT_DISRUPT.to_owned(), value(self == Self::Up)),
        ]
        .into()
    }

    pub(super) fn is_on(self, pod: &Pod) -> bool {
        let annotations = pod.annotations();
        self.annotations().iter().all(|(key, value)| annotations.get(key) == Some(value))
    }
}
