//! Upstream's columns of the built-in kinds.

use serde_json::Value;

use super::{TableColumn, age};
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};

const fn narrow_column(name: &'static str, cell: fn(&Value) -> Value) -> TableColumn {
    TableColumn { name, kind: "string", wide: false, cell }
}

const fn wide_column(name: &'static str, cell: fn(&Value) -> Value) -> TableColumn {
    TableColumn { name, kind: "string", wide: true, cell }
}

const NAME: TableColumn = narrow_column("Name", |o| object::object_name(o).into());
const AGE: TableColumn = narrow_column("Age", |o| age_at(o, "/metadata/creationTimestamp"));

/// Columns that a kind's table shows.
pub(super) fn kind_columns(kind: &ServedKind) -> Vec<TableColumn> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pod_columns(),
        ("", "services") => service_columns(),
        ("", "persistentvolumeclaims") => claim_columns(),
        ("", "persistentvolumes") => volume_columns(),
        ("", "namespaces") => {
            vec![NAME, narrow_column("Status", |o| value_at(o, "/status/phase")), AGE]
        }
        ("", "secrets") => vec![
            NAME,
            narrow_column("Type", |o| value_at(o, "/type")),
            narrow_column("Data", |o| count_in(o, &["data"])),
            AGE,
        ],
        ("", "configmaps") => {
            vec![NAME, narrow_column("Data", |o| count_in(o, &["data", "binaryData"])), AGE]
        }
        ("", "serviceaccounts") => {
            vec![NAME, narrow_column("Secrets", |o| length_at(o, "/secrets")), AGE]
        }
        ("" | "events.k8s.io", "events") => event_columns(),
        ("", "nodes") => node_columns(),
        ("apps", "deployments") => deployment_columns(),
        ("apps", "replicasets") => vec![
            NAME,
            narrow_column("Desired", |o| number_at(o, "/spec/replicas")),
            narrow_column("Current", |o| number_at(o, "/status/replicas")),
            narrow_column("Ready", |o| number_at(o, "/status/readyReplicas")),
            AGE,
        ],
        ("coordination.k8s.io", "leases") => {
            vec![NAME, narrow_column("Holder", |o| value_at(o, "/spec/holderIdentity")), AGE]
        }
        ("storage.k8s.io", "storageclasses") => vec![
            NAME,
            narrow_column("Provisioner", |o| value_at(o, "/provisioner")),
            narrow_column("ReclaimPolicy", |o| value_at(o, "/reclaimPolicy")),
            narrow_column("VolumeBindingMode", |o| value_at(o, "/volumeBindingMode")),
            AGE,
        ],
        ("networking.k8s.io", "networkpolicies") => {
            vec![
                NAME,
                narrow_column("Pod-Selector", |o| show_selector(o.pointer("/spec/podSelector"))),
                AGE,
            ]
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            vec![NAME, narrow_column("Created At", |o| value_at(o, "/metadata/creationTimestamp"))]
        }
        ("rbac.authorization.k8s.io", _) => vec![
            NAME,
            narrow_column("Role", |o| {
                format!("{}/{}", show_text(o, "/roleRef/kind"), show_text(o, "/roleRef/name"))
                    .into()
            }),
            AGE,
        ],
        ("apiextensions.k8s.io", _) => {
            vec![NAME, narrow_column("Created At", |o| value_at(o, "/metadata/creationTimestamp"))]
        }
        _ => vec![NAME, AGE],
    }
}

fn value_at(object: &Value, pointer: &str) -> Value {
    show_text(object, pointer).into()
}

fn show_text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    text_at(object, pointer).unwrap_or_default()
}

fn or_none(object: &Value, pointer: &str) -> Value {
    match show_text(object, pointer) {
        "" => "<none>".into(),
        text => text.into(),
    }
}

fn number_at(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).into()
}

fn length_at(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len).into()
}

fn count_in(object: &Value, maps: &[&str]) -> Value {
    let keys = maps.iter().filter_map(|m| object.get(*m)?.as_object());
    keys.map(serde_json::Map::len).sum::<usize>().into()
}

fn age_at(object: &Value, pointer: &str) -> Value {
    match show_text(object, pointer) {
        "" => "<unknown>".into(),
        moment => age::age_since(moment).into(),
    }
}

fn joined_at(object: &Value, pointer: &str, separator: &str) -> String {
    let items = object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}

fn show_selector(selector: Option<&Value>) -> Value {
    let labels = selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_object);
    let labels: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() { "<none>".into() } else { labels.join(",").into() }
}

