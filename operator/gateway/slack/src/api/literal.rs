//! Words as they were written: Slack makes no link and no preview of what nobody wrote as one.
//! `@codebutler.pm` is a role here, and somebody's host elsewhere. Pure.

use serde_json::{Value, json};

/// Body of a call that tells Slack so, where the call shows something.
pub(crate) fn make_literal(method: &str, body: &Value) -> Value {
    let mut body = body.clone();
    if !matches!(method, "chat.postMessage" | "chat.update" | "chat.postEphemeral") {
        return body;
    }
    body["parse"] = json!("none");
    if method == "chat.postMessage" {
        (body["unfurl_links"], body["unfurl_media"]) = (json!(false), json!(false));
    }
    if let Some(blocks) = body.get_mut("blocks") {
        keep_literal(blocks);
    }
    body
}

/// Marks each text of the blocks: blocks don't heed what the message says.
fn keep_literal(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "mrkdwn") {
                fields.insert("verbatim".to_owned(), json!(true));
            }
            fields.values_mut().for_each(keep_literal);
        }
        Value::Array(items) => items.iter_mut().for_each(keep_literal),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_of_a_message_says_that_it_is_meant_as_it_stands() {
        let blocks = json!([
            {"type": "section", "text": {"type": "mrkdwn", "text": "a.pm"}},
            {"type": "context", "elements": [{"type": "mrkdwn", "text": "b.sh"}]},
            {"type": "actions", "elements": [{"text": {"type": "plain_text", "text": "c"}}]},
        ]);
        let said = make_literal("chat.postMessage", &json!({"text": "a.pm", "blocks": blocks}));
        assert_eq!((&said["parse"], &said["unfurl_links"]), (&json!("none"), &json!(false)));
        assert_eq!(said["blocks"][0]["text"]["verbatim"], true);
        assert_eq!(said["blocks"][1]["elements"][0]["verbatim"], true);
        assert_eq!(said["blocks"][2], blocks[2]);
        let other = json!({"channel": "C1", "name": "eyes"});
        assert_eq!(make_literal("reactions.add", &other), other);
        assert!(make_literal("chat.update", &json!({"text": "a"})).get("blocks").is_none());
    }
}
