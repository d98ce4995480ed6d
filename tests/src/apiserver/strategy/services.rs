//! Services: defaults and addresses.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::apiserver::object::{self, default_to, map_at, text_at};
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Fills in the defaults of a service.
pub(super) fn default_service(service: &mut Value) {
    let spec = map_at(service, "spec");
    default_to(spec, "type", "ClusterIP");
    default_to(spec, "sessionAffinity", "None");
    if spec.get("type").and_then(Value::as_str) != Some("ExternalName") {
        default_to(spec, "internalTrafficPolicy", "Cluster");
        default_to(spec, "ipFamilyPolicy", "SingleStack");
        default_to(spec, "ipFamilies", json!(["IPv4"]));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port.get("port").cloned().unwrap_or_default();
        let port = object::object_fields(port);
        default_to(port, "protocol", "TCP");
        default_to(port, "targetPort", number);
    }
}

/// Gives a service an address of 10.96.0.0/16 unless it has or wants none.
pub(crate) fn allocate_address(store: &ObjectStore, service: &mut Value) -> Result<(), ApiError> {
    if text_at(service, "/spec/type") == Some("ExternalName") {
        return Ok(());
    }
    let (services, _) = store.list("services", None);
    let taken: HashSet<&str> =
        services.iter().filter_map(|s| text_at(&s.value, "/spec/clusterIP")).collect();
    let asked = text_at(service, "/spec/clusterIP").unwrap_or_default().to_owned();
    let address = match asked.as_str() {
        "" => free_address(&taken).ok_or_else(|| ApiError::untyped("range is full"))?,
        "None" => "None".to_owned(),
        asked if taken.contains(asked) => {
            let cause = crate::apiserver::status::StatusCause::invalid(
                "spec.clusterIPs",
                &json!([asked]),
                &format!("failed to allocate IP {asked}: provided IP is already allocated"),
            );
            return Err(ApiError::invalid("", "Service", object::object_name(service), &[cause]));
        }
        asked => asked.to_owned(),
    };
    let spec = map_at(service, "spec");
    spec.insert("clusterIPs".to_owned(), json!([address]));
    spec.insert("clusterIP".to_owned(), address.into());
    Ok(())
}

/// An update that does not mention the address keeps it.
pub(super) fn keep_address(live: &Value, new: &mut Value) {
    if text_at(new, "/spec/type") == Some("ExternalName") {
        return;
    }
    for field in ["clusterIP", "clusterIPs"] {
        if let Some(value) = live.pointer(&format!("/spec/{field}")) {
            default_to(map_at(new, "spec"), field, value.clone());
        }
    }
}

/// The lower part of the range is left for those who ask for an address.
fn free_address(taken: &HashSet<&str>) -> Option<String> {
    (1..=254_u8)
        .flat_map(|c| (1..=254_u8).map(move |d| format!("10.96.{c}.{d}")))
        .find(|address| !taken.contains(address.as_str()))
}
