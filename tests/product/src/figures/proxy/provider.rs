//! A provider that answers at once, or, where it is asked to take its time, with a piece of a stream every 20 ms
//! that says when it was written.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::{StreamExt as _, stream};
use tokio::time::{MissedTickBehavior, interval};
use tokio_stream::wrappers::IntervalStream;

use codebutler_testbed::serving::RunningServer;

/// API key of the provider, which accepts any other one too.
pub(crate) const KEY: &str = "figures";
/// A request with these words is answered in pieces. Being asked for a stream does not say so: the gateway asks for one
/// where its caller wants a whole answer, too.
pub(crate) const PIECEWISE: &str = "Take your time.";
/// 50 pieces a second, for four seconds.
const PIECES: usize = 200;
const EVERY: Duration = Duration::from_millis(20);
const MARK: &str = "\"content\":\"at ";
const ANSWER: &str = concat!(
    r#"{"id":"gen-1","object":"chat.completion","created":0,"model":"m","#,
    r#""choices":[{"index":0,"message":{"role":"assistant","content":"It adds up carts."},"#,
    r#""finish_reason":"stop"}],"#,
    r#""usage":{"prompt_tokens":20,"completion_tokens":5,"total_tokens":25,"cost":0.000001}}"#,
);
const FIRST: &str = concat!(
    r#"data: {"id":"gen-1","choices":[{"index":0,"delta":{"role":"assistant","content":"It adds up carts."},"#,
    r#""finish_reason":"stop"}]}"#,
    "\n\n",
);
const LAST: &str = concat!(
    r#"data: {"id":"gen-1","choices":[],"usage":{"prompt_tokens":20,"completion_tokens":200,"#,
    r#""cost":0.000001}}"#,
    "\n\ndata: [DONE]\n\n",
);

/// A running model provider, with constant answers.
pub(crate) struct LocalProvider {
    begun: Instant,
    serving: RunningServer,
}

impl LocalProvider {
    /// Starts the provider on a free port.
    pub(crate) async fn start() -> anyhow::Result<Arc<Self>> {
        let begun = Instant::now();
        let router = Router::new()
            .route("/v1/chat/completions", post(serve_chat))
            .layer(DefaultBodyLimit::max(1 << 20))
            .with_state(begun);
        Ok(Arc::new(Self { begun, serving: RunningServer::start(router).await? }))
    }

    /// `http://127.0.0.1:<port>/v1`
    pub(crate) fn url(&self) -> String {
        format!("{}/v1", self.serving.url())
    }

    /// Milliseconds since the provider was started.
    pub(crate) fn clock(&self) -> f64 {
        self.begun.elapsed().as_secs_f64() * 1000.0
    }
}

async fn serve_chat(State(begun): State<Instant>, body: Bytes) -> Response {
    let text = std::str::from_utf8(&body).unwrap_or_default();
    if !text.contains("\"stream\":true") {
        return ([(header::CONTENT_TYPE, "application/json")], ANSWER).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/event-stream")];
    if !text.contains(PIECEWISE) {
        return (kind, [FIRST, LAST].concat()).into_response();
    }
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let pieces = IntervalStream::new(ticks).take(PIECES).map(move |_| {
        let at = begun.elapsed().as_secs_f64() * 1000.0;
        format!("data: {{\"id\":\"gen-1\",\"choices\":[{{\"index\":0,\"delta\":{{{MARK}{at:.3} \"}}}}]}}\n\n")
    });
    let pieces = pieces.chain(stream::iter([LAST.to_owned()]));
    let body = Body::from_stream(pieces.map(|piece| Ok::<_, Infallible>(Bytes::from(piece))));
    (kind, body).into_response()
}

/// Times at which the provider wrote the pieces in some bytes.
pub(crate) fn read_arrivals(bytes: &[u8]) -> impl Iterator<Item = f64> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.split(MARK).skip(1).filter_map(|rest| rest.split(' ').next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_says_when_it_was_written() {
        let text = format!("data: {{{MARK}12.500 \"}}\n\ndata: {{{MARK}13 \"}}");
        assert_eq!(read_arrivals(text.as_bytes()).collect::<Vec<_>>(), [12.5, 13.0]);
    }
}
