//! The workspace as data: people, channels, messages, files. Nothing here talks to anyone.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::file_access::FileAccess;

/// State of the workspace. Serialisable, so that a demo can be stopped and resumed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackWorld {
    /// Workspace in which the app is installed.
    pub team: SlackTeam,
    /// The only installed app.
    pub app: SlackApp,
    /// Users by their id; the app's bot user is one of them.
    pub users: BTreeMap<String, SlackUser>,
    /// Channels by their id.
    pub channels: BTreeMap<String, SlackChannel>,
    /// Uploaded files by their id.
    pub files: BTreeMap<String, FileRecord>,
    /// The app's status in each thread where it has one.
    pub statuses: Vec<ThreadStatus>,
    ids: u64,
    last_micros: i64,
}

/// A workspace and its address.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackTeam {
    /// Workspace id, `T…`.
    pub id: String,
    /// Display name of the workspace.
    pub name: String,
    /// Subdomain of the workspace's address.
    pub domain: String,
}

/// The app that is installed in the workspace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackApp {
    /// App id, `A…`.
    pub id: String,
    /// Id of the app's bot, `B…`.
    pub bot_id: String,
    /// `U…`, also in `SlackWorld::users`.
    pub user_id: String,
    /// Display name of the app.
    pub name: String,
}

/// A person, or the app's bot user.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackUser {
    /// User id, `U…`.
    pub id: String,
    /// Handle without `@`.
    pub name: String,
    /// Full name shown on the profile.
    pub real_name: String,
    /// True if it is a bot user.
    pub is_bot: bool,
    /// The workspace of somebody from another company, met in a shared channel.
    #[serde(default)]
    pub team: Option<String>,
    /// A guest, who sees some channels only.
    #[serde(default)]
    pub is_restricted: bool,
    /// A deactivated account.
    #[serde(default)]
    pub is_deleted: bool,
}

/// A channel with all its messages.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackChannel {
    /// Channel id, `C…`.
    pub id: String,
    /// Channel name without `#`.
    pub name: String,
    /// Invisible to those outside.
    pub is_private: bool,
    /// A conversation of one person with the app.
    #[serde(default)]
    pub is_im: bool,
    /// True if nobody can post there any more.
    pub is_archived: bool,
    /// User id of who created it.
    pub creator: String,
    /// Creation time, in Unix seconds.
    pub created: i64,
    /// User ids; the bot's too once it has joined.
    pub members: BTreeSet<String>,
    /// Messages by ts, replies included.
    pub messages: BTreeMap<String, SlackMessage>,
    /// Root ts to the ts of its replies, oldest first.
    pub threads: BTreeMap<String, Vec<String>>,
    /// Messages that one user saw, by ts. Slack itself forgets them.
    pub ephemerals: BTreeMap<String, SlackMessage>,
}

/// A message as Slack stores it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SlackMessage {
    /// Timestamp that identifies the message within the channel.
    pub ts: String,
    /// Root of its thread; absent on roots.
    pub thread_ts: Option<String>,
    /// Person, app or bot that sent it.
    pub sender: MessageSender,
    /// Text in Slack's wire form: `&amp;`, `<@U…>`, `<https://…>`.
    pub text: String,
    /// Blocks as given; a text-only message has none.
    pub blocks: Vec<Value>,
    /// Attachments as the call gave them.
    pub attachments: Vec<Value>,
    /// Metadata that the app attached.
    pub metadata: Option<MessageMetadata>,
    /// Reactions in order of their first use.
    pub reactions: Vec<MessageReaction>,
    /// Last edit that readers see, if any.
    pub edited: Option<VisibleEdit>,
    /// Ids of the attached files.
    pub files: Vec<String>,
    /// Id that the sending client gave it.
    pub client_msg_id: Option<String>,
    /// A reply that is shown in the channel as well.
    pub broadcast: bool,
    /// Kind of a message that is not simply someone's (`channel_join`, `tombstone`).
    pub subtype: Option<String>,
    /// The only user who sees it.
    pub ephemeral_for: Option<String>,
    /// State of its stream, if it began as one.
    #[serde(default)]
    pub stream: Option<MessageStream>,
}

/// A message that the app streams, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageStream {
    /// Open, stopped by the app, or broken by Slack.
    pub standing: StreamStanding,
    /// Start of the stream, in Unix seconds.
    pub began: i64,
    /// Display mode, `timeline` or `plan`.
    pub display: String,
}

/// Lifecycle of a streamed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamStanding {
    /// Further chunks can be appended.
    Open,
    /// The app has stopped the stream.
    Stopped,
    /// Slack has: readers see that something went wrong.
    Broken,
}

