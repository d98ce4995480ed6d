//! `agents.sessions.*`: the status that Slack itself shows of an agent at work, with its stop button.

use serde_json::json;

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodReply, answer_ok, fail_with};

const STATUSES: [&str; 4] = ["active", "processing", "suspended", "closed"];
const MAX_TITLE: usize = 200;

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
