//! Checks of pods and of the templates of pods.

use std::collections::HashSet;

use serde_json::Value;

use super::field_checks::{list_field, one_of, text_field};
use super::names;
use crate::apiserver::scalars::ExactQuantity;
use crate::apiserver::status::StatusCause;

/// Lists the mistakes in the spec of a pod or of a pod template.
pub(super) fn pod_spec(spec: &Value, path: &str) -> Vec<StatusCause> {
    let mut causes = Vec::new();
    let mut volumes = HashSet::new();
    for (index, volume) in list_field(spec, "volumes").iter().enumerate() {
        let path = format!("{path}.volumes[{index}].name");
        let name = text_field(volume, "name");
        name_of(name, &path, &mut volumes, &mut causes);
        let sources = volume.as_object().into_iter().flatten().map(|(key, _)| key);
        for source in sources.filter(|key| *key != "name").skip(1) {
            let path = path.replace(".name", &format!(".{source}"));
            causes.push(StatusCause::forbidden(path, "may not specify more than 1 volume type"));
        }
    }
    let mut names = HashSet::new();
    for group in ["initContainers", "containers"] {
        for (index, container) in list_field(spec, group).iter().enumerate() {
            let path = format!("{path}.{group}[{index}]");
            name_of(
                text_field(container, "name"),
                &format!("{path}.name"),
                &mut names,
                &mut causes,
            );
            if text_field(container, "image").is_empty() {
                causes.push(StatusCause::required(format!("{path}.image"), ""));
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
            check_mounts(container, &path, &volumes, &mut causes);
            check_resources(container, &path, &mut causes);
            check_ports(container, &path, &mut causes);
            for (index, env) in list_field(container, "env").iter().enumerate() {
                if text_field(env, "name").is_empty() {
                    causes.push(StatusCause::required(format!("{path}.env[{index}].name"), ""));
                }
            }
        }
    }
    if list_field(spec, "containers").is_empty() {
        causes.push(StatusCause::required(format!("{path}.containers"), ""));
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
    if text_field(spec, "dnsPolicy") == "None" && servers.is_none_or(Vec::is_empty) {
        let (part, why) = match spec.get("dnsConfig") {
            None | Some(Value::Null) => ("", "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(_) => (
                ".nameservers",
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            ),
        };
        causes.push(StatusCause::required(format!("{path}.dnsConfig{part}"), why));
    }
    causes
}

fn name_of(name: &str, path: &str, seen: &mut HashSet<String>, causes: &mut Vec<StatusCause>) {
    if name.is_empty() {
        causes.push(StatusCause::required(path, ""));
    } else if let Some(why) = names::check_label(name) {
        causes.push(StatusCause::invalid(path, &name.into(), &why));
    } else if !seen.insert(name.to_owned()) {
        causes.push(StatusCause::duplicate(path, &name.into()));
    }
}

fn check_mounts(
    container: &Value,
    path: &str,
    volumes: &HashSet<String>,
    causes: &mut Vec<StatusCause>,
) {
    let mut paths = HashSet::new();
    for (index, mount) in list_field(container, "volumeMounts").iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = text_field(mount, "name");
        if !volumes.contains(name) {
            causes.push(StatusCause {
                field: format!("{path}.name"),
                reason: "FieldValueNotFound",
                detail: format!("Not found: \"{name}\""),
            });
        }
        let target = text_field(mount, "mountPath");
        if target.is_empty() {
            causes.push(StatusCause::required(format!("{path}.mountPath"), ""));
        } else if !paths.insert(target.to_owned()) {
            causes.push(StatusCause::invalid(
                format!("{path}.mountPath"),
                &target.into(),
                "must be unique",
            ));
        }
        let sub = text_field(mount, "subPath");
        if sub.starts_with('/') {
            causes.push(StatusCause::invalid(
                format!("{path}.subPath"),
                &sub.into(),
                "must be a relative path",
            ));
        } else if sub.split('/').any(|part| part == "..") {
            causes.push(StatusCause::invalid(
                format!("{path}.subPath"),
                &sub.into(),
                "must not contain '..'",
            ));
        }
    }
}

fn check_resources(container: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let quantities = |kind: &str| -> Vec<(String, String, ExactQuantity)> {
        let map = container.pointer(&format!("/resources/{kind}")).and_then(Value::as_object);
        let entries = map.into_iter().flatten();
        entries
            .filter_map(|(name, value)| {
                let text = value.as_str()?;
                Some((name.clone(), text.to_owned(), ExactQuantity::parse(text)?))
            })
            .collect()
    };
    let limits = quantities("limits");
    for (kind, list) in [("limits", &limits), ("requests", &quantities("requests"))] {
        for (name, text, quantity) in list {
            if quantity.is_negative() {
                let path = format!("{path}.resources.{kind}[{name}]");
                let why = "must be greater than or equal to 0";
                causes.push(StatusCause::invalid(path, &text.as_str().into(), why));
            }
            let limit = limits.iter().find(|(limited, ..)| limited == name);
            if let Some((_, most, limit)) = limit
                && quantity.cmp(*limit).is_gt()
            {
                let why = format!("must be less than or equal to {name} limit of {most}");
                let path = format!("{path}.resources.requests");
                causes.push(StatusCause::invalid(path, &text.as_str().into(), &why));
            }
        }
    }
}

fn check_ports(container: &Value, path: &str, causes: &mut Vec<StatusCause>) {
    let mut check = |path: String, port: Option<&Value>| {
        if let Some(port) = port.filter(|p| !p.as_i64().is_none_or(|n| (1..=65535).contains(&n))) {
            let why = "must be between 1 and 65535, inclusive";
            causes.push(StatusCause::invalid(path, port, why));
        }
    };
    for (index, port) in list_field(container, "ports").iter().enumerate() {
        check(format!("{path}.ports[{index}].containerPort"), port.get("containerPort"));
    }
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        for how in ["httpGet", "tcpSocket"] {
            let port = container.pointer(&format!("/{probe}/{how}/port"));
            check(format!("{path}.{probe}.{how}.port"), port);
        }
    }
}