/// Author of a message: person, this app, or another bot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum MessageSender {
    /// A person of the workspace.
    User {
        /// User id of the person who wrote it.
        id: String,
    },
    /// The installed app, under its own or a chosen name.
    App {
        /// `username` argument of the call.
        username: Option<String>,
        /// `icon_emoji` of the call.
        icon_emoji: Option<String>,
        /// `icon_url` argument of the call.
        icon_url: Option<String>,
    },
    /// The bot of an app other than the tested one.
    OtherBot {
        /// Id of that bot, `B…`.
        bot_id: String,
        /// Id of its app, `A…`.
        app_id: String,
        /// Display name of that bot.
        name: String,
    },
}

/// Metadata that an app attached to a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MessageMetadata {
    /// Event type, a name of the app's own.
    pub event_type: String,
    /// JSON object with the app's own fields.
    pub event_payload: Value,
}

/// All reactions to a message with one emoji.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageReaction {
    /// Name of the emoji, without colons.
    pub name: String,
    /// User ids in the order of their reactions.
    pub users: Vec<String>,
}

/// An edit that readers see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VisibleEdit {
    /// User id of who edited it.
    pub user: String,
    /// Time of the edit, as a ts.
    pub ts: String,
}

/// An uploaded file, or one whose upload has not finished.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileRecord {
    /// File id, `F…`.
    pub id: String,
    /// Name of the file, with its extension.
    pub name: String,
    /// Title that readers see.
    pub title: String,
    /// User id of who uploaded it.
    pub user: String,
    /// Upload time, in Unix seconds.
    pub created: i64,
    /// Bytes announced before the upload.
    pub size: usize,
    /// The bytes, once they came.
    #[serde(with = "base64_bytes")]
    pub content: Option<Vec<u8>>,
    /// True once the upload was completed.
    pub complete: bool,
    /// Channel ids it was shared in.
    pub channels: Vec<String>,
    /// The messages that have it.
    #[serde(default)]
    pub shares: Vec<FileShare>,
    /// Way in which Slack withholds the file, if it does.
    #[serde(default)]
    pub access: Option<FileAccess>,
}

/// A message that has a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileShare {
    /// Id of the channel with the share.
    pub channel: String,
    /// Ts of the message that shares it.
    pub ts: String,
    /// Root ts, if the message is in a thread.
    pub thread_ts: Option<String>,
}

/// `assistant.threads.setStatus`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadStatus {
    /// Id of the thread's channel.
    pub channel: String,
    /// Ts of the thread's root message.
    pub thread_ts: String,
    /// Status text, never empty.
    pub status: String,
    /// Unix seconds when it goes away by itself.
    pub expires: i64,
}

impl SlackWorld {
    /// An empty workspace with the app installed.
    pub fn new(team_name: &str, bot_name: &str) -> Self {
        let mut world = Self {
            team: SlackTeam {
                id: String::new(),
                name: team_name.to_owned(),
                domain: team_name.to_lowercase().replace(' ', "-"),
            },
            app: SlackApp {
                id: String::new(),
                bot_id: String::new(),
                user_id: String::new(),
                name: bot_name.to_owned(),
            },
            users: BTreeMap::new(),
            channels: BTreeMap::new(),
            files: BTreeMap::new(),
            statuses: Vec::new(),
            ids: 0,
            last_micros: 0,
        };
        world.team.id = world.id('T');
        world.app.id = world.id('A');
        world.app.bot_id = world.id('B');
        world.app.user_id = world.add_user(bot_name, bot_name, true);
        world
    }

    /// A new id with Slack's prefix for its kind.
    pub fn id(&mut self, prefix: char) -> String {
        self.ids += 1;
        format!("{prefix}0CB{:06}", self.ids)
    }

    /// A new ts: now, but always later than the one before.
    pub fn ts(&mut self) -> String {
        let now = jiff::Timestamp::now().as_microsecond();
        self.last_micros = now.max(self.last_micros + 1);
        format!("{}.{:06}", self.last_micros / 1_000_000, self.last_micros % 1_000_000)
    }

    /// Moves the workspace's clock ahead.
    pub fn skip(&mut self, micros: i64) {
        let now = jiff::Timestamp::now().as_microsecond();
        self.last_micros = now.max(self.last_micros).saturating_add(micros);
    }

    /// Adds a user and returns the id.
    pub fn add_user(&mut self, name: &str, real_name: &str, is_bot: bool) -> String {
        let id = self.id('U');
        let user = SlackUser {
            id: id.clone(),
            name: name.to_owned(),
            real_name: real_name.to_owned(),
            is_bot,
            team: None,
            is_restricted: false,
            is_deleted: false,
        };
        self.users.insert(id.clone(), user);
        id
    }

