//! Checks of the built-in kinds that controllers and their authors meet.

use serde_json::Value;

use super::containers::pod_spec;
use super::field_checks::{list_field, one_of, text_field};
use crate::apiserver::crd_definition;
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::text_at;
use crate::apiserver::scalars::ExactQuantity;
use crate::apiserver::status::StatusCause;

/// All values of a ConfigMap or Secret together, in bytes.
const MAX_DATA: usize = 1024 * 1024;

/// Lists the mistakes in an object of a built-in kind.
pub(super) fn run_checks(kind: &ServedKind, value: &Value) -> Vec<StatusCause> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pod_spec(&value["spec"], "spec"),
        ("", "events") => core_event(value),
        ("events.k8s.io", "events") => check_event(value),
        ("apps", "daemonsets" | "deployments" | "replicasets") => check_workload(value),
        ("", "persistentvolumeclaims") => check_claim(value),
        ("", "services") => check_service(value),
        ("", "configmaps") => check_keys(value, &["data", "binaryData"]),
        ("", "secrets") => check_secret(value),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            check_binding(value)
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crd_definition::check_definition(value)
        }
        ("coordination.k8s.io", "leases") => check_lease(value),
        _ => Vec::new(),
    }
}

fn check_workload(value: &Value) -> Vec<StatusCause> {
    let mut causes = pod_spec(
        value.pointer("/spec/template/spec").unwrap_or(&Value::Null),
        "spec.template.spec",
    );
    let selector = value.pointer("/spec/selector").unwrap_or(&Value::Null);
    if selector.is_null() {
        causes.push(StatusCause::required("spec.selector", ""));
    }
    let labels = value.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    if wanted.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        causes.push(StatusCause::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    causes
}

fn check_claim(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    if list_field(spec, "accessModes").is_empty() {
        causes
            .push(StatusCause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    for (index, mode) in list_field(spec, "accessModes").iter().enumerate() {
        let allowed = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        if !allowed.iter().any(|a| mode == a) {
            let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
            causes.push(StatusCause::unsupported(
                format!("spec.accessModes[{index}]"),
                mode,
                &allowed,
            ));
        }
    }
    if let Some(source) = spec.get("dataSource").filter(|source| !source.is_null()) {
        if source["name"].as_str().unwrap_or_default().is_empty() {
            causes.push(StatusCause::required("spec.dataSource.name", ""));
        }
        let group = source["apiGroup"].as_str().unwrap_or_default();
        if group.is_empty() && source["kind"] != "PersistentVolumeClaim" {
            let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
            causes.push(StatusCause::invalid("spec.dataSource", &source["kind"], why));
        }
    }
    match spec.pointer("/resources/requests/storage").and_then(Value::as_str) {
        None => causes.push(StatusCause::required("spec.resources[storage]", "")),
        Some(size) if !ExactQuantity::parse(size).is_some_and(ExactQuantity::is_positive) => {
            let why = "must be greater than zero";
            causes.push(StatusCause::invalid("spec.resources[storage]", &size.into(), why));
        }
        Some(_) => {}
    }
    causes
}

fn check_service(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let headless = text_field(spec, "clusterIP") == "None";
    let ports = list_field(spec, "ports");
    if ports.is_empty() && !headless && text_field(spec, "type") != "ExternalName" {
        causes.push(StatusCause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if ports.len() > 1 && text_field(port, "name").is_empty() {
            causes.push(StatusCause::required(format!("spec.ports[{index}].name"), ""));
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            causes.push(StatusCause::invalid(
                format!("spec.ports[{index}].port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    causes
}

fn check_keys(value: &Value, maps: &[&str]) -> Vec<StatusCause> {
    let good = |key: &str| {
        !key.is_empty()
            && key.len() <= 253
            && key != "."
            && key != ".."
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let mut causes = Vec::new();
    let mut total = 0;
    for map in maps {
        let entries = value.get(*map).and_then(Value::as_object);
        let sizes = entries.into_iter().flatten().map(|(_, v)| v.as_str().map_or(0, str::len));
        // Bytes are stored as text that is a third longer.
        total += if *map == "data" && maps.len() > 1 {
            sizes.sum()
        } else {
            sizes.sum::<usize>() / 4 * 3
        };
        for key in entries.into_iter().flatten().map(|(key, _)| key).filter(|key| !good(key)) {
            causes.push(StatusCause::invalid(
                format!("{map}[{key}]"),
                &key.as_str().into(),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ));
        }
    }
    if let (Some(Value::Object(data)), Some(Value::Object(binary))) =
        (value.get("data"), value.get("binaryData"))
    {
        for key in data.keys().filter(|key| binary.contains_key(*key)) {
            let why = "duplicate of key present in binaryData";
            causes.push(StatusCause::invalid(format!("data[{key}]"), &key.as_str().into(), why));
        }
    }
    if total > MAX_DATA {
        let field = if maps.len() > 1 { "[]" } else { "data" };
        causes.push(StatusCause::too_long(field, MAX_DATA));
    }
    causes
}

/// Events of either API belong to the namespace of what they are about.
fn core_event(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    check_place(value, "involvedObject", &mut causes);
    causes
}

fn check_event(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    check_place(value, "regarding", &mut causes);
    for name in ["eventTime", "reportingController", "reportingInstance", "action", "reason"] {
        if text_field(value, name).is_empty() {
            causes.push(StatusCause::required(name, ""));
        }
    }
    let kind = text_field(value, "type");
    if !matches!(kind, "Normal" | "Warning") {
        causes.push(StatusCause::invalid(
            "type",
            &"".into(),
            &format!("has invalid value: {kind}"),
        ));
    }
    causes
}

fn check_place(value: &Value, about: &str, causes: &mut Vec<StatusCause>) {
    let wanted = text_at(value, &format!("/{about}/namespace")).unwrap_or_default();
    let own = crate::apiserver::object::object_namespace(value);
    // Events about cluster-wide objects are in `default`.
    if wanted != own && !(wanted.is_empty() && own == "default") {
        causes.push(StatusCause::invalid(
            "involvedObject.namespace",
            &wanted.into(),
            "does not match event.namespace",
        ));
    }
}

fn check_secret(value: &Value) -> Vec<StatusCause> {
    let mut causes = check_keys(value, &["data"]);
    let required: &[&str] = match text_field(value, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        _ => &[],
    };
    for key in required {
        if value.pointer(&format!("/data/{key}")).is_none() {
            causes.push(StatusCause::required(format!("data[{key}]"), ""));
        }
    }
    causes
}

fn check_binding(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let role = value.get("roleRef").unwrap_or(&Value::Null);
    one_of(role, "kind", "roleRef", &["Role", "ClusterRole"], &mut causes);
    if text_field(role, "name").is_empty() {
        causes.push(StatusCause::required("roleRef.name", ""));
    }
    let cluster_wide = text_at(value, "/kind") == Some("ClusterRoleBinding");
    for (index, subject) in list_field(value, "subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        if text_field(subject, "name").is_empty() {
            causes.push(StatusCause::required(format!("{path}.name"), ""));
        }
        one_of(subject, "kind", &path, &["ServiceAccount", "User", "Group"], &mut causes);
        if cluster_wide
            && text_field(subject, "kind") == "ServiceAccount"
            && text_field(subject, "namespace").is_empty()
        {
            causes.push(StatusCause::required(format!("{path}.namespace"), ""));
        }
    }
    causes
}

fn check_lease(value: &Value) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    for name in ["leaseDurationSeconds", "leaseTransitions"] {
        let found = value.pointer(&format!("/spec/{name}")).and_then(Value::as_i64);
        let least = i64::from(name == "leaseDurationSeconds");
        if let Some(number) = found.filter(|n| *n < least) {
            let why = if least == 1 {
                "must be greater than 0"
            } else {
                "must be greater than or equal to 0"
            };
            causes.push(StatusCause::invalid(format!("spec.{name}"), &number.into(), why));
        }
    }
    causes
}
