//! Upstream's `OwnerReferencesPermissionEnforcement`, which is on in OpenShift. Only those who may delete an object
//! change its owners. Only those who may set an owner's finalizers have its deletion wait for the object.

use serde_json::Value;

use super::openshift;
use crate::apiserver::auth::{ApiUser, RequestAttributes, authorize_user};
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object::{self, text_at};
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Refuses owners that the user may not give to an object that is created or, with `live`, changed.
pub(super) fn review_owners(
    store: &ObjectStore,
    user: &ApiUser,
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    let before = live.map(list_owners).unwrap_or_default();
    let owners = list_owners(value);
    if owners == before || !openshift::is_openshift(store) {
        return Ok(());
    }
    let (namespace, name) = (object::object_namespace(value), object::object_name(value));
    let refused = |why: &str| {
        let why = format!("{why}: , <nil>");
        Err(ApiError::forbidden(&kind.group, &kind.plural, name, &why))
    };
    let deletes = RequestAttributes {
        verb: "delete".to_owned(),
        group: kind.group.clone(),
        resource: kind.plural.clone(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..RequestAttributes::default()
    };
    if live.is_some() && !authorize_user(store, user, &deletes) {
        return refused("cannot set an ownerRef on a resource you can't delete");
    }
    for owner in owners {
        let is_new = owner["blockOwnerDeletion"] == true && !before.contains(&owner);
        if is_new && !authorize_user(store, user, &sets_finalizers(owner, namespace)) {
            return refused(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on",
            );
        }
    }
    Ok(())
}

fn list_owners(object: &Value) -> Vec<&Value> {
    let owners = object::meta_field(object, "ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().collect()
}

fn sets_finalizers(owner: &Value, namespace: &str) -> RequestAttributes {
    let version = text_at(owner, "/apiVersion").unwrap_or_default();
    let (group, _) = version.split_once('/').unwrap_or_default();
    let kind = text_at(owner, "/kind").unwrap_or_default();
    RequestAttributes {
        verb: "update".to_owned(),
        group: group.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        subresource: "finalizers".to_owned(),
        namespace: namespace.to_owned(),
        name: text_at(owner, "/name").unwrap_or_default().to_owned(),
        ..RequestAttributes::default()
    }
}
