//! What keeps pods from being ready: the embedded cluster's own parts write no log.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

/// Timeout of a list request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Lines on the pods of a namespace that are not ready.
pub(super) async fn describe_unready(client: Client, namespace: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    match tokio::time::timeout(TIMEOUT, pods.list(&ListParams::default())).await {
        Ok(Ok(pods)) => pods.iter().flat_map(unready_lines).collect(),
        Ok(Err(error)) => vec![format!("pods not listed: {error}")],
        Err(_) => vec!["pods not listed: the API server does not answer".to_owned()],
    }
}

fn unready_lines(pod: &Pod) -> Vec<String> {
    let name = pod.name_any();
    let Some(status) = pod.status.as_ref() else { return vec![format!("{name}: no status")] };
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        return vec![format!("{name}: on no node")];
    }
    let all = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let waiting = all.filter_map(|one| {
        let waiting = one.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().unwrap_or("waiting");
        let why = waiting.message.as_deref().unwrap_or_default();
        Some(format!("{name}: {}: {reason} {why}", one.name).trim_end().to_owned())
    });
    let lines: Vec<String> = waiting.collect();
    let mut conditions = status.conditions.iter().flatten();
    if lines.is_empty() && conditions.any(|one| one.type_ == "Ready" && one.status != "True") {
        return vec![format!("{name}: {}", status.phase.as_deref().unwrap_or("no phase"))];
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_waiting_container_says_what_it_waits_for() {
        let lines = |pod| unready_lines(&serde_json::from_value(pod).unwrap());
        let (on, named) = (json!({"nodeName": "n", "containers": []}), json!({"name": "p"}));
        let waiting = |state| {
            json!({"name": "agent", "image": "i", "imageID": "", "ready": false,
                   "restartCount": 0, "state": state})
        };
        let unbound = json!({"waiting": {"reason": "ContainerCreating", "message": "not bound"}});
        let pod = |spec, state, ready| {
            json!({"metadata": named, "spec": spec, "status": {
                "phase": "Pending",
                "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [waiting(state)],
            }})
        };
        assert_eq!(
            lines(pod(on.clone(), unbound.clone(), "False")),
            ["p: agent: ContainerCreating not bound"]
        );
        assert_eq!(lines(pod(json!({"containers": []}), unbound, "False")), ["p: on no node"]);
        let runs = || json!({"running": {}});
        assert_eq!(lines(pod(on.clone(), runs(), "False")), ["p: Pending"]);
        assert_eq!(lines(pod(on.clone(), runs(), "True")), Vec::<String>::new());
        assert_eq!(lines(json!({"metadata": named, "spec": on})), ["p: no status"]);
    }
}
