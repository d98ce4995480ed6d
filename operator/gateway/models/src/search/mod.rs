//! Web search by a model's provider: a call of the role's whose answer names its sources. [`anthropic`] is the form of
//! Anthropic's own API, [`responses`] that of OpenAI's Responses API. Pure.

mod anthropic;
mod responses;

use std::collections::HashSet;

use codebutler_crds::wire::{WebResult, WebResults};
use serde_json::{Value, json};

use super::dialect::ApiDialect;
use super::prepare::RequestShape;
use super::request::{ForwardableRequest, RequestError};

/// Most results of a search.
const MOST: usize = 10;
/// Characters of a page that the model is shown.
const EXCERPT: usize = 800;
/// Longest answer, in tokens: ten sources with a sentence each, and the thoughts before.
const ANSWER: u32 = 4_000;
/// Characters of an excerpt.
const SNIPPET: usize = 600;

const CUT: &str =
    "the search's answer was cut off at its longest: sources are missing. Search for less at once";
const UNSEARCHED: &str = "the model answered without a search, so nothing of its answer is shown: nothing stands behind it. \
    Search with other words; if that happens again, a person has to name another model in spec.web.searchModel";
const UNNAMED: &str = "the web was searched, and no source was named: try other words";
const UNKNOWN: &str = "no source was named, so nothing of the answer is shown: nothing stands behind it. Try other words";

/// True for models that search the web by themselves at their API.
pub(crate) fn can_search(dialect: ApiDialect, id: &str) -> bool {
    match dialect {
        ApiDialect::OpenRouter => true,
        ApiDialect::OpenAi => id.contains("-search") || responses::can_search(id),
        ApiDialect::Anthropic => anthropic::can_search(id),
        ApiDialect::Azure | ApiDialect::Plain => false,
    }
}

/// API by which a model is asked to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchApi {
    /// A chat, in the words of OpenAI and those like it.
    Chat,
    /// Anthropic's messages.
    Messages,
    /// OpenAI's responses.
    Responses,
}

impl SearchApi {
    pub(crate) fn of(dialect: ApiDialect, id: &str) -> Self {
        match dialect {
            ApiDialect::Anthropic => Self::Messages,
            // Its search models are models of chats alone.
            ApiDialect::OpenAi if !id.contains("-search") => Self::Responses,
            _ => Self::Chat,
        }
    }

    /// Below the provider's base URL.
    pub(crate) const fn path(self) -> &'static [&'static str] {
        match self {
            Self::Chat => &["chat", "completions"],
            Self::Messages => &["messages"],
            Self::Responses => &["responses"],
        }
    }

    /// The body of a search for `model`, as the role calls it.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub(crate) fn body(
        self,
        request: &ForwardableRequest,
        model: &str,
        shape: &RequestShape<'_>,
    ) -> Result<Vec<u8>, RequestError> {
        match self {
            Self::Chat => request.body(model, shape),
            Self::Messages => anthropic::native_body(request, shape),
            Self::Responses => responses::native_body(request, shape),
        }
    }
}

/// Says what a person can set where no model of a role searches. `wanted` is the model that the Repo names for it, and
/// `dialects` are those of the role's models.
pub(crate) fn explain_unable(
    wanted: Option<&str>,
    role: &str,
    dialects: impl IntoIterator<Item = ApiDialect>,
) -> String {
    let way = if dialects.into_iter().any(|dialect| dialect == ApiDialect::OpenAi) {
        format!(
            "of OpenAI's models gpt-4.1, gpt-5 and newer ones search. A person puts one of them into spec.model.pool of \
             AgentRole `{role}`, or names a search service in spec.web.search of the Repo"
        )
    } else {
        format!(
            "a person has to name a search service in spec.web.search of the Repo, or a model of OpenRouter's or \
             Anthropic's in spec.model.pool of AgentRole `{role}`"
        )
    };
    match wanted {
        Some(wanted) => format!(
            "the model `{wanted}` of spec.web.searchModel is none of this role's, or can't search the web: {way}"
        ),
        None => format!(
            "no web search is to be had: none of this role's models can search, and neither the Repo nor the installation \
             (--search-provider) names a search service: {way}. Work with what you have, or ask a person to look it up"
        ),
    }
}

/// Way out where an organization has Anthropic's search switched off.
pub(crate) const SWITCH: &str =
    ". An administrator of the account switches web search on in the Claude Console, under Privacy";

/// True if a refusal in the provider's words speaks of its search tool.
pub(crate) fn is_switched_off(dialect: ApiDialect, said: &str) -> bool {
    let said = said.to_lowercase();
    let is_about_tool = said.contains("web search") || said.contains("web_search");
    dialect == ApiDialect::Anthropic && is_about_tool && said.contains("enabled")
}

