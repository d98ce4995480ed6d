//! Checks of the built-in kinds that controllers and their authors meet.

use std::collections::HashSet;

use serde_json::Value;

use super::names;
use crate::apiserver::crd;
use crate::apiserver::kinds::Kind;
use crate::apiserver::object::text;
use crate::apiserver::status::Cause;

/// What is wrong with an object.
pub fn run(kind: &Kind, value: &Value) -> Vec<Cause> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pod_spec(&value["spec"], "spec"),
        ("apps", "deployments" | "replicasets") => workload(value),
        ("", "persistentvolumeclaims") => claim(value),
        ("", "services") => service(value),
        ("", "configmaps") => keys(value, &["data", "binaryData"]),
        ("", "secrets") => secret(value),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => binding(value),
        ("apiextensions.k8s.io", "customresourcedefinitions") => crd::check(value),
        ("coordination.k8s.io", "leases") => lease(value),
        _ => Vec::new(),
    }
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn field<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn one_of(value: &Value, name: &str, path: &str, allowed: &[&str], causes: &mut Vec<Cause>) {
    if let Some(found) = value.get(name)
        && !allowed.iter().any(|a| found == a)
    {
        let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
        causes.push(Cause::unsupported(format!("{path}.{name}"), found, &allowed));
    }
}

fn pod_spec(spec: &Value, path: &str) -> Vec<Cause> {
    let mut causes = Vec::new();
    let mut volumes = HashSet::new();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}].name");
        let name = field(volume, "name");
        name_of(name, &path, &mut volumes, &mut causes);
    }
    let mut names = HashSet::new();
    for group in ["initContainers", "containers"] {
        for (index, container) in list(spec, group).iter().enumerate() {
            let path = format!("{path}.{group}[{index}]");
            name_of(field(container, "name"), &format!("{path}.name"), &mut names, &mut causes);
            if field(container, "image").is_empty() {
                causes.push(Cause::required(format!("{path}.image"), ""));
            }
            one_of(
                container,
                "imagePullPolicy",
                &path,
                &["Always", "IfNotPresent", "Never"],
                &mut causes,
            );
            if group == "initContainers" {
                one_of(container, "restartPolicy", &path, &["Always"], &mut causes);
            }
            mounts(container, &path, &volumes, &mut causes);
        }
    }
    if list(spec, "containers").is_empty() {
        causes.push(Cause::required(format!("{path}.containers"), ""));
    }
    one_of(spec, "restartPolicy", path, &["Always", "OnFailure", "Never"], &mut causes);
    one_of(
        spec,
        "dnsPolicy",
        path,
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        &mut causes,
    );
    let servers = spec.pointer("/dnsConfig/nameservers").and_then(Value::as_array);
    if field(spec, "dnsPolicy") == "None" && servers.is_none_or(Vec::is_empty) {
        causes.push(Cause::required(
            format!("{path}.dnsConfig.nameservers"),
            "must provide at least one DNS nameserver when `dnsPolicy` is None",
        ));
    }
    causes
}

fn name_of(name: &str, path: &str, seen: &mut HashSet<String>, causes: &mut Vec<Cause>) {
    if name.is_empty() {
        causes.push(Cause::required(path, ""));
    } else if let Some(why) = names::label(name) {
        causes.push(Cause::invalid(path, &name.into(), &why));
    } else if !seen.insert(name.to_owned()) {
        causes.push(Cause::duplicate(path, &name.into()));
    }
}

fn mounts(container: &Value, path: &str, volumes: &HashSet<String>, causes: &mut Vec<Cause>) {
    let mut paths = HashSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = field(mount, "name");
        if !volumes.contains(name) {
            causes.push(Cause {
                field: format!("{path}.name"),
                reason: "FieldValueNotFound",
                detail: format!("Not found: \"{name}\""),
            });
        }
        let target = field(mount, "mountPath");
        if target.is_empty() {
            causes.push(Cause::required(format!("{path}.mountPath"), ""));
        } else if !paths.insert(target.to_owned()) {
            causes.push(Cause::invalid(
                format!("{path}.mountPath"),
                &target.into(),
                "must be unique",
            ));
        }
        let sub = field(mount, "subPath");
        if sub.starts_with('/') {
            causes.push(Cause::invalid(
                format!("{path}.subPath"),
                &sub.into(),
                "must be a relative path",
            ));
        } else if sub.split('/').any(|part| part == "..") {
            causes.push(Cause::invalid(
                format!("{path}.subPath"),
                &sub.into(),
                "must not contain '..'",
            ));
        }
    }
}

