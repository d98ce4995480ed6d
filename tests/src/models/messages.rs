//! Anthropic's own API for messages, as far as its search of the web goes: strict about fields and headers, with a bill
//! of tokens and searches, and with failures of the tool within answers of status 200.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::catalogue::{PlayedCatalogue, is_authorised_at_anthropic};
use super::ledger::ModelRequest;
use super::media::{bill_role, model_role};
use super::{SharedModels, count_tokens, pass_gate, refuse_key, unknown_path};

/// Fields of a request; any other is refused.
const FIELDS: [&str; 14] = [
    "max_tokens",
    "messages",
    "metadata",
    "model",
    "service_tier",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];
/// Versions of the search tool.
const TOOLS: [&str; 2] = ["web_search_20250305", "web_search_20260209"];
/// Words of a search that fails, before the code that it fails with.
const FAILS: &str = "failing with ";
/// Prices in nano-dollars: of a token sent, of one received, and of a search.
const SENT: u64 = 1_000;
const RECEIVED: u64 = 5_000;
const SEARCH: u64 = 10_000_000;
/// Tokens of the pages that a search shows to the model, and of the answer.
const SHOWN: u64 = 6_000;
const SAID: u64 = 90;

/// Serves `POST /v1/messages`.
pub(super) async fn serve_messages(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if shared.options.catalogue != PlayedCatalogue::Anthropic {
        return unknown_path();
    }
    if !is_authorised_at_anthropic(&shared, &headers) {
        return refuse_key(&shared);
    }
    pass_gate(&shared.gate).await;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let role = model_role(&request["model"]);
    let answer = match read_search(&shared, &request) {
        Ok(query) => Ok(search(&request, &query)),
        Err(refused) => Err(refused),
    };
    let status = answer.as_ref().map_or_else(|(status, ..)| *status, |_| 200);
    let kept = ModelRequest { role: Some(role.clone()), body: request, status };
    shared.ledger().requests.push(kept);
    match answer {
        Ok((answer, cost)) => {
            bill_role(&shared, &role, cost);
            axum::Json(answer).into_response()
        }
        Err((status, kind, message)) => {
            let error = json!({"type": "error", "error": {"type": kind, "message": message}});
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
            (status, axum::Json(error)).into_response()
        }
    }
}

/// Status, type and message of a refusal.
type RefusedRequest = (u16, &'static str, String);

/// The words that a request has the model look for.
fn read_search(shared: &SharedModels, request: &Value) -> Result<String, RefusedRequest> {
    let wrong = |message: &str| (400, "invalid_request_error", message.to_owned());
    let fields = request.as_object().ok_or_else(|| wrong("The request body is not valid JSON"))?;
    if let Some(field) = fields.keys().find(|field| !FIELDS.contains(&field.as_str())) {
        return Err(wrong(&format!("{field}: Extra inputs are not permitted")));
    }
    let model = request["model"].as_str().ok_or_else(|| wrong("model: Field required"))?;
    if shared.card(model).is_none() {
        return Err((404, "not_found_error", format!("model: {model}")));
    }
    if request["max_tokens"].as_u64().is_none_or(|most| most == 0) {
        return Err(wrong("max_tokens: Field required"));
    }
    let tool = &request["tools"][0];
    let version = tool["type"].as_str().unwrap_or_default();
    if !TOOLS.contains(&version) || tool["name"] != "web_search" {
        return Err(wrong(&format!(
            "tools.0: Input tag '{version}' found using 'type' does not match any of the expected tags"
        )));
    }
    let task = request["messages"][0]["content"].as_str();
    let task = task.ok_or_else(|| wrong("messages.0.content: Field required"))?;
    let query = task.split_once("Search for:\n").map_or(task, |(_, query)| query);
    Ok(query.to_owned())
}

/// The answer to a search, and what it costs.
fn search(request: &Value, query: &str) -> (Value, NanoUsd) {
    let failed = query.split_once(FAILS).and_then(|(_, code)| code.split_whitespace().next());
    let (found, searches) = match failed {
        Some(code) => (json!({"type": "web_search_tool_result_error", "error_code": code}), 0),
        None => (
            json!([
                hit("https://docs.search.invalid/guide", "Guide"),
                hit("https://b.search.invalid/", "B")
            ]),
            1,
        ),
    };
    let said = match failed {
        Some(_) => json!({"type": "text", "text": "I could not search."}),
        None => {
            json!({"type": "text", "text": "Two sources.", "citations": [{"type": "web_search_result_location",
            "url": "https://docs.search.invalid/guide", "title": "Guide", "encrypted_index": "Eo8BCioIAhgB",
            "cited_text": "It says so."}]})
        }
    };
    let id = format!("srvtoolu_{}", uuid::Uuid::new_v4().simple());
    let content = json!([
        {"type": "text", "text": "I'll search for that."},
        {"type": "server_tool_use", "id": id, "name": "web_search", "input": {"query": query}},
        {"type": "web_search_tool_result", "tool_use_id": id, "content": found},
        said,
    ]);
    let sent = count_tokens(&request.to_string()) + SHOWN * searches;
    let usage = json!({"input_tokens": sent, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0,
        "output_tokens": SAID, "service_tier": "standard", "server_tool_use": {"web_search_requests": searches}});
    let answer = json!({"id": format!("msg_{}", uuid::Uuid::new_v4().simple()), "type": "message", "role": "assistant",
        "model": request["model"], "content": content, "stop_reason": "end_turn", "stop_sequence": null, "usage": usage});
    (answer, NanoUsd(sent * SENT + SAID * RECEIVED + searches * SEARCH))
}

fn hit(url: &str, title: &str) -> Value {
    json!({"type": "web_search_result", "url": url, "title": title, "encrypted_content": "EqgfCioIARgB",
        "page_age": "April 30, 2026"})
}
