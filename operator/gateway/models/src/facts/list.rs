//! A provider's list of models: OpenRouter's, which says much, and those of OpenAI, llama.cpp, Ollama,
//! vLLM, LM Studio and others, which say little, each in its own words. Fields are read one by one: one
//! that can't be read hides no other, and where several names stand for the same figure, the smallest
//! counts. Pure.

use std::collections::BTreeMap;

use codebutler_crds::role::ReasoningEffort;
use serde::Deserialize as _;
use serde_json::Value;

use super::super::hearing::ModelHearing;
use super::price::{read_prices, read_scaled_prices};
use super::{KnownModelFacts, ThinkingFacts};

/// Models of a page that are read, other names of one, and bytes of a name. They are kept as long as the list counts.
const MODELS: usize = 5000;
const NAMES: usize = 8;
const NAME_BYTES: usize = 300;
/// Values of a page: each takes many times its bytes in memory.
const VALUES: usize = 500_000;

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ListPage {
    /// Models by id. A model's second name comes as another model.
    pub models: BTreeMap<String, KnownModelFacts>,
    /// Entries that the provider sent, readable or not.
    pub entries: usize,
    /// True if it is Ollama's, which cuts overlong input in silence.
    pub is_ollama: bool,
    /// True if it is llama.cpp's, which describes its chat template elsewhere.
    pub is_llama_cpp: bool,
    /// Ids of models that a router of llama.cpp has loaded, of all that it can load.
    pub loaded: Vec<String>,
}

/// A model's name in OpenAI's form of a list, and in those that others have of their own: LM Studio, Ollama,
/// Google. In OpenAI's form `name` is for people.
const ID: [&str; 1] = ["id"];
const OTHER_IDS: [&str; 4] = ["id", "key", "model", "name"];
/// Fields for the tokens that a model takes: OpenRouter, Together, Fireworks; Groq; vLLM, SGLang;
/// Mistral; Anthropic, GitHub; LM Studio; llama.cpp; Google.
const WINDOWS: [&str; 9] = [
    "context_length",
    "context_window",
    "max_model_len",
    "max_context_length",
    "max_input_tokens",
    "loaded_context_length",
    "n_ctx",
    "context_size",
    "inputTokenLimit",
];
/// Fields for the tokens of its longest answer.
const ANSWERS: [&str; 4] =
    ["max_completion_tokens", "max_tokens", "max_output_tokens", "outputTokenLimit"];
/// Objects of an entry that hold such figures too.
const INNER: [&str; 3] = ["top_provider", "meta", "limits"];
/// Words for calling tools, as a field that is true or false, or one of a list.
const TOOL_WORDS: [&str; 7] = [
    "function_calling",
    "tool_calling",
    "tool-calling",
    "tool_use",
    "tools",
    "trained_for_tool_use",
    "supports_tools",
];
/// Words for being shown pictures.
const PICTURE_WORDS: [&str; 4] = ["vision", "image", "supports_vision", "multimodal"];

/// True for a page that has more than any provider's list.
pub fn is_overlong(body: &[u8]) -> bool {
    memchr::memchr_iter(b',', body).count() > VALUES
}

/// Reads a page; nothing if it is no list.
pub fn read_models(body: &[u8]) -> Option<ListPage> {
    if is_overlong(body) {
        return None;
    }
    let body: Value = serde_json::from_slice(body).ok()?;
    let (entries, ids) = find_entries(&body)?;
    let mut page = ListPage { entries: entries.len(), ..ListPage::default() };
    let mut aliases: Vec<(&str, KnownModelFacts)> = Vec::new();
    for entry in entries.iter().take(MODELS) {
        let Some(id) = entry_id(entry, ids) else { continue };
        let owner = entry["owned_by"].as_str();
        let digest = entry["digest"].as_str().is_some_and(|digest| !digest.is_empty());
        page.is_ollama |= owner == Some("library") || (owner.is_none() && digest);
        page.is_llama_cpp |= owner == Some("llamacpp");
        // One that sleeps says as much, and is not woken by that.
        if matches!(entry["status"]["value"].as_str(), Some("loaded" | "sleeping")) {
            page.loaded.push(id.to_owned());
        }
        let facts = entry_facts(entry);
        let others = entry["aliases"].as_array().into_iter().flatten();
        let names = std::iter::once(&entry["canonical_slug"]).chain(others);
        let names = names.filter_map(Value::as_str).filter(|name| name.len() <= NAME_BYTES);
        aliases.extend(names.take(NAMES).map(|name| (name, facts.clone())));
        let facts = match page.models.remove(id) {
            Some(known) => narrow_facts(known, facts),
            None => facts,
        };
        page.models.insert(id.to_owned(), facts);
    }
    // Last, since another model's alias may be the id of one that is listed after it.
    for (name, facts) in aliases {
        page.models.entry(name.to_owned()).or_insert(facts);
    }
    Some(page)
}

