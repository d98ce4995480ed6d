//! Calls in whose middle the server asks a person, after a sign of progress.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::PlayedServer;
use super::answer::{rpc_result, stream_body};

/// Events of one call.
const EVENTS: usize = 4;

/// Answers a call with what the person answers to a question.
pub(super) fn ask_person(state: &PlayedServer, message: &Value, question: &Value) -> Response {
    let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(EVENTS);
    let (id, token) = (message["id"].clone(), message["params"]["_meta"]["progressToken"].clone());
    let key = format!("ask-{:08x}", rand::random::<u32>());
    let (answered, answer) = oneshot::channel::<Value>();
    state.asked.lock().insert(key.clone(), answered);
    let asked = json!({
        "jsonrpc": "2.0", "id": key, "method": "elicitation/create", "params": question,
    });
    let step = json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1, "total": 4, "message": "Waiting for a person"},
    });
    tokio::spawn(async move {
        let events = if token.is_null() { vec![asked] } else { vec![step, asked] };
        for event in events {
            if send_event(&sender, &event).await.is_err() {
                return;
            }
        }
        if let Ok(answer) = answer.await {
            let content = json!([{"type": "text", "text": answer.to_string()}]);
            let _ = send_event(&sender, &rpc_result(&id, &json!({"content": content}))).await;
        }
    });
    let stream = futures::stream::unfold(receiver, |mut receiver| async move {
        receiver.recv().await.map(|event| (event, receiver))
    });
    stream_body(Body::from_stream(stream))
}

async fn send_event(
    sender: &mpsc::Sender<Result<Bytes, Infallible>>,
    message: &Value,
) -> Result<(), mpsc::error::SendError<Result<Bytes, Infallible>>> {
    sender.send(Ok(Bytes::from(format!("event: message\ndata: {message}\n\n")))).await
}

/// Takes a client's answer to a question.
pub(super) fn take_answer(state: &Arc<PlayedServer>, message: &Value) {
    let key = message["id"].as_str().unwrap_or_default();
    if let Some(waits) = state.asked.lock().remove(key) {
        let _ = waits.send(message.get("result").unwrap_or(&message["error"]).clone());
    }
}
