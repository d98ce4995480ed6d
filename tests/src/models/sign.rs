//! Signed reasoning: it has to come back unchanged, to the model that produced it.

use ring::hmac;
use serde_json::{Value, json};

/// Name of the format of signed blocks.
const FORMAT: &str = "anthropic-claude-v1";

fn sign_thought(key: &str, model: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hex::encode(hmac::sign(&key, format!("{model}\n{text}").as_bytes()))
}

/// Signs a call of a tool.
pub(super) fn sign_call(key: &str, model: &str, tool: &str) -> String {
    sign_thought(key, model, &format!("call of {tool}"))
}

/// Builds the signed reasoning block of a thought.
pub(super) fn thought_block(key: &str, model: &str, text: &str) -> Value {
    json!({"type": "reasoning.text", "text": text, "signature": sign_thought(key, model, text),
        "format": FORMAT, "index": 0})
}

/// True if this server signed the block for this model.
pub(super) fn is_own(key: &str, model: &str, block: &Value) -> bool {
    let text = block["text"].as_str().unwrap_or_default();
    block["type"] == "reasoning.text" && block["signature"] == sign_thought(key, model, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_bound_to_model_and_text() {
        let mut made = thought_block("k", "a/one", "hm");
        assert!(is_own("k", "a/one", &made));
        assert!(!is_own("k", "a/two", &made) && !is_own("other", "a/one", &made));
        made["text"] = "hm, ***".into();
        assert!(!is_own("k", "a/one", &made));
    }
}