/// The request that has `query` looked for by a model with this id, which the role calls `model`.
pub(crate) fn search_request((dialect, id): (ApiDialect, &str), model: &str, query: &str) -> Value {
    let task = format!(
        "Search the web, and list the sources that you found, one a line, each with one sentence on what it says. \
         Search for:\n{query}"
    );
    match SearchApi::of(dialect, id) {
        SearchApi::Messages => return anthropic::search_request(model, &task),
        SearchApi::Responses => return responses::search_request(model, &task),
        SearchApi::Chat => {}
    }
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

/// The sources that an answer names, and what is missing. Nothing if it is no answer.
pub(crate) fn read_sources(dialect: ApiDialect, answer: &[u8]) -> Option<WebResults> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    if answer["type"] == "message" {
        return anthropic::read_sources(&answer);
    }
    if responses::is_response(&answer) {
        return responses::read_sources(&answer);
    }
    let choice = answer.pointer("/choices/0")?;
    let message = choice.get("message")?;
    let results: Vec<WebResult> =
        cited_results(message, &mut HashSet::new()).into_iter().take(MOST).collect();
    let is_cut = choice["finish_reason"] == "length";
    let note = match (is_cut, results.is_empty()) {
        (true, _) => Some(CUT),
        (false, false) => None,
        (false, true) => Some(match count_searches(dialect, &answer["usage"]) {
            None => UNKNOWN,
            Some(0) => UNSEARCHED,
            Some(_) => UNNAMED,
        }),
    };
    Some(WebResults { results, note: note.map(ToOwned::to_owned) })
}

/// The pages that an answer in words cites, each once. `seen` are the addresses of those that are known.
fn cited_results(message: &Value, seen: &mut HashSet<String>) -> Vec<WebResult> {
    let text = CitedText::of(message);
    let results = text.cited.iter().filter_map(|source| {
        let url = source["url"].as_str().filter(|url| url.starts_with("http"))?;
        let url = without_tracking(url);
        let words = source["content"].as_str().filter(|words| !words.trim().is_empty());
        let snippet = words.map_or_else(|| text.words_for(source), ToOwned::to_owned);
        let title = source["title"].as_str().filter(|title| !title.trim().is_empty());
        let title = short(title.unwrap_or(&url), 200);
        let result =
            WebResult { title, url: short(&url, 2_000), snippet: short(&snippet, SNIPPET) };
        seen.insert(result.url.clone()).then_some(result)
    });
    results.collect()
}

/// Searches that the provider counts; None where it may have searched without a count, as OpenAI does.
fn count_searches(dialect: ApiDialect, usage: &Value) -> Option<u64> {
    // OpenRouter leaves out the count of a tool that was not used.
    told_searches(usage).or((dialect == ApiDialect::OpenRouter).then_some(0))
}

/// Searches that the provider counts; nothing where it does not say.
fn told_searches(usage: &Value) -> Option<u64> {
    let told = ["server_tool_use_details", "server_tool_use"].map(|name| &usage[name]);
    told.iter().filter_map(|one| one["web_search_requests"].as_u64()).max()
}

/// Searches that an answer is billed for: those that it counts, or the one that it was asked for.
pub(crate) fn billed_searches(answer: &[u8]) -> u64 {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    if responses::is_response(&answer) {
        return responses::count_searches(&answer);
    }
    told_searches(&answer["usage"]).unwrap_or(1)
}

/// An address without what tells its owner where a reader comes from.
fn without_tracking(url: &str) -> String {
    let (rest, fragment) = url.split_once('#').map_or((url, None), |(rest, end)| (rest, Some(end)));
    let Some((page, query)) = rest.split_once('?') else { return url.to_owned() };
    let kept: Vec<&str> = query.split('&').filter(|part| !part.starts_with("utm_")).collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    let fragment = fragment.map(|end| format!("#{end}")).unwrap_or_default();
    format!("{page}{query}{fragment}")
}

/// An answer in words, and the sources that it names in them.
struct CitedText<'a> {
    text: Vec<char>,
    cited: Vec<&'a Value>,
}

impl<'a> CitedText<'a> {
    fn of(message: &'a Value) -> Self {
        let text = message["content"].as_str().unwrap_or_default().chars().collect();
        let notes = message["annotations"].as_array().into_iter().flatten();
        let notes = notes.filter(|note| note["type"] == "url_citation");
        let cited = notes.map(|note| note.get("url_citation").unwrap_or(note)).collect();
        Self { text, cited }
    }

