//! `GET /v1/seat`: whether a Thread has taken a pod that waits for one.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use codebutler_crds::wire::{SeatAnswer, SeatSetUpEnd};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::{CallerGate, QueryParams};
use http::HeaderMap;
use serde::Deserialize;

use crate::web::services::EgressServices;

/// The longest that a question waits.
const LONGEST: u64 = 60;

/// Query with the seconds to wait, and how the set-up of the caller's clone ended: `?wait=…&setUp=…`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct SeatQuery {
    #[serde(default)]
    wait: u64,
    set_up: Option<SeatSetUpEnd>,
}

/// Answers once a Thread has taken the caller, or after a while.
pub(super) async fn read_seat(
    State(gate): State<Arc<CallerGate>>,
    State(services): State<Arc<EgressServices>>,
    QueryParams(query): QueryParams<SeatQuery>,
    headers: HeaderMap,
) -> Result<Json<SeatAnswer>, ApiError> {
    // Of one that a Thread is just taking it says nothing any more.
    if let Some(end) = query.set_up.filter(|_| gate.identity.claims_seat(&headers))
        && let Ok(seat) = Box::pin(gate.identity.seat(&headers)).await
    {
        services.conditions.seat_set_up(&seat.repo, end).await;
    }
    let wait = Duration::from_secs(query.wait.min(LONGEST));
    Ok(Json(gate.identity.seat_answer(&headers, wait).await?))
}
