//! Annotations that keep autoscalers from removing a node under a pod. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use serde::Serialize;

/// Cluster-autoscaler's; pods with folders of the node's disk keep their node without it.
const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";
const DO_NOT_DISRUPT: &str = "karpenter.sh/do-not-disrupt";

/// Protection of a pod from autoscalers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum EvictionShield {
    Up,
    /// The pod may be evicted: its role has nothing to do.
    Down,
}

impl EvictionShield {
    /// Annotations of a pod with this protection.
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
