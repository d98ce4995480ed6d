//! `/v1/web/search`: a search of the web for a role. It may take minutes and is paid for, so it goes on to its end
//! whoever still waits, and the same key is answered with what the same search has found.

use axum::extract::State;
use codebutler_crds::wire::{ErrorCode, WebResults, WebSearch};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, needs_tool};
use codebutler_models::{AdmittedCaller, CallSlot};
use tracing::Instrument as _;

use crate::paid_calls::{PaidCallKey, PaidEnd, as_final, check_key};
use crate::state::SharedGateway;
use crate::web;

/// Error where a search of this key may have been made before, and nothing is known of it.
const LOST: &str = "this search was interrupted, and what it found is lost. It may have been paid for, so it is not made \
    again by itself: search anew if you still need it";

/// Handles `POST /v1/web/search`: searches the web.
pub(super) async fn search_web(
    State(gateway): State<SharedGateway>,
    AdmittedCaller(caller, place): AdmittedCaller,
    JsonBody(wanted): JsonBody<WebSearch>,
) -> Result<axum::Json<WebResults>, ApiError> {
    needs_tool(&caller, &["WebSearch"])?;
    let WebSearch { query, key, again } = wanted;
    // Agents of an older version name none.
    let key = if key.is_empty() { format!("{:032x}", rand::random::<u128>()) } else { key };
    check_key(&key)?;
    // The query leaves the company, so it is masked.
    let asked = gateway.egress.outcomes.redactor(&caller).await?.mask(&query).into_owned();
    web::check_query(&asked)?;
    let (waiter, new) = gateway.searches.join(&PaidCallKey::of(&caller, &key), &query)?;
    if let Some(new) = new {
        let group = gateway.models.answers.clone();
        let run = async move {
            new.finish(run_search(&gateway, &caller, asked, again).await);
            drop::<CallSlot>(place);
        };
        drop(group.spawn(run.in_current_span()));
    }
    match waiter.end().await {
        Some(end) => end.map(axum::Json),
        None => Err(ApiError::new(ErrorCode::Upstream, LOST)),
    }
}

async fn run_search(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    query: String,
    again: bool,
) -> PaidEnd<WebResults> {
    if again {
        return Err((ErrorCode::Upstream, LOST.to_owned()));
    }
    let searching = web::search_for(&gateway.egress, &gateway.models, caller, &query);
    Box::pin(searching).await.map_err(as_final)
}
