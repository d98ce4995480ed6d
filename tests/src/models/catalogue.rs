//! Handlers of `GET /v1/models`, `GET /v1/model/{author}/{slug}` and `GET /v1/key`.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::HeaderMap;
use axum::response::{IntoResponse as _, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use super::card::{self, ModelCard};
use super::respond::error_response;
use super::{SharedModels, is_authorised, refuse_key, unknown_path};

/// Most models on one page of a list.
const PAGE: usize = 1000;

/// Provider whose list is played, and the detail that it gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlayedCatalogue {
    /// The list has everything; answers tell their cost.
    #[default]
    OpenRouter,
    /// The list has ids alone. Answers tell tokens and no cost, and nobody knows them afterwards.
    OpenAi,
    /// As with OpenAI, for models on one's own machine.
    Ollama,
    /// As with OpenAI, with the context window.
    Vllm,
    /// Anthropic's list: for callers that send the key in `x-api-key` and name a version, not for a bearer token.
    Anthropic,
}

impl SharedModels {
    /// Cards of all models on offer: one for each role of the script, and those of the options.
    pub(super) fn cards(&self) -> Vec<ModelCard> {
        let offers = &self.options.offers;
        let own =
            self.script.0.keys().map(|role| ModelCard::new(&card::usual_model(role)).playing(role));
        let own = own.filter(|card| !offers.iter().any(|offer| offer.id == card.id));
        own.chain(offers.iter().cloned()).collect()
    }

    /// Finds a model's card by its id.
    pub(super) fn card(&self, id: &str) -> Option<ModelCard> {
        self.cards().into_iter().find(|card| card.id == id)
    }
}

#[derive(Deserialize)]
pub(super) struct CataloguePage {
    #[serde(default)]
    offset: usize,
    limit: Option<usize>,
    /// Output modalities to filter by, joined by commas, or `all`; models that write text, if absent.
    output_modalities: Option<String>,
}

impl CataloguePage {
    fn shows(&self, card: &ModelCard) -> bool {
        let wanted = self.output_modalities.as_deref().unwrap_or("text");
        wanted == "all"
            || wanted.split(',').any(|kind| card.output_modalities.iter().any(|own| own == kind))
    }
}

pub(super) async fn serve_models(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    Query(page): Query<CataloguePage>,
) -> Response {
    let catalogue = shared.options.catalogue;
    let is_shown = match catalogue {
        PlayedCatalogue::OpenRouter => true,
        PlayedCatalogue::Anthropic => is_authorised_at_anthropic(&shared, &headers),
        _ => is_authorised(&shared, &headers),
    };
    if !is_shown {
        return refuse_key(&shared);
    }
    let limit = page.limit.unwrap_or(PAGE).min(PAGE);
    let mut shown = shared.cards();
    if catalogue == PlayedCatalogue::OpenRouter {
        shown.retain(|card| page.shows(card));
    }
    let total = shown.len();
    let cards = shown.into_iter().skip(page.offset).take(limit);
    let data: Vec<Value> = cards.map(|card| catalogue_entry(catalogue, &card)).collect();
    match catalogue {
        PlayedCatalogue::OpenRouter => {
            let links = json!({"next": Value::Null});
            let all = json!({"data": data, "total_count": total, "links": links});
            axum::Json(all).into_response()
        }
        PlayedCatalogue::Anthropic => {
            let all = json!({"data": data, "has_more": false, "first_id": null, "last_id": null});
            axum::Json(all).into_response()
        }
        _ => axum::Json(json!({"object": "list", "data": data})).into_response(),
    }
}

pub(super) fn is_authorised_at_anthropic(shared: &SharedModels, headers: &HeaderMap) -> bool {
    let own = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    own("x-api-key") == Some(shared.options.api_key.as_str()) && own("anthropic-version").is_some()
}

fn catalogue_entry(catalogue: PlayedCatalogue, card: &ModelCard) -> Value {
    let bare = |owner: &str| json!({"id": card.id, "object": "model", "created": 1_700_000_000, "owned_by": owner});
    match catalogue {
        PlayedCatalogue::OpenRouter => card.json(),
        PlayedCatalogue::OpenAi => bare("system"),
        PlayedCatalogue::Ollama => bare("library"),
        PlayedCatalogue::Anthropic => json!({
            "type": "model", "id": card.id, "display_name": card.id,
            "created_at": "2026-02-04T00:00:00Z", "max_input_tokens": card.context_length,
        }),
        PlayedCatalogue::Vllm => {
            let mut entry = bare("vllm");
            entry["max_model_len"] = card.context_length.into();
            entry["root"] = card.id.as_str().into();
            entry
        }
    }
}

/// Serves the key's limits: `OpenRouter` alone has them, and shows its list to everybody.
pub(super) async fn serve_key(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
) -> Response {
    if shared.options.catalogue != PlayedCatalogue::OpenRouter {
        return unknown_path();
    }
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    let key = json!({"label": "sk-or-v1-...", "limit": null, "limit_remaining": null, "usage": 0});
    axum::Json(json!({"data": key})).into_response()
}

pub(super) async fn serve_model(
    State(shared): State<Arc<SharedModels>>,
    headers: HeaderMap,
    Path((author, slug)): Path<(String, String)>,
) -> Response {
    if shared.options.catalogue != PlayedCatalogue::OpenRouter {
        return unknown_path();
    }
    if !is_authorised(&shared, &headers) {
        return refuse_key(&shared);
    }
    match shared.card(&format!("{author}/{slug}")) {
        Some(card) => axum::Json(json!({"data": card.json()})).into_response(),
        None => error_response(404, "Model not found"),
    }
}