fn pod_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Ready", |o| {
            let statuses = container_statuses(o);
            let ready = statuses.iter().filter(|s| s["ready"] == true).count();
            let sidecars = sidecar_names(o).len();
            let containers = o.pointer("/spec/containers").and_then(Value::as_array);
            format!("{ready}/{}", containers.map_or(0, Vec::len) + sidecars).into()
        }),
        narrow_column("Status", |o| pod_status(o).into()),
        narrow_column("Restarts", |o| {
            let statuses = container_statuses(o);
            let sum: i64 = statuses.iter().filter_map(|s| s["restartCount"].as_i64()).sum();
            sum.to_string().into()
        }),
        AGE,
        wide_column("IP", |o| or_none(o, "/status/podIP")),
        wide_column("Node", |o| or_none(o, "/spec/nodeName")),
        wide_column("Nominated Node", |o| or_none(o, "/status/nominatedNodeName")),
        wide_column("Readiness Gates", |_| "<none>".into()),
    ]
}

/// Init containers that keep running beside the others.
fn sidecar_names(pod: &Value) -> Vec<&str> {
    let inits = pod.pointer("/spec/initContainers").and_then(Value::as_array);
    inits
        .into_iter()
        .flatten()
        .filter(|c| c["restartPolicy"] == "Always")
        .filter_map(|c| c["name"].as_str())
        .collect()
}

fn container_statuses(pod: &Value) -> Vec<&Value> {
    let list = |pointer: &str| pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let sidecars = sidecar_names(pod);
    let inits = list("/status/initContainerStatuses")
        .filter(|s| s["name"].as_str().is_some_and(|name| sidecars.contains(&name)));
    list("/status/containerStatuses").chain(inits).collect()
}

fn pod_status(pod: &Value) -> String {
    if object::is_terminating(pod) {
        return "Terminating".to_owned();
    }
    let mut status = show_text(pod, "/status/phase").to_owned();
    let reason = show_text(pod, "/status/reason");
    if !reason.is_empty() {
        reason.clone_into(&mut status);
    }
    let inits = pod.pointer("/status/initContainerStatuses").and_then(Value::as_array);
    let total = pod.pointer("/spec/initContainers").and_then(Value::as_array).map_or(0, Vec::len);
    let sidecars = sidecar_names(pod);
    for (done, init) in inits.into_iter().flatten().enumerate() {
        let name = init["name"].as_str().unwrap_or_default();
        let exit = init.pointer("/state/terminated/exitCode").and_then(Value::as_i64);
        let started = sidecars.contains(&name) && init["started"] == true;
        if exit == Some(0) || started {
            continue;
        }
        return match (exit, text_at(init, "/state/waiting/reason")) {
            (Some(code), _) => match show_text(init, "/state/terminated/reason") {
                "" => format!("Init:ExitCode:{code}"),
                reason => format!("Init:{reason}"),
            },
            (None, Some(reason)) if reason != "PodInitializing" => format!("Init:{reason}"),
            _ => format!("Init:{done}/{total}"),
        };
    }
    let statuses = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
    let mut running = false;
    for container in statuses.into_iter().flatten().rev() {
        if let Some(reason) = text_at(container, "/state/waiting/reason").filter(|r| !r.is_empty())
        {
            reason.clone_into(&mut status);
        } else if let Some(terminated) = container.pointer("/state/terminated") {
            status = match text_at(terminated, "/reason").filter(|r| !r.is_empty()) {
                Some(reason) => reason.to_owned(),
                None => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
            };
        } else if container["ready"] == true && container.pointer("/state/running").is_some() {
            running = true;
        }
    }
    if status == "Completed" && running { "Running".to_owned() } else { status }
}

fn service_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Type", |o| value_at(o, "/spec/type")),
        narrow_column("Cluster-IP", |o| or_none(o, "/spec/clusterIP")),
        narrow_column("External-IP", |o| or_none(o, "/spec/externalName")),
        narrow_column("Port(s)", |o| {
            let ports = o.pointer("/spec/ports").and_then(Value::as_array);
            let ports: Vec<String> = ports
                .into_iter()
                .flatten()
                .map(|p| {
                    let node = p["nodePort"].as_i64().map(|n| format!(":{n}")).unwrap_or_default();
                    format!("{}{node}/{}", p["port"], p["protocol"].as_str().unwrap_or("TCP"))
                })
                .collect();
            if ports.is_empty() { "<none>".into() } else { ports.join(",").into() }
        }),
        AGE,
        wide_column("Selector", |o| {
            let labels = serde_json::json!({ "matchLabels": o.pointer("/spec/selector") });
            show_selector(Some(&labels))
        }),
    ]
}

fn access_modes(object: &Value, pointer: &str) -> Value {
    let modes = joined_at(object, pointer, ",")
        .replace("ReadWriteOncePod", "RWOP")
        .replace("ReadWriteOnce", "RWO")
        .replace("ReadOnlyMany", "ROX")
        .replace("ReadWriteMany", "RWX");
    modes.into()
}

fn claim_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Status", |o| {
            if object::is_terminating(o) {
                "Terminating".into()
            } else {
                value_at(o, "/status/phase")
            }
        }),
        narrow_column("Volume", |o| value_at(o, "/spec/volumeName")),
        narrow_column("Capacity", |o| value_at(o, "/status/capacity/storage")),
        narrow_column("Access Modes", |o| access_modes(o, "/status/accessModes")),
        narrow_column("StorageClass", |o| value_at(o, "/spec/storageClassName")),
        narrow_column("VolumeAttributesClass", |o| {
            match show_text(o, "/spec/volumeAttributesClassName") {
                "" => "<unset>".into(),
                name => name.into(),
            }
        }),
        AGE,
        wide_column("VolumeMode", |o| value_at(o, "/spec/volumeMode")),
    ]
}

