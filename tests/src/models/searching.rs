//! `OpenRouter`'s search of the web: a chat with its server tool is answered with the pages of the options that have a
//! word of the query, cited as there. The account pays for the search beside the tokens.

use axum::response::Response;
use serde_json::{Value, json};

use super::SharedModels;
use super::catalogue::PlayedCatalogue;
use super::media::{bill_role, model_role};
use super::respond::{error_response, json_text};
use super::strict;

const TOOL: &str = "openrouter:web_search";
/// Parameters of the tool; any other is refused.
const PARAMETERS: [&str; 9] = [
    "allowed_domains",
    "engine",
    "excluded_domains",
    "max_characters",
    "max_results",
    "max_total_results",
    "max_uses",
    "search_context_size",
    "user_location",
];
/// Cost of a search with the tokens around it, in USD, as text.
const SEARCHED: &str = "0.0052";
/// Letters from which on a word of the query counts.
const WORD: usize = 4;

/// A page that searches find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchedPage {
    /// Address of the page.
    pub url: String,
    /// Title of the page.
    pub title: String,
    /// Excerpt that a search shows.
    pub excerpt: String,
}

impl SearchedPage {
    fn has_word_of(&self, query: &str) -> bool {
        let text = format!("{} {}", self.title, self.excerpt).to_lowercase();
        let query = query.to_lowercase();
        let mut words = query.split(|c: char| !c.is_alphanumeric());
        words.any(|word| word.chars().count() >= WORD && text.contains(word))
    }
}

/// The answer to a chat with the server tool; nothing if it has none.
pub(super) fn answer_search(shared: &SharedModels, request: &Value) -> Option<Response> {
    let tools = request["tools"].as_array()?;
    let tool = tools.iter().find(|tool| tool["type"] == TOOL)?;
    let query = match read_query(shared, request, tool) {
        Ok(query) => query,
        Err(error) => return Some(error_response(400, &error.to_string())),
    };
    let model = request["model"].as_str().unwrap_or_default();
    let role = shared.card(model).map_or_else(|| model_role(&request["model"]), |card| card.role);
    bill_role(shared, &role, SEARCHED.parse().unwrap_or_default());
    let pages = shared.options.pages.iter().filter(|page| page.has_word_of(&query));
    let (mut text, mut annotations) = (String::new(), Vec::new());
    for SearchedPage { url, title, excerpt } in pages {
        let from = text.chars().count();
        let line = format!("{title}: {excerpt}");
        text.push_str(&line);
        let citation = json!({"url": url, "title": title, "content": excerpt, "start_index": from,
            "end_index": text.chars().count()});
        annotations.push(json!({"type": "url_citation", "url_citation": citation}));
        text.push('\n');
    }
    let message =
        json!({"role": "assistant", "content": text, "refusal": null, "annotations": annotations});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop", "native_finish_reason": "stop"});
    // The cost is inserted as text, to keep its exact digits.
    let usage = json!({"prompt_tokens": 1_900, "completion_tokens": 60, "total_tokens": 1_960, "cost": "COST",
        "server_tool_use_details": {"web_search_requests": 1}});
    let id = format!("gen-{}", uuid::Uuid::new_v4().simple());
    let answer = json!({"id": id, "object": "chat.completion", "created": 1_700_000_000, "model": model,
        "provider": "Testbed", "choices": [choice], "usage": usage});
    Some(json_text(answer.to_string().replace("\"COST\"", SEARCHED)))
}

/// A request can't be searched for, in the provider's words.
#[derive(Debug, thiserror::Error)]
enum QueryError {
    #[error("Invalid value: 'openrouter:web_search'. Supported values are: 'function'.")]
    NoTool,
    #[error("tools.parameters.{0}: Unrecognized key")]
    Parameter(String),
    /// It is not what a strict provider takes.
    #[error("{0}")]
    Invalid(String),
    #[error("messages: Required")]
    NoMessages,
}

/// The words that a request has the model look for.
fn read_query(shared: &SharedModels, request: &Value, tool: &Value) -> Result<String, QueryError> {
    if shared.options.catalogue != PlayedCatalogue::OpenRouter {
        return Err(QueryError::NoTool);
    }
    let mut parameters = tool["parameters"].as_object().into_iter().flatten();
    if let Some((name, _)) = parameters.find(|(name, _)| !PARAMETERS.contains(&name.as_str())) {
        return Err(QueryError::Parameter(name.clone()));
    }
    if shared.options.strict {
        let checked = strict::check_strictly(request, &shared.options.api_key);
        checked.map_err(|invalid| QueryError::Invalid(invalid.message))?;
    }
    let said = request["messages"].as_array().and_then(|all| all.last());
    let said =
        said.and_then(|message| message["content"].as_str()).ok_or(QueryError::NoMessages)?;
    Ok(said.split_once("Search for:\n").map_or(said, |(_, query)| query).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_a_word_of_some_length() {
        let page = SearchedPage {
            url: "https://docs.paylane.example/webhooks".to_owned(),
            title: "Webhooks".to_owned(),
            excerpt: "When an event is sent again.".to_owned(),
        };
        assert!(page.has_word_of("paylane WEBHOOKS retry"));
        assert!(!page.has_word_of("is an old invoice"));
    }
}
