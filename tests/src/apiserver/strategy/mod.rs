//! The API server's own rules for objects of the built-in kinds: defaults, the division of spec and
//! status, immutable fields, checks.

mod checks;
mod containers;
mod field_checks;
mod immutable;
mod names;
mod pods;
mod services;

pub(super) use names::check_meta;
pub(super) use pods::admit_pod;
pub(super) use services::allocate_address;

use serde_json::{Map, Value, json};

use super::crd_definition;
use super::kinds::ServedKind;
use super::object::{self, copy_field, copy_meta, default_to, map_at, text_at};
use super::status::StatusCause;

/// Fills in what upstream fills in for a built-in kind.
pub(super) fn default_object(kind: &ServedKind, value: &mut Value) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => pods::default_pod(value),
        ("", "services") => services::default_service(value),
        ("", "secrets") => default_secret(value),
        ("", "namespaces") => default_namespace(value),
        ("", "persistentvolumeclaims") => {
            let spec = map_at(value, "spec");
            default_to(spec, "volumeMode", "Filesystem");
            // Either of both is the other one, too.
            for (from, to) in [("dataSource", "dataSourceRef"), ("dataSourceRef", "dataSource")] {
                let given = spec.get(from).cloned();
                if let Some(given) = given.filter(|given| !given.is_null()) {
                    spec.entry(to).or_insert(given);
                }
            }
        }
        ("", "persistentvolumes") => {
            let spec = map_at(value, "spec");
            default_to(spec, "volumeMode", "Filesystem");
            default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
        }
        ("apps", "daemonsets") => daemon_set(value),
        ("apps", "deployments") => default_deployment(value),
        ("apps", "replicasets") => {
            default_to(map_at(value, "spec"), "replicas", 1);
            pods::default_template(value);
        }
        ("storage.k8s.io", "storageclasses") => {
            let fields = object::object_fields(value);
            default_to(fields, "reclaimPolicy", "Delete");
            default_to(fields, "volumeBindingMode", "Immediate");
        }
        ("networking.k8s.io", "networkpolicies") => network_policy(value),
        ("rbac.authorization.k8s.io", "rolebindings" | "clusterrolebindings") => {
            default_subjects(value);
        }
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crd_definition::default_definition(value);
        }
        ("", "events") => {
            let fields = object::object_fields(value);
            default_to(fields, "reportingComponent", "");
            default_to(fields, "reportingInstance", "");
        }
        _ => {}
    }
}

fn default_secret(value: &mut Value) {
    let fields = object::object_fields(value);
    // `stringData` is for writing only.
    if let Some(Value::Object(plain)) = fields.remove("stringData") {
        let data = fields.entry("data").or_insert_with(|| json!({}));
        for (key, text) in plain {
            use base64::Engine as _;
            let bytes = text.as_str().unwrap_or_default();
            data[key] = base64::engine::general_purpose::STANDARD.encode(bytes).into();
        }
    }
    default_to(fields, "type", "Opaque");
}

fn default_namespace(value: &mut Value) {
    let name = object::object_name(value).to_owned();
    let meta = object::meta_mut(value);
    let labels = meta.entry("labels").or_insert_with(|| json!({}));
    labels["kubernetes.io/metadata.name"] = name.into();
}

fn daemon_set(value: &mut Value) {
    let spec = map_at(value, "spec");
    default_to(spec, "revisionHistoryLimit", 10);
    let strategy = object::object_fields(spec.entry("updateStrategy").or_insert_with(|| json!({})));
    default_to(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&"RollingUpdate".into()) {
        let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
        let rolling = object::object_fields(rolling);
        default_to(rolling, "maxSurge", 0);
        default_to(rolling, "maxUnavailable", 1);
    }
    pods::default_template(value);
}

