//! `OpenAI`'s Responses API, as far as its search of the web goes: strict about fields, with a bill of tokens and
//! searches.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::catalogue::PlayedCatalogue;
use super::ledger::ModelRequest;
use super::media::{bill_role, model_role};
use super::respond::plain_error;
use super::{SharedModels, count_tokens, is_authorised, pass_gate, refuse_key, unknown_path};

/// Fields of a request; any other is refused.
const FIELDS: [&str; 16] = [
    "include",
    "input",
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "model",
    "parallel_tool_calls",
    "reasoning",
    "service_tier",
    "store",
    "stream",
    "temperature",
    "text",
    "tool_choice",
    "tools",
];
/// Beginnings of the names of models that take `reasoning`, and parts of those that take no low effort all the same.
const THINKERS: [&str; 3] = ["gpt-5", "gpt-6", "o3"];
const FIXED: [&str; 2] = ["-chat", "-pro"];
/// Prices in nano-dollars: of a token sent, of one received, and of a search.
const SENT: u64 = 1_000;
const RECEIVED: u64 = 5_000;
const SEARCH: u64 = 10_000_000;
/// Tokens of the pages that a search shows to the model, and of the answer.
const SHOWN: u64 = 6_000;
const SAID: u64 = 90;

/// Serves `POST /v1/responses`.
pub(super) async fn serve_responses(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    if shared.options.catalogue != PlayedCatalogue::OpenAi {
        return unknown_path();
    }
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    pass_gate(&shared.gate).await;
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let role = model_role(&request["model"]);
    let refusal = find_refusal(&shared, &request);
    let status = refusal.as_ref().map_or(StatusCode::OK, |(status, _)| *status);
    let kept =
        ModelRequest { role: Some(role.clone()), body: request.clone(), status: status.as_u16() };
    shared.ledger().requests.push(kept);
    if let Some((status, message)) = refusal {
        return plain_error(status.as_u16(), "invalid_request_error", &Value::Null, &message);
    }
    let (answer, cost) = search(&request);
    bill_role(&shared, &role, cost);
    axum::Json(answer).into_response()
}

fn find_refusal(shared: &SharedModels, request: &Value) -> Option<(StatusCode, String)> {
    let wrong = |message: String| Some((StatusCode::BAD_REQUEST, message));
    let model = request["model"].as_str().unwrap_or_default();
    let mut names = request.as_object().into_iter().flat_map(|fields| fields.keys());
    if let Some(name) = names.find(|name| !FIELDS.contains(&name.as_str())) {
        return wrong(format!("Unknown parameter: '{name}'."));
    }
    if shared.card(model).is_none() {
        let message = format!("The requested model '{model}' does not exist.");
        return Some((StatusCode::NOT_FOUND, message));
    }
    if request["input"].as_str().is_none_or(str::is_empty) {
        return wrong("Missing required parameter: 'input'.".to_owned());
    }
    let takes_effort = THINKERS.iter().any(|one| model.starts_with(one))
        && !FIXED.iter().any(|one| model.contains(one));
    if !request["reasoning"].is_null() && !takes_effort {
        return wrong(
            "Unsupported parameter: 'reasoning.effort' is not supported with this model."
                .to_owned(),
        );
    }
    if request["max_output_tokens"].as_u64().is_some_and(|most| most < 16) {
        return wrong("Invalid 'max_output_tokens': integer below minimum value.".to_owned());
    }
    let kind = &request["tools"][0]["type"];
    let is_known = *kind == "web_search" || *kind == "web_search_preview";
    (!is_known).then(|| (StatusCode::BAD_REQUEST, format!("Invalid value: {kind}.")))
}

/// The answer to a search, and what it costs.
fn search(request: &Value) -> (Value, NanoUsd) {
    let text = "It says so.";
    let cited = json!([{"type": "url_citation", "url": "https://docs.search.invalid/guide?utm_source=openai",
        "title": "Guide", "start_index": 0, "end_index": text.len()}]);
    let source = |url: &str| json!({"type": "url", "url": url});
    let sources =
        [source("https://docs.search.invalid/guide"), source("https://b.search.invalid/")];
    let id = |kind: &str| format!("{kind}_{}", uuid::Uuid::new_v4().simple());
    let output = json!([
        {"type": "web_search_call", "id": id("ws"), "status": "completed",
            "action": {"type": "search", "query": "q", "sources": sources}},
        {"type": "message", "id": id("msg"), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": cited}]},
    ]);
    let sent = count_tokens(&request.to_string()) + SHOWN;
    let usage = json!({"input_tokens": sent, "input_tokens_details": {"cached_tokens": 0}, "output_tokens": SAID,
        "output_tokens_details": {"reasoning_tokens": 30}, "total_tokens": sent + SAID});
    let answer = json!({"id": id("resp"), "object": "response", "created_at": 1_700_000_000, "status": "completed",
        "error": null, "incomplete_details": null, "model": request["model"], "output": output, "usage": usage});
    (answer, NanoUsd(sent * SENT + SAID * RECEIVED + SEARCH))
}
