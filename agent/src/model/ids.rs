//! Ids of tool calls. Models make them up as they like (`functions.Grep:0`, the same in each answer, or
//! none), and what one provider gave another one refuses with the whole conversation.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{AssistantMessage, ToolCall};

const LONGEST: usize = 64;
/// Length of an id that is made up: some models' templates refuse any other.
const MADE: usize = 9;
const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Gives each call of an answer an id that every provider takes and that nothing in the conversation has. Blocks of
/// reasoning that name a call, as OpenRouter's do for Gemini, name it by its new one.
pub fn clean_answer(message: &mut AssistantMessage, chat: &[Value], turn: u32) {
    let given: Vec<String> = message.tool_calls.iter().map(|call| call.id.clone()).collect();
    clean_ids(&mut message.tool_calls, chat, turn);
    let blocks = message.reasoning.get_mut("reasoning_details").and_then(Value::as_array_mut);
    for block in blocks.into_iter().flatten().filter_map(Value::as_object_mut) {
        let Some(Value::String(id)) = block.get_mut("id") else { continue };
        let is_meant = |given: &String| !given.is_empty() && given.as_str() == id.as_str();
        let place = given.iter().position(is_meant);
        if let Some(call) = place.and_then(|place| message.tool_calls.get(place)) {
            id.clone_from(&call.id);
        }
    }
}

/// Gives each call an id that every provider takes and that nothing in the conversation has. Those that
/// have none, or one that is taken, get one that is made of `turn` and their place.
fn clean_ids(calls: &mut [ToolCall], chat: &[Value], turn: u32) {
    let mut used: HashSet<String> = chat
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
        .filter_map(|call| call["id"].as_str().map(ToOwned::to_owned))
        .collect();
    for (place, call) in calls.iter_mut().enumerate() {
        let wanted = safe_id(&call.id).into_owned();
        call.id = if wanted.is_empty() || used.contains(&wanted) {
            free_id(&format!("{turn} {place}"), &used)
        } else {
            wanted
        };
        used.insert(call.id.clone());
    }
}

fn free_id(seed: &str, used: &HashSet<String>) -> String {
    let mut made = (0u32..).map(|n| short_id(&format!("{seed} {n}")));
    made.find(|id| !used.contains(id)).unwrap_or_default()
}

/// Nine letters and digits that stand for an id: always the same ones.
pub fn short_id(id: &str) -> String {
    let digest = Sha256::digest(id.as_bytes());
    let letter = |byte: &u8| char::from(LETTERS[usize::from(*byte) % LETTERS.len()]);
    digest.iter().take(MADE).map(letter).collect()
}

/// The id in letters that every provider takes.
pub fn safe_id(id: &str) -> Cow<'_, str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.len() <= LONGEST && id.chars().all(fine) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().take(LONGEST).map(|c| if fine(c) { c } else { '_' }).collect())
}

/// The name of a called tool in letters that every provider takes: a model may call one that there is not, by any name,
/// and that call stays in the conversation.
pub fn safe_name(name: &str) -> Cow<'_, str> {
    if name.is_empty() { Cow::Borrowed("unknown") } else { safe_id(name) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_call_of_a_tool_that_there_is_not_has_a_name_that_providers_take() {
        let long = "x".repeat(80);
        for (name, sent) in [
            ("Read", "Read"),
            ("mcp__tracker__get-issue", "mcp__tracker__get-issue"),
            ("functions.LookUp:0", "functions_LookUp_0"),
            ("look up", "look_up"),
            ("", "unknown"),
            (long.as_str(), &long[..64]),
        ] {
            let call = ToolCall { id: "a".into(), name: name.into(), arguments: "{}".into() };
            let answer = AssistantMessage { tool_calls: vec![call], ..AssistantMessage::default() };
            let shown = answer.to_chat(None);
            assert_eq!(shown["tool_calls"][0]["function"]["name"], sent);
        }
    }

    fn cleaned(ids: &[&str], chat: &[Value]) -> Vec<String> {
        let call =
            |id: &&str| ToolCall { id: (*id).into(), name: "X".into(), arguments: String::new() };
        let mut calls: Vec<_> = ids.iter().map(call).collect();
        clean_ids(&mut calls, chat, 7);
        calls.into_iter().map(|call| call.id).collect()
    }

    #[test]
    fn reasoning_names_a_call_by_its_new_id() {
        let call =
            |id: &str| ToolCall { id: id.into(), name: "X".into(), arguments: String::new() };
        let details = json!([{"type": "reasoning.encrypted", "id": "tool_0_X", "data": "s"},
            {"type": "reasoning.text", "id": null, "text": "t"}, {"type": "reasoning.summary", "id": "rs_1"}]);
        let mut answer = AssistantMessage {
            tool_calls: vec![call("tool_0_X"), call("tool_1_X")],
            ..AssistantMessage::default()
        };
        answer.reasoning.insert("reasoning_details".to_owned(), details.clone());
        clean_answer(&mut answer, &[], 1);
        assert_eq!(answer.reasoning["reasoning_details"], details);
        // The same id in each answer, as Gemini's calls have it.
        let chat = [json!({"role": "assistant", "tool_calls": [{"id": "tool_0_X"}]})];
        clean_answer(&mut answer, &chat, 2);
        assert_ne!(answer.tool_calls[0].id, "tool_0_X");
        let blocks = &answer.reasoning["reasoning_details"];
        assert_eq!(blocks[0]["id"], answer.tool_calls[0].id);
        assert_eq!((&blocks[1], &blocks[2]), (&details[1], &details[2]));
    }

    #[test]
    fn every_id_is_safe_and_there_once() {
        let long = "x".repeat(80);
        let ids = cleaned(&["a", "functions.Grep:0", "", "", "a", "ñ b", &long, &long], &[]);
        let is_made =
            |id: &str| id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric());
        assert_eq!([&ids[0], &ids[1], &ids[5]], ["a", "functions_Grep_0", "__b"]);
        assert_eq!(ids[6].len(), 64);
        for made in [2, 3, 4, 7] {
            assert!(is_made(&ids[made]), "{ids:?}");
        }
        let all: HashSet<_> = ids.iter().collect();
        assert_eq!(all.len(), ids.len(), "{ids:?}");
        assert_eq!(ids, cleaned(&["a", "functions.Grep:0", "", "", "a", "ñ b", &long, &long], &[]));
        let chat = [
            json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": ids[2]}]}),
            json!({"role": "user", "content": "hi"}),
        ];
        let later = cleaned(&["a", "b", &ids[2], ""], &chat);
        assert_eq!(later[1], "b");
        for made in [0, 2, 3] {
            assert!(is_made(&later[made]) && !ids[..3].contains(&later[made]), "{later:?}");
        }
    }
}
