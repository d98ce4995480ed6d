//! Forms in which models' templates want calls and their results, where they don't take them as they are.

use serde_json::{Value, json};

use super::ShownMessage;
use crate::model::ids;

/// Each call in a message of its own, with its result behind it.
pub fn split_calls(chat: Vec<ShownMessage<'_>>) -> Vec<ShownMessage<'_>> {
    let mut out = Vec::with_capacity(chat.len());
    let mut chat = chat.into_iter().peekable();
    while let Some(shown) = chat.next() {
        let calls = shown.message["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.len() < 2 {
            out.push(shown);
            continue;
        }
        let mut results = Vec::new();
        while let Some(result) = chat.next_if(|next| next.is("tool")) {
            results.push(result);
        }
        for (n, call) in calls.into_iter().enumerate() {
            let found = results.iter().position(|r| r.message["tool_call_id"] == call["id"]);
            let mut one = shown.clone();
            let message = one.message.to_mut();
            message["tool_calls"] = json!([call]);
            if n > 0 {
                message["content"] = json!("");
                one.reasoning = false;
            }
            out.push(one);
            out.extend(found.map(|at| results.remove(at)));
        }
    }
    out
}

/// Ids of nine letters and digits, in calls and in their results.
pub fn shorten_ids(shown: &mut ShownMessage<'_>) {
    let short = |id: &Value| {
        let id = id.as_str()?;
        let fits = id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        (!fits).then(|| json!(ids::short_id(id)))
    };
    if let Some(id) = short(&shown.message["tool_call_id"]) {
        shown.message.to_mut()["tool_call_id"] = id;
    }
    let calls = shown.message["tool_calls"].as_array().map_or(0, Vec::len);
    for n in 0..calls {
        if let Some(id) = short(&shown.message["tool_calls"][n]["id"]) {
            shown.message.to_mut()["tool_calls"][n]["id"] = id;
        }
    }
}

/// Calls as words of the model, and their results as words to it: for templates that know neither.
pub fn tell_calls(shown: &mut ShownMessage<'_>) {
    let message = &shown.message;
    let told = if shown.is("tool") {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        let text = message["content"].as_str().unwrap_or_default();
        json!({"role": "user", "content": format!("[result of {id}]\n{text}")})
    } else if let Some(calls) = message["tool_calls"].as_array() {
        let said = message["content"].as_str().unwrap_or_default();
        let calls = calls.iter().map(|call| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let function = &call["function"];
            let (name, arguments) = (text(&function["name"]), text(&function["arguments"]));
            format!("[call {}] {name} {arguments}", text(&call["id"]))
        });
        let lines: Vec<String> = std::iter::once(said.to_owned())
            .filter(|said| !said.trim().is_empty())
            .chain(calls)
            .collect();
        json!({"role": "assistant", "content": lines.join("\n")})
    } else {
        return;
    };
    *shown.message.to_mut() = told;
    shown.reasoning = false;
}
