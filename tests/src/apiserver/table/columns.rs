//! Upstream's columns of the built-in kinds.

use serde_json::Value;

use super::{Column, age};
use crate::apiserver::kinds::Kind;
use crate::apiserver::object::{self, text};

const fn column(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, kind: "string", wide: false, cell }
}

const fn wide(name: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, kind: "string", wide: true, cell }
}

const NAME: Column = column("Name", |o| object::name(o).into());
const AGE: Column = column("Age", |o| age_at(o, "/metadata/creationTimestamp"));

/// The columns of a kind.
pub fn of(kind: &Kind) -> Vec<Column> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods(),
        ("", "services") => services(),
        ("", "persistentvolumeclaims") => claims(),
        ("", "persistentvolumes") => volumes(),
        ("", "namespaces") => vec![NAME, column("Status", |o| at(o, "/status/phase")), AGE],
        ("", "secrets") => vec![
            NAME,
            column("Type", |o| at(o, "/type")),
            column("Data", |o| count(o, &["data"])),
            AGE,
        ],
        ("", "configmaps") => {
            vec![NAME, column("Data", |o| count(o, &["data", "binaryData"])), AGE]
        }
        ("", "serviceaccounts") => vec![NAME, column("Secrets", |o| length(o, "/secrets")), AGE],
        ("" | "events.k8s.io", "events") => events(),
        ("", "nodes") => nodes(),
        ("apps", "deployments") => deployments(),
        ("apps", "replicasets") => vec![
            NAME,
            column("Desired", |o| number(o, "/spec/replicas")),
            column("Current", |o| number(o, "/status/replicas")),
            column("Ready", |o| number(o, "/status/readyReplicas")),
            AGE,
        ],
        ("coordination.k8s.io", "leases") => {
            vec![NAME, column("Holder", |o| at(o, "/spec/holderIdentity")), AGE]
        }
        ("storage.k8s.io", "storageclasses") => vec![
            NAME,
            column("Provisioner", |o| at(o, "/provisioner")),
            column("ReclaimPolicy", |o| at(o, "/reclaimPolicy")),
            column("VolumeBindingMode", |o| at(o, "/volumeBindingMode")),
            AGE,
        ],
        ("networking.k8s.io", "networkpolicies") => {
            vec![NAME, column("Pod-Selector", |o| selector(o.pointer("/spec/podSelector"))), AGE]
        }
        ("rbac.authorization.k8s.io", "roles" | "clusterroles") => {
            vec![NAME, column("Created At", |o| at(o, "/metadata/creationTimestamp"))]
        }
        ("rbac.authorization.k8s.io", _) => vec![
            NAME,
            column("Role", |o| {
                format!("{}/{}", show(o, "/roleRef/kind"), show(o, "/roleRef/name")).into()
            }),
            AGE,
        ],
        ("apiextensions.k8s.io", _) => {
            vec![NAME, column("Created At", |o| at(o, "/metadata/creationTimestamp"))]
        }
        _ => vec![NAME, AGE],
    }
}

fn at(object: &Value, pointer: &str) -> Value {
    show(object, pointer).into()
}

fn show<'a>(object: &'a Value, pointer: &str) -> &'a str {
    text(object, pointer).unwrap_or_default()
}

fn or_none(object: &Value, pointer: &str) -> Value {
    match show(object, pointer) {
        "" => "<none>".into(),
        text => text.into(),
    }
}

fn number(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0).into()
}

fn length(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_array).map_or(0, Vec::len).into()
}

fn count(object: &Value, maps: &[&str]) -> Value {
    let keys = maps.iter().filter_map(|m| object.get(*m)?.as_object());
    keys.map(serde_json::Map::len).sum::<usize>().into()
}

fn age_at(object: &Value, pointer: &str) -> Value {
    match show(object, pointer) {
        "" => "<unknown>".into(),
        moment => age::since(moment).into(),
    }
}

fn joined(object: &Value, pointer: &str, separator: &str) -> String {
    let items = object.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}

fn selector(selector: Option<&Value>) -> Value {
    let labels = selector.and_then(|s| s.get("matchLabels")).and_then(Value::as_object);
    let labels: Vec<String> = labels
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() { "<none>".into() } else { labels.join(",").into() }
}

