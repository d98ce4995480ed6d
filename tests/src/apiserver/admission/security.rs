//! Pod Security Standards, by the labels of the namespace.

use serde_json::Value;

use crate::apiserver::object::{self, text_at};
use crate::apiserver::status::ApiError;

const LABEL: &str = "pod-security.kubernetes.io";

/// Capabilities that the baseline lets containers add.
const BASELINE_CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
/// Volume sources that the restricted standard allows, and OpenShift's `restricted-v2`.
pub(super) const RESTRICTED_VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Refuses a pod below the enforced standard and warns of one below the wanted standard.
pub(super) fn review_pod(pod: &Value, labels: &Value) -> Result<Vec<String>, ApiError> {
    let level = |mode: &str| {
        labels.get(format!("{LABEL}/{mode}")).and_then(Value::as_str).unwrap_or("privileged")
    };
    let sentence = |level: &str| {
        let violations = find_violations(pod, level);
        (!violations.is_empty())
            .then(|| format!("violate PodSecurity \"{level}:latest\": {}", violations.join(", ")))
    };
    if let Some(sentence) = sentence(level("enforce")) {
        let why = sentence.replacen("violate", "violates", 1);
        return Err(ApiError::forbidden("", "pods", object::object_name(pod), &why));
    }
    Ok(sentence(level("warn")).map(|sentence| format!("would {sentence}")).into_iter().collect())
}

fn find_violations(pod: &Value, level: &str) -> Vec<String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    match level {
        "baseline" => check_baseline(spec),
        "restricted" => {
            let mut all = check_baseline(spec);
            // The stricter form of the same check replaces it.
            all.retain(|v| !v.starts_with("non-default capabilities"));
            all.extend(check_restricted(spec));
            all
        }
        _ => Vec::new(),
    }
}

fn all_containers(spec: &Value) -> Vec<&Value> {
    ["initContainers", "containers", "ephemeralContainers"]
        .iter()
        .filter_map(|list| spec.get(*list)?.as_array())
        .flatten()
        .collect()
}

/// The containers for which something holds, as a sentence names them; nothing if there are none.
fn name_containers(spec: &Value, bad: impl Fn(&Value) -> bool) -> Option<String> {
    let names: Vec<String> = all_containers(spec)
        .into_iter()
        .filter(|c| bad(c))
        .map(|c| format!("\"{}\"", text_at(c, "/name").unwrap_or_default()))
        .collect();
    match names.as_slice() {
        [] => None,
        [one] => Some(format!("container {one}")),
        many => Some(format!("containers {}", many.join(", "))),
    }
}

fn security_context<'a>(container: &'a Value, pointer: &str) -> Option<&'a Value> {
    container.pointer(&format!("/securityContext/{pointer}"))
}

fn added_capabilities(container: &Value) -> Vec<&str> {
    let list = security_context(container, "capabilities/add").and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn check_baseline(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let host: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| spec.get(**field) == Some(&Value::Bool(true)))
        .map(|field| format!("{field}=true"))
        .collect();
    if !host.is_empty() {
        found.push(format!("host namespaces ({})", host.join(", ")));
    }
    if let Some(who) =
        name_containers(spec, |c| security_context(c, "privileged") == Some(&Value::Bool(true)))
    {
        found.push(format!("privileged ({who} must not set securityContext.privileged=true)"));
    }
    let excess =
        |c: &Value| added_capabilities(c).iter().any(|cap| !BASELINE_CAPABILITIES.contains(cap));
    if let Some(who) = name_containers(spec, excess) {
        found.push(format!(
            "non-default capabilities ({who} must not include unlisted capabilities in securityContext.capabilities.add)"
        ));
    }
    let paths: Vec<String> = pod_volumes(spec)
        .filter(|v| v.get("hostPath").is_some())
        .map(|v| format!("\"{}\"", text_at(v, "/name").unwrap_or_default()))
        .collect();
    if !paths.is_empty() {
        let noun = if paths.len() == 1 { "volume" } else { "volumes" };
        found.push(format!("hostPath volumes ({noun} {})", paths.join(", ")));
    }
    let ports = |c: &Value| {
        let ports = c.get("ports").and_then(Value::as_array);
        ports.into_iter().flatten().any(|p| p["hostPort"].as_i64().unwrap_or(0) != 0)
    };
    if let Some(who) = name_containers(spec, ports) {
        found.push(format!("hostPort ({who} uses hostPort)"));
    }
    let unconfined = |value: &Value| {
        text_at(value, "/securityContext/seccompProfile/type") == Some("Unconfined")
    };
    if unconfined(spec) || name_containers(spec, unconfined).is_some() {
        found.push(
            "seccompProfile (pod or containers must not set securityContext.seccompProfile.type to \"Unconfined\")"
                .to_owned(),
        );
    }
    found
}

