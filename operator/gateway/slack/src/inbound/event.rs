//! Input from Slack, read leniently: only the fields used here, all others and all unknown kinds pass. A
//! payload that Slack extends tomorrow must neither be lost nor block the socket.

use codebutler_crds::SlackTs;
use serde_json::Value;

use crate::api::frame::SocketFrame;
use crate::api::lenient::{FieldReader, UnreadFields};
use crate::api::stored_message::StoredMessage;
use crate::text::feedback::{self, WhyGiven};

/// First part of the paths of an event's fields.
const EVENT: &str = "event";

/// An envelope's content, as far as it matters here.
#[derive(Debug)]
pub(crate) enum EnvelopePayload {
    /// A message that was posted in a channel.
    Message(Box<MessageEvent>),
    Click(Box<ButtonClick>),
    /// Somebody says why an answer did not help.
    Why(Box<WhyGiven>),
    /// A message was edited or deleted.
    Changed(Box<MessageChange>),
    Reaction(Box<ReactionAdded>),
    Stopped(Box<SessionStopped>),
    /// A message has links to the app's domains.
    Linked(Box<LinksShared>),
    /// Somebody opened the app's own conversation.
    Assisted(Box<AssistantOpened>),
    /// A kind that is known and of no interest, such as `app_mention`, which `message` says too.
    Ignored,
    /// A known kind that lacks a field which it can't be without.
    Unreadable,
    /// A kind that is not used here.
    Unknown,
}

/// A `message` event: something was posted.
#[derive(Debug)]
pub(crate) struct MessageEvent {
    pub channel: String,
    /// Kind of the channel: `channel`, `group` or `im`.
    pub channel_type: String,
    /// The message itself has the same fields as in the history.
    pub message: StoredMessage,
}

impl MessageEvent {
    fn read(event: &Value, unread: &mut UnreadFields) -> Option<Self> {
        let mut fields = FieldReader::new(event, EVENT, unread);
        let (channel, channel_type) = (fields.need("channel")?, fields.take("channel_type"));
        let message = StoredMessage::read(event, EVENT, unread)?;
        Some(Self { channel, channel_type: channel_type.unwrap_or_default(), message })
    }
}

/// A `message_changed` or `message_deleted` event.
#[derive(Debug)]
pub(crate) struct MessageChange {
    pub channel: String,
    /// The message before the change.
    pub before: StoredMessage,
    /// The message after the change; `None` if it was deleted.
    pub now: Option<StoredMessage>,
    /// Time of the change, if Slack sends it.
    pub at: Option<SlackTs>,
}

/// An `agent_session_stopped` event.
#[derive(Debug)]
pub(crate) struct SessionStopped {
    pub channel: String,
    /// First message of the conversation.
    pub thread_ts: SlackTs,
    pub user: String,
    pub event_ts: SlackTs,
}

/// An `assistant_thread_started` event.
#[derive(Debug)]
pub(crate) struct AssistantOpened {
    /// The conversation with the app.
    pub channel: String,
    pub thread_ts: Option<SlackTs>,
}

/// A `link_shared` event, of a message that was posted.
#[derive(Debug)]
pub(crate) struct LinksShared {
    pub channel: String,
    pub message: SlackTs,
    pub links: Vec<String>,
}

/// A press of a button, from `block_actions`.
#[derive(Debug)]
pub(crate) struct ButtonClick {
    pub channel: String,
    /// First message of the conversation.
    pub root: SlackTs,
    /// The message with the button.
    pub message: SlackTs,
    pub user: String,
    pub action_id: String,
    /// Value that was set for the button.
    pub value: Option<String>,
    /// Token that lets a modal be opened, for three seconds.
    pub trigger: Option<String>,
    /// Time of the press, if Slack says so.
    pub at: Option<SlackTs>,
}

