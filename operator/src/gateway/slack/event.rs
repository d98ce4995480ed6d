//! What arrives from Slack, read leniently: only the fields used here, all others and all unknown
//! kinds pass. A payload that Slack extends tomorrow must neither be lost nor block the socket.

use codebutler_crds::SlackTs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use url::Url;

#[derive(Debug, Deserialize)]
pub struct SocketFrame {
    /// `hello`, `disconnect`, `events_api`, `interactive` and what may come.
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub envelope_id: Option<String>,
    /// Why, for `disconnect`.
    #[serde(default)]
    pub reason: Option<String>,
    /// Depends on `kind`.
    #[serde(default)]
    pub payload: Value,
}

/// An envelope's content, as far as it matters here.
#[derive(Debug)]
pub enum EnvelopePayload {
    /// A message in a channel.
    Message(Box<MessageEvent>),
    Click(Box<ButtonClick>),
    /// A message was edited or deleted.
    Changed(Box<MessageChange>),
    Reaction(Box<ReactionAdded>),
    Stopped(Box<SessionStopped>),
    /// Known and of no interest, such as `app_mention`, which `message` says too.
    Ignored,
    /// Not known here.
    Unknown,
}

/// A `message` event.
#[derive(Debug, Deserialize)]
pub struct MessageEvent {
    pub channel: String,
    /// `channel`, `group` or `im`.
    #[serde(default)]
    pub channel_type: String,
    /// The message itself has the same fields as in the history.
    #[serde(flatten)]
    pub message: StoredMessage,
}

/// A message as Slack stores it.
#[derive(Clone, Debug, Deserialize)]
pub struct StoredMessage {
    pub ts: SlackTs,
    /// The conversation's first message, if it is one.
    #[serde(default)]
    pub thread_ts: Option<SlackTs>,
    /// What kind of message, if it is no plain one.
    #[serde(default)]
    pub subtype: Option<String>,
    #[serde(default)]
    pub user: Option<String>,
    #[serde(default)]
    pub bot_id: Option<String>,
    #[serde(default)]
    pub text: Option<String>,
    /// Who wrote the conversation's first message.
    #[serde(default)]
    pub parent_user_id: Option<String>,
    /// Ours if `event_type` says so and the sender is our bot.
    #[serde(default, deserialize_with = "if_readable")]
    pub metadata: Option<MessageMetadata>,
    #[serde(default)]
    pub blocks: Option<Value>,
    #[serde(default, deserialize_with = "if_readable")]
    pub files: Vec<SharedMessage>,
    /// Emoji, in histories.
    #[serde(default, deserialize_with = "if_readable")]
    pub reactions: Vec<StoredEmoji>,
}

/// A file in a conversation. Everything about it is whatever the sender chose.
#[derive(Clone, Debug, Deserialize)]
pub struct SharedMessage {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    /// As Slack guesses it.
    #[serde(default)]
    pub mimetype: String,
    #[serde(default)]
    pub size: u64,
    /// Where it is, for whoever has the bot's token.
    #[serde(default)]
    pub url_private: Option<Url>,
}

impl SharedMessage {
    /// Whether it is heard rather than read.
    pub fn is_sound(&self) -> bool {
        self.mimetype.starts_with("audio/")
    }
}

/// What can't be read is left out: it must not hide the message that it is a part of.
fn if_readable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + Default,
{
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).unwrap_or_default())
}

impl StoredMessage {
    /// The first message of the conversation.
    pub fn root(&self) -> &SlackTs {
        self.thread_ts.as_ref().unwrap_or(&self.ts)
    }

    /// Whether a person or bot said something, rather than Slack telling what happened.
    pub fn is_said(&self) -> bool {
        let said = ["file_share", "thread_broadcast", "me_message", "bot_message"];
        self.subtype.as_deref().is_none_or(|subtype| said.contains(&subtype))
    }

    pub fn person(&self) -> Option<&str> {
        let by_bot = self.bot_id.is_some() || self.subtype.as_deref() == Some("bot_message");
        self.user.as_deref().filter(|_| !by_bot && self.is_said())
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct MessageMetadata {
    #[serde(default)]
    pub event_type: String,
    /// Anything at all, if it is not ours.
    #[serde(default)]
    pub event_payload: Value,
}

/// `message_changed` and `message_deleted`.
#[derive(Debug)]
pub struct MessageChange {
    pub channel: String,
    /// As it was.
    pub before: StoredMessage,
    /// As it is now; None: deleted.
    pub now: Option<StoredMessage>,
}

/// `agent_session_stopped`.
#[derive(Debug, Deserialize)]
pub struct SessionStopped {
    pub channel: String,
    /// First message of the conversation.
    pub thread_ts: SlackTs,
    pub user: String,
    pub event_ts: SlackTs,
}

/// An emoji under a message, as the history has it.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StoredEmoji {
    /// Its name, without colons.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub users: Vec<String>,
}

/// `block_actions`.
#[derive(Debug)]
pub struct ButtonClick {
    pub channel: String,
    /// First message of the conversation.
    pub root: SlackTs,
    /// The message with the button.
    pub message: SlackTs,
    pub user: String,
    pub action_id: String,
}

/// `reaction_added`.
#[derive(Debug)]
pub struct ReactionAdded {
    pub channel: String,
    pub message: SlackTs,
    /// User id of who wrote the message; Slack does not say it of one under a chosen name.
    pub author: Option<String>,
    pub user: String,
    /// The emoji's name, without colons.
    pub name: String,
    pub at: SlackTs,
}

impl SocketFrame {
    /// The channel, if people of another organisation are in it.
    pub fn shared_channel(&self) -> Option<&str> {
        let shared = self.payload["is_ext_shared_channel"] == true;
        let event = &self.payload["event"];
        event["channel"].as_str().or(event["item"]["channel"].as_str()).filter(|_| shared)
    }

