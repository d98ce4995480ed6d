//! OpenShift's security context constraint `restricted-v2`, in namespaces that have been given their
//! users: what a pod leaves open is filled in, what it asks for on its own is refused.

use serde_json::{Value, json};

use super::security::RESTRICTED_VOLUMES;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// The kind whose definition makes a cluster one of OpenShift's.
const CONSTRAINTS: &str = "securitycontextconstraints.security.openshift.io";
const USERS: &str = "openshift.io/sa.scc.uid-range";
const GROUPS: &str = "openshift.io/sa.scc.supplemental-groups";
const LEVEL: &str = "openshift.io/sa.scc.mcs";

/// True for a cluster of OpenShift's.
pub(super) fn is_openshift(store: &ObjectStore) -> bool {
    store.get("customresourcedefinitions.apiextensions.k8s.io", "", CONSTRAINTS).is_some()
}

/// Ranges and level that a namespace's annotations assign to its pods.
struct AssignedRanges {
    users: (i64, i64),
    group: i64,
    level: String,
}

impl AssignedRanges {
    fn of(store: &ObjectStore, namespace: &str) -> Option<Self> {
        if !is_openshift(store) {
            return None;
        }
        let namespace = store.get("namespaces", "", namespace)?;
        let annotations = object::meta_field(&namespace.value, "annotations")?;
        let block = |name: &str| {
            let (first, size) = annotations.get(name)?.as_str()?.split_once('/')?;
            let first: i64 = first.parse().ok()?;
            Some((first, first + size.parse::<i64>().ok()? - 1))
        };
        Some(Self {
            users: block(USERS)?,
            group: block(GROUPS)?.0,
            level: annotations.get(LEVEL)?.as_str()?.to_owned(),
        })
    }
}

/// Fills in what a pod leaves open, and refuses it if it asks for anything else.
pub(crate) fn constrain_pod(store: &ObjectStore, pod: &mut Value) -> Result<(), ApiError> {
    let Some(given) = AssignedRanges::of(store, object::object_namespace(pod)) else {
        return Ok(());
    };
    let mut wrong = Vec::new();
    let name = object::object_name(pod).to_owned();
    let Some(spec) = pod.get_mut("spec") else { return Ok(()) };
    for volume in spec.get("volumes").and_then(Value::as_array).into_iter().flatten() {
        let kinds = volume.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str());
        let foreign = kinds.filter(|kind| *kind != "name" && !RESTRICTED_VOLUMES.contains(kind));
        wrong.extend(foreign.map(|kind| {
            format!(".spec.volumes: Invalid value: \"{kind}\": {kind} volumes are not allowed to be used")
        }));
    }
    constrain_spec(spec, &given, &mut wrong);
    let user = spec.pointer("/securityContext/runAsUser").cloned();
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for (index, container) in containers.into_iter().flatten().enumerate() {
            constrain_container(
                container,
                &format!(".{list}[{index}]"),
                user.as_ref(),
                &given,
                &mut wrong,
            );
        }
    }
    if wrong.is_empty() {
        if let Some(annotations) = pod.pointer_mut("/metadata").and_then(Value::as_object_mut) {
            let annotations = annotations.entry("annotations").or_insert_with(|| json!({}));
            annotations["openshift.io/scc"] = "restricted-v2".into();
        }
        return Ok(());
    }
    let why = wrong.iter().map(|why| format!("provider \"restricted-v2\": {why}"));
    let why = format!(
        "unable to validate against any security context constraint: [{}]",
        why.collect::<Vec<_>>().join(", ")
    );
    Err(ApiError::forbidden("", "pods", &name, &why))
}

/// Applies the constraint to the settings of the whole pod.
fn constrain_spec(spec: &mut Value, given: &AssignedRanges, wrong: &mut Vec<String>) {
    match spec.pointer("/securityContext/fsGroup").and_then(Value::as_i64) {
        None => spec["securityContext"]["fsGroup"] = given.group.into(),
        Some(group) if group == given.group => {}
        Some(group) => wrong.push(format!(
            ".spec.securityContext.fsGroup: Invalid value: []int64{{{group}}}: {group} is not an allowed group"
        )),
    }
    match text_at(spec, "/securityContext/seLinuxOptions/level") {
        None => spec["securityContext"]["seLinuxOptions"]["level"] = given.level.clone().into(),
        Some(level) if level == given.level => {}
        Some(level) => wrong.push(format!(
            ".spec.securityContext.seLinuxOptions.level: Invalid value: \"{level}\": must be {}",
            given.level
        )),
    }
}

/// Applies the constraint to one container.
fn constrain_container(
    container: &mut Value,
    path: &str,
    shared: Option<&Value>,
    given: &AssignedRanges,
    wrong: &mut Vec<String>,
) {
    let (low, high) = given.users;
    let asked = container.pointer("/securityContext/runAsUser").or(shared).and_then(Value::as_i64);
    match asked {
        None => container["securityContext"]["runAsUser"] = low.into(),
        Some(user) if (low..=high).contains(&user) => {}
        Some(user) => wrong.push(format!(
            "{path}.runAsUser: Invalid value: {user}: must be in the ranges: [{low}, {high}]"
        )),
    }
    for (field, only) in [("privileged", false), ("allowPrivilegeEscalation", false)] {
        let said = container.pointer(&format!("/securityContext/{field}")).and_then(Value::as_bool);
        if said.is_some_and(|said| said != only) {
            wrong.push(format!("{path}.{field}: Invalid value: true: is not allowed to be used"));
        }
    }
    container["securityContext"]["allowPrivilegeEscalation"] = false.into();
    let added = container.pointer("/securityContext/capabilities/add").and_then(Value::as_array);
    for capability in added.into_iter().flatten().filter(|added| *added != "NET_BIND_SERVICE") {
        wrong.push(format!(
            "{path}.capabilities.add: Invalid value: {capability}: capability may not be added"
        ));
    }
    container["securityContext"]["capabilities"]["drop"] = json!(["ALL"]);
}
