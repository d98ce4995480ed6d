//! `chat.startStream`, `chat.appendStream` and `chat.stopStream`: a message that grows.
//!
//! What Slack does not document is as its users have measured it: an open stream refuses `chat.update` and
//! `chat.delete`, one that is over refuses `chat.appendStream` and `chat.stopStream`, and after five minutes
//! Slack ends it, whatever is appended, with a mark that only `chat.update` takes away.

use serde_json::{Value, json};

use super::super::actions::MessageEdit;
use super::super::args::MethodArgs;
use super::super::blocks::{self, MAX_BLOCKS, MAX_MARKDOWN};
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::rich;
use super::super::world::{MessageStream, SlackMessage, StreamStanding, unix_now};
use super::chat;

/// Characters of a task's or plan's texts.
const MAX_TASK_TEXT: usize = 256;
const STATUSES: [&str; 4] = ["pending", "in_progress", "complete", "error"];

pub(super) fn start_stream(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, root) = (args.need("channel")?, args.need("thread_ts")?);
    let found = core.writable(&channel)?;
    if !found.is_im {
        check_recipient(core, args)?;
    }
    core.thread_root(&channel, &root)?;
    let display = args.text("task_display_mode").unwrap_or_else(|| "timeline".to_owned());
    if !["timeline", "plan"].contains(&display.as_str()) {
        return fail_with("invalid_arguments");
    }
    let sender = chat::read_sender(core, args)?;
    let chunks = read_chunks(args)?;
    let mut message = SlackMessage::draft(sender, String::new());
    let stream = MessageStream { standing: StreamStanding::Open, began: unix_now(), display };
    apply_chunks(&mut message.blocks, &stream.display, &chunks)?;
    message.text = blocks::show_blocks(&message.blocks);
    message.stream = Some(stream);
    message.thread_ts = Some(root);
    let Some(posted) = core.post(&channel, message) else { return fail_with("internal_error") };
    answer_ok(json!({ "channel": channel, "ts": posted.ts }))
}

/// Required in channels, both of them.
fn check_recipient(core: &SlackCore, args: &MethodArgs) -> Result<(), MethodFailure> {
    let Some(user) = args.text("recipient_user_id") else {
        return fail_with("missing_recipient_user_id");
    };
    let Some(team) = args.text("recipient_team_id") else {
        return fail_with("missing_recipient_team_id");
    };
    let Some(known) = core.world.users.get(&user).filter(|user| !user.is_bot) else {
        return fail_with("user_not_found");
    };
    if core.world.team_of(&known.id) == team { Ok(()) } else { fail_with("team_not_found") }
}

pub(super) fn append_stream(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, message, stream) = open_stream(core, args)?;
    let chunks = read_chunks(args)?;
    if chunks.is_empty() {
        return fail_with("no_text");
    }
    let mut shown = message.blocks.clone();
    apply_chunks(&mut shown, &stream.display, &chunks)?;
    let edit = MessageEdit {
        text: Some(blocks::show_blocks(&shown)),
        blocks: Some(shown),
        ..MessageEdit::default()
    };
    let ts = message.ts;
    core.edit(&channel, &ts, edit);
    answer_ok(json!({ "channel": channel, "ts": ts }))
}

pub(super) fn stop_stream(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, message, stream) = open_stream(core, args)?;
    let mut shown = message.blocks.clone();
    apply_chunks(&mut shown, &stream.display, &read_chunks(args)?)?;
    if let Some(last) = args.json("blocks", "invalid_blocks_format")? {
        shown.extend(blocks::accept_blocks(&last)?);
    }
    let edit = MessageEdit {
        text: Some(blocks::show_blocks(&shown)),
        blocks: Some(shown),
        metadata: chat::read_metadata(args)?,
        ..MessageEdit::default()
    };
    let ts = message.ts;
    core.end_stream(&channel, &ts, StreamStanding::Stopped);
    core.edit(&channel, &ts, edit);
    answer_ok(json!({ "channel": channel, "ts": ts }))
}

/// The app's own message that is still a stream.
fn open_stream(
    core: &mut SlackCore,
    args: &MethodArgs,
) -> Result<(String, SlackMessage, MessageStream), MethodFailure> {
    let (channel, message) = chat::own_message(core, args, "message_not_owned_by_app")?;
    let message = message.clone();
    core.expire_stream(&channel, &message.ts);
    match message.stream.clone().filter(|_| core.is_streaming(&channel, &message.ts)) {
        Some(stream) => Ok((channel, message, stream)),
        None => fail_with("message_not_in_streaming_state"),
    }
}