fn workload(value: &Value) -> Vec<Cause> {
    let mut causes = pod_spec(
        value.pointer("/spec/template/spec").unwrap_or(&Value::Null),
        "spec.template.spec",
    );
    let selector = value.pointer("/spec/selector").unwrap_or(&Value::Null);
    if selector.is_null() {
        causes.push(Cause::required("spec.selector", ""));
    }
    let labels = value.pointer("/spec/template/metadata/labels").unwrap_or(&Value::Null);
    let wanted = selector.get("matchLabels").and_then(Value::as_object);
    if wanted.into_iter().flatten().any(|(key, value)| labels.get(key) != Some(value)) {
        causes.push(Cause::invalid(
            "spec.template.metadata.labels",
            labels,
            "`selector` does not match template `labels`",
        ));
    }
    causes
}

fn claim(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    if list(spec, "accessModes").is_empty() {
        causes.push(Cause::required("spec.accessModes", "at least 1 access mode is required"));
    }
    for (index, mode) in list(spec, "accessModes").iter().enumerate() {
        let allowed = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
        if !allowed.iter().any(|a| mode == a) {
            let allowed: Vec<String> = allowed.iter().map(|&a| a.to_owned()).collect();
            causes.push(Cause::unsupported(format!("spec.accessModes[{index}]"), mode, &allowed));
        }
    }
    if spec.pointer("/resources/requests/storage").is_none() {
        causes.push(Cause::required("spec.resources[storage]", ""));
    }
    causes
}

fn service(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let spec = value.get("spec").unwrap_or(&Value::Null);
    let headless = field(spec, "clusterIP") == "None";
    let ports = list(spec, "ports");
    if ports.is_empty() && !headless && field(spec, "type") != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        if ports.len() > 1 && field(port, "name").is_empty() {
            causes.push(Cause::required(format!("spec.ports[{index}].name"), ""));
        }
        let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            causes.push(Cause::invalid(
                format!("spec.ports[{index}].port"),
                &number.into(),
                "must be between 1 and 65535, inclusive",
            ));
        }
    }
    causes
}

fn keys(value: &Value, maps: &[&str]) -> Vec<Cause> {
    let good = |key: &str| {
        !key.is_empty()
            && key.len() <= 253
            && key != "."
            && key != ".."
            && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
    };
    let mut causes = Vec::new();
    for map in maps {
        let entries = value.get(*map).and_then(Value::as_object);
        for key in entries.into_iter().flatten().map(|(key, _)| key).filter(|key| !good(key)) {
            causes.push(Cause::invalid(
                format!("{map}[{key}]"),
                &key.as_str().into(),
                "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
            ));
        }
    }
    causes
}

fn secret(value: &Value) -> Vec<Cause> {
    let mut causes = keys(value, &["data"]);
    let required: &[&str] = match field(value, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        _ => &[],
    };
    for key in required {
        if value.pointer(&format!("/data/{key}")).is_none() {
            causes.push(Cause::required(format!("data[{key}]"), ""));
        }
    }
    causes
}

fn binding(value: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let role = value.get("roleRef").unwrap_or(&Value::Null);
    one_of(role, "kind", "roleRef", &["Role", "ClusterRole"], &mut causes);
    if field(role, "name").is_empty() {
        causes.push(Cause::required("roleRef.name", ""));
    }
    let cluster_wide = text(value, "/kind") == Some("ClusterRoleBinding");
    for (index, subject) in list(value, "subjects").iter().enumerate() {
        let path = format!("subjects[{index}]");
        if field(subject, "name").is_empty() {
            causes.push(Cause::required(format!("{path}.name"), ""));
        }
        one_of(subject, "kind", &path, &["ServiceAccount", "User", "Group"], &mut causes);
        if cluster_wide
            && field(subject, "kind") == "ServiceAccount"
            && field(subject, "namespace").is_empty()
        {
            causes.push(Cause::required(format!("{path}.namespace"), ""));
        }
    }
    causes
}

fn lease(value: &Value) -> Vec<Cause> {
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
            causes.push(Cause::invalid(format!("spec.{name}"), &number.into(), why));
        }
    }
    causes
}