fn pods() -> Vec<Column> {
    vec![
        NAME,
        column("Ready", |o| {
            let statuses = container_statuses(o);
            let ready = statuses.iter().filter(|s| s["ready"] == true).count();
            let sidecars = sidecars(o).len();
            let containers = o.pointer("/spec/containers").and_then(Value::as_array);
            format!("{ready}/{}", containers.map_or(0, Vec::len) + sidecars).into()
        }),
        column("Status", |o| pod_status(o).into()),
        column("Restarts", |o| {
            let statuses = container_statuses(o);
            let sum: i64 = statuses.iter().filter_map(|s| s["restartCount"].as_i64()).sum();
            sum.to_string().into()
        }),
        AGE,
        wide("IP", |o| or_none(o, "/status/podIP")),
        wide("Node", |o| or_none(o, "/spec/nodeName")),
        wide("Nominated Node", |o| or_none(o, "/status/nominatedNodeName")),
        wide("Readiness Gates", |_| "<none>".into()),
    ]
}

/// Init containers that keep running beside the others.
fn sidecars(pod: &Value) -> Vec<&str> {
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
    let sidecars = sidecars(pod);
    let inits = list("/status/initContainerStatuses")
        .filter(|s| s["name"].as_str().is_some_and(|name| sidecars.contains(&name)));
    list("/status/containerStatuses").chain(inits).collect()
}

