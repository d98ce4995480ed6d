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
    /// The house rules tell voices apart as they did before the voice of the system was introduced.
    VoiceOld,
    /// A summary, asked for in one sentence, stands alone for what is not shown any more.
    CompactionOld,
}

/// How what is said of limits before they come near begins: in the facts of a run, and at its half.
const LIMITS: [&str; 2] = ["- This run ends after ", "[CodeButler] Half of your run is used: "];

/// First words of the rules about voices, and of the rule that follows them.
const VOICES: [&str; 2] =
    ["- A line that begins with `[CodeButler]`", "- A person's word in the thread"];
/// The rule about voices in the arm that has it as it was.
const VOICE_OLD: &str = include_str!("experiment/voice-old.txt");
/// The question for a summary in the arm that has it as it was.
const SUMMARY_OLD: &str = include_str!("experiment/summary-old.txt");

/// The question for a summary that stands alone.
pub fn old_summary_request() -> &'static str {
    SUMMARY_OLD.trim_end()
}

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
    let voice = arm.contains(&PromptExperiment::VoiceOld);
    if !sorts && !late && !voice {
        return body;
    }
    let Ok(mut request) = serde_json::from_slice::<Value>(&body) else { return body };
    // The house rules are in the first message, however they are sent.
    if let Some(first) = request["messages"].get_mut(0).filter(|_| voice) {
        each_text(first, &restore_voice);
    }
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

fn restore_voice(text: &str) -> String {
    let [begin, end] = VOICES;
    let places = text.find(begin).and_then(|at| Some((at, at + text[at..].find(end)?)));
    places.map_or_else(
        || text.to_owned(),
        |(from, to)| format!("{}{VOICE_OLD}{}", &text[..from], &text[to..]),
    )
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

    #[test]
    fn the_old_rule_of_voices_replaces_the_new_one_and_nothing_else() {
        let house = include_str!("prompt/house.md");
        let told = |content: &Value| {
            let messages = [
                serde_json::json!({"role": "system", "content": content}),
                serde_json::json!({"role": "user", "content": house}),
            ];
            let body = serde_json::json!({"messages": messages}).to_string();
            let changed = change_body(&[PromptExperiment::VoiceOld], Bytes::from(body));
            serde_json::from_slice::<Value>(&changed).unwrap()
        };
        let plain = told(&house.into());
        let parts = told(&serde_json::json!([{"type": "text", "text": house}]));
        assert_eq!(plain["messages"][0]["content"], parts["messages"][0]["content"][0]["text"]);
        let now = plain["messages"][0]["content"].as_str().unwrap();
        let (before, after) = now.split_once(VOICE_OLD).unwrap();
        assert!(before.ends_with("## Who speaks\n\n") && after.starts_with(VOICES[1]), "{now}");
        assert!(house.starts_with(before) && house.ends_with(after));
        assert!(!now.contains("`[note]`") && house.contains("`[note]`"));
        assert_eq!(plain["messages"][1]["content"], house, "what others say stays");
    }
}
