//! Checks requests as OpenAI's API does, so that a client that is wrong there is refused here.

use std::collections::BTreeSet;

use serde_json::Value;

/// Refusal of a request with status 400.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InvalidCall {
    pub message: String,
    pub param: String,
}

pub(super) fn invalid_request<T>(
    param: impl Into<String>,
    message: impl Into<String>,
) -> Result<T, InvalidCall> {
    Err(InvalidCall { message: message.into(), param: param.into() })
}

/// Checks a request to `/chat/completions`. `free`: true if tools may take free text, as in OpenAI's own API.
pub(super) fn check_request(request: &Value, free: bool) -> Result<(), InvalidCall> {
    if !request.is_object() {
        return invalid_request("", "We could not parse the JSON body of your request.");
    }
    if request["model"].as_str().is_none_or(str::is_empty) {
        return invalid_request("model", "you must provide a model parameter");
    }
    if !matches!(request["stream"], Value::Null | Value::Bool(_)) {
        return invalid_request("stream", "Invalid type for 'stream': expected a boolean.");
    }
    let Some(messages) = request["messages"].as_array() else {
        return invalid_request("messages", "Missing required parameter: 'messages'.");
    };
    if messages.is_empty() {
        let message = "Invalid 'messages': empty array. Expected an array with minimum length 1, \
                       but got an empty array instead.";
        return invalid_request("messages", message);
    }
    check_history(messages, free)?;
    check_tools(&request["tools"], free)
}

fn check_history(messages: &[Value], free: bool) -> Result<(), InvalidCall> {
    // Calls of the last assistant message that have no result yet.
    let mut open: BTreeSet<&str> = BTreeSet::new();
    for (n, message) in messages.iter().enumerate() {
        let param = format!("messages.[{n}]");
        let role = message["role"].as_str().unwrap_or_default();
        if role == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                let text = "Invalid parameter: messages with role 'tool' must be a response to a \
                            preceding message with 'tool_calls'.";
                return invalid_request(format!("{param}.role"), text);
            }
        } else if !open.is_empty() {
            return check_unanswered(&param, &open);
        }
        let empty = message["content"].is_null();
        let kinds = matches!(message["content"], Value::Null | Value::String(_) | Value::Array(_));
        let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
        if !kinds || (empty && (role != "assistant" || calls.is_empty())) {
            let text = format!("Invalid value for 'content': expected a string, at message {n}.");
            return invalid_request(format!("{param}.content"), text);
        }
        match role {
            "assistant" => {
                if message.get("tool_calls").is_some_and(|c| !c.is_array()) {
                    return invalid_request(format!("{param}.tool_calls"), "Expected an array.");
                }
                for call in calls {
                    open.insert(call_id(call, &param, free)?);
                }
            }
            "system" | "developer" | "user" | "tool" => {}
            other => {
                let text = format!(
                    "Invalid value: '{other}'. Supported values are: 'system', 'assistant', \
                     'user', 'tool', and 'developer'."
                );
                return invalid_request(format!("{param}.role"), text);
            }
        }
    }
    if open.is_empty() { Ok(()) } else { check_unanswered("messages", &open) }
}

fn check_unanswered(param: &str, open: &BTreeSet<&str>) -> Result<(), InvalidCall> {
    let ids = open.iter().copied().collect::<Vec<_>>().join(", ");
    let text = "An assistant message with 'tool_calls' must be followed by tool messages \
                responding to each 'tool_call_id'. The following tool_call_ids did not have \
                response messages: ";
    invalid_request(param, format!("{text}{ids}"))
}

fn call_id<'a>(call: &'a Value, param: &str, free: bool) -> Result<&'a str, InvalidCall> {
    let (kind, arguments) = if free && call["type"] == "custom" {
        ("custom", "input")
    } else {
        ("function", "arguments")
    };
    let function = &call[kind];
    let complete = call["type"] == kind
        && function["name"].as_str().is_some_and(|n| !n.is_empty())
        && function[arguments].is_string();
    match call["id"].as_str() {
        Some(id) if complete && !id.is_empty() => Ok(id),
        _ => invalid_request(
            format!("{param}.tool_calls"),
            "A tool call needs an id, type 'function', and a function with name and arguments.",
        ),
    }
}

