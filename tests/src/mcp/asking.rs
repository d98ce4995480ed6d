//! Calls in whose middle the server asks the client's person or model, after a sign of progress.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::PlayedServer;
use super::answer::{json_response, rpc_error, rpc_result, stream_body};

/// Capacity of the channel for a call's events.
const EVENTS: usize = 4;

/// Answers a call with what the person answers to a question.
pub(super) fn ask_person(state: &Arc<PlayedServer>, message: &Value, question: Value) -> Response {
    let asking = ClientQuestion { capability: "elicitation", method: "elicitation/create" };
    asking.answer(state, message, vec![question], |mut answers| answers.remove(0))
}

/// Answers a call with the list of what the person answers to questions, one after another.
pub(super) fn ask_often(
    state: &Arc<PlayedServer>,
    message: &Value,
    questions: Vec<Value>,
) -> Response {
    let asking = ClientQuestion { capability: "elicitation", method: "elicitation/create" };
    asking.answer(state, message, questions, |answers| json!(answers))
}

/// Answers a call with the list of what the client's model answers.
pub(super) fn ask_model(
    state: &Arc<PlayedServer>,
    message: &Value,
    requests: Vec<Value>,
) -> Response {
    let asking = ClientQuestion { capability: "sampling", method: "sampling/createMessage" };
    asking.answer(state, message, requests, |answers| json!(answers))
}

/// Answers the reading of a resource with what the client's model answers.
pub(super) fn ask_for_resource(
    state: &Arc<PlayedServer>,
    message: &Value,
    request: Value,
) -> Response {
    let asking = ClientQuestion { capability: "sampling", method: "sampling/createMessage" };
    asking.answer(state, message, vec![request], |mut answers| answers.remove(0))
}

struct ClientQuestion {
    capability: &'static str,
    method: &'static str,
}

impl ClientQuestion {
    fn answer(
        self,
        state: &Arc<PlayedServer>,
        message: &Value,
        questions: Vec<Value>,
        text: fn(Vec<Value>) -> Value,
    ) -> Response {
        let (id, token) =
            (message["id"].clone(), message["params"]["_meta"]["progressToken"].clone());
        // As the SDK does.
        if state.declared.lock()[self.capability].is_null() {
            let Self { capability, method } = self;
            let why = format!("Client does not support {capability} (required for {method})");
            let content = json!([{"type": "text", "text": why}]);
            let refused = rpc_result(&id, &json!({"content": content, "isError": true}));
            return json_response(StatusCode::OK, &refused);
        }
        // Only a resource has one.
        let uri = message["params"]["uri"].as_str().map(str::to_owned);
        let (sender, receiver) = mpsc::channel::<Result<Bytes, Infallible>>(EVENTS);
        let state = Arc::clone(state);
        tokio::spawn(async move {
            if !token.is_null() {
                let step = json!({
                    "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 1, "total": 4,
                               "message": "Waiting for a person"},
                });
                let _ = send_event(&sender, &step).await;
            }
            let mut answers = Vec::new();
            for question in questions {
                let Some(answer) = self.ask(&state, &sender, &question).await else {
                    let lost = rpc_error(&id, -32_603, "the client is gone");
                    let _ = send_event(&sender, &lost).await;
                    return;
                };
                answers.push(answer);
            }
            let text = text(answers).to_string();
            let result = match uri {
                Some(uri) => json!({"contents": [{"uri": uri, "text": text}]}),
                None => json!({"content": [{"type": "text", "text": text}]}),
            };
            let _ = send_event(&sender, &rpc_result(&id, &result)).await;
        });
        let stream = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|event| (event, receiver))
        });
        stream_body(Body::from_stream(stream))
    }

    async fn ask(
        &self,
        state: &PlayedServer,
        sender: &mpsc::Sender<Result<Bytes, Infallible>>,
        question: &Value,
    ) -> Option<Value> {
        let key = format!("ask-{:08x}", rand::random::<u32>());
        let (answered, answer) = oneshot::channel::<Value>();
        state.asked.lock().insert(key.clone(), answered);
        let asked = json!({
            "jsonrpc": "2.0", "id": key, "method": self.method, "params": question,
        });
        send_event(sender, &asked).await.ok()?;
        answer.await.ok()
    }
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
