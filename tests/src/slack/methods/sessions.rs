//! `agents.sessions.*`: the status that Slack itself shows of an agent at work, with its stop button.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodReply, answer_ok, fail_with};

const STATUSES: [&str; 4] = ["active", "processing", "suspended", "closed"];
const MAX_TITLE: usize = 200;

const MAX_PROMPTS: usize = 4;

/// Prompts of `assistant.threads.setSuggestedPrompts`: at most four, each with a title and a message.
pub(super) fn set_prompts(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = args.need("channel_id")?;
    core.writable(&channel)?;
    let prompts = args.json("prompts", "invalid_arguments")?.unwrap_or_default();
    let text = |prompt: &Value, name: &str| {
        prompt[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let all = prompts.as_array().map(Vec::as_slice).unwrap_or_default();
    let read: Option<Vec<String>> = all
        .iter()
        .map(|prompt| text(prompt, "title").and_then(|_| text(prompt, "message")))
        .collect();
    match read.filter(|read| (1..=MAX_PROMPTS).contains(&read.len())) {
        Some(messages) => {
            core.prompts.insert(channel, messages);
            answer_ok(json!({}))
        }
        None => fail_with("invalid_arguments"),
    }
}

pub(super) fn set_status(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let status = args.need("status")?;
    let (channel, thread) = (args.need("channel_id")?, args.need("thread_ts")?);
    core.writable(&channel)?;
    core.thread_root(&channel, &thread)?;
    if !STATUSES.contains(&status.as_str()) {
        return fail_with("invalid_arguments");
    }
    if args.text("title").is_some_and(|title| title.chars().count() > MAX_TITLE) {
        return fail_with("invalid_arguments");
    }
    if args.text("username").is_some() || args.text("icon_emoji").is_some() {
        core.require("chat:write.customize")?;
    }
    // Slack documents that only declared agents have sessions, not the code that others get.
    if !core.options.agent {
        return fail_with("not_an_agent");
    }
    core.sessions.insert((channel, thread), status.clone());
    let mut reply = json!({"status": status, "agent_status": status});
    if !core.options.subscriptions.iter().any(|event| event == "agent_session_stopped") {
        reply["warning"] = json!("missing_agent_session_stopped_event_subscription");
    }
    answer_ok(reply)
}
