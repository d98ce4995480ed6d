//! Checks the shape of a whole request as the strictest real providers do: which parameters go together, who speaks
//! last, that everybody says something, and in parts of which kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::validate::{InvalidCall, invalid_request};

/// Most tools of a request, as OpenAI has it.
const TOOLS: usize = 128;
/// Longest name of a tool in a call.
const NAME: usize = 64;
/// Kinds of parts in the message of a person. All others have text alone.
const PARTS: [&str; 5] = ["text", "image_url", "input_audio", "video_url", "file"];
/// Media types of pictures that every provider takes.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/// Words that OpenAI and Anthropic refuse at the top of a tool's schema.
const NOT_AT_TOP: [&str; 5] = ["anyOf", "oneOf", "allOf", "enum", "not"];

/// Checks a request that is well-formed.
pub(super) fn check_shape(request: &Value) -> Result<(), InvalidCall> {
    check_parameters(request)?;
    check_tools(list_items(&request["tools"]))?;
    let messages = list_items(&request["messages"]);
    let mut ids = HashSet::new();
    for (n, message) in messages.iter().enumerate() {
        check_content(n, message)?;
        check_calls(n, message, &mut ids)?;
    }
    check_turns(messages)
}

fn list_items(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn check_parameters(request: &Value) -> Result<(), InvalidCall> {
    let has = |name: &str| !request[name].is_null();
    for name in ["tool_choice", "parallel_tool_calls"] {
        if has(name) && !has("tools") {
            let text =
                format!("Invalid value for '{name}': only allowed when 'tools' are specified.");
            return invalid_request(name, text);
        }
    }
    if has("stream_options") && request["stream"] != true {
        let text = "The 'stream_options' parameter is only allowed when 'stream' is enabled.";
        return invalid_request("stream_options", text);
    }
    if has("max_tokens") && has("max_completion_tokens") {
        let text =
            "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.";
        return invalid_request("max_tokens", text);
    }
    for name in ["max_tokens", "max_completion_tokens"] {
        if has(name) && request[name].as_u64().is_none_or(|tokens| tokens == 0) {
            let text = format!("Invalid '{name}': expected an integer of at least 1.");
            return invalid_request(name, text);
        }
    }
    Ok(())
}

fn check_tools(tools: &[Value]) -> Result<(), InvalidCall> {
    if tools.len() > TOOLS {
        let text = format!(
            "Invalid 'tools': array too long. Expected an array with maximum length {TOOLS}, but got an array with \
             length {} instead.",
            tools.len()
        );
        return invalid_request("tools", text);
    }
    for (n, tool) in tools.iter().enumerate() {
        let schema = &tool["function"]["parameters"];
        if let Some(word) = NOT_AT_TOP.iter().find(|word| schema.get(word).is_some()) {
            let param = format!("tools.{n}.custom.input_schema");
            let text = format!("{param}: input_schema does not support {word} at the top level");
            return invalid_request(param, text);
        }
    }
    Ok(())
}

fn check_content(n: usize, message: &Value) -> Result<(), InvalidCall> {
    let (role, content) = (&message["role"], &message["content"]);
    let param = format!("messages.{n}.content");
    let is_blank = |text: &str| text.trim().is_empty();
    let is_silent = match content {
        Value::String(text) => is_blank(text),
        Value::Array(parts) => {
            for part in parts {
                check_part(role, part, &param)?;
            }
            parts.is_empty() || parts.iter().any(|part| part["text"].as_str().is_some_and(is_blank))
        }
        _ => false,
    };
    let calls = role == "assistant" && !list_items(&message["tool_calls"]).is_empty();
    if is_silent && !calls {
        let text = format!("{param}: text content blocks must be non-empty");
        return invalid_request(param, text);
    }
    Ok(())
}

fn check_part(role: &Value, part: &Value, param: &str) -> Result<(), InvalidCall> {
    let kind = part["type"].as_str().unwrap_or_default();
    let is_known = match role.as_str() {
        Some("user") => PARTS.contains(&kind),
        Some("assistant") => kind == "text" || kind == "refusal",
        _ => kind == "text",
    };
    if !is_known {
        let text = format!("Invalid value: '{kind}'. Supported values are: 'text'. ({param})");
        return invalid_request(param, text);
    }
    if kind != "image_url" {
        return Ok(());
    }
    let url = part["image_url"]["url"].as_str().unwrap_or_default();
    let data = url.strip_prefix("data:").map(|rest| rest.split_once(";base64,"));
    let is_picture = match data {
        Some(Some((kind, data))) => PICTURES.contains(&kind) && !data.is_empty(),
        Some(None) => false,
        None => url.starts_with("http"),
    };
    if is_picture {
        return Ok(());
    }
    let text = "You uploaded an unsupported image. Please make sure your image has of one the following formats: \
                ['png', 'jpeg', 'gif', 'webp'].";
    invalid_request(param, text)
}

fn check_calls<'a>(
    n: usize,
    message: &'a Value,
    ids: &mut HashSet<&'a str>,
) -> Result<(), InvalidCall> {
    for (at, call) in list_items(&message["tool_calls"]).iter().enumerate() {
        let param = format!("messages[{n}].tool_calls[{at}]");
        let is_custom = call["custom"].is_object();
        let function = if is_custom { &call["custom"] } else { &call["function"] };
        let name = function["name"].as_str().unwrap_or_default();
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > NAME || !name.bytes().all(is_letter) {
            let text = format!(
                "Invalid '{param}.function.name': string does not match pattern. Expected a string that matches the \
                 pattern '^[a-zA-Z0-9_-]+$'."
            );
            return invalid_request(param, text);
        }
        let arguments = function["arguments"].as_str().unwrap_or_default();
        let read = serde_json::from_str::<Value>(arguments).unwrap_or_default();
        if !is_custom && !read.is_object() {
            let text = format!("{param}: Failed to parse tool call arguments as JSON: `{name}`");
            return invalid_request(param, text);
        }
        if !ids.insert(call["id"].as_str().unwrap_or_default()) {
            let text = format!("messages.{n}.content.{at}: `tool_use` ids must be unique");
            return invalid_request(param, text);
        }
    }
    Ok(())
}