/// The entries, and how they name models: a bare array, OpenAI's `data`, or `models`. llama.cpp sends both; an
/// empty one says nothing.
fn find_entries(body: &Value) -> Option<(&Vec<Value>, &'static [&'static str])> {
    if let Value::Array(entries) = body {
        return Some((entries, &ID[..]));
    }
    let list = |name: &str| body.get(name).and_then(Value::as_array);
    let data = list("data").map(|entries| (entries, &ID[..]));
    let models = list("models").map(|entries| (entries, &OTHER_IDS[..]));
    data.filter(|(entries, _)| !entries.is_empty()).or(models).or(data)
}

fn entry_id<'a>(entry: &'a Value, names: &[&str]) -> Option<&'a str> {
    let mut ids = names.iter().filter_map(|name| entry.get(name)?.as_str());
    let id = entry.as_str().or_else(|| ids.find(|id| !id.is_empty()));
    id.filter(|id| id.len() <= NAME_BYTES)
}

fn entry_facts(entry: &Value) -> KnownModelFacts {
    let says = |parameter: &str| {
        let known = entry["supported_parameters"].as_array().filter(|known| !known.is_empty())?;
        Some(known.iter().any(|name| name == parameter))
    };
    let prices = read_prices(&entry["pricing"]).or_else(|| read_scaled_prices(entry));
    KnownModelFacts {
        window: smallest_figure(entry, &WINDOWS),
        max_tokens: smallest_figure(entry, &ANSWERS),
        tools: says("tools").or_else(|| read_ability(entry, &TOOL_WORDS)),
        sees: sees_pictures(entry),
        hearing: hears_sound(entry),
        draws_only: entry["architecture"]["output_modalities"] == serde_json::json!(["image"]),
        thinking: says("reasoning").unwrap_or(false).then(|| read_thinking(&entry["reasoning"])),
        prices,
        expires: entry["expiration_date"].as_str().and_then(|day| day.get(..10)).map(str::to_owned),
        ..KnownModelFacts::default()
    }
}

/// Returns the smallest of all figures under these names.
fn smallest_figure(entry: &Value, names: &[&str]) -> Option<u32> {
    let places = INNER.into_iter().filter_map(|inner| entry.get(inner));
    let places = std::iter::once(entry).chain(places);
    places.flat_map(|place| names.iter().filter_map(|name| read_tokens(place.get(name)?))).min()
}

/// Reads an ability of an entry: from a field of its own, or from `capabilities`. A list that does
/// not name it says nothing of it.
fn read_ability(entry: &Value, words: &[&str]) -> Option<bool> {
    let has = &entry["capabilities"];
    let flag = |word: &&str| has.get(*word).or_else(|| entry.get(*word))?.as_bool();
    let named = || {
        let mut names = has.as_array()?.iter().filter_map(Value::as_str);
        names.any(|name| words.contains(&name)).then_some(true)
    };
    words.iter().find_map(flag).or_else(named)
}

fn sees_pictures(entry: &Value) -> Option<bool> {
    let kinds = [
        &entry["architecture"]["input_modalities"],
        &entry["input_modalities"],
        &entry["supported_input_modalities"],
    ];
    let kinds = kinds.into_iter().find_map(Value::as_array);
    kinds
        .map(|kinds| kinds.iter().any(|kind| kind == "image"))
        .or_else(|| read_ability(entry, &PICTURE_WORDS))
        .or_else(|| (entry["type"] == "vlm").then_some(true))
}

