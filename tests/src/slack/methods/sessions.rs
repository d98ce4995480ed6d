//! `agents.sessions.*`: the status that Slack itself shows of an agent at work, with its stop button.

use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodReply, answer_ok, fail_with};
use super::super::view::AgentSession;

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
    // Only a channel that is a session as a whole has none, and apps make none here.
    let (channel, thread) = (args.need("channel_id")?, args.need("thread_ts")?);
    core.writable(&channel)?;
    core.thread_root(&channel, &thread)?;
    if !STATUSES.contains(&status.as_str()) {
        return fail_with("invalid_arguments");
    }
    let title = args.text("title");
    if title.as_ref().is_some_and(|title| title.chars().count() > MAX_TITLE) {
        return fail_with("invalid_arguments");
    }
    let initiator = args.text("initiator_user_id");
    let members = core.world.channels.get(&channel).map(|known| &known.members);
    let is_member = |user: &String| members.is_some_and(|members| members.contains(user));
    if initiator.as_ref().is_some_and(|user| !is_member(user)) {
        // That they have to be a member is documented, not the code that others get.
        return fail_with("user_not_in_channel");
    }
    if ["username", "icon_emoji", "icon_url"].iter().any(|name| args.text(name).is_some()) {
        core.require("chat:write.customize")?;
    }
    // Slack documents that only declared agents have sessions, not the code that others get.
    if !core.options.agent {
        return fail_with("not_an_agent");
    }
    // Title and initiator are those of its beginning.
    let begun = || AgentSession { status: String::new(), title, initiator };
    core.sessions.entry((channel, thread)).or_insert_with(begun).status.clone_from(&status);
    let mut reply = json!({"status": status, "agent_status": status});
    if !core.options.subscriptions.iter().any(|event| event == "agent_session_stopped") {
        reply["warning"] = json!("missing_agent_session_stopped_event_subscription");
    }
    answer_ok(reply)
}