fn default_deployment(value: &mut Value) {
    let spec = map_at(value, "spec");
    default_to(spec, "replicas", 1);
    default_to(spec, "revisionHistoryLimit", 10);
    default_to(spec, "progressDeadlineSeconds", 600);
    let strategy = spec.entry("strategy").or_insert_with(|| json!({}));
    let strategy = object::object_fields(strategy);
    default_to(strategy, "type", "RollingUpdate");
    if strategy.get("type") == Some(&"RollingUpdate".into()) {
        let rolling = strategy.entry("rollingUpdate").or_insert_with(|| json!({}));
        let rolling = object::object_fields(rolling);
        default_to(rolling, "maxSurge", "25%");
        default_to(rolling, "maxUnavailable", "25%");
    }
    pods::default_template(value);
}

fn network_policy(value: &mut Value) {
    let spec = map_at(value, "spec");
    default_to(spec, "podSelector", json!({}));
    let mut kinds = vec!["Ingress"];
    if spec.get("egress").and_then(Value::as_array).is_some_and(|e| !e.is_empty()) {
        kinds.push("Egress");
    }
    default_to(spec, "policyTypes", kinds);
    for direction in ["ingress", "egress"] {
        let rules = spec.get_mut(direction).and_then(Value::as_array_mut);
        let ports = rules.into_iter().flatten().filter_map(|r| r.get_mut("ports")?.as_array_mut());
        for port in ports.flatten() {
            default_to(object::object_fields(port), "protocol", "TCP");
        }
    }
}

fn default_subjects(value: &mut Value) {
    let fields = object::object_fields(value);
    if let Some(role) = fields.get_mut("roleRef") {
        default_to(object::object_fields(role), "apiGroup", "rbac.authorization.k8s.io");
    }
    for subject in fields.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        let subject = object::object_fields(subject);
        if matches!(subject.get("kind").and_then(Value::as_str), Some("User" | "Group")) {
            default_to(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    }
}

/// The status that a new object starts with.
pub(super) fn before_create(kind: &ServedKind, value: &mut Value) {
    match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "pods") => {
            value["status"] = pods::first_status(value);
        }
        ("", plural @ ("persistentvolumeclaims" | "persistentvolumes")) => {
            value["status"] = json!({ "phase": "Pending" });
            // Held as long as it is in use; the controller manager says when it no longer is.
            let claim = plural == "persistentvolumeclaims";
            let own =
                if claim { "kubernetes.io/pvc-protection" } else { "kubernetes.io/pv-protection" };
            let mut finalizers: Vec<String> =
                object::list_finalizers(value).map(str::to_owned).collect();
            if !finalizers.iter().any(|finalizer| finalizer == own) {
                finalizers.push(own.to_owned());
            }
            object::set_meta(value, "finalizers", Some(json!(finalizers)));
        }
        ("", "namespaces") => {
            value["status"] = json!({ "phase": "Active" });
            value["spec"] = json!({ "finalizers": ["kubernetes"] });
        }
        ("", "services") => value["status"] = json!({ "loadBalancer": {} }),
        ("apps", "daemonsets") => {
            value["status"] = json!({
                "currentNumberScheduled": 0, "desiredNumberScheduled": 0, "numberMisscheduled": 0,
                "numberReady": 0,
            });
        }
        ("apps", _) => value["status"] = json!({}),
        ("apiextensions.k8s.io", "customresourcedefinitions") => {
            crd_definition::accept_definition(value, &object::now_text());
        }
        _ => {}
    }
    if kind.generation {
        object::set_meta(value, "generation", Some(1.into()));
    } else {
        object::set_meta(value, "generation", None);
    }
}

