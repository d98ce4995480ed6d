//! The room on nodes that a pod waits for, from what the scheduler says of it.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::pod_life::PodLife;

/// A place for one more pod on a node, and for one more volume: each pod with a volume takes both.
const PODS: &str = "pods";
const VOLUMES: &str = "volumes";

/// Names of the resources that nodes have too little of for a pod, and another one could give up. A node selector, a
/// taint or a volume of another zone keeps it waiting all the same, whoever goes.
pub(crate) fn lacking(pod: &Pod) -> BTreeSet<String> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut unscheduled = conditions.filter(|c| {
        c.type_ == "PodScheduled"
            && c.status == "False"
            && c.reason.as_deref() == Some("Unschedulable")
    });
    let said = unscheduled.find_map(|c| c.message.as_deref());
    match said {
        Some(said) if PodLife::of(pod) == PodLife::Starting => read_lacks(said),
        _ => BTreeSet::new(),
    }
}

/// True for a pod that nodes have too little room for.
pub(crate) fn lacks_room(pod: &Pod) -> bool {
    !lacking(pod).is_empty()
}

/// Reads what nodes lack from a scheduler's message, such as `0/3 nodes are available: 1 Insufficient cpu, 2 Too many
/// pods. preemption: 0/3 nodes are available: …`.
fn read_lacks(said: &str) -> BTreeSet<String> {
    let (filtered, _) = said.split_once("preemption:").unwrap_or((said, ""));
    let mut lacks = BTreeSet::new();
    for part in filtered.split("Insufficient ").skip(1) {
        let ends = |c: char| c == ',' || c == ';' || c.is_whitespace();
        let name = part.split(ends).next().unwrap_or_default().trim_end_matches('.');
        lacks.insert(name.to_owned());
    }
    for (words, name) in [("Too many pods", PODS), ("exceed max volume count", VOLUMES)] {
        if filtered.contains(words) {
            lacks.insert(name.to_owned());
        }
    }
    lacks
}

/// Names of the resources that a pod with a volume takes of a node.
pub(crate) fn taken_by(spec: &PodSpec) -> BTreeSet<String> {
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let requests =
        containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref());
    let named = requests.flat_map(|requests| requests.keys().cloned());
    named.chain([PODS, VOLUMES].map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lacks(said: &str) -> Vec<String> {
        let pod = json!({"metadata": {"name": "p"}, "status": {"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}]}});
        lacking(&serde_json::from_value(pod).unwrap()).into_iter().collect()
    }

    #[test]
    fn only_what_another_pod_could_give_up_is_room() {
        assert_eq!(
            lacks(
                "0/3 nodes are available: 1 Insufficient cpu, 1 Insufficient nvidia.com/gpu, 1 Too many pods. \
                 preemption: 0/3 nodes are available: 3 No preemption victims found for incoming pod."
            ),
            ["cpu", "nvidia.com/gpu", "pods"]
        );
        assert_eq!(lacks("0/1 nodes are available: 1 Insufficient memory."), ["memory"]);
        assert_eq!(
            lacks("0/2 nodes are available: 2 node(s) exceed max volume count."),
            ["volumes"]
        );
        for said in [
            "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.",
            "0/3 nodes are available: 1 node(s) had untolerated taint {gpu: true}, 2 node(s) had volume node \
             affinity conflict. preemption: 0/3 nodes are available: 3 Insufficient cpu.",
            "pod has unbound immediate PersistentVolumeClaims.",
            "",
        ] {
            assert!(lacks(said).is_empty(), "{said}");
        }
    }
}
