//! What tests, scenarios and the chat page see: messages as people see them, and changes.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::world::{
    MessageMetadata, MessageReaction, MessageSender, SlackChannel, SlackMessage, SlackWorld,
    StreamStanding,
};
use super::{blocks, text};

/// What Slack shows of an agent in a thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSession {
    /// `active`, `processing`, `suspended` or `closed`.
    pub status: String,
    /// As of its beginning.
    pub title: Option<String>,
    /// Who began it.
    pub initiator: Option<String>,
}

/// A message as seen from outside.
#[derive(Debug, Clone, Serialize)]
pub struct MessageView {
    /// Channel id.
    pub channel: String,
    /// Its id within the channel.
    pub ts: String,
    /// Root of its thread; absent on roots.
    pub thread_ts: Option<String>,
    /// Who wrote it.
    pub sender: SenderView,
    /// In wire form (`&amp;`, `<@U…>`).
    pub text: String,
    /// What a reader sees: the blocks if there are any, else the text; mentions by handle.
    pub shown: String,
    /// As given by the app.
    pub blocks: Vec<Value>,
    /// What can be clicked.
    pub buttons: Vec<ButtonView>,
    /// In order of first use.
    pub reactions: Vec<MessageReaction>,
    /// The app's own data, whole.
    pub metadata: Option<MessageMetadata>,
    /// ts of the last edit that shows.
    pub edited: Option<String>,
    /// Files shared with it.
    pub files: Vec<FileView>,
    /// `channel_join`, `tombstone`; absent on ordinary messages.
    pub subtype: Option<String>,
    /// The only user who sees it.
    pub ephemeral_for: Option<String>,
    /// How it stands, if it began as a stream.
    pub stream: Option<StreamStanding>,
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SenderView {
    /// Person, the app, or someone else's bot.
    pub kind: SenderKind,
    /// User id of people, bot id of bots.
    pub id: String,
    /// The name shown: a handle, or the one chosen by the app.
    pub name: String,
    /// Emoji or address chosen by the app.
    pub icon: Option<String>,
}

/// Kinds of senders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SenderKind {
    /// A person.
    User,
    /// The installed app.
    App,
    /// Somebody else's bot.
    OtherBot,
}

/// A button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ButtonView {
    /// Names it in `SlackServer::click`.
    pub action_id: String,
    /// Its block.
    pub block_id: String,
    /// Its label.
    pub text: String,
    /// What the app put behind it.
    pub value: Option<String>,
    /// `primary` or `danger`.
    pub style: Option<String>,
}

/// A shared file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileView {
    /// `F…`.
    pub id: String,
    /// File name.
    pub name: String,
    /// Shown name.
    pub title: String,
    /// Bytes.
    pub size: usize,
}

/// Something that changed, in the order in which it did.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum SlackChange {
    /// A new message.
    Posted {
        /// As it is now.
        message: MessageView,
    },
    /// A message was edited by its author.
    Edited {
        /// As it is now.
        message: MessageView,
    },
    /// A message was deleted.
    Deleted {
        /// Channel id.
        channel: String,
        /// Its ts.
        ts: String,
    },
    /// A reaction came or went.
    Reaction {
        /// Channel id.
        channel: String,
        /// The message's ts.
        ts: String,
        /// User id.
        user: String,
        /// Emoji without colons.
        name: String,
        /// Whether it came.
        added: bool,
    },
    /// A message for one user.
    Ephemeral {
        /// As it is now.
        message: MessageView,
    },
    /// Someone clicked.
    Clicked {
        /// Channel id.
        channel: String,
        /// The message's ts.
        ts: String,
        /// User id.
        user: String,
        /// The button.
        action_id: String,
        /// Names the click.
        action_ts: String,
    },
    /// The app acknowledged a click.
    ClickAcked {
        /// Names the click.
        action_ts: String,
        /// From click to acknowledgement.
        after: Duration,
    },
    /// The app did not: the user sees a warning sign at the button.
    ClickFailed {
        /// Names the click.
        action_ts: String,
    },
    /// What the app says it is doing in a thread; empty when it stopped.
    Status {
        /// Channel id.
        channel: String,
        /// Root ts.
        thread_ts: String,
        /// A few words.
        status: String,
    },
    /// Socket Mode connections came or went.
    Connections {
        /// Live ones.
        count: usize,
    },
}

impl MessageView {
    pub(super) fn of(world: &SlackWorld, channel: &SlackChannel, message: &SlackMessage) -> Self {
        let handle = |id: &str| world.users.get(id).map(|user| user.name.clone());
        let wire = match message.blocks.as_slice() {
            [] => message.text.clone(),
            blocks => blocks::show_blocks(blocks),
        };
        let files = message.files.iter().filter_map(|id| world.files.get(id));
        Self {
            channel: channel.id.clone(),
            ts: message.ts.clone(),
            thread_ts: message.thread_ts.clone(),
            sender: SenderView::of(world, &message.sender),
            text: message.text.clone(),
            shown: text::plain_text(&wire, &handle),
            blocks: message.blocks.clone(),
            buttons: blocks::find_buttons(&message.blocks)
                .into_iter()
                .map(|button| ButtonView {
                    action_id: button.action_id,
                    block_id: button.block_id,
                    text: button.text,
                    value: button.value,
                    style: button.style,
                })
                .collect(),
            reactions: message.reactions.clone(),
            metadata: message.metadata.clone(),
            edited: message.edited.as_ref().map(|edited| edited.ts.clone()),
            files: files
                .map(|file| FileView {
                    id: file.id.clone(),
                    name: file.name.clone(),
                    title: file.title.clone(),
                    size: file.content.as_ref().map_or(file.size, Vec::len),
                })
                .collect(),
            subtype: message.subtype.clone(),
            ephemeral_for: message.ephemeral_for.clone(),
            stream: message.stream.as_ref().map(|stream| stream.standing),
        }
    }

    /// Whether someone reacted with this emoji.
    pub fn has_reaction(&self, name: &str) -> bool {
        self.reactions.iter().any(|reaction| reaction.name == name)
    }
}

impl SenderView {
    fn of(world: &SlackWorld, sender: &MessageSender) -> Self {
        match sender {
            MessageSender::User { id } => Self {
                kind: SenderKind::User,
                id: id.clone(),
                name: world.users.get(id).map_or_else(|| id.clone(), |user| user.name.clone()),
                icon: None,
            },
            MessageSender::App { username, icon_emoji, icon_url } => Self {
                kind: SenderKind::App,
                id: world.app.bot_id.clone(),
                name: username.clone().unwrap_or_else(|| world.app.name.clone()),
                icon: icon_emoji.clone().or_else(|| icon_url.clone()),
            },
            MessageSender::OtherBot { bot_id, name, .. } => Self {
                kind: SenderKind::OtherBot,
                id: bot_id.clone(),
                name: name.clone(),
                icon: None,
            },
        }
    }
}
