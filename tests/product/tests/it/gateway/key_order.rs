//! The order of keys on the way through the gateway: a model fills in arguments from the first to the last, and copies the
//! form of its own earlier calls.

use serde_json::{Value, json};

use super::providers::Provider;

const CHAT: &str = "/v1/chat/completions";
/// A call as a model wrote it: keys in no order of the alphabet, and blanks of its own.
const WRITTEN: &str =
    r#"{"path": "a.rs",  "edits": [{"old": "b", "new": "a", "all": true}], "1": 1.0}"#;

fn tools() -> Value {
    let edit = json!({
        "type": "object",
        "properties": {"old": {"type": "string"}, "new": {"type": "string"}, "all": {"type": "boolean"}},
        "required": ["old", "new"],
    });
    let parameters = json!({
        "type": "object",
        "properties": {"path": {"type": "string"}, "edits": {"type": "array", "items": edit}},
        "required": ["path", "edits"],
    });
    let edit = json!({"name": "Edit", "description": "Edits.", "parameters": parameters});
    json!([{"type": "function", "function": edit}])
}

fn conversation(model: &str) -> Value {
    let function = json!({"name": "Edit", "arguments": WRITTEN});
    let call = json!({"id": "c1", "type": "function", "function": function});
    json!({"tools": tools(), "tool_choice": "auto", "model": model, "messages": [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "fix it"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]})
}

#[tokio::test]
async fn keys_come_to_every_provider_in_the_order_in_which_they_were_sent() {
    const GEMINI: &str = "google/gemini-3.1-pro-preview";
    let all = ["anthropic/claude-opus-5", GEMINI, "openai/gpt-5.6-terra", "moonshotai/kimi-k3"];
    for (api, models) in [
        ("OpenRouter", &all[..]),
        ("OpenAI", &["openai/gpt-5.6-terra"]),
        ("Anthropic", &["anthropic/claude-opus-5"]),
        ("Plain", &[GEMINI, "moonshotai/kimi-k3"]),
    ] {
        let provider = Provider::start().await;
        let role = json!({"default": models[0], "pool": models[1..]});
        let world = provider.world_with(&role, &json!({"model": {"api": api}})).await;
        for model in models {
            let sent = conversation(model);
            let (status, answer) = world.post("coder", CHAT, &sent).await;
            assert_eq!(status, 200, "{api}, {model}: {answer}");
            let came = provider.asked().pop().unwrap();
            let messages = came["messages"].to_string();
            assert_eq!(messages, sent["messages"].to_string(), "{api}, {model}");
            let mut tools = sent["tools"].clone();
            if *model == GEMINI {
                // It sorts the keys of a schema unless it is told their order.
                let schema = &mut tools[0]["function"]["parameters"];
                let edits = &mut schema["properties"]["edits"]["items"];
                edits["propertyOrdering"] = json!(["old", "new", "all"]);
                schema["propertyOrdering"] = json!(["path", "edits"]);
            }
            assert_eq!(came["tools"].to_string(), tools.to_string(), "{api}, {model}");
        }
    }
}
