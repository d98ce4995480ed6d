//! Strict checks: what at least one real provider refuses, though lenient ones let it pass.

use serde_json::Value;

use super::sign;
use super::validate::{InvalidCall, invalid_request};

/// Fields that `OpenRouter` documents and acts on. `usage` is none of them any more, and strict
/// providers refuse it.
const FIELDS: [&str; 35] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "max_completion_tokens",
    "temperature",
    "top_p",
    "top_k",
    "top_a",
    "min_p",
    "seed",
    "stop",
    "stream",
    "stream_options",
    "reasoning",
    "reasoning_effort",
    "provider",
    "session_id",
    "prompt_cache_key",
    "user",
    "metadata",
    "response_format",
    "structured_outputs",
    "cache_control",
    "modalities",
    "image_config",
    "n",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
];
/// Fields that a message may have.
const MESSAGE: [&str; 11] = [
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "refusal",
    "reasoning",
    "reasoning_content",
    "reasoning_details",
    "annotations",
    "audio",
];
/// Fields that a call may have.
const CALL: [&str; 5] = ["id", "type", "index", "function", "custom"];
/// Longest id of a tool call, in bytes.
const LONGEST_ID: usize = 64;
/// Most cache marks in a request.
const MARKS: usize = 4;

/// Checks a well-formed request. `key` signs the reasoning blocks.
pub(super) fn check_strictly(request: &Value, key: &str) -> Result<(), InvalidCall> {
    let fields = request.as_object().into_iter().flatten();
    if let Some((name, _)) = fields.into_iter().find(|(name, _)| !FIELDS.contains(&name.as_str())) {
        return invalid_request(name, format!("Unrecognized request argument supplied: {name}"));
    }
    let model = request["model"].as_str().unwrap_or_default();
    for (n, message) in list_items(&request["messages"]).iter().enumerate() {
        message_fields(n, message)?;
        call_fields(n, message, model)?;
        check_ids(n, message)?;
        check_thoughts(n, message, model, key)?;
    }
    check_marks(request)
}

fn list_items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn message_fields(n: usize, message: &Value) -> Result<(), InvalidCall> {
    let mut fields = message.as_object().into_iter().flatten();
    match fields.find(|(name, value)| !MESSAGE.contains(&name.as_str()) && !value.is_null()) {
        Some((name, _)) => {
            let param = format!("messages.{n}.{name}");
            invalid_request(&param, format!("{param}: Extra inputs are not permitted"))
        }
        None => Ok(()),
    }
}

/// Signatures go to the model that made them: others know no such field.
fn call_fields(n: usize, message: &Value, model: &str) -> Result<(), InvalidCall> {
    let is_known = |name: &str| {
        CALL.contains(&name) || (name == "extra_content" && model.contains("gemini-3"))
    };
    for (at, call) in list_items(&message["tool_calls"]).iter().enumerate() {
        let mut fields = call.as_object().into_iter().flatten();
        if let Some((name, _)) = fields.find(|(name, _)| !is_known(name.as_str())) {
            let param = format!("messages.{n}.tool_calls.{at}.{name}");
            return invalid_request(&param, format!("{param}: Extra inputs are not permitted"));
        }
    }
    Ok(())
}

fn check_ids(n: usize, message: &Value) -> Result<(), InvalidCall> {
    let called = list_items(&message["tool_calls"]).iter().map(|call| &call["id"]);
    for (at, id) in called.chain([&message["tool_call_id"]]).enumerate() {
        let Some(id) = id.as_str() else { continue };
        let param = format!("messages.{n}.content.{at}.tool_use.id");
        if id.len() > LONGEST_ID {
            let text = format!(
                "Invalid 'messages[{n}].tool_calls[{at}].id': string too long. Expected a string with \
                 maximum length {LONGEST_ID}, but got a string with length {} instead.",
                id.len()
            );
            return invalid_request(param, text);
        }
        let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if !id.bytes().all(valid) {
            let text = format!("{param}: String should match pattern '^[a-zA-Z0-9_-]+$'");
            return invalid_request(param, text);
        }
    }
    Ok(())
}

fn check_thoughts(n: usize, message: &Value, model: &str, key: &str) -> Result<(), InvalidCall> {
    let mut blocks = list_items(&message["reasoning_details"]).iter().enumerate();
    match blocks.find(|(_, block)| !sign::is_own(key, model, block)) {
        Some((at, _)) => {
            let param = format!("messages.{n}.content.{at}");
            invalid_request(&param, format!("{param}: Invalid `signature` in `thinking` block"))
        }
        None => Ok(()),
    }
}