fn pod_volumes(spec: &Value) -> impl Iterator<Item = &Value> {
    spec.get("volumes").and_then(Value::as_array).into_iter().flatten()
}

fn check_restricted(spec: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let escalates =
        |c: &Value| security_context(c, "allowPrivilegeEscalation") != Some(&Value::Bool(false));
    if let Some(who) = name_containers(spec, escalates) {
        found.push(format!(
            "allowPrivilegeEscalation != false ({who} must set securityContext.allowPrivilegeEscalation=false)"
        ));
    }
    let keeps = |c: &Value| {
        let dropped = security_context(c, "capabilities/drop").and_then(Value::as_array);
        !dropped.into_iter().flatten().any(|cap| cap == "ALL")
            || added_capabilities(c).iter().any(|cap| *cap != "NET_BIND_SERVICE")
    };
    if let Some(who) = name_containers(spec, keeps) {
        found.push(format!(
            "unrestricted capabilities ({who} must set securityContext.capabilities.drop=[\"ALL\"])"
        ));
    }
    for volume in pod_volumes(spec) {
        let sources = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        for source in sources.filter(|s| *s != "name" && !RESTRICTED_VOLUMES.contains(s)) {
            found.push(format!(
                "restricted volume types (volume \"{}\" uses restricted volume type \"{source}\")",
                text_at(volume, "/name").unwrap_or_default()
            ));
        }
    }
    let in_pod = |pointer: &str| spec.pointer(&format!("/securityContext/{pointer}"));
    let yes = Some(&Value::Bool(true));
    let root = |c: &Value| {
        let own = security_context(c, "runAsNonRoot");
        own != yes && (own.is_some() || in_pod("runAsNonRoot") != yes)
    };
    if let Some(who) = name_containers(spec, root) {
        found.push(format!(
            "runAsNonRoot != true (pod or {who} must set securityContext.runAsNonRoot=true)"
        ));
    }
    let zero = |value: Option<&Value>| value.and_then(Value::as_i64) == Some(0);
    let who = name_containers(spec, |c| zero(security_context(c, "runAsUser")));
    if zero(in_pod("runAsUser")) || who.is_some() {
        let who = who.unwrap_or_else(|| "pod".to_owned());
        found.push(format!("runAsUser=0 ({who} must not set runAsUser=0)"));
    }
    let good = |value: Option<&Value>| {
        matches!(value.and_then(Value::as_str), Some("RuntimeDefault" | "Localhost"))
    };
    let open = |c: &Value| {
        let own = security_context(c, "seccompProfile/type");
        !(good(own) || own.is_none() && good(in_pod("seccompProfile/type")))
    };
    if let Some(who) = name_containers(spec, open) {
        found.push(format!(
            "seccompProfile (pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_enforced_standard_refuses_and_the_wanted_one_warns() {
        let bare = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a"}]}});
        let enforced = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let refused = review_pod(&bare, &enforced).unwrap_err();
        assert_eq!(
            refused.message,
            "pods \"p\" is forbidden: violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"a\" must set securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (container \"a\" must set securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or container \"a\" must set securityContext.runAsNonRoot=true), seccompProfile (pod or container \"a\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
        );
        let warned = json!({"pod-security.kubernetes.io/warn": "restricted"});
        assert!(review_pod(&bare, &warned).unwrap()[0].starts_with("would violate PodSecurity"));
        assert!(review_pod(&bare, &Value::Null).unwrap().is_empty());
    }

    #[test]
    fn a_restricted_pod_passes() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "securityContext": {
                "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [{"name": "a", "securityContext": {
                "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
            }}],
        }});
        assert!(find_violations(&pod, "restricted").is_empty());
        let mut host = pod;
        host["spec"]["volumes"][0] = json!({"name": "v", "hostPath": {"path": "/"}});
        host["spec"]["hostNetwork"] = true.into();
        let found = find_violations(&host, "baseline");
        assert_eq!(
            found,
            ["host namespaces (hostNetwork=true)", "hostPath volumes (volume \"v\")"]
        );
    }
}
