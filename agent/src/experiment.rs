//! Arms of an experiment with models: the product with one thing as it was before, so that both can be measured
//! side by side. `cargo demo -- --bench --arm …` sets them and nothing else does; none of them widens a right.

use bytes::Bytes;
use codebutler_wire::{EditForm, RoleSession};
use serde_json::Value;

/// A difference between an arm and the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PromptExperiment {
    /// Schemas and earlier calls come with their keys in alphabetical order.
    KeysSorted,
    /// Every family gets the same form of edits.
    EditsPlain,
    /// The limits of a run are named only when they come near.
    LimitsLate,
}

/// How what is said of limits before they come near begins: in the facts of a run, and at its half.
const LIMITS: [&str; 2] = ["- This run ends after ", "[CodeButler] Half of your run is used: "];

/// Changes the session to that of an arm.
pub fn change_session(arm: &[PromptExperiment], session: &mut RoleSession) {
    if arm.contains(&PromptExperiment::EditsPlain) {
        session.facts.values_mut().for_each(|facts| facts.edits = EditForm::default());
    }
}

/// Changes a model call to that of an arm.
pub fn change_body(arm: &[PromptExperiment], body: Bytes) -> Bytes {
    let (sorts, late) =
        (arm.contains(&PromptExperiment::KeysSorted), arm.contains(&PromptExperiment::LimitsLate));
    if !sorts && !late {
        return body;
    }
    let Ok(mut request) = serde_json::from_slice::<Value>(&body) else { return body };
    let empty = |message: &Value| message["role"] == "user" && message["content"] == "";
    for message in request["messages"].as_array_mut().into_iter().flatten() {
        if late {
            each_text(message, &drop_limits);
        }
        let calls = message.get_mut("tool_calls").filter(|_| sorts).and_then(Value::as_array_mut);
        for call in calls.into_iter().flatten() {
            if let Some(Value::String(arguments)) = call.pointer_mut("/function/arguments") {
                *arguments = sort_keys(arguments);
            }
        }
    }
    // One that said nothing else was not sent.
    if let Some(messages) = request["messages"].as_array_mut().filter(|_| late) {
        messages.retain(|message| !empty(message));
    }
    if sorts {
        request.sort_all_objects();
    }
    serde_json::to_vec(&request).map_or(body, Bytes::from)
}

fn sort_keys(arguments: &str) -> String {
    serde_json::from_str::<Value>(arguments).map_or_else(
        |_| arguments.to_owned(),
        |mut value| {
            value.sort_all_objects();
            value.to_string()
        },
    )
}

fn each_text(message: &mut Value, change: &dyn Fn(&str) -> String) {
    match message.get_mut("content") {
        Some(Value::String(text)) => *text = change(text),
        Some(Value::Array(parts)) => {
            for part in parts {
                if let Some(Value::String(text)) = part.get_mut("text") {
                    *text = change(text);
                }
            }
        }
        _ => {}
    }
}

fn drop_limits(text: &str) -> String {
    let said = |line: &&str| !LIMITS.iter().any(|begin| line.starts_with(begin));
    text.split_inclusive('\n').filter(said).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arm_changes_one_thing() {
        let body = r##"{"messages":[{"role":"user","content":"# As of now\n- This run ends after 5 model calls.\n- x"},{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"Edit","arguments":"{\"path\":\"a\",\"edits\":[]}"}}]}],"model":"m"}"##;
        let of = |arm: &[PromptExperiment]| {
            let changed = change_body(arm, Bytes::from(body));
            String::from_utf8(changed.to_vec()).unwrap()
        };
        assert_eq!(of(&[]), body);
        assert_eq!(of(&[PromptExperiment::EditsPlain]), body);
        let late = of(&[PromptExperiment::LimitsLate]);
        assert!(!late.contains("This run ends") && late.contains("- x"), "{late}");
        let half = r#"{"messages":[{"role":"user","content":"go"},{"role":"user","content":"[CodeButler] Half of your run is used: 2 of 4 model calls are left."}]}"#;
        let none = change_body(&[PromptExperiment::LimitsLate], Bytes::from(half));
        assert_eq!(none, r#"{"messages":[{"role":"user","content":"go"}]}"#);
        let sorted = of(&[PromptExperiment::KeysSorted]);
        assert!(sorted.contains(r#"{\"edits\":[],\"path\":\"a\"}"#), "{sorted}");
        assert!(sorted.contains(r#"{"function":{"arguments""#), "{sorted}");
    }
}
