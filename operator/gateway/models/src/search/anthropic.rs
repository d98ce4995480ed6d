//! Anthropic's server tool for web search, in its own API: what is asked, and the sources of an answer. Pure.

use std::collections::BTreeMap;

use codebutler_crds::wire::{WebResult, WebResults};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::{
    ANSWER, CUT, MOST, SNIPPET, UNNAMED, UNSEARCHED, short, told_searches, without_tracking,
};
use crate::prepare::RequestShape;
use crate::request::{ForwardableRequest, RequestError};

/// The version of the tool that all models know which search. Newer ones run code on what was found, at extra cost.
const TOOL: &str = "web_search_20250305";
/// Beginnings of the names of models without the tool.
const UNABLE: [&str; 4] = ["claude-2", "claude-instant", "claude-3-haiku", "claude-3-opus"];

const PAUSED: &str = "the provider broke the search off before its end: sources may be missing. Search for less at once";
const DECLINED: &str =
    "the model does not search for this: try other words, or work with what you have";

/// True for models of Anthropic's that search by themselves.
pub(super) fn can_search(id: &str) -> bool {
    id.starts_with("claude-") && !UNABLE.iter().any(|unable| id.starts_with(unable))
}

/// The request that has `task` done, with one search at most.
pub(super) fn search_request(model: &str, task: &str) -> Value {
    json!({
        "model": model,
        "messages": [{"role": "user", "content": task}],
        "max_tokens": ANSWER,
        "tools": [{"type": TOOL, "name": "web_search", "max_uses": 1}],
    })
}

/// The body as it is sent: nothing of OpenAI's words is known to this API.
///
/// # Errors
/// Never, as far as is known.
pub(crate) fn native_body(
    request: &ForwardableRequest,
    shape: &RequestShape<'_>,
) -> Result<Vec<u8>, RequestError> {
    let raw = |value: Value| to_raw_value(&value).map_err(|_| RequestError::NotJson);
    let (model, most) = (raw(shape.id.into())?, raw(request.cap(shape).into())?);
    let others = request.fields.iter().map(|(name, value)| (name.as_str(), &**value));
    let mut fields: BTreeMap<&str, &RawValue> = others.collect();
    fields.extend([("model", &*model), ("max_tokens", &*most)]);
    serde_json::to_vec(&fields).map_err(|_| RequestError::NotJson)
}

/// The sources of an answer: those that its text cites first, with what it cites of them.
pub(super) fn read_sources(answer: &Value) -> Option<WebResults> {
    let blocks = answer["content"].as_array()?;
    let of_kind = |kind: &'static str| blocks.iter().filter(move |block| block["type"] == kind);
    let mut found: Vec<FoundSource> = Vec::new();
    for block in of_kind("text") {
        for cited in block["citations"].as_array().into_iter().flatten() {
            let words = cited["cited_text"].as_str().or_else(|| block["text"].as_str());
            add_source(&mut found, cited, words.unwrap_or_default());
        }
    }
    let mut failure = None;
    for result in of_kind("web_search_tool_result") {
        match &result["content"] {
            Value::Array(hits) => {
                for hit in hits.iter().filter(|hit| hit["type"] == "web_search_result") {
                    add_source(&mut found, hit, "");
                }
            }
            failed => failure = failure.or_else(|| failed["error_code"].as_str()),
        }
    }
    let results: Vec<WebResult> =
        found.into_iter().take(MOST).map(FoundSource::into_result).collect();
    let is_searched = told_searches(&answer["usage"]).unwrap_or(0) > 0;
    let note = match (answer["stop_reason"].as_str(), results.is_empty()) {
        (Some("max_tokens" | "model_context_window_exceeded"), _) => Some(CUT),
        (Some("pause_turn"), _) => Some(PAUSED),
        (_, false) => None,
        (Some("refusal"), true) => Some(DECLINED),
        (_, true) => match failure {
            Some(code) => Some(describe_failure(code)),
            None if is_searched => Some(UNNAMED),
            None => Some(UNSEARCHED),
        },
    };
    Some(WebResults { results, note: note.map(ToOwned::to_owned) })
}

/// A failure of the tool, which comes within an answer of status 200.
fn describe_failure(code: &str) -> &'static str {
    match code {
        "too_many_requests" => {
            "the provider's search is asked too often at the moment: search again in a minute"
        }
        "query_too_long" => "the search is too long for the provider: use fewer words",
        "invalid_tool_input" | "invalid_input" => {
            "the provider does not take this search: use other words"
        }
        "max_uses_exceeded" => "the one search of a call was used up: search anew",
        _ => "the provider's search is not available right now: try again later",
    }
}

/// A page that was found or cited.
struct FoundSource {
    url: String,
    title: String,
    words: Vec<String>,
    /// Age of the page in the provider's words.
    age: Option<String>,
}

