//! OpenAI's tool for web search, which its models have in the Responses API alone: what is asked, and the sources of an
//! answer. Pure.

use std::collections::{BTreeMap, HashSet};

use codebutler_crds::wire::{WebResult, WebResults};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{ANSWER, CUT, MOST, UNNAMED, UNSEARCHED, cited_results, short, without_tracking};
use crate::prepare::RequestShape;
use crate::request::{ForwardableRequest, RequestError};

/// Beginnings of the names of models that have the tool, and parts of those that lack it all the same.
const ABLE: [&str; 6] = ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o3", "o4-mini"];
const UNABLE: [&str; 8] = [
    "gpt-4.1-nano",
    "o3-mini",
    "-audio",
    "-realtime",
    "-transcribe",
    "-tts",
    "-image",
    // They research for minutes, with many searches.
    "-deep-research",
];
/// Beginnings of the names of models that think before they answer, and parts of those that take no low effort all the
/// same: they have one of their own.
const THINKERS: [&str; 4] = ["gpt-5", "gpt-6", "o3", "o4"];
const FIXED: [&str; 2] = ["-chat", "-pro"];

/// True for models of OpenAI's that search in the Responses API.
pub(super) fn can_search(id: &str) -> bool {
    ABLE.iter().any(|able| id.starts_with(able)) && !UNABLE.iter().any(|one| id.contains(one))
}

/// True for models that can be asked to think little. Others refuse the field, or the value.
fn takes_low_effort(id: &str) -> bool {
    THINKERS.iter().any(|one| id.starts_with(one)) && !FIXED.iter().any(|one| id.contains(one))
}

/// The request that has `task` done, with one search at most. `max_tokens` is renamed when it is sent.
pub(super) fn search_request(model: &str, task: &str) -> Value {
    json!({
        "model": model,
        "input": task,
        "max_tokens": ANSWER,
        "tools": [{"type": "web_search"}],
        "max_tool_calls": 1,
        "include": ["web_search_call.action.sources"],
        "store": false,
    })
}

/// The body as it is sent.
///
/// # Errors
/// Never, as far as is known.
pub(super) fn native_body(
    request: &ForwardableRequest,
    shape: &RequestShape<'_>,
) -> Result<Vec<u8>, RequestError> {
    let raw = |value: Value| to_raw_value(&value).map_err(|_| RequestError::NotJson);
    let (model, most) = (raw(shape.id.into())?, raw(request.cap(shape).into())?);
    let effort = raw(json!({"effort": "low"}))?;
    let others = request.fields.iter().map(|(name, value)| (name.as_str(), &**value));
    let mut fields: BTreeMap<&str, &RawValue> =
        others.filter(|(name, _)| *name != "max_tokens").collect();
    fields.extend([("model", &*model), ("max_output_tokens", &*most)]);
    // Thoughts count towards the longest answer.
    if takes_low_effort(shape.id) {
        fields.insert("reasoning", &*effort);
    }
    serde_json::to_vec(&fields).map_err(|_| RequestError::NotJson)
}

/// True for an answer of this API.
pub(super) fn is_response(answer: &Value) -> bool {
    answer["object"] == "response"
}

/// The sources of an answer: those that its text cites, then the others that the search has found.
pub(super) fn read_sources(answer: &Value) -> Option<WebResults> {
    let items = answer["output"].as_array()?;
    let mut seen = HashSet::new();
    let mut results = Vec::new();
    for item in items.iter().filter(|item| item["type"] == "message") {
        for part in item["content"].as_array().into_iter().flatten() {
            let message = json!({"content": part["text"], "annotations": part["annotations"]});
            results.extend(cited_results(&message, &mut seen));
        }
    }
    for call in searches(answer) {
        for source in call["action"]["sources"].as_array().into_iter().flatten() {
            let url = source["url"].as_str().filter(|url| url.starts_with("http"));
            let Some(url) = url.map(|url| short(&without_tracking(url), 2_000)) else { continue };
            if seen.insert(url.clone()) {
                let title = short(&url, 200);
                results.push(WebResult { title, url, snippet: String::new() });
            }
        }
    }
    results.truncate(MOST);
    let is_cut = answer["incomplete_details"]["reason"] == "max_output_tokens";
    let note = match (is_cut, results.is_empty()) {
        (true, _) => Some(CUT),
        (false, false) => None,
        (false, true) if count_searches(answer) > 0 => Some(UNNAMED),
        (false, true) => Some(UNSEARCHED),
    };
    Some(WebResults { results, note: note.map(ToOwned::to_owned) })
}

