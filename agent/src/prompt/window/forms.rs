//! Rewrites of tool calls and results for models whose chat templates don't take them as they are.

use codebutler_wire::EditForm;
use serde::Deserialize as _;
use serde_json::{Value, json};

use super::ShownMessage;
use crate::model::{CALLS, FORM, call_parts, ids};
use crate::tools::call_in_form;

/// Rewrites calls that were made in another tool form to the form that this model would use.
pub(super) fn suit_calls(shown: &mut ShownMessage<'_>, form: EditForm) {
    let given = shown.message.get(FORM);
    let given: EditForm =
        given.and_then(|given| EditForm::deserialize(given).ok()).unwrap_or_default();
    let Some(calls) = shown.message.get(CALLS).or_else(|| shown.message.get("tool_calls")) else {
        return;
    };
    let Some(calls) = calls.as_array().filter(|_| given != form) else { return };
    let suited = calls.iter().map(|call| {
        let (name, arguments) = call_parts(call).unwrap_or_default();
        call_in_form(form, name, arguments).map_or_else(
            || call.clone(),
            |suited| suited.to_chat(call["id"].as_str().unwrap_or_default()),
        )
    });
    let suited: Vec<Value> = suited.collect();
    shown.message.to_mut()["tool_calls"] = suited.into();
}

/// Splits parallel calls: each gets a message of its own, with its result behind it.
pub(super) fn split_calls(chat: Vec<ShownMessage<'_>>) -> Vec<ShownMessage<'_>> {
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

/// Shortens the ids of calls and their results to nine letters and digits.
pub(super) fn shorten_ids(shown: &mut ShownMessage<'_>) {
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

/// Writes calls as words of the model, and their results as words to it: for templates that know neither.
pub(super) fn tell_calls(shown: &mut ShownMessage<'_>) {
    let message = &shown.message;
    let told = if shown.is("tool") {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        let text = message["content"].as_str().unwrap_or_default();
        json!({"role": "user", "content": format!("[result of {id}]\n{text}")})
    } else if let Some(calls) = message["tool_calls"].as_array() {
        let said = message["content"].as_str().unwrap_or_default();
        let calls = calls.iter().map(|call| {
            let id = call["id"].as_str().unwrap_or_default();
            let (name, arguments) = call_parts(call).unwrap_or_default();
            format!("[call {id}] {name} {arguments}")
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