/// Adds what a block says of a page to what is known of it.
fn add_source(found: &mut Vec<FoundSource>, block: &Value, words: &str) {
    let url = block["url"].as_str().filter(|url| url.starts_with("http"));
    let Some(url) = url.map(without_tracking).filter(|url| url.chars().count() <= 2_000) else {
        return;
    };
    let title = block["title"].as_str().unwrap_or_default().trim();
    let age = block["page_age"].as_str().map(|age| short(age, 40));
    let at = found.iter().position(|source| source.url == url);
    let at = at.unwrap_or_else(|| {
        found.push(FoundSource { url, title: String::new(), words: Vec::new(), age: None });
        found.len() - 1
    });
    let source = &mut found[at];
    if source.title.is_empty() {
        source.title = short(title, 200);
    }
    source.age = source.age.take().or(age);
    let words = words.trim();
    if !words.is_empty() && !source.words.iter().any(|known| known == words) {
        source.words.push(words.to_owned());
    }
}

impl FoundSource {
    fn into_result(self) -> WebResult {
        let Self { url, title, words, age } = self;
        let age = age.filter(|age| !age.is_empty()).map(|age| format!("({age})"));
        let words = words.join(" … ");
        let snippet = [Some(words).filter(|words| !words.is_empty()), age];
        let snippet = snippet.into_iter().flatten().collect::<Vec<_>>().join(" ");
        let title = if title.is_empty() { short(&url, 200) } else { title };
        WebResult { title, url, snippet: short(&snippet, SNIPPET) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content: &Value, reason: &str, searches: u64) -> Value {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "content": content, "stop_reason": reason,
            "usage": {"input_tokens": 6_039, "output_tokens": 931,
                "server_tool_use": {"web_search_requests": searches}}})
    }

    fn hit(url: &str, title: &str, age: Option<&str>) -> Value {
        json!({"type": "web_search_result", "url": url, "title": title, "encrypted_content": "EqgfCioIARgB",
            "page_age": age})
    }

    fn result(content: &Value) -> Value {
        json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": content})
    }

    #[test]
    fn what_the_text_cites_comes_first_and_each_page_once() {
        let cite = |url: &str, words: &str| {
            json!({"type": "web_search_result_location", "url": url, "title": "Notes",
                "encrypted_index": "Eo8BCioIAhgB", "cited_text": words})
        };
        let content = json!([
            {"type": "text", "text": "I'll search."},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            result(&json!([
                hit("https://b.example/", "B", None),
                hit("https://k8s.example/a?utm_source=x", "Notes", Some("April 30, 2026")),
                hit("javascript:alert(1)", "No page", None),
            ])),
            {"type": "text", "text": "Version 1.36 is out.", "citations": [
                cite("https://k8s.example/a", "1.36 brings …"), cite("https://k8s.example/a", "It drops the old API."),
                cite("https://k8s.example/a", "1.36 brings …")]},
        ]);
        let found = read_sources(&answer(&content, "end_turn", 1)).unwrap();
        let told: Vec<_> =
            found.results.iter().map(|hit| (&*hit.url, &*hit.title, &*hit.snippet)).collect();
        assert_eq!(
            told,
            [
                (
                    "https://k8s.example/a",
                    "Notes",
                    "1.36 brings … … It drops the old API. (April 30, 2026)"
                ),
                ("https://b.example/", "B", ""),
            ]
        );
        assert_eq!(found.note, None);
    }

    #[test]
    fn a_search_that_failed_within_its_answer_says_what_to_do() {
        let told = |content: Value, reason: &str, searches: u64| {
            let found = read_sources(&answer(&content, reason, searches)).unwrap();
            (found.results.len(), found.note.unwrap_or_default())
        };
        let failed = |code: &str| {
            json!([result(&json!({"type": "web_search_tool_result_error", "error_code": code}))])
        };
        for (code, words) in [
            ("too_many_requests", "in a minute"),
            ("query_too_long", "fewer words"),
            ("invalid_tool_input", "other words"),
            ("max_uses_exceeded", "search anew"),
            ("unavailable", "try again later"),
            ("of_a_later_version", "try again later"),
        ] {
            let (count, note) = told(failed(code), "end_turn", 0);
            assert!(count == 0 && note.contains(words), "{code}: {note}");
        }
        let text = json!([{"type": "text", "text": "I know that: it is 1.36."}]);
        assert_eq!(told(text.clone(), "end_turn", 0), (0, UNSEARCHED.to_owned()));
        assert_eq!(told(json!([result(&json!([]))]), "end_turn", 1), (0, UNNAMED.to_owned()));
        assert_eq!(told(text.clone(), "refusal", 0), (0, DECLINED.to_owned()));
        assert_eq!(told(text.clone(), "max_tokens", 0), (0, CUT.to_owned()));
        let some = json!([result(&json!([hit("https://b.example/", "B", None)]))]);
        assert_eq!(told(some.clone(), "pause_turn", 1), (1, PAUSED.to_owned()));
        // A second search that was one too many does not spoil what the first one has found.
        let twice = json!([some[0], failed("max_uses_exceeded")[0]]);
        assert_eq!(told(twice, "end_turn", 1), (1, String::new()));
    }

    #[test]
    fn old_models_do_not_search() {
        for id in ["claude-opus-5", "claude-haiku-4-5", "claude-3-5-haiku-latest"] {
            assert!(can_search(id), "{id}");
        }
        for id in ["claude-3-haiku-20240307", "claude-2.1", "gpt-5"] {
            assert!(!can_search(id), "{id}");
        }
    }
}
