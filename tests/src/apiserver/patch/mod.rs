//! The patch formats that compute a new object from the live one alone.

mod strategic;

use json_patch::PatchOperation;
use serde_json::Value;

use super::schema::Node;
use super::status::ApiError;

/// Most operations of one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// RFC 6902.
pub fn json(live: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let operations: Vec<PatchOperation> = serde_json::from_slice(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::bad_request(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut object = live.clone();
    for operation in operations {
        // Upstream's library lets a removal of nothing fail, and so does this one.
        json_patch::patch(&mut object, std::slice::from_ref(&operation)).map_err(|_| {
            // Upstream, too, keeps to itself which operation it was.
            ApiError::unprocessable(
                "the server rejected our request due to an error in our request",
            )
        })?;
    }
    Ok(object)
}

/// RFC 7386.
pub fn merge(live: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: it must be an object"));
    }
    let mut object = live.clone();
    json_patch::merge(&mut object, patch);
    Ok(object)
}

/// Kubernetes' own format, which knows keyed lists.
pub fn strategic(live: &Value, patch: &Value, node: Option<Node<'_>>) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: it must be an object"));
    }
    let mut object = live.clone();
    strategic::merge(&mut object, patch, node)?;
    Ok(object)
}