    fn place(&self, source: &Value) -> Option<(usize, usize)> {
        let index = |name: &str| source[name].as_u64().and_then(|at| usize::try_from(at).ok());
        let (from, to) = (index("start_index")?, index("end_index")?);
        (from < to && to <= self.text.len()).then_some((from, to))
    }

    /// The part of the answer that a source stands behind: where only its link is marked, the words before that link,
    /// back to the link before it, or else the rest of its line.
    fn words_for(&self, source: &Value) -> String {
        let Some((from, to)) = self.place(source) else { return String::new() };
        let marked: String = self.text[from..to].iter().collect();
        if !is_link(&marked) {
            return marked;
        }
        let is_end = |c: &char| *c == '\n';
        let line = self.text[..from].iter().rposition(is_end).map_or(0, |at| at + 1);
        let others = self.cited.iter().filter_map(|other| self.place(other));
        let last = others.map(|(_, end)| end).filter(|end| (line..=from).contains(end)).max();
        let before = plain_words(&self.text[last.unwrap_or(line)..from]);
        if before.chars().filter(|c| c.is_alphanumeric()).count() >= FEW {
            // Of a long text, the part nearest to the link counts.
            let cut = before.chars().count().saturating_sub(SNIPPET);
            return before.chars().skip(cut).collect();
        }
        let end = self.text[to..].iter().position(is_end).map_or(self.text.len(), |at| to + at);
        let whole = format!("{before} {}", plain_words(&self.text[to..end]));
        whole.trim().to_owned()
    }
}

/// Letters that are no sentence yet.
const FEW: usize = 12;

/// True for what is but a link: `([site](https://…))`, or an address.
fn is_link(marked: &str) -> bool {
    let bare = marked.trim().trim_start_matches('(').trim_start();
    (bare.starts_with('[') && bare.contains("](")) || bare.starts_with("http")
}

/// Words without the marks of a list and what is left of a link beside them.
fn plain_words(text: &[char]) -> String {
    let text: String = text.iter().collect();
    let mark = |c: char| c.is_whitespace() || "-*•()[];,.".contains(c);
    let text = text.trim_start_matches(mark).trim_end().trim_end_matches(['(', '[']);
    text.replace("**", "").trim().to_owned()
}