/// Carries over from the live object what this endpoint may not change, and counts generations.
pub(super) fn before_update(kind: &ServedKind, subresource: &str, live: &Value, new: &mut Value) {
    match subresource {
        "status" => {
            let status = new.get("status").cloned();
            let meta = new.get("metadata").cloned().unwrap_or_default();
            *new = live.clone();
            object::set_field(new, "status", status);
            let mut kept = vec!["managedFields"];
            if kind.custom().is_none() {
                kept.extend(["labels", "annotations", "finalizers"]);
            }
            for field in kept {
                object::set_meta(new, field, meta.get(field).cloned());
            }
        }
        "finalize" => {
            let finalizers = new.pointer("/spec/finalizers").cloned();
            *new = live.clone();
            object::set_field(map_value(new, "spec"), "finalizers", finalizers);
        }
        "binding" => {}
        _ if kind.status => copy_field(live, new, "status"),
        _ => {}
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generateName",
        "generation",
        "selfLink",
        "resourceVersion",
    ] {
        copy_meta(live, new, field);
    }
    if kind.is("apiextensions.k8s.io", "customresourcedefinitions") {
        crd_definition::accept_definition(new, &object::now_text());
    }
    if kind.is("", "services") {
        services::keep_address(live, new);
    }
    if kind.is("", "namespaces") && subresource != "finalize" {
        copy_field(live, new, "spec");
    }
    if kind.generation && subresource != "status" && spec_of(kind, live) != spec_of(kind, new) {
        let generation =
            object::meta_field(live, "generation").and_then(Value::as_i64).unwrap_or(0);
        object::set_meta(new, "generation", Some((generation + 1).into()));
    }
}

fn map_value<'a>(value: &'a mut Value, field: &str) -> &'a mut Value {
    object::object_fields(value).entry(field).or_insert_with(|| json!({}))
}

/// Everything whose change makes a new generation.
fn spec_of<'a>(kind: &ServedKind, value: &'a Value) -> Map<String, Value> {
    let map: Option<&'a Map<String, Value>> = value.as_object();
    map.into_iter()
        .flatten()
        .filter(|(name, _)| match name.as_str() {
            "metadata" | "apiVersion" | "kind" => false,
            "status" => !kind.status,
            _ => true,
        })
        .map(|(name, field)| (name.clone(), field.clone()))
        .collect()
}

/// Everything that is wrong with an object that is about to be stored.
pub(super) fn validate_object(
    kind: &ServedKind,
    subresource: &str,
    value: &Value,
    live: Option<&Value>,
) -> Vec<StatusCause> {
    let mut causes = check_meta(kind, value, live);
    if let Some(custom) = kind.custom() {
        causes.extend(custom.validate(value, live));
    } else {
        causes.extend(checks::run_checks(kind, value));
        if let Some(live) = live.filter(|_| subresource != "binding") {
            causes.extend(immutable::check_immutable(kind, value, live));
        }
    }
    causes
}

/// True if an update may leave out the version it is based on.
pub(super) fn allows_unconditional_update(kind: &ServedKind) -> bool {
    kind.custom().is_none()
        && !matches!(
            (kind.group.as_str(), kind.plural.as_str()),
            ("coordination.k8s.io" | "apiextensions.k8s.io", _)
        )
}

/// True if an update of an object that does not exist creates it.
pub(super) fn allows_create_on_update(kind: &ServedKind) -> bool {
    matches!(
        (kind.group.as_str(), kind.plural.as_str()),
        ("coordination.k8s.io", "leases")
            | ("", "endpoints" | "events" | "limitranges" | "services")
            | ("rbac.authorization.k8s.io", _)
    )
}

/// True if a finished deletion is answered with the object, not with a Status.
pub(super) fn returns_deleted(kind: &ServedKind) -> bool {
    kind.group.is_empty()
        && matches!(
            kind.plural.as_str(),
            "pods"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "serviceaccounts"
                | "services"
                | "resourcequotas"
        )
}

/// Grace period of a deletion in seconds: the time that a kubelet has to stop a pod that it runs; otherwise 0.
pub(super) fn grace_period(kind: &ServedKind, value: &Value, asked: Option<i64>) -> i64 {
    let runs = kind.is("", "pods")
        && text_at(value, "/spec/nodeName").is_some_and(|node| !node.is_empty())
        && !matches!(text_at(value, "/status/phase"), Some("Succeeded" | "Failed"));
    if !runs {
        return 0;
    }
    let own = value.pointer("/spec/terminationGracePeriodSeconds").and_then(Value::as_i64);
    // A negative period means at once, but not without the node.
    match asked.or(own).unwrap_or(30) {
        negative if negative < 0 => 1,
        seconds => seconds,
    }
}