fn pod_status(pod: &Value) -> String {
    if object::is_terminating(pod) {
        return "Terminating".to_owned();
    }
    let mut status = show(pod, "/status/phase").to_owned();
    let reason = show(pod, "/status/reason");
    if !reason.is_empty() {
        reason.clone_into(&mut status);
    }
    let inits = pod.pointer("/status/initContainerStatuses").and_then(Value::as_array);
    let total = pod.pointer("/spec/initContainers").and_then(Value::as_array).map_or(0, Vec::len);
    let sidecars = sidecars(pod);
    for (done, init) in inits.into_iter().flatten().enumerate() {
        let name = init["name"].as_str().unwrap_or_default();
        let exit = init.pointer("/state/terminated/exitCode").and_then(Value::as_i64);
        let started = sidecars.contains(&name) && init["started"] == true;
        if exit == Some(0) || started {
            continue;
        }
        return match (exit, text(init, "/state/waiting/reason")) {
            (Some(code), _) => match show(init, "/state/terminated/reason") {
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
        if let Some(reason) = text(container, "/state/waiting/reason").filter(|r| !r.is_empty()) {
            reason.clone_into(&mut status);
        } else if let Some(terminated) = container.pointer("/state/terminated") {
            status = match text(terminated, "/reason").filter(|r| !r.is_empty()) {
                Some(reason) => reason.to_owned(),
                None => format!("ExitCode:{}", terminated["exitCode"].as_i64().unwrap_or(0)),
            };
        } else if container["ready"] == true && container.pointer("/state/running").is_some() {
            running = true;
        }
    }
    if status == "Completed" && running { "Running".to_owned() } else { status }
}

fn services() -> Vec<Column> {
    vec![
        NAME,
        column("Type", |o| at(o, "/spec/type")),
        column("Cluster-IP", |o| or_none(o, "/spec/clusterIP")),
        column("External-IP", |o| or_none(o, "/spec/externalName")),
        column("Port(s)", |o| {
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
        wide("Selector", |o| {
            let labels = serde_json::json!({ "matchLabels": o.pointer("/spec/selector") });
            selector(Some(&labels))
        }),
    ]
}

fn access_modes(object: &Value, pointer: &str) -> Value {
    let modes = joined(object, pointer, ",")
        .replace("ReadWriteOncePod", "RWOP")
        .replace("ReadWriteOnce", "RWO")
        .replace("ReadOnlyMany", "ROX")
        .replace("ReadWriteMany", "RWX");
    modes.into()
}

fn claims() -> Vec<Column> {
    vec![
        NAME,
        column("Status", |o| {
            if object::is_terminating(o) { "Terminating".into() } else { at(o, "/status/phase") }
        }),
        column("Volume", |o| at(o, "/spec/volumeName")),
        column("Capacity", |o| at(o, "/status/capacity/storage")),
        column("Access Modes", |o| access_modes(o, "/status/accessModes")),
        column("StorageClass", |o| at(o, "/spec/storageClassName")),
        column("VolumeAttributesClass", |o| match show(o, "/spec/volumeAttributesClassName") {
            "" => "<unset>".into(),
            name => name.into(),
        }),
        AGE,
        wide("VolumeMode", |o| at(o, "/spec/volumeMode")),
    ]
}

fn volumes() -> Vec<Column> {
    vec![
        NAME,
        column("Capacity", |o| at(o, "/spec/capacity/storage")),
        column("Access Modes", |o| access_modes(o, "/spec/accessModes")),
        column("Reclaim Policy", |o| at(o, "/spec/persistentVolumeReclaimPolicy")),
        column("Status", |o| at(o, "/status/phase")),
        column("Claim", |o| match show(o, "/spec/claimRef/name") {
            "" => "".into(),
            name => format!("{}/{name}", show(o, "/spec/claimRef/namespace")).into(),
        }),
        column("StorageClass", |o| at(o, "/spec/storageClassName")),
        column("Reason", |o| at(o, "/status/reason")),
        AGE,
        wide("VolumeMode", |o| at(o, "/spec/volumeMode")),
    ]
}

fn events() -> Vec<Column> {
    /// The same field under the names of both Event APIs.
    fn either(object: &Value, core: &str, new: &str) -> Value {
        match show(object, core) {
            "" => at(object, new),
            text => text.into(),
        }
    }
    vec![
        column("Last Seen", |o| {
            let found = [
                "/series/lastObservedTime",
                "/lastTimestamp",
                "/deprecatedLastTimestamp",
                "/eventTime",
                "/metadata/creationTimestamp",
            ]
            .into_iter()
            .find(|p| !show(o, p).is_empty());
            found.map_or("<unknown>".into(), |p| age_at(o, p))
        }),
        column("Type", |o| at(o, "/type")),
        column("Reason", |o| at(o, "/reason")),
        column("Object", |o| {
            let object = o.get("involvedObject").or_else(|| o.get("regarding"));
            let object = object.unwrap_or(&Value::Null);
            format!("{}/{}", show(object, "/kind").to_lowercase(), show(object, "/name")).into()
        }),
        wide("Subobject", |o| either(o, "/involvedObject/fieldPath", "/regarding/fieldPath")),
        wide("Source", |o| either(o, "/reportingComponent", "/reportingController")),
        column("Message", |o| {
            either(o, "/message", "/note").as_str().unwrap_or_default().trim().into()
        }),
        wide("First Seen", |o| age_at(o, "/metadata/creationTimestamp")),
        wide("Count", |o| {
            let count = o.get("count").or_else(|| o.pointer("/series/count"));
            count.and_then(Value::as_i64).unwrap_or(1).into()
        }),
        wide("Name", |o| object::name(o).into()),
    ]
}

fn nodes() -> Vec<Column> {
    vec![
        NAME,
        column("Status", |o| {
            let conditions = o.pointer("/status/conditions").and_then(Value::as_array);
            let ready = conditions.into_iter().flatten().find(|c| c["type"] == "Ready");
            match ready.and_then(|c| c["status"].as_str()) {
                Some("True") => "Ready".into(),
                Some(_) => "NotReady".into(),
                None => "Unknown".into(),
            }
        }),
        column("Roles", |o| {
            let labels = object::meta(o, "labels").and_then(Value::as_object);
            let roles: Vec<&str> = labels
                .into_iter()
                .flatten()
                .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
                .collect();
            if roles.is_empty() { "<none>".into() } else { roles.join(",").into() }
        }),
        AGE,
        column("Version", |o| at(o, "/status/nodeInfo/kubeletVersion")),
        wide("OS-Image", |o| at(o, "/status/nodeInfo/osImage")),
        wide("Kernel-Version", |o| at(o, "/status/nodeInfo/kernelVersion")),
        wide("Container-Runtime", |o| at(o, "/status/nodeInfo/containerRuntimeVersion")),
    ]
}

fn deployments() -> Vec<Column> {
    vec![
        NAME,
        column("Ready", |o| {
            let get = |p: &str| o.pointer(p).and_then(Value::as_i64).unwrap_or(0);
            format!("{}/{}", get("/status/readyReplicas"), get("/spec/replicas")).into()
        }),
        column("Up-to-date", |o| number(o, "/status/updatedReplicas")),
        column("Available", |o| number(o, "/status/availableReplicas")),
        AGE,
        wide("Containers", |o| containers(o, "name")),
        wide("Images", |o| containers(o, "image")),
        wide("Selector", |o| selector(o.pointer("/spec/selector"))),
    ]
}

fn containers(object: &Value, field: &str) -> Value {
    let list = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    let list: Vec<&str> =
        list.into_iter().flatten().filter_map(|c| c.get(field)?.as_str()).collect();
    list.join(",").into()
}
