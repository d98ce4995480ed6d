//! Checks what the API of one provider refuses, and for some of its models alone.

use serde_json::Value;

use super::catalogue::PlayedCatalogue;
use super::sign;

/// Families of OpenAI's models that think before they answer.
const THINKERS: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];
/// Google's word in place of the signature of a call that another model has made.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// True for models whose calls are signed by Google's API. `OpenRouter` passes signatures on as reasoning.
pub(super) fn signs_calls(catalogue: PlayedCatalogue, model: &str) -> bool {
    catalogue != PlayedCatalogue::OpenRouter && model.contains("gemini-3")
}

/// The words in which a model's API refuses a request that others take. `key` signs the calls.
pub(super) fn find_refusal(
    catalogue: PlayedCatalogue,
    request: &Value,
    key: &str,
) -> Option<String> {
    let model = request["model"].as_str().unwrap_or_default();
    if signs_calls(catalogue, model) {
        return find_unsigned(request, model, key);
    }
    if catalogue != PlayedCatalogue::OpenRouter && model.contains("deepseek-v4") {
        return find_unthought(request);
    }
    (catalogue == PlayedCatalogue::OpenAi).then(|| find_openai(request, model)).flatten()
}

fn find_openai(request: &Value, model: &str) -> Option<String> {
    let thinks =
        THINKERS.iter().any(|family| model.starts_with(family)) && !model.contains("-chat");
    let effort = request["reasoning_effort"].as_str();
    if !thinks {
        return effort
            .map(|_| "Unrecognized request argument supplied: reasoning_effort".to_owned());
    }
    if !request["max_tokens"].is_null() {
        let text = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                    'max_completion_tokens' instead.";
        return Some(text.to_owned());
    }
    let is_usual = |value: &Value| value.is_null() || value.as_f64() == Some(1.0);
    if let Some(name) = ["temperature", "top_p"].iter().find(|name| !is_usual(&request[**name])) {
        return Some(format!(
            "Unsupported value: '{name}' does not support {} with this model. Only the default (1) value is supported.",
            request[*name]
        ));
    }
    let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    // The newest think unless told otherwise.
    let thinks = effort.map_or(model.starts_with("gpt-6"), |effort| effort != "none");
    (has_tools && thinks && calls_without_thought(model)).then(|| {
        format!(
            "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. Please use \
             /v1/responses instead."
        )
    })
}

/// True for models that call functions in a chat only where they do not think: gpt-5.4 and later ones.
fn calls_without_thought(model: &str) -> bool {
    let minor = model.strip_prefix("gpt-5.").and_then(|rest| rest.split('-').next()?.parse().ok());
    model.starts_with("gpt-6") || minor.is_some_and(|minor: u32| minor >= 4)
}

/// DeepSeek's API wants reasoning in each answer of a conversation with tools, and takes an empty one for none.
fn find_unthought(request: &Value) -> Option<String> {
    let has_tools = request["tools"].as_array().is_some_and(|tools| !tools.is_empty());
    let messages = request["messages"].as_array()?.iter();
    let mut answers = messages.filter(|message| message["role"] == "assistant");
    let is_bare = |answer: &Value| answer["reasoning_content"].as_str().is_none_or(str::is_empty);
    (has_tools && answers.any(is_bare)).then(|| {
        "The `reasoning_content` in the thinking mode must be passed back to the API.".to_owned()
    })
}

/// The first call since somebody spoke that lacks its signature.
fn find_unsigned(request: &Value, model: &str, key: &str) -> Option<String> {
    let messages = request["messages"].as_array()?;
    let spoken = messages.iter().rposition(|message| message["role"] == "user");
    let later = messages.iter().enumerate().skip(spoken.unwrap_or(0));
    let mut calls = later.map(|(place, message)| (place, &message["tool_calls"][0]));
    calls.find_map(|(place, call)| {
        let name = call["function"]["name"].as_str()?;
        match call["extra_content"]["google"]["thought_signature"].as_str() {
            None => Some(format!(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to \
                 work correctly, and missing thought_signature may lead to degraded model performance. Additional \
                 data, function call `default_api:{name}`, position {place}."
            )),
            Some(signature) if signature == UNSIGNED => None,
            Some(signature) if signature == sign::sign_call(key, model, name) => None,
            Some(_) => Some("Thought signature is not valid.".to_owned()),
        }
    })
}