fn volume_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Capacity", |o| value_at(o, "/spec/capacity/storage")),
        narrow_column("Access Modes", |o| access_modes(o, "/spec/accessModes")),
        narrow_column("Reclaim Policy", |o| value_at(o, "/spec/persistentVolumeReclaimPolicy")),
        narrow_column("Status", |o| value_at(o, "/status/phase")),
        narrow_column("Claim", |o| match show_text(o, "/spec/claimRef/name") {
            "" => "".into(),
            name => format!("{}/{name}", show_text(o, "/spec/claimRef/namespace")).into(),
        }),
        narrow_column("StorageClass", |o| value_at(o, "/spec/storageClassName")),
        narrow_column("Reason", |o| value_at(o, "/status/reason")),
        AGE,
        wide_column("VolumeMode", |o| value_at(o, "/spec/volumeMode")),
    ]
}

fn event_columns() -> Vec<TableColumn> {
    /// Reads a field that the two Event APIs name differently.
    fn either(object: &Value, core: &str, new: &str) -> Value {
        match show_text(object, core) {
            "" => value_at(object, new),
            text => text.into(),
        }
    }
    vec![
        narrow_column("Last Seen", |o| {
            let found = [
                "/series/lastObservedTime",
                "/lastTimestamp",
                "/deprecatedLastTimestamp",
                "/eventTime",
                "/metadata/creationTimestamp",
            ]
            .into_iter()
            .find(|p| !show_text(o, p).is_empty());
            found.map_or("<unknown>".into(), |p| age_at(o, p))
        }),
        narrow_column("Type", |o| value_at(o, "/type")),
        narrow_column("Reason", |o| value_at(o, "/reason")),
        narrow_column("Object", |o| {
            let object = o.get("involvedObject").or_else(|| o.get("regarding"));
            let object = object.unwrap_or(&Value::Null);
            format!("{}/{}", show_text(object, "/kind").to_lowercase(), show_text(object, "/name"))
                .into()
        }),
        wide_column("Subobject", |o| {
            either(o, "/involvedObject/fieldPath", "/regarding/fieldPath")
        }),
        wide_column("Source", |o| either(o, "/reportingComponent", "/reportingController")),
        narrow_column("Message", |o| {
            either(o, "/message", "/note").as_str().unwrap_or_default().trim().into()
        }),
        wide_column("First Seen", |o| age_at(o, "/metadata/creationTimestamp")),
        wide_column("Count", |o| {
            let count = o.get("count").or_else(|| o.pointer("/series/count"));
            count.and_then(Value::as_i64).unwrap_or(1).into()
        }),
        wide_column("Name", |o| object::object_name(o).into()),
    ]
}

fn node_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Status", |o| {
            let conditions = o.pointer("/status/conditions").and_then(Value::as_array);
            let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
            match ready.and_then(|c| c["status"].as_str()) {
                Some("True") => "Ready".into(),
                Some(_) => "NotReady".into(),
                None => "Unknown".into(),
            }
        }),
        narrow_column("Roles", |o| {
            let labels = object::meta_field(o, "labels").and_then(Value::as_object);
            let roles: Vec<&str> = labels
                .into_iter()
                .flatten()
                .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
                .collect();
            if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
        }),
        AGE,
        narrow_column("Version", |o| value_at(o, "/status/nodeInfo/kubeletVersion")),
        wide_column("OS-Image", |o| value_at(o, "/status/nodeInfo/osImage")),
        wide_column("Kernel-Version", |o| value_at(o, "/status/nodeInfo/kernelVersion")),
        wide_column("Container-Runtime", |o| {
            value_at(o, "/status/nodeInfo/containerRuntimeVersion")
        }),
    ]
}

fn deployment_columns() -> Vec<TableColumn> {
    vec![
        NAME,
        narrow_column("Ready", |o| {
            let get = |p: &str| o.pointer(p).and_then(Value::as_i64).unwrap_or(0);
            format!("{}/{}", get("/status/readyReplicas"), get("/spec/replicas")).into()
        }),
        narrow_column("Up-to-date", |o| number_at(o, "/status/updatedReplicas")),
        narrow_column("Available", |o| number_at(o, "/status/availableReplicas")),
        AGE,
        wide_column("Containers", |o| container_cells(o, "name")),
        wide_column("Images", |o| container_cells(o, "image")),
        wide_column("Selector", |o| show_selector(o.pointer("/spec/selector"))),
    ]
}

fn container_cells(object: &Value, field: &str) -> Value {
    let list = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let list: Vec<&str> =
        list.into_iter().flatten().filter_map(|c| c.get(field)?.as_str()).collect();
    list.join(",").into()
}
