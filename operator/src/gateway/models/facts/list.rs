//! A provider's list of models: OpenRouter's, which tells much, and the bare ones of OpenAI, Ollama,
//! vLLM and others, which tell little, each in its own words. Pure.

use std::collections::BTreeMap;

use codebutler_crds::role::ReasoningEffort;
use serde::Deserialize;
use serde_json::Value;

use super::price::PriceEntry as ListedPrices;
use super::{KnownModelFacts, ThinkingFacts};

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// By id. A model's second name comes as another model.
    pub models: BTreeMap<String, KnownModelFacts>,
    /// Entries that the provider sent, readable or not.
    pub entries: usize,
    /// Whether it is Ollama's, which cuts in silence what is too long.
    pub is_ollama: bool,
}

#[derive(Deserialize)]
struct ListBody {
    #[serde(alias = "models")]
    data: Vec<Value>,
}

/// The words that providers have for the same things.
#[derive(Deserialize)]
struct ListEntry {
    id: String,
    #[serde(default)]
    canonical_slug: Option<String>,
    #[serde(default)]
    owned_by: Option<String>,
    /// OpenRouter, Together, Fireworks; Groq; vLLM; Mistral; Anthropic.
    #[serde(
        default,
        alias = "context_window",
        alias = "max_model_len",
        alias = "max_context_length",
        alias = "max_input_tokens"
    )]
    context_length: Option<f64>,
    #[serde(default, alias = "max_tokens", alias = "max_output_tokens")]
    max_completion_tokens: Option<f64>,
    #[serde(default)]
    top_provider: Option<TopProvider>,
    #[serde(default)]
    supported_parameters: Option<Vec<String>>,
    #[serde(default)]
    architecture: Option<Architecture>,
    #[serde(default)]
    capabilities: Value,
    #[serde(default)]
    meta: Value,
    #[serde(default)]
    reasoning: Value,
    #[serde(default)]
    pricing: Value,
    #[serde(default)]
    expiration_date: Option<String>,
}

#[derive(Deserialize)]
struct TopProvider {
    context_length: Option<f64>,
    max_completion_tokens: Option<f64>,
}

#[derive(Deserialize)]
struct Architecture {
    input_modalities: Option<Vec<String>>,
}

/// Reads a page; nothing if it is no list.
pub fn read_models(body: &[u8]) -> Option<ListPage> {
    // Some send the bare array.
    let entries = match serde_json::from_slice::<ListBody>(body) {
        Ok(ListBody { data }) => data,
        Err(_) => serde_json::from_slice::<Vec<Value>>(body).ok()?,
    };
    let mut page = ListPage { entries: entries.len(), ..ListPage::default() };
    for entry in &entries {
        // One that can't be read is no reason to know none of the others.
        let Some(entry) = listed_model(entry) else { continue };
        page.is_ollama |= entry.owned_by.as_deref() == Some("library");
        let facts = entry_facts(&entry);
        if let Some(slug) = entry.canonical_slug.filter(|slug| *slug != entry.id) {
            page.models.entry(slug).or_insert_with(|| facts.clone());
        }
        page.models.insert(entry.id, facts);
    }
    Some(page)
}

fn listed_model(entry: &Value) -> Option<ListEntry> {
    match ListEntry::deserialize(entry) {
        Ok(entry) => Some(entry),
        // A field of an odd kind, or one under two of its names: what counts most is that the model
        // exists.
        Err(_) => ListEntry::deserialize(serde_json::json!({"id": entry.get("id")?})).ok(),
    }
}

fn entry_facts(entry: &ListEntry) -> KnownModelFacts {
    let top = entry.top_provider.as_ref();
    let window = [
        entry.context_length,
        top.and_then(|top| top.context_length),
        entry.meta["n_ctx"].as_f64(),
    ];
    let window = window.into_iter().filter_map(read_tokens).min();
    let longest = [top.and_then(|top| top.max_completion_tokens), entry.max_completion_tokens];
    let max_tokens = longest.into_iter().find_map(read_tokens);
    let says = |parameter: &str| {
        let known = entry.supported_parameters.as_ref().filter(|known| !known.is_empty())?;
        Some(known.iter().any(|name| name == parameter))
    };
    let seen = entry.architecture.as_ref().and_then(|has| has.input_modalities.as_ref());
    KnownModelFacts {
        window,
        max_tokens,
        tools: says("tools").or_else(|| entry.capabilities["function_calling"].as_bool()),
        sees: seen
            .map(|kinds| kinds.iter().any(|kind| kind == "image"))
            .or_else(|| entry.capabilities["vision"].as_bool()),
        thinking: says("reasoning").unwrap_or(false).then(|| read_thinking(&entry.reasoning)),
        prices: ListedPrices::deserialize(&entry.pricing).ok().and_then(|listed| listed.prices()),
        expires: entry.expiration_date.as_ref().and_then(|date| date.get(..10)).map(str::to_owned),
        ..KnownModelFacts::default()
    }
}