    /// The conversation of a user with the app, which begins with the first look at it.
    pub fn direct(&mut self, user: &str) -> String {
        let bot = self.app.user_id.clone();
        let own = |channel: &&SlackChannel| channel.is_im && channel.members.contains(user);
        if let Some(known) = self.channels.values().find(own) {
            return known.id.clone();
        }
        let (made, id) = (self.add_channel("", false, &[user, &bot]), self.id('D'));
        if let Some(mut channel) = self.channels.remove(&made) {
            channel.id.clone_from(&id);
            channel.is_im = true;
            self.channels.insert(id.clone(), channel);
        }
        id
    }

    /// The workspace that a user belongs to.
    pub fn team_of(&self, user: &str) -> &str {
        self.users.get(user).and_then(|user| user.team.as_deref()).unwrap_or(&self.team.id)
    }

    /// Workspaces of other companies that share a channel, by Slack Connect.
    pub fn strange_teams(&self, channel: &SlackChannel) -> BTreeSet<&str> {
        let members = channel.members.iter().filter_map(|id| self.users.get(id));
        members.filter_map(|user| user.team.as_deref()).collect()
    }

    /// Adds a channel and returns the id.
    pub fn add_channel(&mut self, name: &str, is_private: bool, members: &[&str]) -> String {
        let id = self.id('C');
        let creator = members.first().map_or_else(|| self.app.user_id.clone(), ToString::to_string);
        let channel = SlackChannel {
            id: id.clone(),
            name: name.trim_start_matches('#').to_owned(),
            is_private,
            is_im: false,
            is_archived: false,
            creator,
            created: unix_now(),
            members: members.iter().map(ToString::to_string).collect(),
            messages: BTreeMap::new(),
            threads: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
        };
        self.channels.insert(id.clone(), channel);
        id
    }

    /// A user by handle, without `@`.
    pub fn user_named(&self, name: &str) -> Option<&SlackUser> {
        self.users.values().find(|user| user.name == name)
    }

    /// The status shown under a thread now.
    pub fn status(&self, channel: &str, thread_ts: &str) -> Option<&str> {
        let now = unix_now();
        self.statuses
            .iter()
            .find(|s| s.channel == channel && s.thread_ts == thread_ts && s.expires > now)
            .map(|s| s.status.as_str())
    }

    /// True if the app's bot is in a channel.
    pub fn bot_in(&self, channel: &SlackChannel) -> bool {
        channel.members.contains(&self.app.user_id)
    }

    /// The user id that a message itself has: none under a chosen name.
    pub fn named_author(&self, message: &SlackMessage) -> Option<String> {
        match &message.sender {
            MessageSender::App { username: None, icon_emoji: None, icon_url: None }
            | MessageSender::User { .. } => self.author(message),
            MessageSender::App { .. } | MessageSender::OtherBot { .. } => None,
        }
    }

    /// The user id that a message counts as: the bot's for the app's own messages.
    pub fn author(&self, message: &SlackMessage) -> Option<String> {
        match &message.sender {
            MessageSender::User { id } => Some(id.clone()),
            MessageSender::App { .. } => Some(self.app.user_id.clone()),
            MessageSender::OtherBot { .. } => None,
        }
    }
}

impl SlackChannel {
    /// A message, a reply or an ephemeral message.
    pub fn any_message(&self, ts: &str) -> Option<&SlackMessage> {
        self.messages.get(ts).or_else(|| self.ephemerals.get(ts))
    }

    /// A root and its replies, oldest first; empty when there is no such root.
    pub fn thread(&self, root: &str) -> Vec<&SlackMessage> {
        let replies = self.threads.get(root).into_iter().flatten();
        let replies = replies.filter_map(|ts| self.messages.get(ts));
        self.messages.get(root).into_iter().chain(replies).collect()
    }

    /// Puts a message in its place.
    pub fn insert(&mut self, message: SlackMessage) {
        if message.ephemeral_for.is_some() {
            self.ephemerals.insert(message.ts.clone(), message);
            return;
        }
        if let Some(root) = &message.thread_ts {
            self.threads.entry(root.clone()).or_default().push(message.ts.clone());
        }
        self.messages.insert(message.ts.clone(), message);
    }
}

/// Current time, in Unix seconds.
pub(super) fn unix_now() -> i64 {
    jiff::Timestamp::now().as_second()
}

mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::ref_option, reason = "the signature that serde's `with` asks for")]
    pub(super) fn serialize<S: Serializer>(
        bytes: &Option<Vec<u8>>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        bytes.as_ref().map(|bytes| STANDARD.encode(bytes)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Vec<u8>>, D::Error> {
        Option::<String>::deserialize(from)?
            .map(|text| STANDARD.decode(text).map_err(serde::de::Error::custom))
            .transpose()
    }
}
