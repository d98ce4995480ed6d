//! `/v1/history`: what agents tell of their runs, kept for people to see, and what is kept of their own
//! conversation, for who looks back on it.

use axum::Extension;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::history::MAX_BATCH;
use codebutler_crds::wire::{
    ErrorCode, HistoryBatch, HistoryKept, HistoryLines, PastConversations,
};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::bodies::BodyClaim;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{AnyCaller, BoundedBody, QueryParams, read_json};
use codebutler_gateway_core::history::reads::{HistoryReadError, HistoryReader};
use codebutler_gateway_core::history::{TellError, mask, millis_now};
use codebutler_gateway_core::low_priority::run_low_priority;
use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_gateway_core::thread_key::ThreadKey;
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use kube::ResourceExt as _;
use serde::Deserialize;

use crate::state::SharedGateway;

/// A body up to this is read where it arrives.
const SMALL: usize = 64 << 10;
/// Maximum clock skew by which an agent may be ahead, in milliseconds.
const AHEAD: u64 = 60_000;
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Query of a history: the line behind which to read.
#[derive(Deserialize)]
pub(super) struct HistoryQuery {
    #[serde(default)]
    behind: u64,
}

/// Returns the number that is wanted next of each of the caller's journals.
pub(super) async fn read_kept(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    take_batch(&gateway, &caller, None).await
}

/// Keeps a journal's next entries. Of a closed Thread too: how it ended is told last.
pub(super) async fn tell_history(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
    Extension(room): Extension<BodyClaim>,
    BoundedBody(body): BoundedBody,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let batch = if body.len() <= SMALL {
        read_batch(&body, &redactor)
    } else {
        // A thread that masks megabytes answers nobody meanwhile. The budget of bodies bounds how many there are.
        let reading = run_low_priority(move || read_batch(&body, &redactor)).await;
        reading.map_err(|error| ApiError::new(ErrorCode::Unavailable, error.to_string()))?
    }?;
    take_batch(&gateway, &caller, Some((batch, Some(room)))).await
}

/// The batch as it is kept: masked, and within bounds.
fn read_batch(body: &[u8], redactor: &SecretRedactor) -> Result<HistoryBatch, ApiError> {
    let mut batch: HistoryBatch = read_json(body)?;
    check_batch(&batch)?;
    let latest = millis_now() + AHEAD;
    for told in &mut batch.events {
        told.event = mask::mask_event(&told.event, redactor);
        told.at = told.at.min(latest);
    }
    Ok(batch)
}

/// Returns a page of the caller's own conversation: empty where no history is kept.
pub(super) async fn read_lines(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
    QueryParams(HistoryQuery { behind }): QueryParams<HistoryQuery>,
) -> Result<Response, ApiError> {
    let (history, key) = (&gateway.work.context.history, caller.key());
    let Some(store) = history.store() else {
        return Ok(axum::Json(HistoryLines::default()).into_response());
    };
    // Without a batch this only begins the Thread's own part of the file, behind that of an earlier one of its name.
    let _ = take_batch(&gateway, &caller, None).await?;
    let uid = caller.thread.uid().unwrap_or_default();
    let reader = HistoryReader { thread: &key, repo: (&*caller.repo).into(), uid: &uid };
    let read = history.reads().page(store, reader, behind).await;
    let page = read.map_err(|error| refuse_reading(&key, &error))?;
    Ok(([(CONTENT_TYPE, JSON)], page).into_response())
}

/// First requests of other conversations of the caller's Repo: none where no history is kept.
pub(super) async fn read_requests(
    State(gateway): State<SharedGateway>,
    AnyCaller(caller): AnyCaller,
) -> Result<axum::Json<PastConversations>, ApiError> {
    let (history, key) = (&gateway.work.context.history, caller.key());
    let Some(store) = history.store() else { return Ok(axum::Json(PastConversations::default())) };
    let reader = HistoryReader { thread: &key, repo: (&*caller.repo).into(), uid: "" };
    let read = history.reads().requests(store, reader).await;
    let conversations = read.map_err(|error| refuse_reading(&key, &error))?;
    Ok(axum::Json(PastConversations { conversations }))
}

fn refuse_reading(key: &ThreadKey, error: &HistoryReadError) -> ApiError {
    if let HistoryReadError::Store(cause) = error {
        tracing::warn!(error = %cause, thread = %key, "history_read_failed");
    }
    ApiError::new(ErrorCode::Unavailable, error.to_string())
}

async fn take_batch(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    batch: Option<(HistoryBatch, Option<BodyClaim>)>,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    let refused = |error: TellError| match error {
        TellError::Away => {
            let message = "the history can't be written right now: tell it again later";
            ApiError::new(ErrorCode::Unavailable, message)
        }
        TellError::Journals => ApiError::new(ErrorCode::InvalidRequest, error.to_string()),
        TellError::Replaced => ApiError::new(ErrorCode::ThreadClosed, error.to_string()),
    };
    let next = gateway.work.context.history.take(caller, batch).await.map_err(refused)?;
    let off = next.is_none();
    Ok(axum::Json(HistoryKept { next: next.unwrap_or_default(), off }))
}

fn check_batch(batch: &HistoryBatch) -> Result<(), ApiError> {
    let refused = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'.';
    let word = |text: &str| (1..=64).contains(&text.len()) && text.bytes().all(plain);
    if !word(&batch.journal) {
        return refused("`journal` has to be 1 to 64 characters of a-z 0-9 .");
    }
    if batch.events.len() > MAX_BATCH {
        return refused("there are too many `events`: send them in several batches");
    }
    if batch.events.iter().any(|told| !told.run.as_deref().is_none_or(word)) {
        return refused("`run` has to be 1 to 64 characters of a-z 0-9 .");
    }
    if !batch.events.iter().all(|told| mask::is_agents(&told.event)) {
        return refused("an event is one that the gateway tells itself");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::wire::history::{HistoryEvent, ModelCall, ToldEntry};

    #[test]
    fn an_agent_tells_of_its_own_runs_and_of_nothing_else() {
        let batch = |journal: &str, event| {
            let events = vec![ToldEntry { seq: 1, at: 1, run: Some("0a".into()), event }];
            check_batch(&HistoryBatch { journal: journal.into(), from: 1, events })
        };
        batch("0a1b", HistoryEvent::RunStarted).unwrap();
        batch("../x", HistoryEvent::RunStarted).unwrap_err();
        batch("0a1b", HistoryEvent::ModelCall(ModelCall::default())).unwrap_err();
        batch("0a1b", HistoryEvent::Closed { by: None }).unwrap_err();
        batch("0a1b", HistoryEvent::Unknown).unwrap_err();
        let many = vec![
            ToldEntry { seq: 1, at: 1, run: None, event: HistoryEvent::RunStarted };
            MAX_BATCH + 1
        ];
        check_batch(&HistoryBatch { journal: "0a".into(), from: 1, events: many }).unwrap_err();
    }
}
