//! `conversations.*`: reading channels and threads.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::super::args::MethodArgs;
use super::super::core::SlackCore;
use super::super::failure::{MethodFailure, MethodReply, answer_ok, fail_with};
use super::super::options::RateLimits;
use super::super::render::{self, MetadataView};
use super::super::world::{SlackChannel, SlackMessage, SlackWorld};

/// Items a page for apps sold outside the marketplace.
const DISTRIBUTED_PAGE: usize = 15;

/// `oldest`, `latest` and `inclusive`, in microseconds.
struct TimeWindow {
    oldest: i64,
    latest: i64,
    inclusive: bool,
}

impl TimeWindow {
    fn read(args: &MethodArgs) -> Result<Self, MethodFailure> {
        let bound = |name: &str, open: i64| match args.text(name) {
            None => Ok(open),
            Some(ts) => {
                parse_micros(&ts).ok_or_else(|| MethodFailure::new(format!("invalid_ts_{name}")))
            }
        };
        Ok(Self {
            oldest: bound("oldest", 0)?,
            latest: bound("latest", i64::MAX)?,
            inclusive: args.flag("inclusive"),
        })
    }

    fn holds(&self, message: &SlackMessage) -> bool {
        let Some(at) = parse_micros(&message.ts) else { return false };
        let on_edge = at == self.oldest || at == self.latest;
        (self.oldest < at && at < self.latest) || (self.inclusive && on_edge)
    }
}

fn parse_micros(ts: &str) -> Option<i64> {
    let (seconds, fraction) = ts.split_once('.').unwrap_or((ts, "0"));
    let seconds: i64 = seconds.parse().ok()?;
    let fraction: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    seconds.checked_mul(1_000_000)?.checked_add(fraction)
}

fn write_cursor(place: &str) -> String {
    STANDARD.encode(format!("next:{place}"))
}

/// Decodes the `cursor` argument: the key after which the page begins.
fn read_cursor(args: &MethodArgs) -> Result<Option<String>, MethodFailure> {
    let Some(cursor) = args.text("cursor") else { return Ok(None) };
    let decoded = STANDARD.decode(&cursor).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    match decoded.as_deref().and_then(|text| text.strip_prefix("next:")) {
        Some(place) => Ok(Some(place.to_owned())),
        None => fail_with("invalid_cursor"),
    }
}

/// One page of items that come in order and whose key says where the next page begins.
fn take_page<T>(
    items: impl Iterator<Item = T>,
    limit: usize,
    key: impl Fn(&T) -> String,
) -> (Vec<T>, Option<String>) {
    let mut items = items.peekable();
    let page: Vec<T> = items.by_ref().take(limit).collect();
    let more = items.peek().is_some();
    let next = page.last().filter(|_| more).map(|item| write_cursor(&key(item)));
    (page, next)
}

/// The channel of a call that reads messages, with the scope it takes.
fn readable_channel<'a>(
    core: &'a SlackCore,
    args: &MethodArgs,
) -> Result<&'a SlackChannel, MethodFailure> {
    let channel = core.joined(&args.need("channel")?)?;
    core.require(match channel {
        SlackChannel { is_im: true, .. } => "im:history",
        SlackChannel { is_private: true, .. } => "groups:history",
        SlackChannel { .. } => "channels:history",
    })?;
    Ok(channel)
}

fn read_limit(
    core: &SlackCore,
    args: &MethodArgs,
    usual: usize,
    most: usize,
) -> Result<usize, MethodFailure> {
    let most = match core.options.rate_limits {
        RateLimits::Distributed => DISTRIBUTED_PAGE,
        RateLimits::Off | RateLimits::Internal => most,
    };
    args.limit(usual.min(most), most)
}

fn render_messages(
    core: &SlackCore,
    channel: &SlackChannel,
    args: &MethodArgs,
    messages: &[&SlackMessage],
) -> Vec<Value> {
    let metadata = if args.flag("include_all_metadata") {
        MetadataView::Full
    } else {
        MetadataView::Declared(&core.options.metadata_subscriptions)
    };
    let render = |message: &&SlackMessage| {
        Value::Object(render::render_message(&core.world, channel, message, metadata))
    };
    messages.iter().map(render).collect()
}

fn messages_reply(rendered: &[Value], next: Option<String>) -> MethodReply {
    let mut reply = json!({ "messages": rendered, "has_more": next.is_some() });
    if let Some(next) = next {
        reply["response_metadata"] = json!({ "next_cursor": next });
    }
    answer_ok(reply)
}

pub(super) fn read_history(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = readable_channel(core, args)?;
    let limit = read_limit(core, args, 100, 999)?;
    let (window, before) = (TimeWindow::read(args)?, read_cursor(args)?);
    let newest_first = channel
        .messages
        .values()
        .rev()
        .filter(|message| message.thread_ts.is_none() || message.broadcast)
        .filter(|message| core.is_indexed(channel, message))
        .filter(|message| window.holds(message))
        .filter(|message| before.as_ref().is_none_or(|before| message.ts < *before));
    let (page, next) = take_page(newest_first, limit, |message| message.ts.clone());
    let mut reply = messages_reply(&render_messages(core, channel, args, &page), next)?;
    reply.insert("pin_count".to_owned(), json!(0));
    Ok(reply)
}

