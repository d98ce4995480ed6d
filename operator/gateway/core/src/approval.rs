//! Checks that a person has approved. Reads the Thread from the API server itself, not from a cache
//! that may still show the plan before last.

use codebutler_crds::Thread;
use codebutler_crds::wire::ErrorCode;
use kube::Api;

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;
use crate::context::GatewayContext;

/// The caller's Thread as the API server has it now.
///
/// # Errors
/// `Unavailable` when it can't be read.
pub async fn fresh_thread(
    context: &GatewayContext,
    caller: &ProvenCaller,
) -> Result<Thread, ApiError> {
    let key = caller.key();
    let api = Api::<Thread>::namespaced(context.client.clone(), &key.namespace);
    api.get(&key.name).await.map_err(|error| {
        tracing::warn!(thread = key.name, %error, "thread_read_failed");
        ApiError::new(ErrorCode::Unavailable, "the Thread can't be read right now: try again")
    })
}

/// Returns true if the caller's role needs an approved plan and the Thread has none.
///
/// # Errors
/// `Unavailable` when the Thread can't be read: nothing happens on an unknown approval.
pub async fn lacks_approved_plan(
    context: &GatewayContext,
    caller: &ProvenCaller,
) -> Result<bool, ApiError> {
    if !needs_approved_plan(caller) {
        return Ok(false);
    }
    Ok(!has_approved_plan(&fresh_thread(context, caller).await?))
}

fn needs_approved_plan(caller: &ProvenCaller) -> bool {
    caller.role.spec.push.as_ref().is_some_and(|push| push.needs_approved_plan)
}

/// Paths at which the caller's role may put images beside its own: those that the approved plan names, and those that
/// people have allowed.
///
/// # Errors
/// `Unavailable` when the Thread can't be read: nothing happens on an unknown approval.
pub async fn image_paths(
    context: &GatewayContext,
    caller: &ProvenCaller,
) -> Result<Vec<String>, ApiError> {
    if !caller.role.spec.push.as_ref().is_some_and(|push| push.planned_images) {
        return Ok(Vec::new());
    }
    Ok(allowed_images(&fresh_thread(context, caller).await?))
}

fn allowed_images(thread: &Thread) -> Vec<String> {
    let Some(status) = &thread.status else { return Vec::new() };
    let plan = status.plan.as_ref().filter(|_| has_approved_plan(thread));
    let details = plan
        .and_then(|plan| status.plan_details.as_deref().filter(|details| details.plan == plan.ts));
    let planned = details.map(|details| details.files.clone()).unwrap_or_default();
    let allowed = status.images.as_deref().map(|images| images.paths.clone()).unwrap_or_default();
    planned.into_iter().chain(allowed).collect()
}

/// Returns true if the most recently posted plan is approved.
pub fn has_approved_plan(thread: &Thread) -> bool {
    let plan = thread.status.as_ref().and_then(|status| status.plan.as_ref());
    plan.and_then(|plan| plan.approved_by.as_ref()).is_some_and(|user| !user.is_empty())
}