fn check_tools(tools: &Value, free: bool) -> Result<(), InvalidCall> {
    let tools = match tools {
        Value::Null => return Ok(()),
        Value::Array(tools) if !tools.is_empty() => tools,
        _ => return invalid_request("tools", "Invalid 'tools': expected a non-empty array."),
    };
    let mut names = BTreeSet::new();
    for (n, tool) in tools.iter().enumerate() {
        let param = format!("tools[{n}]");
        let kind = if free && tool["type"] == "custom" { "custom" } else { "function" };
        if tool["type"] != kind {
            let text = if free {
                "Supported values are: 'function' and 'custom'."
            } else {
                "Invalid value: 'custom'. Supported values are: 'function'."
            };
            return invalid_request(format!("{param}.type"), text);
        }
        if kind == "custom" {
            check_format(&tool["custom"]["format"], &param)?;
        }
        let function = &tool[kind];
        let name = function["name"].as_str().unwrap_or_default();
        let valid = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
        if name.is_empty() || name.len() > 64 || !name.bytes().all(valid) {
            let text = "Invalid 'function.name': expected 1 to 64 of a-z, A-Z, 0-9, '_' and '-'.";
            return invalid_request(format!("{param}.function.name"), text);
        }
        if !names.insert(name) {
            return invalid_request(format!("{param}.function.name"), "Tool names must be unique.");
        }
        let schema = &function["parameters"];
        if !schema.is_null() && schema["type"] != "object" {
            let text = format!(
                "Invalid schema for function '{name}': schema must be a JSON Schema of \
                 'type: \"object\"'."
            );
            return invalid_request(format!("{param}.function.parameters"), text);
        }
    }
    Ok(())
}

/// Checks the format that free text has to have, if any.
fn check_format(format: &Value, param: &str) -> Result<(), InvalidCall> {
    let grammar = &format["grammar"];
    let known = match format["type"].as_str() {
        None if format.is_null() => true,
        Some("text") => true,
        Some("grammar") => {
            matches!(grammar["syntax"].as_str(), Some("lark" | "regex"))
                && grammar["definition"].as_str().is_some_and(|rules| !rules.is_empty())
        }
        _ => false,
    };
    if known {
        return Ok(());
    }
    invalid_request(
        format!("{param}.custom.format"),
        "Invalid 'format': expected text or a grammar.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn refusal(messages: &Value) -> String {
        let body = json!({"model": "m", "messages": messages});
        check_request(&body, false).err().map(|e| e.message).unwrap_or_default()
    }

    #[test]
    fn every_call_has_one_answer_and_every_answer_a_call() {
        let user = json!({"role": "user", "content": "x"});
        let call =
            json!({"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{}"}});
        let assistant = json!({"role": "assistant", "content": null, "tool_calls": [call]});
        let answer = json!({"role": "tool", "tool_call_id": "a", "content": "ok"});
        assert_eq!(refusal(&json!([user, assistant, answer])), "");
        for (messages, said) in [
            (json!([user, assistant]), "did not have response messages: a"),
            (json!([user, assistant, user]), "did not have response messages: a"),
            (json!([user, answer]), "must be a response to a preceding"),
            (json!([user, assistant, answer, answer]), "must be a response to a preceding"),
            (json!([]), "empty array"),
            (json!([{"role": "robot", "content": "x"}]), "'robot'"),
            (json!([{"role": "assistant", "content": null}]), "expected a string"),
            (json!([{"role": "user", "content": 3}]), "expected a string"),
        ] {
            let message = refusal(&messages);
            assert!(message.contains(said), "{messages}: {message}");
        }
    }

    #[test]
    fn tools_have_unique_valid_names_and_object_schemas() {
        let tool = |name: &str, kind: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": kind}}});
        let ask = |tools: Value| {
            check_request(
                &json!({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": tools}),
                false,
            )
        };
        assert!(ask(json!([tool("Read", "object"), tool("Write", "object")])).is_ok());
        for tools in [
            json!([]),
            json!([tool("Read", "object"), tool("Read", "object")]),
            json!([tool(&"x".repeat(65), "object")]),
            json!([tool("a b", "object")]),
            json!([tool("Read", "string")]),
        ] {
            assert!(ask(tools.clone()).is_err(), "{tools}");
        }
    }
    #[test]
    fn free_text_is_openais_own() {
        let format =
            json!({"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: \"x\""}});
        let tool = json!({"type": "custom", "custom": {"name": "apply_patch", "format": format}});
        let call =
            json!({"id": "a", "type": "custom", "custom": {"name": "apply_patch", "input": "x"}});
        let body = json!({"model": "m", "tools": [tool], "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "a", "content": "ok"}]});
        assert_eq!(check_request(&body, true), Ok(()));
        assert!(check_request(&body, false).is_err());
        let mut wrong = body.clone();
        wrong["tools"][0]["custom"]["format"]["grammar"]["syntax"] = json!("peg");
        assert!(check_request(&wrong, true).unwrap_err().message.contains("format"));
    }
}
