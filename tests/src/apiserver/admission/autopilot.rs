//! GKE Autopilot's admission: it writes what a pod requests anew, and refuses what would reach its nodes.

use serde_json::{Value, json};

use crate::apiserver::object::{self, text_at};
use crate::apiserver::scalars::ExactQuantity;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// The kind whose definition makes a cluster one of Autopilot's.
const ALLOWLISTS: &str = "allowlistsynchronizers.auto.gke.io";
const WEBHOOK: &str = "warden-validating.common-webhooks.networking.gke.io";
const ADJUSTED: &str = "autopilot.gke.io/resource-adjustment";
/// Default requests of a container that has none.
const DEFAULTS: [(&str, &str); 3] =
    [("cpu", "500m"), ("memory", "2Gi"), ("ephemeral-storage", "1Gi")];
/// Least requests of a pod, all containers together, in billionths.
const LEAST_CPU: i128 = 50_000_000;
const LEAST_MEMORY: i128 = 52 * MEBI;
/// Largest request of disk space, all containers of a pod together.
const MOST_DISK: i128 = 10 * 1024 * MEBI;
/// A pod has a GiB for each processor at least, and six and a half at most.
const RATIO: (i128, i128) = (1024 * MEBI, 6656 * MEBI);
const MEBI: i128 = 1024 * 1024 * ONE;
const ONE: i128 = 1_000_000_000;
/// Labels of nodes that a pod may ask for; with the prefix also whatever GKE has of its own.
const SELECTABLE: [&str; 4] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];
const OWN: &str = "cloud.google.com/";

/// Adjusts a pod's requests, and refuses pods that would reach their node.
pub(crate) fn adjust_pod(store: &ObjectStore, pod: &mut Value) -> Result<(), ApiError> {
    let known = store.get("customresourcedefinitions.apiextensions.k8s.io", "", ALLOWLISTS);
    let Some(spec) = pod.get_mut("spec").filter(|_| known.is_some()) else { return Ok(()) };
    let before = container_requests(spec);
    fill_requests(spec);
    balance_requests(spec);
    let after = container_requests(spec);
    let wrong = find_violations(spec);
    if !wrong.is_empty() {
        let details = wrong.iter().map(|(rule, why)| (format!("[denied by {rule}]"), json!([why])));
        let details = Value::Object(details.collect());
        let why = format!(
            "admission webhook \"{WEBHOOK}\" denied the request: GKE Warden rejected the request because it \
             violates one or more constraints.\nViolations details: {details}"
        );
        return Err(ApiError::forbidden("", "pods", object::object_name(pod), &why));
    }
    if before != after {
        let said = json!({"input": before, "output": after, "modified": true}).to_string();
        if let Some(metadata) = pod.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            annotations[ADJUSTED] = said.into();
        }
    }
    Ok(())
}

/// Main containers and sidecars run at once; an init container's part does not add to theirs.
fn running_containers(spec: &mut Value) -> Vec<&mut Value> {
    let Some(spec) = spec.as_object_mut() else { return Vec::new() };
    let mut found = Vec::new();
    for (field, containers) in spec.iter_mut() {
        let always = |c: &Value| text_at(c, "/restartPolicy") == Some("Always");
        let counts = |c: &Value| field == "containers" || (field == "initContainers" && always(c));
        let containers = containers.as_array_mut().into_iter().flatten();
        found.extend(containers.filter(|c| counts(c)));
    }
    found
}

fn container_requests(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let running = running_containers(&mut spec).into_iter();
    running.map(|c| json!({"name": c["name"], "requests": c["resources"]["requests"]})).collect()
}

fn fill_requests(spec: &mut Value) {
    for container in running_containers(spec) {
        for (resource, default) in DEFAULTS {
            let resources = &mut container["resources"];
            if resources["requests"][resource].is_null() {
                let limit = resources["limits"][resource].clone();
                resources["requests"][resource] =
                    if limit.is_null() { default.into() } else { limit };
            }
        }
        // No disk beyond what was asked for; processors and memory may burst.
        let disk = container["resources"]["requests"]["ephemeral-storage"].clone();
        container["resources"]["limits"]["ephemeral-storage"] = disk;
    }
}

