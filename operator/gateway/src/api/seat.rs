//! `GET /v1/seat`: whether a Thread has taken a pod that waits for one.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use codebutler_crds::wire::SeatAnswer;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{CallerGate, QueryParams};
use http::HeaderMap;
use serde::Deserialize;

/// The longest that a question waits.
const LONGEST: u64 = 60;

/// Query with the seconds to wait: `?wait=…`.
#[derive(Debug, Deserialize)]
pub(super) struct SeatQuery {
    #[serde(default)]
    wait: u64,
}

/// Answers once a Thread has taken the caller, or after a while.
pub(super) async fn read_seat(
    State(gate): State<Arc<CallerGate>>,
    QueryParams(query): QueryParams<SeatQuery>,
    headers: HeaderMap,
) -> Result<Json<SeatAnswer>, ApiError> {
    let wait = Duration::from_secs(query.wait.min(LONGEST));
    Ok(Json(gate.identity.seat_answer(&headers, wait).await?))
}
