//! OpenShift's `RestrictedEndpointsAdmission`: only those who have a right of their own for it lead a Service to
//! addresses of the cluster's networks. Which these are is not known here, so every address is taken for one.

use serde_json::Value;

use super::openshift;
use crate::apiserver::auth::{ApiUser, RequestAttributes, authorize_user};
use crate::apiserver::kinds::ServedKind;
use crate::apiserver::object;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Refuses addresses that the user may not put into an `EndpointSlice` that is created or, with `live`, changed.
pub(super) fn review_endpoints(
    store: &ObjectStore,
    user: &ApiUser,
    kind: &ServedKind,
    value: &Value,
    live: Option<&Value>,
) -> Result<(), ApiError> {
    if !kind.is("discovery.k8s.io", "endpointslices") || !openshift::is_openshift(store) {
        return Ok(());
    }
    let is_same = |field: &str| live.is_some_and(|live| live[field] == value[field]);
    let address = value.pointer("/endpoints/0/addresses/0").and_then(Value::as_str);
    let Some(address) = address.filter(|_| !is_same("endpoints") || !is_same("ports")) else {
        return Ok(());
    };
    let (namespace, name) = (object::object_namespace(value), object::object_name(value));
    let leads_inside = RequestAttributes {
        verb: "create".to_owned(),
        group: kind.group.clone(),
        resource: kind.plural.clone(),
        subresource: "restricted".to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        ..RequestAttributes::default()
    };
    if authorize_user(store, user, &leads_inside) {
        return Ok(());
    }
    let why = format!("endpoint address {address} is not allowed");
    Err(ApiError::forbidden(&kind.group, &kind.plural, name, &why))
}