/// Searches that are billed: pages that the model opens beside them are not.
pub(super) fn count_searches(answer: &Value) -> u64 {
    searches(answer).count() as u64
}

fn searches(answer: &Value) -> impl Iterator<Item = &Value> {
    let items = answer["output"].as_array().into_iter().flatten();
    let calls = items.filter(|item| item["type"] == "web_search_call");
    calls.filter(|call| call["action"]["type"].as_str().is_none_or(|kind| kind == "search"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(action: &Value, annotations: &Value) -> Value {
        let text = json!({"type": "output_text", "text": "Kubernetes 1.36 is out.", "annotations": annotations});
        json!({
            "object": "response", "status": "completed", "error": null, "incomplete_details": null,
            "output": [
                {"type": "reasoning", "summary": []},
                {"type": "web_search_call", "status": "completed", "action": action},
                {"type": "message", "role": "assistant", "content": [text]},
            ],
        })
    }

    #[test]
    fn cited_pages_come_first_and_the_others_that_were_found_after_them() {
        let source = |url: &str| json!({"type": "url", "url": url});
        let action = json!({"type": "search", "query": "q", "sources": [
            source("https://b.example/?utm_source=openai"), source("https://k8s.example/a"), source("ftp://x"),
        ]});
        let cited = json!([{"type": "url_citation", "url": "https://k8s.example/a?utm_source=openai",
            "title": "Notes", "start_index": 0, "end_index": 23}]);
        let found = read_sources(&answer(&action, &cited)).unwrap();
        let told: Vec<_> =
            found.results.iter().map(|hit| (&*hit.title, &*hit.url, &*hit.snippet)).collect();
        assert_eq!(
            told,
            [
                ("Notes", "https://k8s.example/a", "Kubernetes 1.36 is out."),
                ("https://b.example/", "https://b.example/", ""),
            ]
        );
        assert_eq!(found.note, None);
    }

    #[test]
    fn what_is_missing_is_said_and_only_searches_are_counted() {
        let note = |answer: &Value| read_sources(answer).unwrap().note.unwrap_or_default();
        let unsourced = answer(&json!({"type": "search"}), &json!([]));
        assert_eq!((note(&unsourced), count_searches(&unsourced)), (UNNAMED.to_owned(), 1));
        let opened = answer(&json!({"type": "open_page"}), &json!([]));
        assert_eq!((note(&opened), count_searches(&opened)), (UNSEARCHED.to_owned(), 0));
        let mut cut = unsourced;
        cut["incomplete_details"] = json!({"reason": "max_output_tokens"});
        assert_eq!(note(&cut), CUT);
        assert!(read_sources(&json!({"object": "response"})).is_none());
    }

    #[test]
    fn newer_models_search_and_those_for_sound_and_pictures_do_not() {
        for able in ["gpt-5.6", "gpt-4o-mini", "gpt-4.1", "o3", "gpt-6-astra"] {
            assert!(can_search(able), "{able}");
        }
        for unable in [
            "gpt-4.1-nano",
            "gpt-4o-transcribe",
            "gpt-4o-audio-preview",
            "gpt-3.5-turbo",
            "qwen3",
            "o3-mini",
            "o4-mini-deep-research",
        ] {
            assert!(!can_search(unable), "{unable}");
        }
    }

    #[test]
    fn only_models_that_take_a_low_effort_are_asked_for_it() {
        for able in ["gpt-5.6", "gpt-5-mini", "o3", "o4-mini"] {
            assert!(takes_low_effort(able), "{able}");
        }
        for unable in ["gpt-4.1", "gpt-4o", "gpt-5-chat-latest", "gpt-5-pro"] {
            assert!(!takes_low_effort(unable), "{unable}");
        }
    }
}