/// A `reaction_added` event.
#[derive(Debug)]
pub(crate) struct ReactionAdded {
    pub channel: String,
    pub message: SlackTs,
    /// User id of the message's author; Slack does not give it for a message under a chosen name.
    pub author: Option<String>,
    pub user: String,
    /// The emoji's name, without colons.
    pub name: String,
    pub at: SlackTs,
}

impl SocketFrame {
    /// The channel, if people of another organisation are in it.
    pub(crate) fn shared_channel(&self) -> Option<&str> {
        let shared = self.payload["is_ext_shared_channel"] == true;
        let event = &self.payload["event"];
        event["channel"].as_str().or(event["item"]["channel"].as_str()).filter(|_| shared)
    }

    /// Parses the payload; adds the fields that could not be read.
    pub(crate) fn payload(&self, unread: &mut UnreadFields) -> EnvelopePayload {
        match self.kind.as_str() {
            "events_api" => read_event(&self.payload["event"], unread),
            "interactive" => read_click(&self.payload),
            _ => EnvelopePayload::Unknown,
        }
    }
}

fn read_event(event: &Value, unread: &mut UnreadFields) -> EnvelopePayload {
    match event["type"].as_str() {
        Some("message") => read_message(event, unread),
        // Files have reactions, too.
        Some("reaction_added") if !is_of_message(event) => EnvelopePayload::Unknown,
        Some("reaction_added") => read_reaction(event, unread)
            .map_or(EnvelopePayload::Unreadable, |found| {
                EnvelopePayload::Reaction(Box::new(found))
            }),
        Some("agent_session_stopped") => read_stop(event, unread)
            .map_or(EnvelopePayload::Unreadable, |found| EnvelopePayload::Stopped(Box::new(found))),
        // A message that is still being written is in no channel yet.
        Some("link_shared") if event["source"] == "composer" => EnvelopePayload::Ignored,
        Some("link_shared") => read_links(event, unread)
            .map_or(EnvelopePayload::Unreadable, |found| EnvelopePayload::Linked(Box::new(found))),
        Some("assistant_thread_started") => read_assistant(event, unread)
            .map_or(EnvelopePayload::Unreadable, |found| {
                EnvelopePayload::Assisted(Box::new(found))
            }),
        Some("app_mention" | "reaction_removed") => EnvelopePayload::Ignored,
        _ => EnvelopePayload::Unknown,
    }
}

fn read_message(event: &Value, unread: &mut UnreadFields) -> EnvelopePayload {
    let subtype = event["subtype"].as_str();
    if matches!(subtype, Some("message_changed" | "message_deleted")) {
        return read_change(event, unread)
            .map_or(EnvelopePayload::Ignored, |found| EnvelopePayload::Changed(Box::new(found)));
    }
    // Some subtypes carry the message one level deeper.
    if subtype.is_some() && event["ts"].is_null() {
        return EnvelopePayload::Ignored;
    }
    let read = MessageEvent::read(event, unread);
    read.map_or(EnvelopePayload::Unreadable, |found| EnvelopePayload::Message(Box::new(found)))
}

fn is_of_message(event: &Value) -> bool {
    matches!(event["item"]["type"].as_str(), Some("message") | None) && event["item"].is_object()
}

/// `None` where what is said and shown stayed as it was: links that unfold and the like.
fn read_change(event: &Value, unread: &mut UnreadFields) -> Option<MessageChange> {
    let part = |name: &str, unread: &mut UnreadFields| {
        let value = &event[name];
        let path = format!("{EVENT}.{name}");
        if value.is_null() { None } else { StoredMessage::read(value, &path, unread) }
    };
    let (now, before) = (part("message", unread), part("previous_message", unread)?);
    let deleted = event["subtype"] == "message_deleted"
        || now.as_ref().is_some_and(|now| now.subtype.as_deref() == Some("tombstone"));
    let now = now.filter(|_| !deleted);
    if now.as_ref().is_some_and(|now| now.says_like(&before) && now.shows_like(&before)) {
        return None;
    }
    let at = event["event_ts"].as_str().and_then(|ts| ts.parse().ok());
    Some(MessageChange { channel: event["channel"].as_str()?.to_owned(), before, now, at })
}