fn read_chunks(args: &MethodArgs) -> Result<Vec<Value>, MethodFailure> {
    let chunks = args.json("chunks", "invalid_chunks")?;
    let markdown = args.text("markdown_text");
    match (chunks, markdown) {
        (Some(_), Some(_)) => fail_with("cannot_provide_both_markdown_text_and_chunks"),
        (None, Some(text)) => Ok(vec![json!({ "type": "markdown_text", "text": text })]),
        (None, None) => Ok(Vec::new()),
        (Some(Value::Array(chunks)), None) => Ok(chunks),
        (Some(_), None) => fail_with("invalid_chunks"),
    }
}

fn apply_chunks(
    shown: &mut Vec<Value>,
    display: &str,
    chunks: &[Value],
) -> Result<(), MethodFailure> {
    for chunk in chunks {
        match chunk["type"].as_str() {
            Some("markdown_text") => {
                let text = need_text(chunk, "text", MAX_MARKDOWN)?;
                match shown.last_mut().filter(|last| last["type"] == "markdown") {
                    Some(last) => {
                        let known = last["text"].as_str().unwrap_or_default();
                        last["text"] = json!(format!("{known}{text}"));
                    }
                    None => shown.push(json!({ "type": "markdown", "text": text })),
                }
            }
            Some("task_update") => update_task(shown, display, chunk)?,
            Some("plan_update") => {
                plan(shown)["title"] = json!(need_text(chunk, "title", MAX_TASK_TEXT)?);
            }
            Some("blocks") => {
                let given = blocks::accept_blocks(&chunk["blocks"])?;
                if given.is_empty() || given.len() > MAX_BLOCKS {
                    return fail_with("invalid_chunks");
                }
                shown.extend(given);
            }
            _ => return fail_with("invalid_chunks"),
        }
    }
    Ok(())
}

fn need_text<'a>(chunk: &'a Value, name: &str, most: usize) -> Result<&'a str, MethodFailure> {
    let Some(text) = chunk[name].as_str().filter(|text| !text.is_empty()) else {
        return fail_with("invalid_chunks");
    };
    if text.chars().count() > most { fail_with("msg_too_long") } else { Ok(text) }
}

/// The plan of a message, which its first task or title makes.
fn plan(shown: &mut Vec<Value>) -> &mut Value {
    let place = shown.iter().position(|block| block["type"] == "plan");
    let place = place.unwrap_or_else(|| {
        shown.push(json!({ "type": "plan", "title": "", "tasks": [] }));
        shown.len() - 1
    });
    &mut shown[place]
}

/// Title and status replace what was there, details and output are added to it.
fn update_task(shown: &mut Vec<Value>, display: &str, chunk: &Value) -> Result<(), MethodFailure> {
    let (id, title) =
        (need_text(chunk, "id", MAX_TASK_TEXT)?, need_text(chunk, "title", MAX_TASK_TEXT)?);
    let Some(status) = chunk["status"].as_str().filter(|status| STATUSES.contains(status)) else {
        return fail_with("invalid_chunks");
    };
    let is_it = |task: &Value| task["task_id"] == id;
    let tasks = if display == "plan" {
        let Some(tasks) = plan(shown)["tasks"].as_array_mut() else {
            return fail_with("internal_error");
        };
        tasks
    } else {
        shown
    };
    let place = tasks.iter().position(is_it).unwrap_or_else(|| {
        let mut task = json!({ "task_id": id });
        if display != "plan" {
            task["type"] = json!("task_card");
        }
        tasks.push(task);
        tasks.len() - 1
    });
    if display == "plan" && tasks.len() > MAX_BLOCKS {
        return fail_with("invalid_chunks");
    }
    let task = &mut tasks[place];
    (task["title"], task["status"]) = (json!(title), json!(status));
    for name in ["details", "output"] {
        if !chunk[name].is_null() {
            let text = need_text(chunk, name, MAX_TASK_TEXT)?;
            task[name] = rich::rich_text(text, "d0");
        }
    }
    Ok(())
}
