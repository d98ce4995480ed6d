//! `views.*`.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::blocks;
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};

const MAX_HEAD: usize = 24;
const MAX_METADATA: usize = 3000;
const MAX_CALLBACK: usize = 255;
const MAX_BYTES: usize = 250_000;

pub(super) fn open_view(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let trigger = args.need("trigger_id")?;
    let Some(mut view) = args.json("view", "invalid_arguments")? else {
        return fail_with("invalid_arguments");
    };
    check_view(&view)?;
    view["blocks"] = Value::Array(blocks::accept_blocks(&view["blocks"])?);
    let user = core.modals.exchange(&trigger).map_err(MethodFailure::new)?;
    let id = core.world.id('V');
    view["id"] = json!(id);
    view["team_id"] = json!(core.world.team.id);
    view["app_id"] = json!(core.world.app.id);
    view["bot_id"] = json!(core.world.app.bot_id);
    view["state"] = json!({ "values": {} });
    core.modals.show(&id, user, view.clone());
    answer_ok(json!({ "view": view }))
}

/// Slack names every problem at once.
fn check_view(view: &Value) -> Result<(), MethodFailure> {
    let mut problems = Vec::new();
    let mut problem =
        |what: &str, at: &str| problems.push(format!("{what} [json-pointer:/view{at}]"));
    if view["type"] != "modal" {
        problem("must be a valid enum value", "/type");
    }
    let blocks = view["blocks"].as_array().cloned().unwrap_or_default();
    if blocks.is_empty() || blocks.len() > 100 {
        problem("must be 1 to 100 blocks", "/blocks");
    }
    let takes_input = blocks.iter().any(|block| block["type"] == "input");
    for (name, needed) in [("title", true), ("submit", takes_input), ("close", false)] {
        let (text, at) = (&view[name], format!("/{name}"));
        if text.is_null() {
            if needed {
                problem("missing required field", &at);
            }
            continue;
        }
        let length = text["text"].as_str().unwrap_or_default().chars().count();
        if text["type"] != "plain_text" || !(1..=MAX_HEAD).contains(&length) {
            problem("must be plain text of at most 24 characters", &at);
        }
    }
    for (name, most) in [("private_metadata", MAX_METADATA), ("callback_id", MAX_CALLBACK)] {
        if view[name].as_str().is_some_and(|text| text.chars().count() > most) {
            problem("must be shorter", &format!("/{name}"));
        }
    }
    for block in blocks.iter().filter(|block| block["element"]["type"] == "plain_text_input") {
        let most = &block["element"]["max_length"];
        if !most.is_null() && !most.as_u64().is_some_and(|most| (1..=3000).contains(&most)) {
            problem("must be between 1 and 3000", "/blocks/element/max_length");
        }
    }
    if view.to_string().len() > MAX_BYTES {
        return Err(MethodFailure::new("view_too_large"));
    }
    if problems.is_empty() {
        return Ok(());
    }
    Err(MethodFailure::explained("invalid_arguments", &problems))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modal_is_refused_without_what_it_needs() {
        let plain = |text: &str| json!({ "type": "plain_text", "text": text });
        let input = json!({ "type": "input", "label": plain("Why?"),
            "element": { "type": "plain_text_input", "action_id": "a", "max_length": 300 } });
        let good = json!({ "type": "modal", "title": plain("Why?"), "submit": plain("Send"),
            "blocks": [input] });
        assert!(check_view(&good).is_ok());
        for name in ["type", "title", "submit", "blocks"] {
            let mut without = good.clone();
            without.as_object_mut().unwrap().remove(name);
            assert_eq!(check_view(&without).unwrap_err().code, "invalid_arguments", "{name}");
        }
        let mut long = good;
        long["title"] = plain(&"x".repeat(25));
        assert_eq!(check_view(&long).unwrap_err().code, "invalid_arguments");
    }
}
