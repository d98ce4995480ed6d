//! Answers of the server, in JSON-RPC and HTTP.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::StreamExt as _;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use serde_json::{Value, json};

/// Makes the JSON-RPC message of a result.
pub(super) fn rpc_result(id: &Value, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
}

/// Makes the JSON-RPC message of an error.
pub(super) fn rpc_error(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// A message as the whole body.
pub(super) fn json_response(status: StatusCode, message: &Value) -> Response {
    respond(status, "application/json", message.to_string())
}

/// Makes an answer that is a stream of events.
pub(super) fn stream_body(body: Body) -> Response {
    respond(StatusCode::OK, "text/event-stream", body)
}

/// Makes an answer with a status, a media type and a body.
pub(super) fn respond(status: StatusCode, kind: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A stream that stays open without an event.
pub(super) fn open_silence() -> impl futures::Stream<Item = Result<Bytes, Infallible>> {
    futures::stream::once(async { Ok(Bytes::from_static(b": begins\n\n")) })
        .chain(futures::stream::pending())
}