/// Reads the hearing of a model in OpenRouter's words.
fn hears_sound(entry: &Value) -> Option<ModelHearing> {
    let has = |field: &str, word: &str| {
        let words = entry["architecture"][field].as_array().into_iter().flatten();
        words.into_iter().any(|one| one == word)
    };
    if has("output_modalities", "transcription") {
        return Some(ModelHearing::Transcribes);
    }
    has("input_modalities", "audio").then_some(ModelHearing::Chats)
}

fn read_thinking(said: &Value) -> ThinkingFacts {
    let efforts = said["supported_efforts"].as_array().into_iter().flatten();
    ThinkingFacts {
        efforts: efforts.filter_map(|word| ReasoningEffort::deserialize(word).ok()).collect(),
        takes_tokens: said["supports_max_tokens"].as_bool(),
        is_mandatory: said["mandatory"].as_bool().unwrap_or(false),
    }
}

/// A model that is listed twice is served by several: what all of them take is what can be relied on.
fn narrow_facts(one: KnownModelFacts, other: KnownModelFacts) -> KnownModelFacts {
    let least = |one: Option<u32>, other: Option<u32>| one.into_iter().chain(other).min();
    KnownModelFacts {
        window: least(one.window, other.window),
        max_tokens: least(one.max_tokens, other.max_tokens),
        ..one.or(other)
    }
}

