//! Answers in OpenAI's shape with OpenRouter's usage, whole or streamed.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::play::{Answer, Call};
use super::script::Usage;

/// A refusal in OpenAI's shape.
pub(super) fn error(
    status: u16,
    kind: &str,
    code: Option<&str>,
    param: Option<&str>,
    message: &str,
) -> Response {
    let error = json!({"message": message, "type": kind, "param": param, "code": code});
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, axum::Json(json!({"error": error}))).into_response()
}

#[derive(Serialize)]
struct UsageOut {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
    /// A raw number: its text is the script's.
    cost: Box<RawValue>,
    is_byok: bool,
}

impl From<&Usage> for UsageOut {
    fn from(usage: &Usage) -> Self {
        let cost = RawValue::from_string(usage.cost.text.clone());
        Self {
            prompt_tokens: usage.prompt,
            completion_tokens: usage.completion,
            total_tokens: usage.prompt + usage.completion,
            cost: cost.unwrap_or_else(|_| RawValue::NULL.to_owned()),
            is_byok: false,
        }
    }
}

#[derive(Serialize)]
struct Completion<'a> {
    id: &'a str,
    provider: &'static str,
    model: &'a str,
    object: &'static str,
    created: i64,
    choices: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<UsageOut>,
}

/// Which call is answered.
pub(super) struct About<'a> {
    pub id: String,
    pub model: &'a str,
    pub usage: &'a Usage,
}

impl About<'_> {
    fn body(&self, object: &'static str, choices: Vec<Value>, with_usage: bool) -> String {
        let completion = Completion {
            id: &self.id,
            provider: "Testbed",
            model: self.model,
            object,
            created: jiff::Timestamp::now().as_second(),
            choices,
            usage: with_usage.then(|| self.usage.into()),
        };
        serde_json::to_string(&completion).unwrap_or_default()
    }

    /// The whole answer as one JSON text.
    pub fn whole(&self, answer: &Answer) -> String {
        let mut message = json!({"role": "assistant", "content": answer.say, "refusal": null});
        if !answer.tools.is_empty() {
            let calls = answer.tools.iter().map(call_json);
            message["tool_calls"] = calls.collect::<Vec<_>>().into();
        }
        let choice = json!({
            "index": 0, "message": message, "logprobs": null, "finish_reason": finish(answer),
        });
        self.body("chat.completion", vec![choice], true)
    }

    /// The answer as server-sent events, as many pieces as a model would send.
    pub fn events(&self, answer: &Answer) -> Vec<String> {
        let chunk = |delta: Value, finish: Option<&str>| {
            let choice =
                json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
            format!("data: {}\n\n", self.body("chat.completion.chunk", vec![choice], false))
        };
        let mut events = vec![
            ": OPENROUTER PROCESSING\n\n".to_owned(),
            chunk(json!({"role": "assistant", "content": ""}), None),
        ];
        for piece in answer.say.iter().flat_map(|s| s.split_inclusive(' ')) {
            events.push(chunk(json!({"content": piece}), None));
        }
        for (n, call) in answer.tools.iter().enumerate() {
            let mut head = call_json(call);
            head["index"] = n.into();
            head["function"]["arguments"] = "".into();
            events.push(chunk(json!({"tool_calls": [head]}), None));
            let text: Vec<char> = call.arguments.chars().collect();
            for piece in text.chunks(24) {
                let piece: String = piece.iter().collect();
                let part = json!({"index": n, "function": {"arguments": piece}});
                events.push(chunk(json!({"tool_calls": [part]}), None));
            }
        }
        events.push(chunk(json!({}), Some(finish(answer))));
        let usage = self.body("chat.completion.chunk", Vec::new(), true);
        events.push(format!("data: {usage}\n\n"));
        events.push("data: [DONE]\n\n".to_owned());
        events
    }
}

fn finish(answer: &Answer) -> &'static str {
    if answer.tools.is_empty() { "stop" } else { "tool_calls" }
}

fn call_json(call: &Call) -> Value {
    json!({
        "id": call.id, "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    })
}

/// A JSON text as a response.
pub(super) fn json_text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// Events as a response.
pub(super) fn event_stream(events: Vec<String>) -> Response {
    let pieces = events.into_iter().map(|e| Ok::<_, Infallible>(Bytes::from(e)));
    streamed(Body::from_stream(stream::iter(pieces)))
}

/// A response whose connection breaks in the middle.
pub(super) fn cut(text: &str, events: bool) -> Response {
    let half = text.chars().take(text.chars().count() / 2).collect::<String>();
    let pieces = [Ok(Bytes::from(half)), Err(std::io::ErrorKind::ConnectionReset.into())];
    let pieces = stream::iter(pieces).then(async |piece: std::io::Result<Bytes>| {
        if piece.is_err() {
            // What came before has to be on its way, or the client sees no answer at all.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        piece
    });
    let body = Body::from_stream(pieces);
    if events {
        return streamed(body);
    }
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

/// A body as a response of events.
pub(super) fn streamed(body: Body) -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, body).into_response()
}
