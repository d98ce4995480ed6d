//! A validating webhook for the pods of a namespace that answers each call with HTTP 500, as a policy
//! engine does that is being upgraded: what the API server makes of that. Whether there is one, and what
//! it says, stands in an annotation of the namespace.

use serde_json::Value;

use crate::apiserver::object;
use crate::apiserver::status::ApiError;
use crate::apiserver::store::ObjectStore;

/// Annotation of the namespace with the message that the webhook answers with.
const BROKEN: &str = "testbed.codebutler.dev/webhook-answers-500";
const NAME: &str = "pods.policy.example.com";

/// Calls the webhook about a pod, where the namespace has one.
pub(super) fn ask_webhook(store: &ObjectStore, pod: &Value) -> Result<(), ApiError> {
    let namespace = store.get("namespaces", "", object::object_namespace(pod));
    let annotations = namespace.as_ref().and_then(|n| object::meta_field(&n.value, "annotations"));
    let said = annotations.and_then(|all| all.get(BROKEN)).and_then(Value::as_str);
    said.map_or(Ok(()), |said| Err(ApiError::webhook(NAME, said)))
}