/// Checks cache marks: they stand at the top or on a part of a message's content, and on nothing empty.
fn check_marks(request: &Value) -> Result<(), InvalidCall> {
    let mut count = 0;
    let mut check = |mark: &Value, param: &str| {
        if mark.is_null() {
            return Ok(());
        }
        count += 1;
        let life = mark["ttl"].as_str().is_none_or(|ttl| ttl == "5m" || ttl == "1h");
        if mark["type"] == "ephemeral" && life {
            return Ok(());
        }
        invalid_request(param, format!("{param}.cache_control: Input should be 'ephemeral'"))
    };
    check(&request["cache_control"], "")?;
    for (n, message) in list_items(&request["messages"]).iter().enumerate() {
        for (at, part) in list_items(&message["content"]).iter().enumerate() {
            let param = format!("messages.{n}.content.{at}");
            check(&part["cache_control"], &param)?;
            let empty = part["text"].as_str().is_some_and(str::is_empty);
            if empty && !part["cache_control"].is_null() {
                let text = format!("{param}: cache_control cannot be set for empty text blocks");
                return invalid_request(param, text);
            }
        }
        for (at, call) in list_items(&message["tool_calls"]).iter().enumerate() {
            find_misplaced(call, &format!("messages.{n}.tool_calls.{at}"))?;
        }
    }
    for (n, tool) in list_items(&request["tools"]).iter().enumerate() {
        find_misplaced(tool, &format!("tools.{n}"))?;
    }
    if count > MARKS {
        let text = format!(
            "A maximum of {MARKS} blocks with cache_control may be provided. Found {count}."
        );
        return invalid_request("messages", text);
    }
    Ok(())
}

fn find_misplaced(value: &Value, param: &str) -> Result<(), InvalidCall> {
    let there = [&value["cache_control"], &value["function"]["cache_control"]];
    if there.iter().all(|mark| mark.is_null()) {
        return Ok(());
    }
    invalid_request(param, format!("{param}.cache_control: Extra inputs are not permitted"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(message: &Value) -> String {
        let body = json!({"model": "a/one", "messages": [message]});
        check_strictly(&body, "k").err().map(|e| e.message).unwrap_or_default()
    }

    #[test]
    fn fields_that_nobody_knows_are_refused() {
        for field in ["usage", "provider_options", "models"] {
            let mut body = json!({"model": "a/one", "messages": []});
            body[field] = json!({});
            assert!(check_strictly(&body, "k").unwrap_err().message.contains(field));
        }
        let body = json!({"model": "m", "messages": [], "session_id": "x", "provider": {},
            "max_tokens": 1, "reasoning": {"effort": "low"}});
        assert_eq!(check_strictly(&body, "k"), Ok(()));
        assert!(
            refusal(
                &json!({"role": "user", "content": "x", "cache_control": {"type": "ephemeral"}})
            )
            .contains("messages.0.cache_control: Extra inputs")
        );
    }

    #[test]
    fn ids_have_few_characters_and_few_of_them() {
        let call =
            |id: &str| json!({"role": "assistant", "content": null, "tool_calls": [{"id": id}]});
        assert_eq!(refusal(&call("call_a-1")), "");
        assert!(refusal(&call("functions.Grep:0")).contains("should match pattern"));
        assert!(refusal(&call(&"x".repeat(65))).contains("with length 65"));
        assert!(refusal(&json!({"role": "tool", "tool_call_id": "a b"})).contains("pattern"));
    }

    #[test]
    fn thoughts_go_back_to_their_own_model_unchanged() {
        let thought = |model: &str| {
            json!({"role": "assistant", "content": "x",
                "reasoning_details": [sign::thought_block("k", model, "hm")]})
        };
        assert_eq!(refusal(&thought("a/one")), "");
        let wrong = refusal(&thought("a/two"));
        assert_eq!(wrong, "messages.0.content.0: Invalid `signature` in `thinking` block");
    }

    #[test]
    fn at_most_four_marks_and_only_on_parts_that_say_something() {
        let part = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
        let message = |count| json!({"role": "user", "content": vec![part.clone(); count]});
        assert_eq!(refusal(&message(4)), "");
        assert!(refusal(&message(5)).contains("Found 5"));
        let empty = json!({"type": "text", "text": "", "cache_control": {"type": "ephemeral"}});
        let wrong = refusal(&json!({"role": "user", "content": [empty]}));
        assert!(wrong.contains("empty text blocks"), "{wrong}");
        let body = json!({"model": "m", "messages": [], "tools": [{"cache_control": {}}]});
        assert!(check_strictly(&body, "k").unwrap_err().message.contains("tools.0.cache_control"));
    }
}