fn requested_amount(container: &Value, resource: &str) -> i128 {
    let quantity = text_at(container, &format!("/resources/requests/{resource}"));
    quantity.and_then(ExactQuantity::parse).map_or(0, ExactQuantity::nanos)
}

fn sum_requests(spec: &mut Value, resource: &str) -> i128 {
    running_containers(spec).iter().map(|container| requested_amount(container, resource)).sum()
}

/// Brings processors and memory of the pod into their ratio, by more of what there is too little of.
fn balance_requests(spec: &mut Value) {
    let (cpu, memory) = (sum_requests(spec, "cpu"), sum_requests(spec, "memory"));
    let (fewest, most) = RATIO;
    let new_cpu = cpu.max(LEAST_CPU).max(memory * ONE / most);
    let new_memory = memory.max(LEAST_MEMORY).max(new_cpu * fewest / ONE);
    raise_request(spec, "cpu", new_cpu - cpu);
    raise_request(spec, "memory", new_memory - memory);
}

fn raise_request(spec: &mut Value, resource: &str, more: i128) {
    let Some(first) = running_containers(spec).into_iter().next().filter(|_| more > 0) else {
        return;
    };
    let new = requested_amount(first, resource) + more;
    let written = match resource {
        "cpu" => format!("{}m", (new + 999_999) / 1_000_000),
        _ => format!("{}Mi", (new + MEBI - 1) / MEBI),
    };
    if let Some(limit) = text_at(first, &format!("/resources/limits/{resource}"))
        && ExactQuantity::parse(limit).is_some_and(|limit| limit.nanos() < new)
    {
        first["resources"]["limits"][resource] = written.clone().into();
    }
    first["resources"]["requests"][resource] = written.into();
}

type PolicyViolation = (&'static str, String);

fn find_violations(spec: &mut Value) -> Vec<PolicyViolation> {
    let mut wrong = Vec::new();
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        if spec[host] == true {
            let why = format!("enabling {host} is not allowed in Autopilot.");
            wrong.push(("autogke-disallow-hostnamespaces", why));
        }
    }
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        if let Some(path) = text_at(volume, "/hostPath/path")
            && !path.starts_with("/var/log/")
        {
            let name = text_at(volume, "/name").unwrap_or_default();
            let why = format!(
                "hostPath volume {name} uses path {path} which is not allowed in Autopilot. Allowed path \
                 prefixes for hostPath volumes are: [/var/log/]."
            );
            wrong.push(("autogke-no-write-mode-hostpath", why));
        }
    }
    let selected = spec["nodeSelector"].as_object().into_iter().flatten();
    for (label, _) in selected {
        if !SELECTABLE.contains(&&**label) && !label.starts_with(OWN) {
            let why = format!("Auto GKE disallows use of {label} in a node selector");
            wrong.push(("autogke-node-affinity-selector-limitation", why));
        }
    }
    let disk = sum_requests(spec, "ephemeral-storage");
    if disk > MOST_DISK {
        let why = format!(
            "Total ephemeral-storage requests of {} MiB are higher than the Autopilot maximum of '10Gi'.",
            disk / MEBI
        );
        wrong.push(("autogke-pod-limit-constraints", why));
    }
    for container in running_containers(spec) {
        wrong.extend(of_container(container));
    }
    wrong
}

fn of_container(container: &Value) -> Vec<PolicyViolation> {
    let name = text_at(container, "/name").unwrap_or_default();
    let mut wrong = Vec::new();
    if container["securityContext"]["privileged"] == true {
        let why = format!("container {name} is privileged; not allowed in Autopilot");
        wrong.push(("autogke-disallow-privilege", why));
    }
    let mut ports = container["ports"].as_array().into_iter().flatten();
    if ports.any(|port| port["hostPort"].as_u64().is_some_and(|port| port > 0)) {
        let why =
            format!("container {name} specifies host ports, which are disallowed in Autopilot.");
        wrong.push(("autogke-no-host-port", why));
    }
    wrong
}
