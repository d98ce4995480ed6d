//! Checks that some node can take a role's pod. Where none can, the first conversation waits for one.

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};

use crate::cluster::TeamCluster;
use crate::finding::{DoctorFinding, FindingLevel};

/// Requests of a role's pod as the controller makes it: thousandths of a processor, and MiB.
const ASKED: [(&str, u64); 3] = [("cpu", 300), ("memory", 576), ("ephemeral-storage", 1088)];
/// Nodes that are looked at. A cluster of more has some that are large enough.
const MOST_NODES: u32 = 500;

/// A finding if no node is large enough. Who may not list nodes learns it from the Thread that waits.
pub(crate) async fn look_at_nodes(cluster: &TeamCluster) -> Option<DoctorFinding> {
    let nodes = Api::<Node>::all(cluster.client().clone());
    let listed = nodes.list(&ListParams::default().limit(MOST_NODES)).await.ok()?;
    let is_whole = listed.metadata.continue_.as_deref().unwrap_or_default().is_empty();
    judge_nodes(&listed.items).filter(|_| is_whole)
}

fn judge_nodes(nodes: &[Node]) -> Option<DoctorFinding> {
    let is_open =
        |node: &&Node| node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true);
    let mut shortage = None;
    for node in nodes.iter().filter(is_open) {
        shortage = Some(find_shortage(node)?);
    }
    let shortage = shortage?;
    Some(DoctorFinding {
        level: FindingLevel::Remark,
        what: "Nodes".to_owned(),
        reason: "TooSmall".to_owned(),
        said: format!(
            "No node can take a role's pod of the usual size (300m of cpu, 576Mi of memory, 1088Mi of \
             ephemeral-storage): {shortage}."
        ),
        todo: "Add a larger node, unless an autoscaler does or your Repos ask for less.".to_owned(),
    })
}

/// Names what a node has too little of. What can't be read is no reason.
fn find_shortage(node: &Node) -> Option<String> {
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    ASKED.iter().find_map(|(name, asked)| {
        let quantity = &allocatable.get(*name)?.0;
        let found = if *name == "cpu" { read_millis(quantity) } else { read_mebibytes(quantity) };
        (found? < *asked).then(|| format!("{} has {quantity} of {name}", node.name_any()))
    })
}

fn read_millis(quantity: &str) -> Option<u64> {
    match quantity.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => quantity.parse::<u64>().ok()?.checked_mul(1000),
    }
}

fn read_mebibytes(quantity: &str) -> Option<u64> {
    let figure = quantity.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: u64 = match quantity.get(figure.len()..)? {
        "" => 1,
        "k" => 1000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return None,
    };
    Some(figure.parse::<u64>().ok()?.checked_mul(unit)? >> 20)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(allocatable: &serde_json::Value, is_cordoned: bool) -> Node {
        serde_json::from_value(json!({
            "metadata": {"name": "node-0"},
            "spec": {"unschedulable": is_cordoned},
            "status": {"allocatable": allocatable},
        }))
        .unwrap()
    }

    #[test]
    fn a_cluster_whose_nodes_can_take_no_role_is_told() {
        let small = json!({"cpu": "940m", "memory": "456Mi", "ephemeral-storage": "7Gi"});
        let usual = json!({"cpu": "4", "memory": "16393244Ki", "ephemeral-storage": "95551679124"});
        let judge = |nodes: &[Node]| judge_nodes(nodes).map(|finding| finding.said);
        let said = judge(&[node(&small, false)]).unwrap();
        assert!(said.ends_with("node-0 has 456Mi of memory."), "{said}");
        assert!(judge(&[node(&small, false), node(&usual, true)]).is_some(), "it takes no pods");
        let full = json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "500Mi"});
        let said = judge(&[node(&full, false)]).unwrap();
        assert!(said.ends_with("node-0 has 500Mi of ephemeral-storage."), "{said}");
        for fit in [&usual, &json!({"cpu": "4", "memory": "1.5Gi"}), &json!({})] {
            assert_eq!(judge(&[node(&small, false), node(fit, false)]), None, "{fit}");
        }
        assert_eq!(judge(&[]), None, "an autoscaler adds one");
    }
}
