//! Hands an answer on as it comes, and reads it to its end whether or not anybody still listens:
//! what it cost is in its last event.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::sse::EventTap;
use super::upstream::{self, ModelError};
use crate::gateway::budget::BilledCall;

/// How long an answer may take before it is worth being put on record.
const LASTS: Duration = Duration::from_secs(1);

/// Pieces that wait for a slow reader.
pub const BUFFER: usize = 32;

pub struct EndedStream {
    pub tap: EventTap,
    /// Whether it came to its end.
    pub outcome: Result<(), ModelError>,
}

/// Awaits `what`, and says so when that takes a while.
pub async fn await_lasting<T>(
    mut what: Pin<&mut impl Future<Output = T>>,
    say: impl FnOnce(),
) -> T {
    if let Ok(outcome) = timeout(LASTS, &mut what).await {
        return outcome;
    }
    say();
    what.await
}

/// See the module. `call` hears by which id the provider knows the answer, and that it lasts.
pub async fn pump_stream(
    mut response: reqwest::Response,
    mut reader: Option<mpsc::Sender<Result<Bytes, std::convert::Infallible>>>,
    call: &mut BilledCall,
) -> EndedStream {
    let mut tap = EventTap::default();
    let mut lasts = Some(std::pin::pin!(sleep(LASTS)));
    let outcome = loop {
        let piece = match &mut lasts {
            Some(timer) => tokio::select! {
                biased;
                piece = upstream::next_piece(&mut response) => piece,
                () = timer => {
                    call.lasts();
                    lasts = None;
                    continue;
                }
            },
            None => upstream::next_piece(&mut response).await,
        };
        match piece {
            Ok(Some(piece)) => {
                tap.pass(&piece);
                if let Some(id) = &tap.id {
                    call.known_as(id);
                }
                if let Some(to) = &reader
                    && !matches!(timeout(upstream::IDLE, to.send(Ok(piece))).await, Ok(Ok(())))
                {
                    tracing::debug!("nobody listens to a model's answer any more");
                    reader = None;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    // A stream that ends without a word of its end was cut somewhere further away.
    let outcome = match outcome {
        Ok(()) if !tap.done && tap.bill.is_none() => Err(ModelError::Lost),
        outcome => outcome,
    };
    if let (Err(error), Some(to)) = (&outcome, &reader) {
        let _ = to.send(Ok(error_event(error))).await;
    }
    EndedStream { tap, outcome }
}

/// The headers are gone: the error is an event, in the form that OpenAI's clients know.
fn error_event(error: &ModelError) -> Bytes {
    let body = crate::gateway::api_error::ApiError::new(error.code(), error.to_string()).body();
    let body = serde_json::to_string(&body).unwrap_or_default();
    Bytes::from(format!("\n\ndata: {body}\n\n"))
}
