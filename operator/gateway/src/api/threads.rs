//! `GET /v1/threads`: what else is under way in the caller's Repo.

use axum::Json;
use axum::extract::State;
use codebutler_crds::wire::OtherThread;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{OpenCaller, needs_tool};

use crate::overlap;
use crate::state::SharedGateway;

/// The other open threads of the Repo.
pub(super) async fn list_threads(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
) -> Result<Json<Vec<OtherThread>>, ApiError> {
    needs_tool(&caller, &["ListThreads"])?;
    Ok(Json(overlap::other_threads(&gateway.work, &caller).await))
}
