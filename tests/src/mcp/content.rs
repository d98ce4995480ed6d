//! Resources and prompts, as a server answers for them.

use std::sync::Arc;

use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::answer::{json_response, rpc_error, rpc_result};
use super::{McpServer, PlayedServer, asking};

impl McpServer {
    /// Sets the server's words on its use, from the next session on.
    pub fn set_instructions(&self, words: &str) {
        *self.state.instructions.lock() = Some(words.to_owned());
    }

    /// Leaves requests with this method without an answer until another one is named, or none.
    pub fn hold(&self, method: Option<&'static str>) {
        self.state.held.send_replace(method);
    }

    /// True while a request has come that is held back.
    #[must_use]
    pub fn holds_request(&self) -> bool {
        self.state.held.receiver_count() > 0
    }

    /// Requests for its list of tools, answered or not.
    #[must_use]
    pub fn asked_lists(&self) -> usize {
        *self.state.asked_lists.lock()
    }
}

/// Waits while requests like this one are held back.
pub(super) async fn await_release(state: &PlayedServer, body: &[u8]) {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let method = message["method"].as_str().unwrap_or_default();
    if method == "tools/list" {
        *state.asked_lists.lock() += 1;
    }
    let mut held = state.held.subscribe();
    // The sender lives as long as the server.
    let _ = held.wait_for(|held| *held != Some(method)).await.is_ok();
}

/// Answers what is no request for tools.
pub(super) fn answer_request(state: &PlayedServer, method: &str, message: &Value) -> Value {
    let (id, params) = (&message["id"], &message["params"]);
    match method {
        "resources/list" => {
            let resources = state.resources.lock();
            let listed: Vec<_> =
                resources.keys().map(|uri| json!({"uri": uri, "name": uri})).collect();
            rpc_result(id, &json!({"resources": listed}))
        }
        "resources/templates/list" => rpc_result(id, &json!({"resourceTemplates": []})),
        "prompts/list" => {
            let prompts = state.prompts.lock();
            let listed: Vec<_> = prompts
                .keys()
                .map(|name| {
                    let topic = json!({"name": "topic", "description": "Its topic", "required": true});
                    json!({"name": name, "description": "Sorts things.", "arguments": [{"name": "tone"}, topic]})
                })
                .collect();
            rpc_result(id, &json!({"prompts": listed}))
        }
        "prompts/get" => {
            let name = params["name"].as_str().unwrap_or_default();
            let topic = params["arguments"]["topic"].as_str();
            match (state.prompts.lock().get(name), topic) {
                (Some(text), Some(topic)) => {
                    let text = text.replace("{topic}", topic);
                    let content = json!({"type": "text", "text": text});
                    rpc_result(id, &json!({"messages": [{"role": "user", "content": content}]}))
                }
                (Some(_), None) => rpc_error(id, -32_602, "the argument `topic` is missing"),
                (None, _) => rpc_error(id, -32_602, "no such prompt"),
            }
        }
        method => rpc_error(id, -32_601, &format!("Method not found: {method}")),
    }
}

/// Answers the reading of a resource.
pub(super) fn read_resource(state: &Arc<PlayedServer>, message: &Value) -> Response {
    let (id, uri) = (&message["id"], message["params"]["uri"].as_str().unwrap_or_default());
    if let Some(request) = state.asking.lock().get(uri).cloned() {
        return asking::ask_for_resource(state, message, request);
    }
    let answer = match state.resources.lock().get(uri) {
        Some(text) => rpc_result(id, &json!({"contents": [{"uri": uri, "text": text}]})),
        None => rpc_error(id, -32_002, "Resource not found"),
    };
    json_response(StatusCode::OK, &answer)
}
