//! Hands an answer on as it comes, and reads it to its end whether or not anybody still listens:
//! what it cost is in its last event. One whose caller wants the whole is put together here.

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::collect::StreamedAnswer;
use super::slow::{self, AnswerPatience, SlowModel};
use super::sse::EventTap;
use super::upstream::{self, MAX_ANSWER, ModelError};
use crate::budget::BilledCall;

/// Time after which an answer is worth being put on record.
const LASTS: Duration = Duration::from_secs(1);

/// Pieces that wait for a slow reader.
pub const BUFFER: usize = 32;

pub struct EndedStream {
    pub tap: EventTap,
    /// Success if the stream came to its end.
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

/// Passes a streamed answer on. `call` hears by which id the provider knows the answer, and that it
/// lasts.
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
                    tracing::debug!("answer_receiver_closed");
                    reader = None;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    tap.end();
    // A stream that ends without a word of its end was cut somewhere further away.
    let outcome = match outcome {
        Ok(()) if !tap.done && tap.bill().is_none() => Err(ModelError::Lost),
        outcome => outcome,
    };
    if let (Err(error), Some(to)) = (&outcome, &reader) {
        let _ = to.send(Ok(error_event(error))).await;
    }
    EndedStream { tap, outcome }
}

/// The headers are gone: the error is an event, in the form that OpenAI's clients know.
fn error_event(error: &ModelError) -> Bytes {
    let body =
        codebutler_gateway_core::api_error::ApiError::new(error.code(), error.to_string()).body();
    let body = serde_json::to_string(&body).unwrap_or_default();
    Bytes::from(format!("\n\ndata: {body}\n\n"))
}

/// News of an answer while it comes.
pub enum AnswerNews<'a> {
    /// The answer takes a while.
    Lasts,
    /// The provider's id of the answer.
    Id(&'a str),
}

/// Reads a streamed answer to its end, and answers with the whole.
///
/// # Errors
/// `Lost` when it broke off, `TooLong`, and `Slow` when its time is over.
pub async fn collect_stream(
    mut response: reqwest::Response,
    (asked, patience): (Instant, &AnswerPatience),
    model: &SlowModel<'_>,
    mut news: impl FnMut(AnswerNews<'_>),
) -> Result<Bytes, ModelError> {
    let mut answer = StreamedAnswer::default();
    let (mut size, mut lasts, mut named) = (0, false, false);
    let mut heard = Instant::now();
    loop {
        let begun = answer.pieces() > 0;
        let idle = if begun { heard + patience.idle } else { asked + patience.begin };
        let end = idle.min(asked + patience.whole);
        let until = if lasts { end } else { end.min(asked + LASTS) };
        match timeout_at(until, response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                size += chunk.len();
                if size > MAX_ANSWER {
                    return Err(ModelError::TooLong);
                }
                heard = Instant::now();
                answer.take(&chunk);
            }
            Ok(Ok(None)) => break,
            Ok(Err(error)) => {
                tracing::warn!(error = %error.without_url(), "answer_interrupted");
                return Err(ModelError::Lost);
            }
            Err(_) if Instant::now() >= end => {
                let waited = asked.elapsed();
                tracing::warn!(?waited, pieces = answer.pieces(), "answer_timed_out");
                return Err(match answer.pieces() {
                    0 => ModelError::Slow(slow::tell_silence(model, waited)),
                    _ if waited < patience.whole => ModelError::Lost,
                    pieces => ModelError::Slow(slow::tell_slowness(model, pieces, waited)),
                });
            }
            Err(_) => {
                lasts = true;
                news(AnswerNews::Lasts);
            }
        }
        if let Some(id) = answer.id().filter(|_| !named) {
            named = true;
            news(AnswerNews::Id(id));
        }
    }
    finish_answer(answer)
}