fn short(text: &str, most: usize) -> String {
    text.trim().chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: ApiDialect = ApiDialect::OpenRouter;

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
        let found = read_sources(ROUTER, answer.to_string().as_bytes()).unwrap().results;
        let told: Vec<_> =
            found.iter().map(|hit| (&*hit.title, &*hit.url, &*hit.snippet)).collect();
        assert_eq!(
            told,
            [
                ("Notes", "https://k8s.example/a", "1.36 brings …"),
                ("B", "https://b.example/", "Kubernetes 1.36 is out."),
            ]
        );
        assert!(read_sources(ROUTER, b"[]").is_none());
    }

    #[test]
    fn what_the_provider_counts_is_billed_and_else_the_one_that_was_asked_for() {
        let usage = |usage: Value| billed_searches(json!({"usage": usage}).to_string().as_bytes());
        assert_eq!(usage(json!({"server_tool_use": {"web_search_requests": 2}})), 2);
        assert_eq!(usage(json!({"server_tool_use": {"web_search_requests": 0}})), 0);
        assert_eq!(usage(json!({"server_tool_use": null})), 1);
        assert_eq!(usage(json!({})), 1);
    }

    #[test]
    fn an_answer_without_a_search_is_told_from_one_that_found_nothing() {
        let read_as = |dialect, answer: Value| {
            let found = read_sources(dialect, answer.to_string().as_bytes()).unwrap();
            (found.results.len(), found.note.unwrap_or_default())
        };
        let read = |answer: Value| read_as(ROUTER, answer);
        let says = |usage: Value, reason: &str, annotations: Value| {
            let message = json!({"content": "Kubernetes 1.36 is out.", "annotations": annotations});
            json!({"choices": [{"message": message, "finish_reason": reason}], "usage": usage})
        };
        let one = json!([{"type": "url_citation", "url": "https://b.example/"}]);
        assert_eq!(read(says(json!({}), "stop", json!([]))), (0, UNSEARCHED.to_owned()));
        let unasked = json!({"server_tool_use_details": {"web_search_requests": 0}});
        assert_eq!(read(says(unasked, "stop", json!(null))), (0, UNSEARCHED.to_owned()));
        let asked = json!({"server_tool_use_details": {"web_search_requests": 1}});
        assert_eq!(read(says(asked.clone(), "stop", json!([]))), (0, UNNAMED.to_owned()));
        assert_eq!(read(says(asked.clone(), "stop", one.clone())), (1, String::new()));
        assert_eq!(read(says(asked.clone(), "length", one)), (1, CUT.to_owned()));
        // OpenAI's search models always search, and count nothing.
        let openai = |usage| read_as(ApiDialect::OpenAi, says(usage, "stop", json!([])));
        assert_eq!(openai(json!({"total_tokens": 7})), (0, UNKNOWN.to_owned()));
        assert_eq!(openai(asked), (0, UNNAMED.to_owned()));
    }

    #[test]
    fn an_excerpt_is_what_the_source_stands_behind_and_not_its_link() {
        let link = |site: &str| format!("([{site}](https://{site}/p?id=7&utm_source=openai))");
        let text = format!(
            "Two releases matter.\n- **Notes**: version 1.36 drops the old API. {} It is out since May. {}\n\
             3. {} – The guide says how to move.\n",
            link("k8s.example"),
            link("b.example"),
            link("c.example")
        );
        let cite = |site: &str| {
            let words = link(site);
            let at = text[..text.find(&words).unwrap()].chars().count();
            json!({"type": "url_citation", "url_citation": {"url": format!("https://{site}/p?id=7&utm_source=openai#top"),
                "title": "", "start_index": at, "end_index": at + words.chars().count()}})
        };
        let annotations = ["k8s.example", "b.example", "c.example"].map(cite);
        let answer =
            json!({"choices": [{"message": {"content": text, "annotations": annotations}}]});
        let found =
            read_sources(ApiDialect::OpenAi, answer.to_string().as_bytes()).unwrap().results;
        let told: Vec<_> = found.iter().map(|hit| (&*hit.url, &*hit.snippet)).collect();
        assert_eq!(
            told,
            [
                ("https://k8s.example/p?id=7#top", "Notes: version 1.36 drops the old API."),
                ("https://b.example/p?id=7#top", "It is out since May."),
                ("https://c.example/p?id=7#top", "3. – The guide says how to move."),
            ]
        );
        assert_eq!(found[0].title, found[0].url);
        assert_eq!(without_tracking("https://a.b/?utm_source=openai"), "https://a.b/");
        assert_eq!(without_tracking("https://a.b/x?a=utm_"), "https://a.b/x?a=utm_");
    }

    #[test]
    fn who_has_no_model_that_searches_hears_what_to_set_for_its_provider() {
        let unable = |wanted, dialect| explain_unable(wanted, "coder", [dialect]);
        let openai = unable(None, ApiDialect::OpenAi);
        for part in ["gpt-4.1, gpt-5", "spec.model.pool of AgentRole `coder`", "spec.web.search"] {
            assert!(openai.contains(part), "{part}: {openai}");
        }
        let wanted = unable(Some("gpt-3.5"), ApiDialect::OpenAi);
        assert!(wanted.starts_with("the model `gpt-3.5` of spec.web.searchModel"), "{wanted}");
        assert!(wanted.contains("gpt-4.1, gpt-5"), "{wanted}");
        let plain = unable(None, ApiDialect::Plain);
        assert!(plain.contains("spec.web.search of the Repo"), "{plain}");
        assert!(!plain.contains("OpenAI"), "{plain}");
    }

    #[test]
    fn each_api_is_asked_in_its_own_words() {
        let asked = |dialect, id| (can_search(dialect, id), search_request((dialect, id), id, "q"));
        let (can, body) = asked(ApiDialect::OpenRouter, "anthropic/claude-haiku-4.5");
        assert!(can && body["tools"][0]["type"] == "openrouter:web_search", "{body}");
        let (can, body) = asked(ApiDialect::OpenAi, "gpt-5-search-api");
        assert!(can && body.get("tools").is_none() && body["web_search_options"].is_object());
        let (can, body) = asked(ApiDialect::Anthropic, "claude-haiku-4-5");
        assert!(can && body["tools"][0]["type"] == "web_search_20250305", "{body}");
        assert_eq!(body["tools"][0]["max_uses"], 1);
        let (can, body) = asked(ApiDialect::OpenAi, "gpt-5.6");
        assert!(
            can && body["tools"][0]["type"] == "web_search" && body["input"].is_string(),
            "{body}"
        );
        assert_eq!(SearchApi::of(ApiDialect::OpenAi, "gpt-5.6").path(), ["responses"]);
        assert!(!asked(ApiDialect::OpenAi, "gpt-3.5-turbo").0);
        assert!(!asked(ApiDialect::Plain, "qwen3").0);
    }
}
