//! The patch formats that compute a new object from the live one alone.

mod strategic;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, PatchOperation, ReplaceOperation, TestOperation};
use serde_json::Value;

use super::schema::SchemaNode;
use super::status::ApiError;

/// Most operations of one JSON patch.
const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch (RFC 6902).
pub(super) fn patch_json(live: &Value, patch: &[u8]) -> Result<Value, ApiError> {
    let operations: Vec<PatchOperation> = serde_json::from_slice(patch)
        .map_err(|error| ApiError::bad_request(format!("error decoding patch: {error}")))?;
    if operations.len() > MAX_OPERATIONS {
        return Err(ApiError::too_large(&format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    let mut object = live.clone();
    for operation in operations {
        // Upstream's library lets a removal of nothing fail, and so does this one. A replacement of
        // nothing is an addition there, and nothing is as good as null.
        let operation = as_upstream(&object, operation);
        json_patch::patch(&mut object, std::slice::from_ref(&operation)).map_err(|_| {
            // Upstream, too, keeps to itself which operation it was.
            ApiError::unprocessable(
                "the server rejected our request due to an error in our request",
            )
        })?;
    }
    Ok(object)
}

/// Translates an operation for the library that Kubernetes uses, which is more lenient than RFC 6902.
fn as_upstream(object: &Value, operation: PatchOperation) -> PatchOperation {
    let is_missing = |path: &PointerBuf| {
        let parent = path.split_back().and_then(|(parent, _)| parent.resolve(object).ok());
        parent.is_some_and(Value::is_object) && path.resolve(object).is_err()
    };
    match operation {
        PatchOperation::Replace(ReplaceOperation { path, value }) if is_missing(&path) => {
            PatchOperation::Add(AddOperation { path, value })
        }
        PatchOperation::Test(TestOperation { path, value: Value::Null }) if is_missing(&path) => {
            // The document is itself.
            PatchOperation::Test(TestOperation { path: PointerBuf::root(), value: object.clone() })
        }
        other => other,
    }
}

/// Applies a JSON merge patch (RFC 7386).
pub(super) fn patch_merge(live: &Value, patch: &Value) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: it must be an object"));
    }
    let mut object = live.clone();
    json_patch::merge(&mut object, patch);
    Ok(object)
}

/// Kubernetes' own format, which knows keyed lists.
pub(super) fn patch_strategic(
    live: &Value,
    patch: &Value,
    node: Option<SchemaNode<'_>>,
) -> Result<Value, ApiError> {
    if !patch.is_object() {
        return Err(ApiError::bad_request("error decoding patch: it must be an object"));
    }
    let mut object = live.clone();
    strategic::merge_strategic(&mut object, patch, node)?;
    Ok(object)
}
