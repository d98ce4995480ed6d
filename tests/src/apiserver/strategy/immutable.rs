//! Fields that an update may not change.

use serde_json::Value;

use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::scalars::ExactQuantity;
use crate::apiserver::status::StatusCause;

const UNCHANGEABLE: &str = "field is immutable";

/// Lists the immutable fields that an update changes.
pub(super) fn check_immutable(kind: &ServedKind, new: &Value, live: &Value) -> Vec<StatusCause> {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => check_pod(new, live),
        ("", "persistentvolumeclaims") => check_claim(new, live),
        ("", "secrets") => {
            let mut causes = check_same(new, live, "/type", "type");
            causes.extend(check_sealed(new, live, &["data"]));
            causes
        }
        ("", "configmaps") => check_sealed(new, live, &["data", "binaryData"]),
        ("", "services") => {
            let was = text_at(live, "/spec/clusterIP").unwrap_or_default();
            if was.is_empty() || text_at(new, "/spec/type") == Some("ExternalName") {
                return Vec::new();
            }
            check_same(new, live, "/spec/clusterIP", "spec.clusterIPs[0]")
        }
        ("apps", "daemonsets" | "deployments" | "replicasets") => {
            check_same(new, live, "/spec/selector", "spec.selector")
        }
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            let mut causes = check_same(new, live, "/roleRef", "roleRef");
            for cause in &mut causes {
                cause.detail = cause.detail.replace(UNCHANGEABLE, "cannot change roleRef");
            }
            causes
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            let mut causes = check_same(new, live, "/spec/scope", "spec.scope");
            causes.extend(check_same(new, live, "/spec/group", "spec.group"));
            causes.extend(check_same(new, live, "/spec/names/plural", "spec.names.plural"));
            causes
        }
        ("storage.k8s.io", "storageclasses") => {
            let mut causes = check_same(new, live, "/provisioner", "provisioner");
            causes.extend(check_same(new, live, "/parameters", "parameters"));
            causes
        }
        _ => Vec::new(),
    }
}

fn check_same(new: &Value, live: &Value, pointer: &str, path: &str) -> Vec<StatusCause> {
    let (a, b) = (new.pointer(pointer), live.pointer(pointer));
    if a == b {
        return Vec::new();
    }
    vec![StatusCause::invalid(path, a.unwrap_or(&Value::Null), UNCHANGEABLE)]
}

/// `immutable: true` seals a ConfigMap or Secret.
fn check_sealed(new: &Value, live: &Value, maps: &[&str]) -> Vec<StatusCause> {
    if live.get("immutable") != Some(&Value::Bool(true)) {
        return Vec::new();
    }
    let why = "field is immutable when `immutable` is set";
    let mut causes = Vec::new();
    if new.get("immutable") != Some(&Value::Bool(true)) {
        causes.push(StatusCause::forbidden("immutable", why));
    }
    for map in maps {
        if new.get(*map) != live.get(*map) {
            causes.push(StatusCause::forbidden(*map, why));
        }
    }
    causes
}

fn check_pod(new: &Value, live: &Value) -> Vec<StatusCause> {
    if mutable_removed(new) == mutable_removed(live) {
        return check_revived(new, live);
    }
    vec![StatusCause::forbidden(
        "spec",
        "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )]
}

/// Containers whose end is taken back although nothing restarts them.
fn check_revived(new: &Value, live: &Value) -> Vec<StatusCause> {
    let policy = text_at(live, "/spec/restartPolicy").unwrap_or("Always");
    let list = |pod: &Value| {
        let found = pod.pointer("/status/containerStatuses").and_then(Value::as_array);
        found.cloned().unwrap_or_default()
    };
    let ended = |status: &Value| status.pointer("/state/terminated").cloned();
    let now = list(new);
    let stays = |was: &Value| match policy {
        "Always" => false,
        "OnFailure" => ended(was).is_some_and(|end| end["exitCode"] == 0),
        _ => ended(was).is_some(),
    };
    let runs = |was: &Value| now.iter().any(|s| s["name"] == was["name"] && ended(s).is_none());
    let revived = list(live).into_iter().enumerate().filter(|(_, was)| stays(was) && runs(was));
    let cause = |(index, _)| {
        let field = format!("status.containerStatuses[{index}].state");
        StatusCause::forbidden(field, "may not be transitioned to non-terminated state")
    };
    revived.map(cause).collect()
}

fn mutable_removed(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates", "ephemeralContainers"]
    {
        object::set_field(&mut spec, field, None);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            object::set_field(container, "image", None);
        }
    }
    spec
}

fn check_claim(new: &Value, live: &Value) -> Vec<StatusCause> {
    let rest = |claim: &Value| {
        let mut spec = claim.get("spec").cloned().unwrap_or_default();
        if text_at(live, "/status/phase") != Some("Bound") {
            // Only what is bound can grow.
        } else if let Some(requests) = spec.pointer_mut("/resources/requests") {
            object::set_field(requests, "storage", None);
        }
        // Set by the binder, once.
        if text_at(live, "/spec/volumeName").unwrap_or_default().is_empty() {
            object::set_field(&mut spec, "volumeName", None);
        }
        // Filled in late where there was no default class.
        if text_at(live, "/spec/storageClassName").is_none() {
            object::set_field(&mut spec, "storageClassName", None);
        }
        object::set_field(&mut spec, "volumeAttributesClassName", None);
        spec
    };
    if rest(new) != rest(live) {
        return vec![StatusCause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        )];
    }
    let size = |claim: &Value| {
        text_at(claim, "/spec/resources/requests/storage").and_then(ExactQuantity::parse)
    };
    let capacity = text_at(live, "/status/capacity/storage").and_then(ExactQuantity::parse);
    match (size(live), size(new)) {
        // Back to what was asked for before a growth that failed, but not below what there is.
        (Some(before), Some(after))
            if after.cmp(before).is_lt() && capacity.is_some_and(|c| after.cmp(c).is_le()) =>
        {
            vec![StatusCause::forbidden(
                "spec.resources.requests.storage",
                "field can not be less than status.capacity",
            )]
        }
        _ => Vec::new(),
    }
}