fn read_thinking(told: &Value) -> ThinkingFacts {
    let efforts = told["supported_efforts"].as_array().into_iter().flatten();
    ThinkingFacts {
        efforts: efforts.filter_map(|word| ReasoningEffort::deserialize(word).ok()).collect(),
        takes_tokens: told["supports_max_tokens"].as_bool(),
        is_mandatory: told["mandatory"].as_bool().unwrap_or(false),
    }
}

/// Some write whole numbers with a point.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
fn read_tokens(figure: Option<f64>) -> Option<u32> {
    figure.filter(|figure| (1.0..=1e9).contains(figure)).map(|figure| figure as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(entry: &Value) -> KnownModelFacts {
        let page = read_models(json!({"data": [entry]}).to_string().as_bytes()).unwrap();
        page.models.into_values().next().unwrap()
    }

    #[test]
    fn openrouters_list_tells_what_a_model_is() {
        let facts = one(&json!({
            "id": "anthropic/claude-opus-5", "context_length": 1_000_000,
            "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
            "top_provider": {"context_length": 200_000, "max_completion_tokens": 64_000, "is_moderated": true},
            "pricing": {"prompt": "0.000005", "completion": "0.000025"},
            "supported_parameters": ["tools", "reasoning", "max_tokens"],
            "reasoning": {"supported_efforts": ["low", "high", "odd"], "supports_max_tokens": true},
            "expiration_date": "2027-01-31",
        }));
        assert_eq!((facts.window, facts.max_tokens), (Some(200_000), Some(64_000)));
        assert_eq!((facts.tools, facts.sees), (Some(true), Some(true)));
        let thinking = facts.thinking.unwrap();
        assert_eq!(thinking.efforts, [ReasoningEffort::Low, ReasoningEffort::High]);
        assert_eq!((thinking.takes_tokens, thinking.is_mandatory), (Some(true), false));
        assert!(facts.prices.is_some());
        assert_eq!(facts.expires.as_deref(), Some("2027-01-31"));
        let plain = one(&json!({"id": "x/y", "supported_parameters": ["max_tokens"],
            "architecture": {"input_modalities": ["text"]}}));
        assert_eq!((plain.tools, plain.sees, plain.thinking), (Some(false), Some(false), None));
    }

    #[test]
    fn bare_lists_tell_little_and_nothing_is_made_up() {
        assert_eq!(
            one(&json!({"id": "gpt-5.5", "object": "model", "owned_by": "openai"})),
            KnownModelFacts::default()
        );
        for (entry, window) in [
            (json!({"id": "m", "max_model_len": 32_768}), 32_768),
            (
                json!({"id": "m", "context_window": 131_072, "max_completion_tokens": 32_768}),
                131_072,
            ),
            (json!({"id": "m", "max_context_length": 262_144.0}), 262_144),
            (json!({"id": "m", "meta": {"n_ctx": 8_192, "n_ctx_train": 131_072}}), 8_192),
        ] {
            assert_eq!(one(&entry).window, Some(window), "{entry}");
        }
        let mistral =
            one(&json!({"id": "m", "capabilities": {"function_calling": true, "vision": false}}));
        assert_eq!((mistral.tools, mistral.sees), (Some(true), Some(false)));
    }

    #[test]
    fn an_odd_entry_hides_no_other() {
        let page = read_models(
            json!({"object": "list", "data": [
                {"id": "a", "context_length": "many"}, {"name": "no id"}, 7,
                {"id": "b", "canonical_slug": "b-20260101", "context_length": 8_000}, {"id": "c", "owned_by": "library"},
                {"id": "d", "context_length": 8_000, "context_window": 8_000},
            ]})
            .to_string()
            .as_bytes(),
        )
        .unwrap();
        assert_eq!(page.models.keys().collect::<Vec<_>>(), ["a", "b", "b-20260101", "c", "d"]);
        assert_eq!((page.entries, page.is_ollama), (6, true));
        assert_eq!(page.models["b-20260101"].window, Some(8_000));
        assert_eq!(read_models(b"<html>"), None);
        assert_eq!(read_models(br#"{"error":{"code":401}}"#), None);
        assert_eq!(read_models(br#"[{"id":"a"}]"#).unwrap().models.len(), 1);
    }
}
