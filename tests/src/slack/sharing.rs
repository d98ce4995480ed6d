//! Content beside plain text: forwarded messages, alerts in attachments and blocks,
//! previews of links, and files that Slack does not hand out.

use serde_json::{Value, json};

use super::SlackServer;
use super::actions::MessageEdit;
use super::blocks;
use super::core::SlackCore;
use super::driver::SlackError;
use super::file_access::FileAccess;
use super::render::ORIGIN;
use super::rich;
use super::world::{MessageSender, SlackChannel, SlackMessage, StreamStanding};

/// A message of another app, posted by a test.
#[derive(Debug, Clone, Default)]
pub struct ForeignPost {
    /// Text in Slack's wire form.
    pub text: String,
    /// Blocks as Block Kit has them.
    pub blocks: Vec<Value>,
    /// Attachments as `chat.postMessage` takes them.
    pub attachments: Vec<Value>,
}

impl SlackCore {
    /// True if the history has a message.
    pub(super) fn is_indexed(&self, channel: &SlackChannel, message: &SlackMessage) -> bool {
        self.unindexed.is_empty()
            || !self.unindexed.contains(&(channel.id.clone(), message.ts.clone()))
    }

    /// The attachment by which a message is forwarded, as Slack makes it.
    fn shared(&self, channel_id: &str, ts: &str) -> Result<Value, SlackError> {
        let missing = || SlackError::Message { channel: channel_id.to_owned(), ts: ts.to_owned() };
        let channel = self.channel(channel_id)?;
        let message = channel.messages.get(ts).ok_or_else(missing)?;
        let user = self.world.named_author(message).and_then(|id| self.world.users.get(&id));
        let blocks = match message.blocks.as_slice() {
            [] => json!([rich::rich_text(&message.text, "s0")]),
            blocks => json!(blocks),
        };
        let place = format!("{ORIGIN}/archives/{channel_id}/p{}", ts.replace('.', ""));
        let files: Vec<Value> = message
            .files
            .iter()
            .filter_map(|id| self.world.files.get(id))
            .map(|file| super::render::render_file(&self.world, file))
            .collect();
        let mut share = json!({
            "id": 1,
            "ts": ts,
            "channel_id": channel_id,
            "channel_team": self.world.team.id,
            "color": "D0D0D0",
            "from_url": place,
            "is_msg_unfurl": true,
            "is_share": true,
            "message_blocks": [{ "team": self.world.team.id, "channel": channel_id, "ts": ts,
                "message": { "blocks": blocks } }],
            "text": message.text,
            "fallback": format!("[{ts}] {}", message.text),
            "mrkdwn_in": ["text"],
            "footer": format!("Posted in #{}", channel.name),
        });
        if let Some(user) = user {
            share["author_id"] = json!(user.id);
            share["author_name"] = json!(user.real_name);
            share["author_subname"] = json!(user.name);
        }
        if !files.is_empty() {
            share["files"] = json!(files);
        }
        if !message.attachments.is_empty() {
            share["attachments"] = json!(message.attachments);
        }
        Ok(share)
    }
}

impl SlackServer {
    /// A user forwards a message with a comment, or without one. Returns the ts.
    pub fn forward_as(
        &self,
        user: &str,
        (channel, thread): (&str, Option<&str>),
        comment: &str,
        (from, ts): (&str, &str),
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            let share = core.shared(from, ts)?;
            let mut message = core.user_draft(user, channel, thread, comment)?;
            message.attachments.push(share);
            core.place(channel, message)
        })
    }

    /// A user writes with Slack's editor: these blocks, and the text that Slack puts beside them. Returns
    /// the ts.
    pub fn post_rich_as(
        &self,
        user: &str,
        (channel, thread): (&str, Option<&str>),
        wire: &str,
        elements: &Value,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            let block = json!([{ "type": "rich_text", "elements": elements }]);
            let blocks = blocks::accept_blocks(&block)?;
            let mut message = core.user_draft(user, channel, thread, "")?;
            wire.clone_into(&mut message.text);
            message.blocks = blocks;
            core.place(channel, message)
        })
    }

    /// A user pastes a table under their text. Slack puts it into an attachment, and nothing of it into the
    /// text. Returns the ts.
    pub fn paste_table_as(
        &self,
        user: &str,
        (channel, thread): (&str, Option<&str>),
        text: &str,
        rows: &[&[&str]],
    ) -> Result<String, SlackError> {
        let cell = |text: &&str| json!({ "type": "raw_text", "text": text });
        let rows: Vec<Vec<Value>> = rows.iter().map(|row| row.iter().map(cell).collect()).collect();
        self.inner.update(|core| {
            let table = blocks::accept_blocks(&json!([{ "type": "table", "rows": rows }]))?;
            let mut message = core.user_draft(user, channel, thread, text)?;
            let fallback = "[no preview available]";
            message.attachments.push(json!({ "id": 1, "blocks": table, "fallback": fallback }));
            core.place(channel, message)
        })
    }

    /// Somebody else's app posts with blocks or attachments. Returns the ts.
    pub fn post_as_other_app(
        &self,
        name: &str,
        (channel, thread): (&str, Option<&str>),
        post: ForeignPost,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            if let Some(root) = thread {
                core.thread_root(channel, root)?;
            }
            let blocks = if post.blocks.is_empty() {
                Vec::new()
            } else {
                blocks::accept_blocks(&json!(post.blocks))?
            };
            if post.text.is_empty() && blocks.is_empty() && post.attachments.is_empty() {
                return Err(SlackError::Refused("no_text".to_owned()));
            }
            let upper = name.to_ascii_uppercase();
            let name_id = upper.replace(|c: char| !c.is_ascii_alphanumeric(), "");
            let (bot_id, app_id) = (format!("B0{name_id}"), core.world.id('A'));
            let sender = MessageSender::OtherBot { bot_id, app_id, name: name.to_owned() };
            let mut message = SlackMessage::draft(sender, post.text);
            (message.blocks, message.attachments) = (blocks, post.attachments);
            message.thread_ts = thread.map(str::to_owned);
            core.place(channel, message)
        })
    }

    /// Slack shows what is behind the links of a message: attachments that come a moment later, by an
    /// edit of Slack's own.
    pub fn unfurl(&self, channel: &str, ts: &str, attachments: Vec<Value>) {
        self.inner.update(|core| {
            let edit = MessageEdit { attachments: Some(attachments), ..MessageEdit::default() };
            core.edit(channel, ts, edit);
        });
    }

    /// Slack ends every stream that is open, as it does after some minutes.
    pub fn break_streams(&self) {
        self.inner.update(|core| {
            let channels = core.world.channels.values_mut();
            let streams = channels.flat_map(|channel| channel.messages.values_mut());
            for stream in streams.filter_map(|message| message.stream.as_mut()) {
                if stream.standing == StreamStanding::Open {
                    stream.standing = StreamStanding::Broken;
                }
            }
        });
    }

    /// The history does not have a message yet, although its event is on the way: until `index_all`.
    pub fn lag_behind(&self, channel: &str, ts: &str) {
        self.inner.update(|core| core.unindexed.insert((channel.to_owned(), ts.to_owned())));
    }

    /// The history has every message.
    pub fn index_all(&self) {
        self.inner.update(|core| core.unindexed.clear());
    }

    /// Withholds a file from now on: messages show it as `access` says.
    pub fn hold_back(&self, file: &str, access: FileAccess) -> Result<(), SlackError> {
        self.inner.update(|core| {
            let known = core.world.files.get_mut(file);
            known.ok_or_else(|| SlackError::File(file.to_owned()))?.access = Some(access);
            Ok(())
        })
    }
}