fn read_reaction(event: &Value, unread: &mut UnreadFields) -> Option<ReactionAdded> {
    let mut fields = FieldReader::new(event, EVENT, unread);
    let (user, name) = (fields.need("user"), fields.need("reaction"));
    let (author, at) = (fields.take("item_user"), fields.need("event_ts"));
    let mut item = FieldReader::new(&event["item"], "event.item", unread);
    let (channel, message) = (item.need("channel")?, item.need("ts")?);
    Some(ReactionAdded { channel, message, author, user: user?, name: name?, at: at? })
}

fn read_stop(event: &Value, unread: &mut UnreadFields) -> Option<SessionStopped> {
    let mut fields = FieldReader::new(event, EVENT, unread);
    let (channel, thread_ts) = (fields.need("channel"), fields.need("thread_ts"));
    let (user, event_ts) = (fields.need("user"), fields.need("event_ts"));
    Some(SessionStopped {
        channel: channel?,
        thread_ts: thread_ts?,
        user: user?,
        event_ts: event_ts?,
    })
}

fn read_links(event: &Value, unread: &mut UnreadFields) -> Option<LinksShared> {
    let mut fields = FieldReader::new(event, EVENT, unread);
    let (channel, message) = (fields.need("channel"), fields.need("message_ts"));
    let links = fields.items("links", |link, _, _| link["url"].as_str().map(str::to_owned));
    Some(LinksShared { channel: channel?, message: message?, links })
}

fn read_assistant(event: &Value, unread: &mut UnreadFields) -> Option<AssistantOpened> {
    let thread = &event["assistant_thread"];
    let mut fields = FieldReader::new(thread, "event.assistant_thread", unread);
    Some(AssistantOpened {
        channel: fields.need("channel_id")?,
        thread_ts: fields.take("thread_ts"),
    })
}

