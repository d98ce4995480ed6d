//! Billing record of an answer, as `OpenRouter` gives it afterwards: `GET /v1/generation?id=…`. As there, it is
//! unknown until a moment after the answer has ended.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::catalogue::PlayedCatalogue;
use super::reported_usage::{UsageTelling, split_usage};
use super::usage::ScriptUsage;
use super::{SharedModels, is_authorised, refuse_key, respond, unknown_path};

/// Delay before an answer that has ended is known.
const SETTLING: Duration = Duration::from_millis(500);

/// An answer that was billed.
#[derive(Clone, Debug)]
pub(super) struct BilledGeneration {
    pub model: String,
    pub usage: ScriptUsage,
    pub telling: UsageTelling,
    pub streamed: bool,
    pub created: jiff::Timestamp,
    /// Time at which it was sent to its end, or the client hung up.
    pub ended: Option<Instant>,
    /// True if the client hung up. Billed to its end all the same, as by models that can't be stopped.
    pub cancelled: bool,
}

impl BilledGeneration {
    pub(super) fn new(
        model: &str,
        usage: &ScriptUsage,
        telling: UsageTelling,
        streamed: bool,
    ) -> Self {
        let (model, created) = (model.to_owned(), jiff::Timestamp::now());
        let usage = usage.clone();
        Self { model, usage, telling, streamed, created, ended: None, cancelled: false }
    }
}

#[derive(Deserialize)]
pub(super) struct AskedGeneration {
    id: Option<String>,
}

#[derive(Serialize)]
struct GenerationData<'a> {
    id: &'a str,
    model: &'a str,
    created_at: String,
    streamed: bool,
    cancelled: bool,
    /// Raw numbers that keep the text of the script.
    total_cost: Box<RawValue>,
    usage: Box<RawValue>,
    tokens_prompt: u64,
    tokens_completion: u64,
    native_tokens_prompt: u64,
    native_tokens_completion: u64,
    native_tokens_reasoning: u64,
    native_tokens_cached: u64,
    upstream_inference_cost: Option<Box<RawValue>>,
    provider_name: &'static str,
    is_byok: bool,
    /// Fields that `OpenRouter` sends and no test reads.
    #[serde(flatten)]
    rest: Value,
}

/// Fields without information about a call that was played.
const NOTHING: [&str; 22] = [
    "api_type",
    "app_id",
    "cache_discount",
    "external_user",
    "finish_reason",
    "generation_time",
    "http_referer",
    "latency",
    "moderation_latency",
    "native_finish_reason",
    "native_tokens_completion_images",
    "num_fetches",
    "num_input_audio_prompt",
    "num_media_completion",
    "num_media_prompt",
    "num_search_results",
    "preset_id",
    "provider_responses",
    "router",
    "service_tier",
    "upstream_id",
    "user_agent",
];

pub(super) async fn serve_generation(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    Query(asked): Query<AskedGeneration>,
) -> Response {
    if shared.ledger().secret || shared.options.catalogue != PlayedCatalogue::OpenRouter {
        return unknown_path();
    }
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    let id = asked.id.unwrap_or_default();
    let found = shared.ledger().generations.get(&id).cloned();
    let known = |g: &BilledGeneration| g.ended.is_some_and(|ended| ended.elapsed() >= SETTLING);
    let Some(generation) = found.filter(known) else {
        let error = json!({"message": format!("Generation {id} not found"), "code": 404});
        let status = StatusCode::NOT_FOUND;
        return (status, axum::Json(json!({"error": error}))).into_response();
    };
    let BilledGeneration { model, usage, telling, streamed, created, cancelled, .. } = generation;
    let (cost, upstream_inference_cost) = split_usage(&usage, telling);
    let data = GenerationData {
        id: &id,
        model: &model,
        created_at: created.to_string(),
        streamed,
        cancelled,
        total_cost: cost.clone(),
        usage: cost,
        tokens_prompt: usage.prompt,
        tokens_completion: usage.completion,
        native_tokens_prompt: usage.prompt,
        native_tokens_completion: usage.completion,
        native_tokens_reasoning: usage.reasoning,
        native_tokens_cached: usage.cached,
        upstream_inference_cost,
        provider_name: "Testbed",
        is_byok: telling == UsageTelling::OwnKey,
        rest: other_fields(),
    };
    let data = serde_json::to_string(&data).unwrap_or_default();
    respond::json_text(format!("{{\"data\":{data}}}"))
}

fn other_fields() -> Value {
    let nothing = NOTHING.iter().map(|name| ((*name).to_owned(), Value::Null));
    let mut rest: serde_json::Map<String, Value> = nothing.collect();
    for (name, value) in [("data_region", json!("global")), ("origin", json!(""))] {
        rest.insert(name.to_owned(), value);
    }
    for name in ["web_search_engine", "workspace_id"] {
        rest.insert(name.to_owned(), Value::Null);
    }
    Value::Object(rest)
}

/// Records the end of a stream, even if it is dropped early.
struct GenerationEnding {
    shared: Arc<SharedModels>,
    id: String,
    whole: bool,
}

impl GenerationEnding {
    fn is_whole(&mut self) {
        self.whole = true;
    }
}

impl Drop for GenerationEnding {
    fn drop(&mut self) {
        if let Some(generation) = self.shared.ledger().generations.get_mut(&self.id) {
            generation.ended = Some(Instant::now());
            generation.cancelled = !self.whole;
        }
    }
}

/// Streams events, with a gate in their middle at which they can wait.
pub(super) fn stream_out(shared: &Arc<SharedModels>, id: &str, events: Vec<String>) -> Response {
    respond::stream_response(answer_pieces(shared, id, events))
}

/// Sends an answer as a whole: its headers, and a line that keeps the connection busy, come first.
pub(super) fn whole_answer(shared: &Arc<SharedModels>, id: &str, text: String) -> Response {
    let body = answer_pieces(shared, id, vec!["\n".to_owned(), text]);
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn answer_pieces(shared: &Arc<SharedModels>, id: &str, all: Vec<String>) -> Body {
    let middle = all.len() / 2;
    let ending = GenerationEnding { shared: Arc::clone(shared), id: id.to_owned(), whole: false };
    let all = all.into_iter().enumerate();
    Body::from_stream(stream::unfold((all, ending), move |(mut all, mut ending)| async move {
        let Some((n, piece)) = all.next() else {
            ending.is_whole();
            return None;
        };
        if n == middle {
            super::pass_gate(&ending.shared.midway).await;
        }
        Some((Ok::<_, Infallible>(Bytes::from(piece)), (all, ending)))
    }))
}
