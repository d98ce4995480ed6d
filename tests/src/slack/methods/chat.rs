//! `chat.*`.

use serde_json::{Value, json};

use super::super::actions::{MessageEdit, MetadataChange};
use super::super::args::MethodArgs;
use super::super::blocks::{self, MAX_MARKDOWN};
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::render::{self, MetadataView, ORIGIN};
use super::super::text;
use super::super::world::{MessageMetadata, MessageSender, SlackMessage, StreamStanding};

/// Characters of text beyond which Slack cuts a new message, and refuses an update.
const POST_TEXT: usize = 40_000;
const UPDATE_TEXT: usize = 4_000;
const MAX_ATTACHMENTS: usize = 100;
/// Bytes of metadata as JSON.
const MAX_METADATA: usize = 16_384;

/// Content of a message as given in a call; `None` where the argument is absent.
#[derive(Debug, Default)]
pub(in super::super) struct ChatContent {
    pub text: Option<String>,
    pub blocks: Option<Vec<Value>>,
    pub attachments: Option<Vec<Value>>,
    pub metadata: MetadataChange,
    pub truncated: bool,
}

/// Reads and checks text, blocks, attachments and metadata.
pub(in super::super) fn read_content(args: &MethodArgs) -> Result<ChatContent, MethodFailure> {
    let mut content = ChatContent::default();
    if let Some(blocks) = args.json("blocks", "invalid_blocks_format")? {
        content.blocks = Some(blocks::accept_blocks(&blocks)?).filter(|blocks| !blocks.is_empty());
    }
    if let Some(attachments) = args.json("attachments", "invalid_attachments")? {
        let Value::Array(attachments) = attachments else {
            return fail_with("invalid_attachments");
        };
        if attachments.len() > MAX_ATTACHMENTS {
            return fail_with("too_many_attachments");
        }
        content.attachments = Some(attachments);
    }
    if let Some(markdown) = args.text("markdown_text") {
        if args.text("text").is_some() || content.blocks.is_some() {
            return fail_with("markdown_text_conflict");
        }
        if markdown.chars().count() > MAX_MARKDOWN {
            return fail_with("msg_too_long");
        }
        content.blocks =
            Some(blocks::accept_blocks(&json!([{ "type": "markdown", "text": markdown }]))?);
        content.text = Some(text::posted_text(&markdown, false));
    }
    if let Some(mut given) = args.text("text") {
        if given.chars().count() > POST_TEXT {
            given = given.chars().take(POST_TEXT).collect();
            content.truncated = true;
        }
        content.text =
            Some(text::posted_text(&given, args.text("parse").as_deref() == Some("none")));
    }
    let has_attachments = content.attachments.as_ref().is_some_and(|list| !list.is_empty());
    if content.text.is_none() && content.blocks.is_none() && !has_attachments {
        return fail_with("no_text");
    }
    content.metadata = read_metadata(args)?;
    Ok(content)
}

pub(super) fn read_metadata(args: &MethodArgs) -> Result<MetadataChange, MethodFailure> {
    let Some(given) = args.json("metadata", "invalid_metadata_format")? else {
        return Ok(MetadataChange::Keep);
    };
    let Value::Object(fields) = &given else { return fail_with("invalid_metadata_format") };
    if fields.is_empty() {
        return Ok(MetadataChange::Remove);
    }
    if given.to_string().len() > MAX_METADATA {
        return fail_with("metadata_too_large");
    }
    match (given["event_type"].as_str(), given.get("event_payload")) {
        (Some(kind), Some(payload @ Value::Object(_))) if !kind.is_empty() => {
            let event_payload = payload.clone();
            Ok(MetadataChange::Set(MessageMetadata { event_type: kind.to_owned(), event_payload }))
        }
        _ => fail_with("invalid_metadata_format"),
    }
}

/// A channel id from an id or a `#name`.
fn channel_id(core: &SlackCore, given: &str) -> String {
    let name = given.strip_prefix('#').unwrap_or(given);
    let named = core.world.channels.values().find(|channel| channel.name == name);
    named.map_or_else(|| given.to_owned(), |channel| channel.id.clone())
}

pub(super) fn read_sender(
    core: &SlackCore,
    args: &MethodArgs,
) -> Result<MessageSender, MethodFailure> {
    let [username, icon_emoji, icon_url] =
        ["username", "icon_emoji", "icon_url"].map(|name| args.text(name));
    if username.is_some() || icon_emoji.is_some() || icon_url.is_some() {
        core.require("chat:write.customize")?;
    }
    Ok(MessageSender::App { username, icon_emoji, icon_url })
}

