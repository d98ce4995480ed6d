//! Summaries of conversations that grew too long: they name the position in the script, so that it is found again in
//! what is left.

use serde_json::Value;

use super::played::text_of;

const BEGIN: &str = "(scripted conversation ";
/// Prefix of the client's own words to the model.
const OWN_WORD: &str = "[CodeButler]";

/// True if the client asks for a summary of the conversation, which is no step of any script.
pub(super) fn is_wanted(request: &Value) -> bool {
    let calls = request["tools"].is_array() && request["tool_choice"] != "none";
    let last = request["messages"].as_array().and_then(|messages| messages.last());
    let Some(last) = last.filter(|last| last["role"] == "user" && !calls) else { return false };
    // The client's own word is the last paragraph: it may be joined to what came before it.
    let text = text_of(last).to_lowercase();
    let word = text.rsplit("\n\n").next().unwrap_or_default();
    word.starts_with(&OWN_WORD.to_lowercase())
        && ["write down", "summar"].iter().any(|verb| word.contains(verb))
}

/// Writes the summary of a conversation that has got so far.
pub(super) fn write_summary(conversation: u64, steps: usize) -> String {
    format!("I go on as it is written. {BEGIN}{conversation:016x}, {steps} steps)")
}

/// Reads conversation and steps from a text, if it holds such a summary.
pub(super) fn read_summary(text: &str) -> Option<(u64, usize)> {
    let (conversation, rest) = text.split_once(BEGIN)?.1.split_once(", ")?;
    let steps = rest.split_once(" steps)")?.0;
    Some((u64::from_str_radix(conversation, 16).ok()?, steps.parse().ok()?))
}

/// True if a conversation begins with the client's own word, which nobody said in it.
pub(super) fn is_own_word(opening: &str) -> bool {
    opening.starts_with(OWN_WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_summary_says_where_the_conversation_is() {
        let text = format!("[CodeButler] What was said:\n\n{}", write_summary(0xab, 12));
        assert_eq!(read_summary(&text), Some((0xab, 12)));
        assert_eq!(read_summary("nothing"), None);
        let ask = |text: &str, choice: &str| {
            is_wanted(&json!({"messages": [{"role": "user", "content": text}], "tools": [{}],
                "tool_choice": choice}))
        };
        let text = "[CodeButler] Too long. Write down what you need to go on.";
        assert!(
            ask(text, "none") && !ask(text, "auto") && !ask("> Write down what you need", "none")
        );
        assert!(ask(&format!("[message 1 from user U1]\n> hi\n\n{text}"), "none"));
        assert!(!ask(&format!("{text}\n\n[message 1 from user U1]\n> hi"), "none"));
    }
}