/// The whole of an answer whose stream has ended.
///
/// # Errors
/// `Lost` when it broke off, and `Incomplete` where its bill came all the same, or a part of it can't be read. Nobody
/// can tell what is missing there: it may be a word, or the arguments of a call.
pub fn finish_answer(mut answer: StreamedAnswer) -> Result<Bytes, ModelError> {
    answer.end();
    let (bill, has_gap, pieces) = (answer.bill(), answer.has_gap(), answer.pieces());
    answer.into_whole().map(Bytes::from).ok_or_else(|| {
        if has_gap {
            tracing::warn!(pieces, billed = bill.is_some(), "answer_unreadable");
        }
        if has_gap || bill.is_some() {
            ModelError::Incomplete(bill.map(Box::new))
        } else {
            ModelError::Lost
        }
    })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::routing::get;
    use futures::StreamExt as _;

    use super::*;

    /// Reads from a server that sends these pieces with such a pause before each.
    async fn read(
        pieces: &'static [&'static str],
        pause: Duration,
        patience: AnswerPatience,
    ) -> (Result<String, ModelError>, bool) {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let app = axum::Router::new().route(
            "/",
            get(move || async move {
                let pieces = futures::stream::iter(pieces).then(move |piece| async move {
                    sleep(pause).await;
                    Ok::<_, Infallible>(piece.as_bytes())
                });
                Body::from_stream(pieces)
            }),
        );
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let response = reqwest::get(url).await.unwrap();
        let mut named = false;
        let model = SlowModel { model: "m", field: "spec.model.models.m".to_owned() };
        let whole =
            collect_stream(response, (Instant::now(), &patience), &model, |news| match news {
                AnswerNews::Id(id) => named = id == "c1",
                AnswerNews::Lasts => {}
            })
            .await;
        serving.abort();
        (whole.map(|whole| String::from_utf8(whole.to_vec()).unwrap()), named)
    }

    const PIECES: [&str; 4] = [
        "data: {\"id\":\"c1\",\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
        "data: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n",
        "data: [DONE]\n\n",
    ];
    const SOON: Duration = Duration::from_millis(150);
    const LATE: Duration = Duration::from_mins(1);

    #[tokio::test]
    async fn an_answer_may_take_long_while_something_comes() {
        let patience = AnswerPatience { begin: LATE, idle: SOON * 3, whole: LATE };
        let (whole, named) = read(&PIECES, SOON, patience).await;
        assert!(whole.unwrap().contains("\"content\":\"ab\"") && named);
    }

    #[tokio::test]
    async fn who_does_not_begin_is_told_what_makes_it_shorter() {
        let patience = AnswerPatience { begin: SOON, idle: LATE, whole: LATE };
        let (whole, _) = read(&PIECES, SOON * 4, patience).await;
        let told = whole.unwrap_err().to_string();
        assert!(told.contains("`spec.model.models.m`") && told.contains("maxTokens"), "{told}");
    }

    #[tokio::test]
    async fn an_answer_that_is_not_complete_in_time_is_told_with_its_speed() {
        let patience = AnswerPatience { begin: LATE, idle: LATE, whole: SOON * 5 };
        let (whole, _) = read(&PIECES, SOON * 2, patience).await;
        let told = whole.unwrap_err().to_string();
        assert!(told.contains("tokens a second") && told.contains("maxTokens"), "{told}");
    }

    #[tokio::test]
    async fn what_an_answer_with_an_unreadable_part_costs_is_known() {
        const GARBLED: [&str; 4] = [
            PIECES[0],
            "data: {\"choices\":[{\"delta\":{\"cont\n\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n",
            PIECES[3],
        ];
        const UNBILLED: [&str; 3] = [PIECES[0], GARBLED[1], PIECES[3]];
        let patience = AnswerPatience { begin: LATE, idle: LATE, whole: LATE };
        let (whole, _) = read(&GARBLED, Duration::ZERO, patience).await;
        let error = whole.unwrap_err();
        let usage = error.bill().unwrap().usage;
        assert_eq!((usage.prompt_tokens, usage.completion_tokens), (7, 3));
        // The agent asks once more.
        assert_eq!(error.code(), codebutler_crds::wire::ErrorCode::Unanswered);
        let (whole, _) = read(&UNBILLED, Duration::ZERO, patience).await;
        assert!(matches!(whole, Err(ModelError::Incomplete(None))), "its bill did not come");
    }

    #[tokio::test]
    async fn what_an_answer_cost_so_far_is_not_its_bill_where_it_breaks_off() {
        const COUNTED: [&str; 2] = [
            PIECES[0],
            "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":1}}\n\n",
        ];
        const UNSUMMED: [&str; 3] = [PIECES[0], COUNTED[1], PIECES[2]];
        const SUMMED_UP: [&str; 3] = [
            PIECES[0],
            COUNTED[1],
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n",
        ];
        let patience = AnswerPatience { begin: LATE, idle: LATE, whole: LATE };
        let (whole, _) = read(&COUNTED, Duration::ZERO, patience).await;
        assert!(matches!(whole, Err(ModelError::Lost)), "{whole:?}");
        let mut answer = StreamedAnswer::default();
        for piece in UNSUMMED {
            answer.take(piece.as_bytes());
        }
        assert_eq!(answer.bill(), None, "its sum did not come");
        let (whole, _) = read(&SUMMED_UP, Duration::ZERO, patience).await;
        assert_eq!(whole.unwrap_err().bill().unwrap().usage.completion_tokens, 3);
    }

    #[tokio::test]
    async fn an_answer_that_stops_is_lost() {
        let patience = AnswerPatience { begin: LATE, idle: SOON, whole: LATE };
        let (whole, _) = read(&PIECES[..2], Duration::ZERO, patience).await;
        assert!(matches!(whole, Err(ModelError::Lost)), "it ended without an end");
    }
}