fn read_click(payload: &Value) -> EnvelopePayload {
    if payload["type"] == "view_submission" {
        let given = feedback::read_why(payload);
        return given
            .map_or(EnvelopePayload::Unknown, |given| EnvelopePayload::Why(Box::new(given)));
    }
    if payload["type"] != "block_actions" {
        return EnvelopePayload::Unknown;
    }
    let ts = |value: &Value| value.as_str().and_then(|ts| ts.parse::<SlackTs>().ok());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (container, message) = (&payload["container"], &payload["message"]);
    let action = &payload["actions"][0];
    let found = || {
        let clicked = ts(&container["message_ts"]).or_else(|| ts(&message["ts"]))?;
        let root = ts(&container["thread_ts"]).or_else(|| ts(&message["thread_ts"]));
        Some(ButtonClick {
            channel: text(&payload["channel"]["id"]).or_else(|| text(&container["channel_id"]))?,
            root: root.unwrap_or_else(|| clicked.clone()),
            message: clicked,
            user: text(&payload["user"]["id"])?,
            action_id: text(&action["action_id"])?,
            value: text(&action["value"]),
            trigger: text(&payload["trigger_id"]),
            at: ts(&action["action_ts"]),
        })
    };
    found().map_or(EnvelopePayload::Unknown, |click| EnvelopePayload::Click(Box::new(click)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn payload(frame: Value) -> EnvelopePayload {
        let frame: SocketFrame = serde_json::from_value(frame).unwrap();
        frame.payload(&mut UnreadFields::default())
    }

    #[test]
    fn messages_and_clicks_are_read_from_whole_payloads() {
        let message = payload(json!({
            "type": "events_api", "envelope_id": "e", "accepts_response_payload": false,
            "retry_attempt": 1, "retry_reason": "timeout",
            "payload": {"team_id": "T", "event_id": "Ev1", "type": "event_callback", "event": {
                "type": "message", "channel": "C01", "channel_type": "channel", "user": "U1",
                "ts": "10.000001", "thread_ts": "5.000000", "parent_user_id": "U0",
                "text": "hi", "blocks": [{"type": "of the future"}],
                "metadata": {"event_type": "other", "event_payload": {"n": 1}},
            }},
        }));
        let EnvelopePayload::Message(incoming) = message else { panic!("{message:?}") };
        assert_eq!(incoming.channel, "C01");
        assert_eq!(incoming.message.root().as_str(), "5.000000");
        assert_eq!(incoming.message.person(), Some("U1"));

        let click = payload(json!({"type": "interactive", "envelope_id": "e", "payload": {
            "type": "block_actions", "user": {"id": "U1", "username": "ann"}, "api_app_id": "A",
            "container": {"type": "message", "message_ts": "10.000001", "channel_id": "C01",
                "is_ephemeral": false, "thread_ts": "5.000000"},
            "trigger_id": "1.2.3", "channel": {"id": "C01", "name": "dev"},
            "message": {"ts": "10.000001", "metadata": {"event_type": "codebutler",
                "event_payload": {"role": "pm", "nested": {}}}},
            "actions": [{"action_id": "plan:approve", "block_id": "b", "type": "button",
                "value": "k", "action_ts": "11.000000"}],
        }}));
        let EnvelopePayload::Click(click) = click else { panic!("{click:?}") };
        assert_eq!((click.root.as_str(), &*click.action_id), ("5.000000", "plan:approve"));
    }

    #[test]
    fn what_is_not_known_passes() {
        let event = |event: Value| {
            payload(json!({"type": "events_api", "envelope_id": "e", "payload": {"event": event}}))
        };
        let opened = json!({"type": "assistant_thread_started", "event_ts": "2.000000",
            "assistant_thread": {"user_id": "U1", "context": {}, "channel_id": "D1", "thread_ts": "1.000000"}});
        let EnvelopePayload::Assisted(opened) = event(opened) else { panic!() };
        assert_eq!((&*opened.channel, opened.thread_ts.is_some()), ("D1", true));
        let lacking = json!({"type": "assistant_thread_started"});
        assert!(matches!(event(lacking), EnvelopePayload::Unreadable));
        let same = json!({"ts": "1.000000", "text": "x"});
        let changed = json!({"type": "message", "subtype": "message_changed", "channel": "C01",
            "message": same, "previous_message": same, "event_ts": "2.000000"});
        assert!(matches!(event(changed), EnvelopePayload::Ignored));
        assert!(matches!(event(json!({"type": "app_mention"})), EnvelopePayload::Ignored));
        assert!(matches!(event(json!({"type": "reaction_added"})), EnvelopePayload::Unknown));
        let file = json!({"type": "reaction_added", "user": "U1", "reaction": "+1",
            "item": {"type": "file", "file": "F1"}, "event_ts": "2.000000"});
        assert!(matches!(event(file), EnvelopePayload::Unknown));
        let thumb = json!({"type": "reaction_added", "user": "U1", "reaction": "+1",
            "item": {"type": "message", "channel": "C01", "ts": "1.000000"},
            "item_user": "U0BOT", "event_ts": "2.000000"});
        assert!(matches!(event(thumb), EnvelopePayload::Reaction(_)));
        assert!(matches!(
            event(json!({"type": "message", "channel": 7})),
            EnvelopePayload::Unreadable
        ));
        assert!(matches!(event(Value::Null), EnvelopePayload::Unknown));
        let view = json!({"type": "interactive", "payload": {"type": "view_submission"}});
        assert!(matches!(payload(view), EnvelopePayload::Unknown));
        let empty =
            json!({"type": "interactive", "payload": {"type": "block_actions", "actions": []}});
        assert!(matches!(payload(empty), EnvelopePayload::Unknown));
    }
}