    /// What is in it.
    pub fn payload(&self) -> EnvelopePayload {
        match self.kind.as_str() {
            "events_api" => read_event(&self.payload["event"]),
            "interactive" => read_click(&self.payload),
            _ => EnvelopePayload::Unknown,
        }
    }
}

fn read_event(event: &Value) -> EnvelopePayload {
    match event["type"].as_str() {
        Some("message") => match MessageEvent::deserialize(event) {
            _ if matches!(
                event["subtype"].as_str(),
                Some("message_changed" | "message_deleted")
            ) =>
            {
                read_change(event).map_or(EnvelopePayload::Ignored, |found| {
                    EnvelopePayload::Changed(Box::new(found))
                })
            }
            Ok(incoming) => EnvelopePayload::Message(Box::new(incoming)),
            // Some subtypes carry the message one level deeper.
            Err(_) if event["subtype"].is_string() => EnvelopePayload::Ignored,
            Err(_) => EnvelopePayload::Unknown,
        },
        Some("reaction_added") => read_reaction(event)
            .map_or(EnvelopePayload::Unknown, |found| EnvelopePayload::Reaction(Box::new(found))),
        Some("agent_session_stopped") => SessionStopped::deserialize(event)
            .map_or(EnvelopePayload::Unknown, |found| EnvelopePayload::Stopped(Box::new(found))),
        Some("app_mention" | "reaction_removed") => EnvelopePayload::Ignored,
        _ => EnvelopePayload::Unknown,
    }
}

/// None where the words stayed as they were: links that unfold and the like.
fn read_change(event: &Value) -> Option<MessageChange> {
    let before = StoredMessage::deserialize(&event["previous_message"]).ok()?;
    let now = StoredMessage::deserialize(&event["message"]).ok();
    let deleted = event["subtype"] == "message_deleted"
        || now.as_ref().is_some_and(|now| now.subtype.as_deref() == Some("tombstone"));
    let now = now.filter(|_| !deleted);
    if now.as_ref().is_some_and(|now| now.text == before.text) {
        return None;
    }
    Some(MessageChange { channel: event["channel"].as_str()?.to_owned(), before, now })
}

fn read_reaction(event: &Value) -> Option<ReactionAdded> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let ts = |value: &Value| value.as_str().and_then(|ts| ts.parse::<SlackTs>().ok());
    let item = &event["item"];
    Some(ReactionAdded {
        channel: text(&item["channel"])?,
        message: ts(&item["ts"])?,
        author: text(&event["item_user"]),
        user: text(&event["user"])?,
        name: text(&event["reaction"])?,
        at: ts(&event["event_ts"])?,
    })
}

fn read_click(payload: &Value) -> EnvelopePayload {
    if payload["type"] != "block_actions" {
        return EnvelopePayload::Unknown;
    }
    let ts = |value: &Value| value.as_str().and_then(|ts| ts.parse::<SlackTs>().ok());
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let (container, message) = (&payload["container"], &payload["message"]);
    let found = || {
        let clicked = ts(&container["message_ts"]).or_else(|| ts(&message["ts"]))?;
        let root = ts(&container["thread_ts"]).or_else(|| ts(&message["thread_ts"]));
        Some(ButtonClick {
            channel: text(&payload["channel"]["id"]).or_else(|| text(&container["channel_id"]))?,
            root: root.unwrap_or_else(|| clicked.clone()),
            message: clicked,
            user: text(&payload["user"]["id"])?,
            action_id: text(&payload["actions"][0]["action_id"])?,
        })
    };
    found().map_or(EnvelopePayload::Unknown, |click| EnvelopePayload::Click(Box::new(click)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn payload(frame: Value) -> EnvelopePayload {
        serde_json::from_value::<SocketFrame>(frame).unwrap().payload()
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
        let changed = json!({"type": "message", "subtype": "message_changed", "channel": "C01",
            "message": {"ts": "1.000000"}, "event_ts": "2.000000"});
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
            EnvelopePayload::Unknown
        ));
        assert!(matches!(event(Value::Null), EnvelopePayload::Unknown));
        let view = json!({"type": "interactive", "payload": {"type": "view_submission"}});
        assert!(matches!(payload(view), EnvelopePayload::Unknown));
        let empty =
            json!({"type": "interactive", "payload": {"type": "block_actions", "actions": []}});
        assert!(matches!(payload(empty), EnvelopePayload::Unknown));
    }
}
