//! Upstream's default admission, which refuses writes although the caller may make them: pods below
//! their namespace's security standard, pods and claims outside of its limit ranges, and rights that the
//! caller does not have himself. Also the admission of OpenShift and of GKE Autopilot, which change pods,
//! OpenShift's checks of owners and endpoints, and a webhook that is out of order.

mod autopilot;
mod endpoints;
mod escalation;
mod limits;
mod openshift;
mod owners;
mod security;
mod webhook;

use serde_json::Value;

pub(super) use autopilot::adjust_pod;
pub(super) use limits::{fill_limits, review_limits};
pub(super) use openshift::constrain_pod;

use super::auth::ApiUser;
use super::kinds::ServedKind;
use super::object;
use super::scalars::ExactQuantity;
use super::status::ApiError;
use super::store::ObjectStore;

/// A bound claim grows only where its class says that volumes can.
fn check_growth(
    store: &ObjectStore,
    kind: &ServedKind,
    value: &Value,
    live: &Value,
) -> Result<(), ApiError> {
    let size = |claim: &Value| {
        object::text_at(claim, "/spec/resources/requests/storage").and_then(ExactQuantity::parse)
    };
    let (Some(before), Some(after)) = (size(live), size(value)) else { return Ok(()) };
    if after.cmp(before).is_le() {
        return Ok(());
    }
    let why = if object::text_at(live, "/status/phase") == Some("Bound") {
        let class = object::text_at(live, "/spec/storageClassName").unwrap_or_default();
        let class = store.get("storageclasses.storage.k8s.io", "", class);
        if class.is_some_and(|c| c.value["allowVolumeExpansion"] == true) {
            return Ok(());
        }
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
    } else {
        "Only bound persistent volume claims can be expanded"
    };
    Err(ApiError::forbidden(&kind.group, &kind.plural, object::object_name(value), why))
}

/// Looks at an object that is about to be created or, with `live`, changed. Returns warnings.
pub(super) fn review_object(
    store: &ObjectStore,
    user: &ApiUser,
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    owners::review_owners(store, user, kind, value, live)?;
    endpoints::review_endpoints(store, user, kind, value, live)?;
    if kind.is("", "pods") && live.is_none() {
        let namespace = store.get("namespaces", "", object::object_namespace(value));
        let labels = namespace.as_ref().and_then(|n| object::meta_field(&n.value, "labels"));
        let warnings = security::review_pod(value, labels.unwrap_or(&Value::Null))?;
        webhook::ask_webhook(store, value)?;
        return Ok(warnings);
    }
    if let Some(live) = live.filter(|_| kind.is("", "persistentvolumeclaims")) {
        check_growth(store, kind, value, live)?;
    }
    if kind.group == "rbac.authorization.k8s.io" {
        escalation::review_grant(store, user, kind, value, live)?;
    }
    Ok(Vec::new())
}