/// Reads a number of tokens. Some servers write whole numbers with a point, or in quotes.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // checked just before
fn read_tokens(figure: &Value) -> Option<u32> {
    let figure = figure.as_f64().or_else(|| figure.as_str()?.trim().parse().ok());
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
    fn a_list_says_who_hears_and_who_transcribes() {
        let of = |input: &[&str], output: &[&str]| {
            one(&json!({"id": "m", "architecture": {"input_modalities": input, "output_modalities": output}}))
                .hearing
        };
        assert_eq!(of(&["audio"], &["transcription"]), Some(ModelHearing::Transcribes));
        assert_eq!(of(&["text", "audio"], &["text"]), Some(ModelHearing::Chats));
        assert_eq!(of(&["text", "image"], &["text"]), None);
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
        assert_eq!(page.models["d"].window, Some(8_000));
        assert_eq!(read_models(b"<html>"), None);
        assert_eq!(read_models(br#"{"error":{"code":401}}"#), None);
        assert_eq!(read_models(br#"[{"id":"a"}]"#).unwrap().models.len(), 1);
    }

    #[test]
    fn the_smallest_of_several_figures_counts_whatever_it_is_called() {
        for (entry, window, max_tokens) in [
            (json!({"context_length": 24_000, "max_model_len": 24_000}), Some(24_000), None),
            (
                json!({"max_model_len": 32_768, "context_window": 8_192, "n_ctx": 0}),
                Some(8_192),
                None,
            ),
            (
                json!({"max_context_length": 131_072, "loaded_context_length": 4_096}),
                Some(4_096),
                None,
            ),
            (json!({"context_length": "16384", "meta": {"n_ctx": 2_048}}), Some(2_048), None),
            (
                json!({"limits": {"max_input_tokens": 9_000, "max_output_tokens": 700}, "max_tokens": 800}),
                Some(9_000),
                Some(700),
            ),
            (
                json!({"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}),
                Some(1_048_576),
                Some(65_536),
            ),
            (
                json!({"max_tokens": 8_192, "max_output_tokens": 4_096, "max_completion_tokens": null}),
                None,
                Some(4_096),
            ),
            (json!({"context_length": [1], "max_model_len": -5, "max_tokens": {}}), None, None),
        ] {
            let mut entry = entry;
            entry["id"] = "m".into();
            let facts = one(&entry);
            assert_eq!((facts.window, facts.max_tokens), (window, max_tokens), "{entry}");
        }
    }

    #[test]
    fn a_field_of_an_odd_kind_hides_no_other() {
        let facts = one(&json!({
            "id": "m", "canonical_slug": 7, "owned_by": ["x"], "context_length": 9_000, "top_provider": "none",
            "architecture": [], "capabilities": {"function_calling": true, "vision": "yes"}, "meta": 3,
            "supported_parameters": {"tools": true}, "reasoning": "deep", "expiration_date": 2027,
            "pricing": {"prompt": "0.000001", "completion": "0.000002", "overrides": "none"}, "aliases": "m2",
        }));
        assert_eq!((facts.window, facts.tools, facts.sees), (Some(9_000), Some(true), None));
        assert!(facts.prices.is_some());
    }

    /// Checks the servers' own answers.
    #[test]
    fn each_server_has_a_form_of_its_own() {
        let of = |body: &Value| read_models(body.to_string().as_bytes()).unwrap();
        let llama = include_str!("../../../../../tests/corpus/llama-cpp-models.json");
        let llama = read_models(llama.as_bytes()).unwrap();
        assert_eq!((llama.entries, llama.is_llama_cpp, llama.is_ollama), (1, true, false));
        assert_eq!(llama.models["tiny"].window, Some(65_536));
        assert_eq!(llama.models["tiny"].sees, Some(false));
        let tags = of(&json!({"models": [{
            "name": "qwen3:latest", "model": "qwen3:latest", "size": 1, "digest": "500a1f067a9f",
            "modified_at": "2026-01-01T00:00:00Z", "details": {"format": "gguf", "families": null}}]}));
        assert!(tags.is_ollama && tags.models.contains_key("qwen3:latest"));
        let studio = of(&json!({"object": "list", "data": [
            {"id": "qwen2-vl", "type": "vlm", "state": "loaded", "max_context_length": 32_768,
             "loaded_context_length": 4_096, "capabilities": ["tool_use"]},
            {"id": "plain", "type": "llm", "max_context_length": 8_192}]}));
        let facts = &studio.models["qwen2-vl"];
        assert_eq!((facts.window, facts.tools, facts.sees), (Some(4_096), Some(true), Some(true)));
        assert_eq!((studio.models["plain"].tools, studio.is_ollama), (None, false));
        let newer = of(&json!({"models": [{"type": "llm", "key": "gemma", "display_name": "Gemma",
            "max_context_length": 32_768, "capabilities": {"vision": false, "trained_for_tool_use": true}}]}));
        assert_eq!(
            (newer.models["gemma"].tools, newer.models["gemma"].sees),
            (Some(true), Some(false))
        );
        let bare = of(&json!([{"id": "a", "max_model_len": 9}, "b"]));
        assert_eq!(bare.models.keys().collect::<Vec<_>>(), ["a", "b"]);
        let empty = of(&json!({"data": [], "models": [{"name": "a"}]}));
        assert_eq!(empty.models.len(), 1, "the list that has entries");
        assert_eq!(read_models(br#"{"data":{"id":"a"}}"#), None);
    }

    #[test]
    fn a_router_of_llama_cpp_says_which_models_it_has_loaded() {
        let entry = |id: &str, value: &str| json!({"id": id, "owned_by": "llamacpp", "status": {"value": value}});
        let data = [entry("a", "loaded"), entry("b", "unloaded"), entry("c", "sleeping")];
        let page = read_models(json!({"data": data}).to_string().as_bytes()).unwrap();
        assert!(page.is_llama_cpp && page.models.len() == 3);
        assert_eq!(page.loaded, ["a", "c"]);
    }

    #[test]
    fn a_model_that_several_serve_takes_what_all_of_them_take() {
        let page = read_models(
            br#"[{"id":"m","max_model_len":9000},{"id":"m","max_model_len":8000,"max_tokens":500}]"#,
        );
        let facts = &page.unwrap().models["m"];
        assert_eq!((facts.window, facts.max_tokens), (Some(8_000), Some(500)));
    }

    #[test]
    fn a_list_takes_no_more_memory_than_real_ones() {
        let long = "n".repeat(NAME_BYTES + 1);
        let aliases: Vec<String> = (0..50).map(|n| format!("alias-{n}")).collect();
        let data = [
            json!({"id": long}),
            json!({"id": "a", "aliases": aliases}),
            json!({"id": "b", "aliases": [long]}),
        ];
        let page = read_models(json!({"data": data}).to_string().as_bytes()).unwrap();
        assert_eq!((page.models.len(), page.entries), (2 + NAMES, 3));
        let many: Vec<String> = (0..MODELS + 9).map(|n| n.to_string()).collect();
        let page = read_models(json!(many).to_string().as_bytes()).unwrap();
        assert_eq!((page.models.len(), page.entries), (MODELS, MODELS + 9));
        let values = format!("[{}1]", "1,".repeat(VALUES + 1));
        assert!(is_overlong(values.as_bytes()) && read_models(values.as_bytes()).is_none());
    }
}
