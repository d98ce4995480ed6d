//! Ids of tool calls. Models make them up as they like (`functions.Grep:0`, the same in each answer, or
//! none), and what one provider gave another one refuses with the whole conversation.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::ToolCall;

const LONGEST: usize = 64;
/// What is kept of one that needs a number.
const KEPT: usize = 48;

/// Gives each call an id that every provider takes and that nothing in the conversation has. `turn`
/// names those that have none.
pub fn clean_ids(calls: &mut [ToolCall], chat: &[Value], turn: u32) {
    let mut used: HashSet<String> = chat
        .iter()
        .flat_map(|message| message["tool_calls"].as_array().into_iter().flatten())
        .filter_map(|call| call["id"].as_str().map(ToOwned::to_owned))
        .collect();
    for (place, call) in calls.iter_mut().enumerate() {
        let wanted = match safe_id(&call.id) {
            empty if empty.is_empty() => format!("call_{turn}_{place}"),
            safe => safe.into_owned(),
        };
        call.id = free_id(wanted, &used);
        used.insert(call.id.clone());
    }
}

fn free_id(wanted: String, used: &HashSet<String>) -> String {
    if !used.contains(&wanted) {
        return wanted;
    }
    let stem: String = wanted.chars().take(KEPT).collect();
    let mut numbered = (2u32..).map(|n| format!("{stem}_{n}"));
    numbered.find(|id| !used.contains(id)).unwrap_or(wanted)
}

/// The id in letters that every provider takes.
pub fn safe_id(id: &str) -> Cow<'_, str> {
    let fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.len() <= LONGEST && id.chars().all(fine) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().take(LONGEST).map(|c| if fine(c) { c } else { '_' }).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cleaned(ids: &[&str], chat: &[Value]) -> Vec<String> {
        let call =
            |id: &&str| ToolCall { id: (*id).into(), name: "X".into(), arguments: String::new() };
        let mut calls: Vec<_> = ids.iter().map(call).collect();
        clean_ids(&mut calls, chat, 7);
        calls.into_iter().map(|call| call.id).collect()
    }

    #[test]
    fn every_id_is_safe_and_there_once() {
        let long = "x".repeat(80);
        let ids = cleaned(&["a", "functions.Grep:0", "", "", "a", "ñ b", &long, &long], &[]);
        let expected = ["a", "functions_Grep_0", "call_7_2", "call_7_3", "a_2", "__b"];
        assert_eq!(ids[..6], expected);
        assert_eq!((ids[6].len(), ids[7].as_str()), (64, format!("{}_2", "x".repeat(48)).as_str()));
        let chat = [
            json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "a_2"}]}),
            json!({"role": "user", "content": "hi"}),
        ];
        assert_eq!(cleaned(&["a", "b", "call_7_2"], &chat), ["a_3", "b", "call_7_2"]);
    }
}
