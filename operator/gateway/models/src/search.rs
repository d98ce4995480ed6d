//! Web search by a model's provider: a call of the role's whose answer names its sources. Pure.

use std::collections::HashSet;

use codebutler_crds::wire::{WebResult, WebResults};
use serde_json::{Value, json};

use super::dialect::ApiDialect;

/// Most results.
const MOST: usize = 10;
/// Characters of a page that the model is shown.
const EXCERPT: usize = 800;
/// Longest answer, in tokens: only its sources are used.
const ANSWER: u32 = 1_200;

/// True for models that search the web by themselves at their API.
pub(crate) fn can_search(dialect: ApiDialect, id: &str) -> bool {
    match dialect {
        ApiDialect::OpenRouter => true,
        ApiDialect::OpenAi => id.contains("-search"),
        ApiDialect::Azure | ApiDialect::Plain => false,
    }
}

/// The request that has `query` looked for.
pub(crate) fn search_request(dialect: ApiDialect, model: &str, query: &str) -> Value {
    let task = format!(
        "Search the web, and list the sources that you found, one a line, each with one sentence on what it says. \
         Search for:\n{query}"
    );
    let mut body = json!({
        "model": model,
        "messages": [{"role": "user", "content": task}],
        "max_tokens": ANSWER,
    });
    if dialect == ApiDialect::OpenRouter {
        // Without these bounds it may search often, and is sent 50 results with thousands of characters each.
        let parameters = json!({
            "max_results": MOST, "max_total_results": MOST, "max_uses": 1, "max_characters": EXCERPT,
        });
        body["tools"] = json!([{"type": "openrouter:web_search", "parameters": parameters}]);
    } else {
        body["web_search_options"] = json!({});
    }
    body
}

/// The sources that an answer names. Nothing if it is no answer.
pub(crate) fn read_sources(answer: &[u8]) -> Option<WebResults> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let message = answer.pointer("/choices/0/message")?;
    let text = message["content"].as_str().unwrap_or_default();
    let cited = message["annotations"].as_array().into_iter().flatten();
    let cited = cited.filter(|note| note["type"] == "url_citation");
    let mut seen = HashSet::new();
    let results = cited.filter_map(|note| {
        let source = note.get("url_citation").unwrap_or(note);
        let url = source["url"].as_str().filter(|url| url.starts_with("http"))?;
        let words = source["content"].as_str().filter(|words| !words.trim().is_empty());
        let snippet = words.map_or_else(|| cited_words(text, source), |words| short(words, 600));
        let title = short(source["title"].as_str().unwrap_or(url), 200);
        let result = WebResult { title, url: short(url, 2_000), snippet };
        seen.insert(result.url.clone()).then_some(result)
    });
    Some(WebResults { results: results.take(MOST).collect() })
}

/// The part of the answer that a source stands behind.
fn cited_words(text: &str, source: &Value) -> String {
    let place = |name: &str| source[name].as_u64().and_then(|at| usize::try_from(at).ok());
    let (Some(from), Some(to)) = (place("start_index"), place("end_index")) else {
        return String::new();
    };
    let words: String = text.chars().skip(from).take(to.saturating_sub(from)).collect();
    short(&words, 600)
}

fn short(text: &str, most: usize) -> String {
    text.trim().chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read_once_each_in_both_forms() {
        let answer = json!({"choices": [{"message": {
            "content": "Kubernetes 1.36 is out. See the notes.",
            "annotations": [
                {"type": "url_citation", "url_citation": {"url": "https://k8s.example/a", "title": "Notes",
                 "content": "1.36 brings …", "start_index": 0, "end_index": 23}},
                {"type": "url_citation", "url_citation": {"url": "https://k8s.example/a", "title": "Again"}},
                {"type": "url_citation", "url": "https://b.example/", "title": "B", "start_index": 0, "end_index": 23},
                {"type": "file", "file": {"name": "x"}},
                {"type": "url_citation", "url_citation": {"url": "javascript:alert(1)"}},
            ],
        }}]});
        let found = read_sources(answer.to_string().as_bytes()).unwrap().results;
        let told: Vec<_> =
            found.iter().map(|hit| (&*hit.title, &*hit.url, &*hit.snippet)).collect();
        assert_eq!(
            told,
            [
                ("Notes", "https://k8s.example/a", "1.36 brings …"),
                ("B", "https://b.example/", "Kubernetes 1.36 is out."),
            ]
        );
        let none = json!({"choices": [{"message": {"content": "I don't know."}}]});
        assert!(read_sources(none.to_string().as_bytes()).unwrap().results.is_empty());
        assert!(read_sources(b"[]").is_none());
    }

    #[test]
    fn each_api_is_asked_in_its_own_words() {
        let asked = |dialect, id| (can_search(dialect, id), search_request(dialect, id, "q"));
        let (can, body) = asked(ApiDialect::OpenRouter, "anthropic/claude-haiku-4.5");
        assert!(can && body["tools"][0]["type"] == "openrouter:web_search", "{body}");
        let (can, body) = asked(ApiDialect::OpenAi, "gpt-5-search-api");
        assert!(can && body.get("tools").is_none() && body["web_search_options"].is_object());
        assert!(!asked(ApiDialect::OpenAi, "gpt-5.6").0);
        assert!(!asked(ApiDialect::Plain, "qwen3").0);
    }
}
