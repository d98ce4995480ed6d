//! Calls as text: what some models' templates write, when the server in front of them does not take it
//! for what it is.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::super::played::PlayedCall;
use super::MischiefKind;

pub(super) fn as_text(kind: MischiefKind, calls: &[PlayedCall]) -> String {
    match kind {
        MischiefKind::LeakedKimi => kimi_form(calls),
        MischiefKind::LeakedLlama => {
            write_each(calls, |c| format!("<function={}>{}</function>", c.name, c.arguments))
        }
        MischiefKind::LeakedPython => write_each(calls, |c| {
            format!(
                "<|python_tag|>{{\"name\": \"{}\", \"parameters\": {}}}<|eom_id|>",
                c.name, c.arguments
            )
        }),
        _ => write_each(calls, |c| {
            let arguments = serde_json::from_str::<Map<String, Value>>(&c.arguments);
            let arguments =
                arguments.map_or_else(|_| c.arguments.clone(), |map| Value::from(map).to_string());
            format!(
                "<tool_call>\n{{\"name\": \"{}\", \"arguments\": {arguments}}}\n</tool_call>",
                c.name
            )
        }),
    }
}

fn write_each(calls: &[PlayedCall], write: impl Fn(&PlayedCall) -> String) -> String {
    calls.iter().map(write).collect::<Vec<_>>().join("\n")
}

fn kimi_form(calls: &[PlayedCall]) -> String {
    let mut text = "<|tool_calls_section_begin|>".to_owned();
    for (n, PlayedCall { name, arguments, .. }) in calls.iter().enumerate() {
        let _ = write!(
            text,
            "<|tool_call_begin|>functions.{name}:{n}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"
        );
    }
    text + "<|tool_calls_section_end|>"
}
