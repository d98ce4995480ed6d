//! Answers in OpenAI's shape with OpenRouter's usage, whole or streamed.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::{Value, json};

use super::reply::{PlayedReply, ReplyEnding};
use super::reported_usage::{UsageOut, UsageTelling};
use super::usage::ScriptUsage;

/// A refusal, in `OpenRouter`'s shape.
#[derive(Debug)]
pub(super) struct RefusedCall<'a> {
    pub status: u16,
    pub message: &'a str,
    /// Further details of the error; null if there are none.
    pub metadata: Value,
}

impl Default for RefusedCall<'_> {
    fn default() -> Self {
        Self { status: 500, message: "Internal Server Error", metadata: Value::Null }
    }
}

/// Builds the response of a refusal.
pub(super) fn failure_response(failed: &RefusedCall<'_>) -> Response {
    let mut error = json!({"message": failed.message, "code": failed.status});
    if !failed.metadata.is_null() {
        error["metadata"] = failed.metadata.clone();
    }
    let status = StatusCode::from_u16(failed.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(json!({"error": error}))).into_response()
}

/// Builds a refusal in `OpenAI`'s shape.
pub(super) fn plain_error(status: u16, kind: &str, code: &Value, message: &str) -> Response {
    let error = json!({"message": message, "type": kind, "param": null, "code": code});
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(json!({"error": error}))).into_response()
}

/// Builds a refusal with a message and nothing else.
pub(super) fn error_response(status: u16, message: &str) -> Response {
    failure_response(&RefusedCall { status, message, ..RefusedCall::default() })
}

#[derive(Serialize)]
struct CompletionBody<'a> {
    id: &'a str,
    provider: &'static str,
    model: &'a str,
    object: &'static str,
    created: i64,
    system_fingerprint: Option<&'static str>,
    choices: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageOut>,
}

/// Identity and billing of the call that is answered.
pub(super) struct AnsweredCall<'a> {
    pub id: String,
    pub model: &'a str,
    pub usage: &'a ScriptUsage,
    pub telling: UsageTelling,
}

impl AnsweredCall<'_> {
    fn body(&self, object: &'static str, choices: Vec<Value>, with_usage: bool) -> String {
        let completion = CompletionBody {
            id: &self.id,
            provider: "Testbed",
            model: self.model,
            object,
            created: jiff::Timestamp::now().as_second(),
            system_fingerprint: None,
            choices,
            usage: with_usage.then(|| UsageOut::new(self.usage, self.telling)),
        };
        serde_json::to_string(&completion).unwrap_or_default()
    }

    /// Formats the whole answer as one JSON text.
    pub(super) fn whole(&self, reply: &PlayedReply) -> String {
        self.body("chat.completion", vec![reply.choice()], true)
    }

    /// Splits the answer into server-sent events, as many as a model would send.
    pub(super) fn events(&self, reply: &PlayedReply) -> Vec<String> {
        let chunk = |delta: Value, finish: Option<&str>| {
            let native = finish.map(|_| reply.native);
            let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish,
                "native_finish_reason": native});
            format!("data: {}\n\n", self.body("chat.completion.chunk", vec![choice], false))
        };
        let mut events = vec![
            ": OPENROUTER PROCESSING\n\n".to_owned(),
            chunk(json!({"role": "assistant", "content": ""}), None),
        ];
        if let Some(reasoning) = &reply.reasoning {
            let delta = json!({"reasoning": reasoning, "reasoning_details": reply.details});
            events.push(chunk(delta, None));
        }
        for piece in reply.content.iter().flat_map(|s| s.split_inclusive(' ')) {
            events.push(chunk(json!({"content": piece}), None));
        }
        if let Some(refusal) = &reply.refusal {
            events.push(chunk(json!({"refusal": refusal}), None));
        }
        for (n, call) in reply.calls.iter().enumerate() {
            let mut head = call.json();
            head["index"] = n.into();
            let (kind, argument) =
                if call.free { ("custom", "input") } else { ("function", "arguments") };
            head[kind][argument] = "".into();
            events.push(chunk(json!({"tool_calls": [head]}), None));
            let text: Vec<char> = call.arguments.chars().collect();
            for piece in text.chunks(24) {
                let piece: String = piece.iter().collect();
                let part = json!({"index": n, kind: {argument: piece}});
                events.push(chunk(json!({"tool_calls": [part]}), None));
            }
        }
        if let (Some(error), ReplyEnding::Error) = (&reply.error, reply.ending) {
            events.push(self.error_event(error));
            return events;
        }
        events.push(chunk(json!({}), Some(reply.finish)));
        let usage = self.body("chat.completion.chunk", Vec::new(), true);
        events.push(format!("data: {usage}\n\n"));
        events.push("data: [DONE]\n\n".to_owned());
        events
    }

    /// Builds the event by which a started stream reports that it has failed.
    fn error_event(&self, error: &Value) -> String {
        let event = json!({
            "id": self.id, "object": "chat.completion.chunk", "model": self.model,
            "created": jiff::Timestamp::now().as_second(), "provider": "Testbed", "error": error,
            "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}],
        });
        format!("data: {event}\n\n")
    }
}

/// Wraps a JSON text in a response.
pub(super) fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Builds a server-sent event stream from events.
pub(super) fn event_stream(events: Vec<String>) -> Response {
    let pieces = events.into_iter().map(|e| Ok::<_, Infallible>(Bytes::from(e)));
    stream_response(Body::from_stream(stream::iter(pieces)))
}

/// Builds a response whose connection breaks in the middle of the text.
pub(super) fn cut_response(text: &str, events: bool) -> Response {
    broken_off(text.chars().take(text.chars().count() / 2).collect(), events)
}

/// Builds a response whose connection breaks after `sent`.
pub(super) fn broken_off(sent: String, events: bool) -> Response {
    let pieces = [Ok(Bytes::from(sent)), Err(std::io::ErrorKind::ConnectionReset.into())];
    let pieces = stream::iter(pieces).then(async |piece: std::io::Result<Bytes>| {
        if piece.is_err() {
            // The earlier bytes have to be on their way first, or the client sees no answer at all.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        piece
    });
    let body = Body::from_stream(pieces);
    if events {
        return stream_response(body);
    }
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// Wraps a body in a response of server-sent events.
pub(super) fn stream_response(body: Body) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}
