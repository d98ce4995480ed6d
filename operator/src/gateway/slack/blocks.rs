//! Block Kit of messages that ask for a decision. Pure.

use codebutler_crds::wire::Decision;
use serde_json::{Value, json};

use super::decision::Choice;
use super::split::split;

/// Slack takes 3,000 characters in a section.
const SECTION: usize = 2900;

/// The text with the decision's buttons under it. `key` is the message's own.
pub fn asking(text: &str, decision: Decision, key: &str) -> Value {
    let mut blocks: Vec<Value> = split(text, SECTION)
        .into_iter()
        .map(|part| json!({"type": "section", "text": {"type": "mrkdwn", "text": part}}))
        .collect();
    let buttons: Vec<Value> =
        Choice::of(decision).into_iter().map(|choice| button(choice, key)).collect();
    blocks.push(json!({"type": "actions", "block_id": decision.kind(), "elements": buttons}));
    Value::Array(blocks)
}

/// The same blocks with a line in place of the buttons; None if there are no buttons.
pub fn settled(blocks: &Value, told: &str) -> Option<Value> {
    let is_actions = |block: &&Value| block["type"] == "actions";
    let blocks = blocks.as_array()?;
    blocks.iter().find(is_actions)?;
    let mut kept: Vec<Value> = blocks.iter().filter(|b| !is_actions(b)).cloned().collect();
    kept.push(json!({"type": "context", "elements": [{"type": "mrkdwn", "text": told}]}));
    Some(Value::Array(kept))
}

fn button(choice: Choice, key: &str) -> Value {
    let mut button = json!({
        "type": "button",
        "action_id": choice.action_id(),
        "value": key,
        "text": {"type": "plain_text", "text": choice.label()},
    });
    let style = match choice {
        Choice::Approve | Choice::Merge => Some("primary"),
        Choice::Reject | Choice::Discard => Some("danger"),
        Choice::Modify | Choice::Hold => None,
    };
    if let Some(style) = style {
        button["style"] = json!(style);
    }
    button
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_has_three_buttons_and_an_answer_in_their_place() {
        let asking = asking("*Plan*", Decision::Plan, "run-1");
        let ids: Vec<_> = asking[1]["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|b| (b["action_id"].as_str().unwrap(), b["value"].as_str().unwrap()))
            .collect();
        assert_eq!(
            ids,
            [("plan:approve", "run-1"), ("plan:modify", "run-1"), ("plan:reject", "run-1")]
        );
        let after = settled(&asking, "Approved by <@U1>").unwrap();
        assert_eq!(after[1]["elements"][0]["text"], "Approved by <@U1>");
        assert_eq!(settled(&after, "Approved by <@U2>"), None);
    }

    #[test]
    fn a_long_text_is_several_sections() {
        let asking = asking(&"word ".repeat(700), Decision::Merge, "k");
        assert_eq!(asking.as_array().unwrap().len(), 3);
    }
}
