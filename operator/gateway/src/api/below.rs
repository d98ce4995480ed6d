//! `GET /v1/merged-below`: what of the branches on which the caller's began is merged.

use axum::Json;
use axum::extract::State;
use codebutler_crds::wire::MergedBelow;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{OpenCaller, needs_tool};

use crate::roadmap::stack;
use crate::state::SharedGateway;

/// Returns the newest merged commit of each branch on which the caller's began, for a merge of the base branch in its
/// worktree.
pub(super) async fn read_merged(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
) -> Result<Json<MergedBelow>, ApiError> {
    needs_tool(&caller, &["GitUpdate"])?;
    let cached = Some(std::sync::Arc::clone(&caller.thread));
    let thread = gateway.work.threads.freshest(&caller.key(), cached);
    let thread = thread.as_deref().unwrap_or(&caller.thread);
    Ok(Json(MergedBelow { commits: stack::merged_below(&gateway.work, thread) }))
}
