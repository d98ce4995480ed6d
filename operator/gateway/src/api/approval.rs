//! `POST /v1/approvals`: a role asks people about one action.

use std::time::Duration;

use axum::extract::State;
use codebutler_crds::wire::{ApprovalReply, ApprovalRequest, ErrorCode};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, QueryParams};
use serde::Deserialize;

use super::conversation::check_key;
use crate::state::SharedGateway;

/// The query of `/v1/approvals`.
#[derive(Deserialize)]
pub(super) struct ApprovalPatience {
    #[serde(default)]
    wait: u64,
}

/// Returns the state of the question, after at most `wait` seconds.
pub(super) async fn ask_approval(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(patience): QueryParams<ApprovalPatience>,
    JsonBody(request): JsonBody<ApprovalRequest>,
) -> Result<axum::Json<ApprovalReply>, ApiError> {
    check_key(&request.key)?;
    // Make sure that the redactor knows the Repo's current patterns before anything is shown.
    gateway.git.outcomes.redactor(&caller).await?;
    let wait = Duration::from_secs(patience.wait);
    let asked = gateway.work.slack.approval(&caller, &request, wait);
    match gateway.work.shutdown.run_until_cancelled(asked).await {
        Some(reply) => reply.map(axum::Json),
        None => Err(ApiError::new(ErrorCode::Unavailable, "the gateway restarts: ask again")),
    }
}