fn check_turns(messages: &[Value]) -> Result<(), InvalidCall> {
    let instructs = |message: &Value| message["role"] == "system" || message["role"] == "developer";
    let said = messages.iter().skip_while(|message| instructs(message));
    if said.clone().any(instructs) {
        return invalid_request("messages", "System message must be at the beginning.");
    }
    match said.last() {
        None => invalid_request("messages", "messages: at least one message is required"),
        Some(last) if last["role"] == "assistant" => {
            let text = "This model does not support assistant message prefill. The conversation must end with a user \
                        message.";
            invalid_request("messages", text)
        }
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(body: &Value) -> String {
        check_shape(body).err().map(|refused| refused.message).unwrap_or_default()
    }

    fn of_messages(messages: &Value) -> String {
        refusal(&json!({"messages": messages}))
    }

    fn user() -> Value {
        json!({"role": "user", "content": "x"})
    }

    #[test]
    fn parameters_that_go_together_are_wanted_together() {
        let tools = json!([{"type": "function", "function": {"name": "Read"}}]);
        for (fields, said) in [
            (json!({"tool_choice": "auto", "tools": tools}), ""),
            (json!({"tool_choice": "none"}), "when 'tools' are specified"),
            (json!({"stream": true, "stream_options": {}}), ""),
            (json!({"stream_options": {"include_usage": true}}), "when 'stream' is enabled"),
            (json!({"max_tokens": 1}), ""),
            (json!({"max_tokens": 0}), "at least 1"),
            (json!({"max_completion_tokens": "9"}), "at least 1"),
            (json!({"max_tokens": 1, "max_completion_tokens": 1}), "at the same time"),
        ] {
            let mut body = json!({"messages": [user()]});
            body.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            let message = refusal(&body);
            assert_eq!(message.is_empty(), said.is_empty(), "{body}: {message}");
            assert!(message.contains(said), "{body}: {message}");
        }
    }

    #[test]
    fn tools_are_not_too_many_and_objects_at_the_top() {
        let tool = |schema: Value| json!({"type": "function", "function": {"name": "Read", "parameters": schema}});
        let of = |tools: Vec<Value>| refusal(&json!({"messages": [user()], "tools": tools}));
        let plain = tool(json!({"type": "object", "properties": {"a": {"anyOf": []}}}));
        assert_eq!(of(vec![plain.clone(); TOOLS]), "");
        assert!(of(vec![plain; TOOLS + 1]).contains("with length 129"));
        for word in NOT_AT_TOP {
            let message = of(vec![tool(json!({"type": "object", word: []}))]);
            assert!(message.contains("at the top level"), "{message}");
        }
    }

    #[test]
    fn everybody_says_something_in_parts_of_their_own() {
        let part = |kind: &str, url: &str| json!([{"type": kind, kind: {"url": url}}]);
        let png = "data:image/png;base64,AA==";
        for (role, content, said) in [
            ("user", json!("x"), ""),
            ("user", json!(" \n"), "must be non-empty"),
            ("user", json!([]), "must be non-empty"),
            ("user", json!([{"type": "text", "text": ""}]), "must be non-empty"),
            ("user", part("image_url", png), ""),
            ("user", part("image_url", "data:image/svg+xml;base64,AA=="), "unsupported image"),
            ("user", part("image_url", "data:image/png;base64,"), "unsupported image"),
            ("user", part("image_url", "iVBORw0K"), "unsupported image"),
            ("user", part("thinking", ""), "'thinking'"),
            ("system", json!(""), "must be non-empty"),
            ("system", part("image_url", png), "'image_url'"),
            ("assistant", json!(""), "must be non-empty"),
            ("assistant", part("image_url", png), "'image_url'"),
        ] {
            let messages = json!([{"role": role, "content": content}, user()]);
            let message = of_messages(&messages);
            assert_eq!(message.is_empty(), said.is_empty(), "{messages}: {message}");
            assert!(message.contains(said), "{messages}: {message}");
        }
        let result = json!({"role": "tool", "tool_call_id": "a", "content": ""});
        assert!(of_messages(&json!([user(), result])).contains("must be non-empty"));
    }

    #[test]
    fn calls_have_plain_names_whole_arguments_and_ids_of_their_own() {
        let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
        let of = |calls: Vec<Value>| {
            let said = json!({"role": "assistant", "content": "", "tool_calls": calls});
            of_messages(&json!([user(), said, user()]))
        };
        assert_eq!(of(vec![call("a", "Read", "{}"), call("b", "Read", "{}")]), "");
        assert!(of(vec![call("a", "look up", "{}")]).contains("does not match pattern"));
        assert!(of(vec![call("a", "", "{}")]).contains("does not match pattern"));
        assert!(of(vec![call("a", "Read", "{\"pa")]).contains("Failed to parse"));
        assert!(of(vec![call("a", "Read", "[]")]).contains("Failed to parse"));
        assert!(of(vec![call("a", "Read", "{}"), call("a", "Read", "{}")]).contains("unique"));
        let free = json!({"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "*** Begin"}});
        assert_eq!(of(vec![free]), "");
    }

    #[test]
    fn a_person_or_a_tool_speaks_last_and_instructions_come_first() {
        let system = json!({"role": "system", "content": "s"});
        let said = json!({"role": "assistant", "content": "a"});
        assert_eq!(of_messages(&json!([system, user(), said, user()])), "");
        for (messages, words) in [
            (json!([user(), said]), "must end with a user message"),
            (json!([user(), system]), "at the beginning"),
            (json!([system]), "at least one message"),
        ] {
            let message = of_messages(&messages);
            assert!(message.contains(words), "{messages}: {message}");
        }
    }
}
