//! What upstream's default admission refuses although the caller may write: pods below their
//! namespace's security standard, and rights that the caller does not have himself.

mod escalation;
mod security;

use serde_json::Value;

use super::auth::User;
use super::kinds::Kind;
use super::object;
use super::status::ApiError;
use super::store::Store;

/// Looks at an object that is about to be created or, with `live`, changed. Returns warnings.
pub fn review(
    store: &Store,
    user: &User,
    kind: &Kind,
    value: &Value,
    live: Option<&Value>,
) -> Result<Vec<String>, ApiError> {
    if kind.is("", "pods") && live.is_none() {
        let namespace = store.get("namespaces", "", object::namespace(value));
        let labels = namespace.as_ref().and_then(|n| object::meta(&n.value, "labels"));
        return security::review(value, labels.unwrap_or(&Value::Null));
    }
    if kind.group == "rbac.authorization.k8s.io" {
        escalation::review(store, user, kind, value, live)?;
    }
    Ok(Vec::new())
}
