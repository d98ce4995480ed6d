//! Pods: defaults and what admission adds.

use serde_json::{Value, json};

use crate::apiserver::object::{self, default_to, map_at, text_at};
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Mount path of a pod's own service account token.
const TOKEN_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Fills in the defaults of a pod.
pub(super) fn default_pod(pod: &mut Value) {
    default_spec(map_value(pod, "spec"));
}

/// Defaults of the pod template in a workload's spec.
pub(super) fn default_template(workload: &mut Value) {
    if let Some(template) = workload.pointer_mut("/spec/template") {
        default_spec(map_value(template, "spec"));
    }
}

fn map_value<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    object::object_fields(value).entry(field).or_insert_with(|| json!({}))
}

fn default_spec(value: &mut Value) {
    for list in ["initContainers", "containers"] {
        for item in value.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            default_container(item);
        }
    }
    for volume in value.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        default_volume(volume);
    }
    let spec = object::object_fields(value);
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "schedulerName", "default-scheduler");
    if let Some(account) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".to_owned(), account);
    }
}

fn default_container(value: &mut Value) {
    for port in value.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        default_to(object::object_fields(port), "protocol", "TCP");
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = value.get_mut(probe) {
            let probe = object::object_fields(probe);
            default_to(probe, "timeoutSeconds", 1);
            default_to(probe, "periodSeconds", 10);
            default_to(probe, "successThreshold", 1);
            default_to(probe, "failureThreshold", 3);
            if let Some(get) = probe.get_mut("httpGet") {
                default_to(object::object_fields(get), "scheme", "HTTP");
                default_to(object::object_fields(get), "path", "/");
            }
        }
    }
    for env in value.get_mut("env").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(field) = env.pointer_mut("/valueFrom/fieldRef") {
            default_to(object::object_fields(field), "apiVersion", "v1");
        }
    }
    let image = text_at(value, "/image").unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    let latest = !name.contains([':', '@']) || name.ends_with(":latest");
    if let Some(limits) = value.pointer("/resources/limits").and_then(Value::as_object).cloned() {
        let resources = map_value(value, "resources");
        let requests = map_value(resources, "requests");
        for (name, limit) in limits {
            default_to(object::object_fields(requests), &name, limit);
        }
    }
    let fields = object::object_fields(value);
    default_to(fields, "resources", json!({}));
    default_to(fields, "terminationMessagePath", "/dev/termination-log");
    default_to(fields, "terminationMessagePolicy", "File");
    default_to(fields, "imagePullPolicy", if latest { "Always" } else { "IfNotPresent" });
}

fn default_volume(value: &mut Value) {
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = value.get_mut(source) {
            default_to(object::object_fields(source), "defaultMode", 420);
        }
    }
    if let Some(path) = value.get_mut("hostPath") {
        default_to(object::object_fields(path), "type", "");
    }
    let sources = value.pointer_mut("/projected/sources").and_then(Value::as_array_mut);
    for source in sources.into_iter().flatten() {
        if let Some(token) = source.get_mut("serviceAccountToken") {
            default_to(object::object_fields(token), "expirationSeconds", 3600);
        }
        let items = source.pointer_mut("/downwardAPI/items").and_then(Value::as_array_mut);
        for field in items.into_iter().flatten().filter_map(|i| i.get_mut("fieldRef")) {
            default_to(object::object_fields(field), "apiVersion", "v1");
        }
    }
    let sources = value.as_object().map_or(0, serde_json::Map::len);
    if sources == 1 {
        // Only a name: upstream's default source.
        value["emptyDir"] = json!({});
    }
}

/// The status that a new pod starts with. One with scheduling gates says that it waits for these.
pub(super) fn first_status(pod: &Value) -> Value {
    let mut status = json!({ "phase": "Pending", "qosClass": qos_class(pod) });
    let gates = pod.pointer("/spec/schedulingGates").and_then(Value::as_array);
    if gates.is_some_and(|gates| !gates.is_empty()) {
        status["conditions"] = json!([{
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastProbeTime": null, "lastTransitionTime": object::now_text(),
        }]);
    }
    status
}

/// The quality-of-service class that the resources of its containers give a pod.
fn qos_class(pod: &Value) -> &'static str {
    let (mut any, mut all) = (false, true);
    for list in ["/spec/initContainers", "/spec/containers"] {
        let containers = pod.pointer(list).and_then(Value::as_array);
        for container in containers.into_iter().flatten() {
            let get = |pointer: &str| container.pointer(pointer).filter(|v| !v.is_null());
            for resource in ["cpu", "memory"] {
                let limit = get(&format!("/resources/limits/{resource}"));
                let request = get(&format!("/resources/requests/{resource}"));
                any |= limit.is_some() || request.is_some();
                all &= limit.is_some() && (request.is_none() || request == limit);
            }
        }
    }
    match (any, all) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Does what upstream's default admission does to a new pod: adds its ServiceAccount, which must exist,
/// that account's token, a priority and tolerations.
pub(crate) fn admit_pod(store: &ObjectStore, pod: &mut Value) -> Result<(), ApiError> {
    let namespace = object::object_namespace(pod).to_owned();
    let name = object::object_name(pod).to_owned();
    let spec = map_at(pod, "spec");
    default_to(spec, "serviceAccountName", "default");
    default_to(spec, "priority", 0);
    default_to(spec, "preemptionPolicy", "PreemptLowerPriority");
    default_to(spec, "enableServiceLinks", true);
    let account =
        spec.get("serviceAccountName").and_then(Value::as_str).unwrap_or("default").to_owned();
    spec.insert("serviceAccount".to_owned(), account.clone().into());
    let Some(stored) = store.get("serviceaccounts", &namespace, &account) else {
        return Err(ApiError::forbidden(
            "",
            "pods",
            &name,
            &format!(
                "error looking up service account {namespace}/{account}: serviceaccount \"{account}\" not found"
            ),
        ));
    };
    let wants = |value: &Value| value.get("automountServiceAccountToken").and_then(Value::as_bool);
    let own = spec.get("automountServiceAccountToken").and_then(Value::as_bool);
    if own.or_else(|| wants(&stored.value)).unwrap_or(true) {
        mount_token(spec);
    }
    add_tolerations(spec);
    Ok(())
}

fn mount_token(spec: &mut serde_json::Map<String, Value>) {
    let volume = format!("kube-api-access-{}", super::super::generated_name::random_suffix());
    let mut used = false;
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let mounts =
                object::object_fields(container).entry("volumeMounts").or_insert(json!([]));
            let Some(mounts) = mounts.as_array_mut() else { continue };
            if !mounts.iter().any(|m| m["mountPath"] == TOKEN_DIR) {
                mounts.push(json!({"name": volume, "mountPath": TOKEN_DIR, "readOnly": true}));
                used = true;
            }
        }
    }
    if !used {
        return;
    }
    let volumes = spec.entry("volumes").or_insert(json!([]));
    if let Some(volumes) = volumes.as_array_mut() {
        volumes.push(json!({"name": volume, "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {
                "name": "kube-root-ca.crt",
                "items": [{"key": "ca.crt", "path": "ca.crt"}],
            }},
            {"downwardAPI": {"items": [{
                "path": "namespace",
                "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
            }]}},
        ]}}));
    }
}

fn add_tolerations(spec: &mut serde_json::Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert(json!([]));
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let known = |t: &Value| {
            (t["key"] == key || t.get("key").is_none())
                && t.get("effect").is_none_or(|e| e == "NoExecute")
        };
        if !tolerations.iter().any(known) {
            tolerations.push(json!({
                "key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300,
            }));
        }
    }
}