pub(super) fn read_replies(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = readable_channel(core, args)?;
    let root = args.need("ts")?;
    let limit = read_limit(core, args, 1000, 1000)?;
    let (window, after) = (TimeWindow::read(args)?, read_cursor(args)?);
    let mut thread = channel.thread(&root);
    thread.retain(|message| core.is_indexed(channel, message));
    if thread.is_empty() {
        return fail_with("thread_not_found");
    }
    // The root opens the first page whatever the window, and no other page.
    let oldest_first = thread.into_iter().filter(|message| match &after {
        None => message.ts == root || window.holds(message),
        Some(after) => message.ts > *after && window.holds(message),
    });
    let (page, next) = take_page(oldest_first, limit, |message| message.ts.clone());
    messages_reply(&render_messages(core, channel, args, &page), next)
}

fn needs_read(core: &SlackCore, is_private: bool) -> Result<(), MethodFailure> {
    core.require(if is_private { "groups:read" } else { "channels:read" })
}

pub(super) fn channel_info(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = core.visible(&args.need("channel")?)?;
    needs_read(core, channel.is_private)?;
    answer_ok(json!({ "channel": render::render_channel(&core.world, channel) }))
}

/// Channels that the app may see.
pub(super) fn list_channels(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    list_filtered(core, args, |_, _| true)
}

/// Channels that the app is in.
pub(super) fn of_user(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    list_filtered(core, args, SlackWorld::bot_in)
}

fn list_filtered(
    core: &SlackCore,
    args: &MethodArgs,
    keep: fn(&SlackWorld, &SlackChannel) -> bool,
) -> MethodReply {
    let types = args.text("types").unwrap_or_else(|| "public_channel".to_owned());
    let wants = |kind: &str| types.split(',').any(|wanted| wanted.trim() == kind);
    let (public, private) = (wants("public_channel"), wants("private_channel"));
    if public {
        needs_read(core, false)?;
    }
    if private {
        needs_read(core, true)?;
    }
    let (limit, after) = (args.limit(100, 1000)?, read_cursor(args)?);
    let unarchived = args.flag("exclude_archived");
    let found = core
        .world
        .channels
        .values()
        .filter(|channel| !channel.is_im)
        .filter(|channel| if channel.is_private { private } else { public })
        .filter(|channel| keep(&core.world, channel))
        .filter(|channel| !channel.is_private || core.world.bot_in(channel))
        .filter(|channel| !(unarchived && channel.is_archived))
        .filter(|channel| after.as_ref().is_none_or(|after| channel.id > *after));
    let (page, next) = take_page(found, limit, |channel| channel.id.clone());
    let channels: Vec<Value> =
        page.into_iter().map(|channel| render::render_channel(&core.world, channel)).collect();
    answer_ok(json!({
        "channels": channels,
        "response_metadata": { "next_cursor": next.unwrap_or_default() },
    }))
}

pub(super) fn list_members(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let channel = core.visible(&args.need("channel")?)?;
    needs_read(core, channel.is_private)?;
    let (limit, after) = (args.limit(100, 1000)?, read_cursor(args)?);
    let found = channel.members.iter().filter(|id| after.as_ref().is_none_or(|after| *id > after));
    let (page, next) = take_page(found, limit, ToString::to_string);
    answer_ok(json!({
        "members": page,
        "response_metadata": { "next_cursor": next.unwrap_or_default() },
    }))
}

pub(super) fn create_channel(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let name = args.need("name")?;
    if args.flag("is_private") {
        core.require("groups:write")?;
    }
    // Letters of any script, none of them a capital.
    let letter = |c: char| c.is_alphanumeric() && !c.is_uppercase();
    let plain = |c: char| letter(c) || c == '-' || c == '_';
    if name.chars().count() > 80 {
        return fail_with("invalid_name_maxlength");
    }
    if !name.chars().all(plain) {
        return fail_with("invalid_name_specials");
    }
    if core.world.channels.values().any(|channel| channel.name == name) {
        return fail_with("name_taken");
    }
    let bot = core.world.app.user_id.clone();
    let id = core.world.add_channel(&name, args.flag("is_private"), &[&bot]);
    let channel = core.visible(&id)?;
    answer_ok(json!({ "channel": render::render_channel(&core.world, channel) }))
}

pub(super) fn join_channel(core: &mut SlackCore, args: &MethodArgs) -> MethodReply {
    let id = args.need("channel")?;
    let channel = core.visible(&id)?;
    if channel.is_private {
        return fail_with("method_not_supported_for_channel_type");
    }
    if channel.is_archived {
        return fail_with("is_archived");
    }
    let bot = core.world.app.user_id.clone();
    let joined = core.join(&id, &bot);
    let channel = core.visible(&id)?;
    let mut reply = json!({ "channel": render::render_channel(&core.world, channel) });
    if !joined {
        reply["warning"] = json!("already_in_channel");
        reply["response_metadata"] = json!({ "warnings": ["already_in_channel"] });
    }
    answer_ok(reply)
}