pub(super) fn post_message(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = channel_id(core, &args.need("channel")?);
    core.writable(&channel)?;
    let content = read_content(args)?;
    let mut kinds = content.blocks.iter().flatten().filter_map(|block| block["type"].as_str());
    if let Some(kind) = kinds.find(|kind| core.unknown_blocks.contains(*kind)) {
        let problem = format!("unsupported type: {kind} [json-pointer:/blocks]");
        return Err(MethodFailure::explained("invalid_blocks", &[problem]));
    }
    let sender = read_sender(core, args)?;
    let mut message = SlackMessage::draft(sender, content.text.unwrap_or_default());
    message.blocks = content.blocks.unwrap_or_default();
    message.attachments = content.attachments.unwrap_or_default();
    message.metadata = content.metadata.applied_to(None);
    message.thread_ts = args.text("thread_ts");
    message.broadcast = message.thread_ts.is_some() && args.flag("reply_broadcast");
    if let Some(root) = &message.thread_ts {
        core.thread_root(&channel, root)?;
    }
    let Some(posted) = core.post(&channel, message) else { return fail_with("internal_error") };
    let mut reply = json!({
        "channel": channel,
        "ts": posted.ts,
        "message": render_posted(core, &channel, &posted.ts),
    });
    if content.truncated {
        reply["warning"] = json!("message_truncated");
        reply["response_metadata"] = json!({ "warnings": ["message_truncated"] });
    }
    answer_ok(reply)
}

fn render_posted(core: &SlackCore, channel: &str, ts: &str) -> Value {
    let Some(channel) = core.world.channels.get(channel) else { return Value::Null };
    let Some(message) = channel.messages.get(ts) else { return Value::Null };
    Value::Object(render::render_message(&core.world, channel, message, MetadataView::Full))
}

pub(super) fn post_ephemeral(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = channel_id(core, &args.need("channel")?);
    let user = args.need("user")?;
    let found = core.writable(&channel)?;
    if !found.members.contains(&user) {
        return fail_with("user_not_in_channel");
    }
    let content = read_content(args)?;
    let sender = read_sender(core, args)?;
    let mut message = SlackMessage::draft(sender, content.text.unwrap_or_default());
    message.blocks = content.blocks.unwrap_or_default();
    message.attachments = content.attachments.unwrap_or_default();
    message.thread_ts = args.text("thread_ts");
    message.ephemeral_for = Some(user);
    if let Some(root) = &message.thread_ts {
        core.thread_root(&channel, root)?;
    }
    let Some(posted) = core.post(&channel, message) else { return fail_with("internal_error") };
    answer_ok(json!({ "message_ts": posted.ts }))
}

/// The app's own message, or the code that says why not.
pub(super) fn own_message<'a>(
    core: &'a SlackCore,
    args: &MethodArgs,
    not_mine: &str,
) -> Result<(String, &'a SlackMessage), MethodFailure> {
    let channel = args.need("channel")?;
    let ts = args.need("ts")?;
    let Some(message) = core.writable(&channel)?.messages.get(&ts) else {
        return fail_with("message_not_found");
    };
    match message.sender {
        MessageSender::App { .. } => Ok((channel, message)),
        _ => fail_with(not_mine),
    }
}

pub(super) fn update_message(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, message) = own_message(core, args, "cant_update_message")?;
    let ts = message.ts.clone();
    core.expire_stream(&channel, &ts);
    if core.is_streaming(&channel, &ts) {
        return fail_with("streaming_state_conflict");
    }
    if args.text("text").is_some_and(|text| text.chars().count() > UPDATE_TEXT) {
        return fail_with("msg_too_long");
    }
    let content = read_content(args)?;
    // Text alone takes the blocks away; blocks hide the edit.
    let marked = content.blocks.is_none();
    let edit = MessageEdit {
        text: Some(content.text.unwrap_or_default()),
        blocks: Some(content.blocks.unwrap_or_default()),
        attachments: content.attachments,
        metadata: content.metadata,
        marked,
    };
    core.end_stream(&channel, &ts, StreamStanding::Stopped);
    let Some(edited) = core.edit(&channel, &ts, edit) else {
        return fail_with("message_not_found");
    };
    answer_ok(json!({
        "channel": channel,
        "ts": ts,
        "text": edited.text,
        "message": render_posted(core, &channel, &ts),
    }))
}

pub(super) fn delete_message(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let (channel, message) = own_message(core, args, "cant_delete_message")?;
    let ts = message.ts.clone();
    core.expire_stream(&channel, &ts);
    if core.is_streaming(&channel, &ts) {
        return fail_with("cant_delete_message");
    }
    core.delete(&channel, &ts);
    answer_ok(json!({ "channel": channel, "ts": ts }))
}

pub(super) fn get_permalink(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = args.need("channel")?;
    let ts = args.need("message_ts")?;
    let Some(message) = core.visible(&channel)?.messages.get(&ts) else {
        return fail_with("message_not_found");
    };
    let place = format!("{ORIGIN}/archives/{channel}/p{}", ts.replace('.', ""));
    let permalink = match &message.thread_ts {
        Some(root) => format!("{place}?thread_ts={root}&cid={channel}"),
        None => place,
    };
    answer_ok(json!({ "channel": channel, "permalink": permalink }))
}
