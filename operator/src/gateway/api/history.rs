//! `/v1/history`: what agents tell of their runs, kept for people to see.

use axum::extract::State;
use codebutler_crds::wire::history::MAX_BATCH;
use codebutler_crds::wire::{ErrorCode, HistoryBatch, HistoryKept};

use super::session::caller_redactor;
use crate::gateway::api_error::ApiError;
use crate::gateway::caller::Caller;
use crate::gateway::extract::{Any, Json};
use crate::gateway::history::{mask, millis_now};
use crate::gateway::state::Shared;

/// How far an agent's clock may be ahead, in milliseconds.
const AHEAD: u64 = 60_000;

/// What is kept of the caller's journals.
pub async fn read_kept(
    State(gateway): State<Shared>,
    Any(caller): Any,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    take_batch(&gateway, &caller, None).await
}

/// Keeps what a journal says next. Of a closed Thread too: how it ended is told last.
pub async fn tell_history(
    State(gateway): State<Shared>,
    Any(caller): Any,
    Json(mut batch): Json<HistoryBatch>,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    check_batch(&batch)?;
    let redactor = caller_redactor(&gateway, &caller).await?;
    let latest = millis_now() + AHEAD;
    for told in &mut batch.events {
        told.event = mask::mask_event(&told.event, &redactor);
        told.at = told.at.min(latest);
    }
    take_batch(&gateway, &caller, Some(batch)).await
}

async fn take_batch(
    gateway: &Shared,
    caller: &Caller,
    batch: Option<HistoryBatch>,
) -> Result<axum::Json<HistoryKept>, ApiError> {
    let away = |_| {
        let message = "the history can't be written right now: tell it again later";
        ApiError::new(ErrorCode::Unavailable, message)
    };
    let next = gateway.context.history.take(caller, batch).await.map_err(away)?;
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
    use codebutler_crds::wire::history::{Event, ModelCall, Told};

    #[test]
    fn an_agent_tells_of_its_own_runs_and_of_nothing_else() {
        let batch = |journal: &str, event| {
            let events = vec![Told { seq: 1, at: 1, run: Some("0a".into()), event }];
            check_batch(&HistoryBatch { journal: journal.into(), from: 1, events })
        };
        batch("0a1b", Event::RunStarted).unwrap();
        batch("../x", Event::RunStarted).unwrap_err();
        batch("0a1b", Event::ModelCall(ModelCall::default())).unwrap_err();
        batch("0a1b", Event::Closed { by: None }).unwrap_err();
        batch("0a1b", Event::Unknown).unwrap_err();
        let many = vec![Told { seq: 1, at: 1, run: None, event: Event::RunStarted }; MAX_BATCH + 1];
        check_batch(&HistoryBatch { journal: "0a".into(), from: 1, events: many }).unwrap_err();
    }
}
