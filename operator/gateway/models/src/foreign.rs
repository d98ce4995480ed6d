//! Answers of another model in a conversation: what only that one can read is taken out, and what the one that stands in
//! wants in each answer is put there. Pure.

use serde_json::{Map, Value, json};

use super::params::SentBlanks;
use super::request::{SIGNATURES, THOUGHTS};

/// Reasoning in place of none: DeepSeek's and Moonshot's APIs take an empty text for a missing one.
const BLANK: &str = " ";
/// Google's word in place of the signature of a call that another model has made.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// Takes from an assistant's message what only its model can read.
pub(super) fn forget_thoughts(message: &mut Map<String, Value>) {
    message.retain(|name, _| !THOUGHTS.contains(&name.as_str()));
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    for call in calls.into_iter().flatten().filter_map(Value::as_object_mut) {
        call.retain(|name, _| !SIGNATURES.contains(&name.as_str()));
    }
}

/// Puts into another model's answer what this one wants in each. Google asks for it with the first call alone.
pub(super) fn fill_blanks(message: &mut Map<String, Value>, blanks: SentBlanks) {
    if blanks.reasoning {
        message.insert("reasoning_content".to_owned(), BLANK.into());
    }
    let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
    let first = calls.and_then(|calls| calls.first_mut()).and_then(Value::as_object_mut);
    if let Some(call) = first.filter(|_| blanks.signatures) {
        let content = json!({"google": {"thought_signature": UNSIGNED}});
        call.insert(SIGNATURES[0].to_owned(), content);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_gets_what_its_new_reader_wants_of_it() {
        let filled = |message: &Value, reasoning, signatures| {
            let mut message = message.as_object().unwrap().clone();
            fill_blanks(&mut message, SentBlanks { reasoning, signatures });
            Value::from(message)
        };
        let said = json!({"role": "assistant", "content": "a"});
        let call =
            json!({"id": "c", "type": "function", "function": {"name": "Read", "arguments": "{}"}});
        let called = json!({"role": "assistant", "content": "", "tool_calls": [call, call]});
        assert_eq!(filled(&said, true, false)["reasoning_content"], " ");
        assert_eq!(filled(&said, false, true), said);
        let signed = filled(&called, true, true);
        let signature = &signed["tool_calls"][0]["extra_content"]["google"]["thought_signature"];
        assert_eq!(signature, UNSIGNED);
        assert_eq!((&signed["tool_calls"][1], &signed["reasoning_content"]), (&call, &json!(" ")));
    }
}
