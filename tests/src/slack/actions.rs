//! Changes to a workspace, whoever makes them: posts, edits, deletions, reactions, statuses.

use serde_json::{Map, Value, json};

use super::core::SlackCore;
use super::emoji;
use super::failure::{MethodFailure, fail_with};
use super::view::{MessageView, SlackChange};
use super::world::{
    FileShare, MessageMetadata, MessageReaction, MessageSender, MessageStream, SlackMessage,
    StreamStanding, ThreadStatus, VisibleEdit, unix_now,
};

/// Most different emoji of one user on one message.
const MAX_REACTIONS: usize = 23;
/// Seconds after which a thread's status goes away by itself.
const STATUS_SECONDS: i64 = 120;

/// Change that a call makes to a message's metadata.
#[derive(Debug, Default)]
pub(super) enum MetadataChange {
    #[default]
    Keep,
    Remove,
    Set(MessageMetadata),
}

impl MetadataChange {
    pub(super) fn applied_to(self, before: Option<MessageMetadata>) -> Option<MessageMetadata> {
        match self {
            Self::Keep => before,
            Self::Remove => None,
            Self::Set(metadata) => Some(metadata),
        }
    }
}

/// Changes of an edit; `None` leaves a part as it is.
#[derive(Debug, Default)]
pub(super) struct MessageEdit {
    pub text: Option<String>,
    pub blocks: Option<Vec<Value>>,
    pub attachments: Option<Vec<Value>>,
    pub metadata: MetadataChange,
    /// True if readers see "(edited)".
    pub marked: bool,
}

impl SlackMessage {
    /// A message that has yet to get its place and ts.
    pub(super) fn draft(sender: MessageSender, text: String) -> Self {
        Self {
            ts: String::new(),
            thread_ts: None,
            sender,
            text,
            blocks: Vec::new(),
            attachments: Vec::new(),
            metadata: None,
            reactions: Vec::new(),
            edited: None,
            files: Vec::new(),
            client_msg_id: None,
            broadcast: false,
            subtype: None,
            ephemeral_for: None,
            stream: None,
        }
    }
}

impl SlackCore {
    /// A thread that a message may go to: the ts of an existing root.
    pub(super) fn thread_root(&self, channel_id: &str, ts: &str) -> Result<(), MethodFailure> {
        let well_formed = ts.split_once('.').is_some_and(|(seconds, fraction)| {
            seconds.parse::<u64>().is_ok() && fraction.parse::<u64>().is_ok()
        });
        if !well_formed {
            return fail_with("invalid_thread_ts");
        }
        let channel = self.world.channels.get(channel_id);
        match channel.and_then(|channel| channel.messages.get(ts)) {
            None => fail_with("thread_not_found"),
            Some(message) if message.thread_ts.is_some() => fail_with("cannot_reply_to_message"),
            Some(_) => Ok(()),
        }
    }

    /// Puts a draft into a channel and sends the events it makes. The channel must exist.
    pub(super) fn post(
        &mut self,
        channel_id: &str,
        mut message: SlackMessage,
    ) -> Option<MessageView> {
        message.ts = self.world.ts();
        if matches!(message.sender, MessageSender::User { .. }) && message.subtype.is_none() {
            message.client_msg_id = Some(uuid::Uuid::new_v4().to_string());
        }
        let from_app = matches!(message.sender, MessageSender::App { .. });
        self.world.channels.get_mut(channel_id)?.insert(message.clone());
        let view = self.view(self.world.channels.get(channel_id)?, &message);
        if message.ephemeral_for.is_some() {
            self.announce(SlackChange::Ephemeral { message: view.clone() });
            return Some(view);
        }
        self.announce(SlackChange::Posted { message: view.clone() });
        if let Some(root) = message.thread_ts.as_deref().filter(|_| from_app) {
            self.set_status(channel_id, root, "");
        }
        for file in &message.files {
            let share = FileShare {
                channel: channel_id.to_owned(),
                ts: message.ts.clone(),
                thread_ts: message.thread_ts.clone(),
            };
            if let Some(file) = self.world.files.get_mut(file) {
                file.shares.push(share);
                file.channels = file.shares.iter().map(|share| share.channel.clone()).collect();
            }
            let author = self.world.author(&message);
            let event = into_object(json!({
                "type": "file_shared",
                "channel_id": channel_id,
                "file_id": file,
                "user_id": author,
                "file": { "id": file },
            }));
            self.emit(channel_id, &message.ts, event);
        }
        let event = self.for_event(self.world.channels.get(channel_id)?, &message);
        self.emit(channel_id, &message.ts, event.clone());
        if !from_app && self.mentions_bot(&message.text) {
            self.emit_mention(channel_id, &message.ts, event);
        }
        self.emit_links(channel_id, &message);
        Some(view)
    }

    fn mentions_bot(&self, text: &str) -> bool {
        let id = &self.world.app.user_id;
        text.contains(&format!("<@{id}>")) || text.contains(&format!("<@{id}|"))
    }

    fn emit_mention(&mut self, channel_id: &str, key: &str, mut event: Map<String, Value>) {
        event.insert("type".to_owned(), json!("app_mention"));
        for absent in ["subtype", "parent_user_id", "channel_type"] {
            event.remove(absent);
        }
        self.emit(channel_id, key, event);
    }

    /// Edits a message in the name of its author.
    pub(super) fn edit(
        &mut self,
        channel_id: &str,
        ts: &str,
        edit: MessageEdit,
    ) -> Option<MessageView> {
        let channel = self.world.channels.get(channel_id)?;
        let before = channel.messages.get(ts)?.clone();
        let mut after = before.clone();
        let event_ts = self.world.ts();
        if let Some(text) = edit.text {
            after.text = text;
        }
        if let Some(blocks) = edit.blocks {
            after.blocks = blocks;
        }
        if let Some(attachments) = edit.attachments {
            after.attachments = attachments;
        }
        after.metadata = edit.metadata.applied_to(after.metadata);
        if edit.marked {
            let user = self.world.author(&after).unwrap_or_default();
            after.edited = Some(VisibleEdit { user, ts: event_ts.clone() });
        }
        self.replace(channel_id, &event_ts, &before, &after)?;
        let newly = !self.mentions_bot(&before.text) && self.mentions_bot(&after.text);
        if newly && !matches!(after.sender, MessageSender::App { .. }) {
            let event = self.for_event(self.world.channels.get(channel_id)?, &after);
            self.emit_mention(channel_id, &event_ts, event);
        }
        let view = self.view(self.world.channels.get(channel_id)?, &after);
        self.announce(SlackChange::Edited { message: view.clone() });
        Some(view)
    }

    /// Puts `after` in the place of `before` and says so.
    fn replace(
        &mut self,
        channel_id: &str,
        event_ts: &str,
        before: &SlackMessage,
        after: &SlackMessage,
    ) -> Option<()> {
        let shown_before = self.for_event(self.world.channels.get(channel_id)?, before);
        let channel = self.world.channels.get_mut(channel_id)?;
        channel.messages.insert(after.ts.clone(), after.clone());
        let mut shown = self.for_event(self.world.channels.get(channel_id)?, after);
        for name in ["source_team", "user_team"] {
            shown.entry(name).or_insert_with(|| json!(self.world.team.id));
        }
        let event = into_object(json!({
            "type": "message",
            "subtype": "message_changed",
            "hidden": true,
            "ts": event_ts,
            "message": shown,
            "previous_message": shown_before,
        }));
        self.emit(channel_id, event_ts, event);
        Some(())
    }

    /// Deletes a message. A root with replies leaves a tombstone, as on Slack.
    pub(super) fn delete(&mut self, channel_id: &str, ts: &str) -> Option<()> {
        let before = self.world.channels.get(channel_id)?.messages.get(ts)?.clone();
        let event_ts = self.world.ts();
        let channel = self.world.channels.get_mut(channel_id)?;
        if channel.threads.get(ts).is_some_and(|replies| !replies.is_empty()) {
            let sender = MessageSender::User { id: "USLACKBOT".to_owned() };
            let mut tombstone = SlackMessage::draft(sender, "This message was deleted.".to_owned());
            tombstone.ts.clone_from(&before.ts);
            tombstone.subtype = Some("tombstone".to_owned());
            self.replace(channel_id, &event_ts, &before, &tombstone)?;
        } else {
            let shown = self.for_event(self.world.channels.get(channel_id)?, &before);
            let channel = self.world.channels.get_mut(channel_id)?;
            channel.messages.remove(ts);
            if let Some(replies) =
                before.thread_ts.as_ref().and_then(|root| channel.threads.get_mut(root))
            {
                replies.retain(|reply| reply != ts);
            }
            let event = into_object(json!({
                "type": "message",
                "subtype": "message_deleted",
                "hidden": true,
                "ts": event_ts,
                "deleted_ts": ts,
                "previous_message": shown,
            }));
            self.emit(channel_id, &event_ts, event);
        }
        // Files of a deleted message still belong to their owner, but are no longer in the channel.
        for file in &before.files {
            if let Some(file) = self.world.files.get_mut(file) {
                file.shares.retain(|share| share.channel != channel_id || share.ts != ts);
                file.channels = file.shares.iter().map(|share| share.channel.clone()).collect();
            }
        }
        self.announce(SlackChange::Deleted { channel: channel_id.to_owned(), ts: ts.to_owned() });
        Some(())
    }

    /// Ends a stream that is older than Slack lets one be.
    pub(super) fn expire_stream(&mut self, channel: &str, ts: &str) {
        let oldest = unix_now().saturating_sub_unsigned(self.options.timing.stream_life.as_secs());
        let stream = self.stream_mut(channel, ts).filter(|stream| stream.began <= oldest);
        if stream.is_some_and(|stream| stream.standing == StreamStanding::Open) {
            self.end_stream(channel, ts, StreamStanding::Broken);
        }
    }

    pub(super) fn is_streaming(&mut self, channel: &str, ts: &str) -> bool {
        self.stream_mut(channel, ts).is_some_and(|stream| stream.standing == StreamStanding::Open)
    }

    /// Ends the stream of a message; does nothing where the message was no stream.
    pub(super) fn end_stream(&mut self, channel: &str, ts: &str, standing: StreamStanding) {
        if let Some(stream) = self.stream_mut(channel, ts) {
            stream.standing = standing;
        }
    }

    fn stream_mut(&mut self, channel: &str, ts: &str) -> Option<&mut MessageStream> {
        self.world.channels.get_mut(channel)?.messages.get_mut(ts)?.stream.as_mut()
    }

    /// Adds or takes away a reaction.
    pub(super) fn react(
        &mut self,
        channel_id: &str,
        ts: &str,
        user: &str,
        name: &str,
        added: bool,
    ) -> Result<(), MethodFailure> {
        let Some(name) = emoji::canonical_emoji(name) else { return fail_with("invalid_name") };
        let channel = self.world.channels.get_mut(channel_id);
        let message = channel.and_then(|channel| channel.messages.get_mut(ts));
        let Some(message) = message else { return fail_with("message_not_found") };
        let mine = |reaction: &&MessageReaction| reaction.users.iter().any(|id| id == user);
        let place = message.reactions.iter().position(|reaction| reaction.name == name);
        let has = place.is_some_and(|at| mine(&&message.reactions[at]));
        match (added, has, place) {
            (true, true, _) => return fail_with("already_reacted"),
            (false, false, _) | (false, _, None) => return fail_with("no_reaction"),
            (true, false, _) if message.reactions.iter().filter(mine).count() >= MAX_REACTIONS => {
                return fail_with("too_many_reactions");
            }
            (true, false, Some(at)) => message.reactions[at].users.push(user.to_owned()),
            (true, false, None) => message
                .reactions
                .push(MessageReaction { name: name.clone(), users: vec![user.to_owned()] }),
            (false, true, Some(at)) => {
                message.reactions[at].users.retain(|id| id != user);
                message.reactions.retain(|reaction| !reaction.users.is_empty());
            }
        }
        let item_user = self.item_user(channel_id, ts);
        let event_ts = self.world.ts();
        let mut event = into_object(json!({
            "type": if added { "reaction_added" } else { "reaction_removed" },
            "user": user,
            "reaction": name,
            "item": { "type": "message", "channel": channel_id, "ts": ts },
        }));
        if let Some(item_user) = item_user {
            event.insert("item_user".to_owned(), json!(item_user));
        }
        self.emit(channel_id, &event_ts, event);
        self.announce(SlackChange::Reaction {
            channel: channel_id.to_owned(),
            ts: ts.to_owned(),
            user: user.to_owned(),
            name: name.clone(),
            added,
        });
        Ok(())
    }

    /// Author of the item, if the event names one: not for a message under a chosen name, which has no `user`
    /// either.
    fn item_user(&self, channel_id: &str, ts: &str) -> Option<String> {
        self.world.named_author(self.world.channels.get(channel_id)?.messages.get(ts)?)
    }

    /// Adds a member and says so in the channel.
    pub(super) fn join(&mut self, channel_id: &str, user: &str) -> bool {
        let channel = self.world.channels.get_mut(channel_id);
        if !channel.is_some_and(|channel| channel.members.insert(user.to_owned())) {
            return false;
        }
        let sender = MessageSender::User { id: user.to_owned() };
        let mut notice = SlackMessage::draft(sender, format!("<@{user}> has joined the channel"));
        notice.subtype = Some("channel_join".to_owned());
        self.post(channel_id, notice);
        true
    }

    /// Sets the app's status in a thread; an empty one clears it.
    pub(super) fn set_status(&mut self, channel: &str, thread_ts: &str, status: &str) {
        let place = |s: &ThreadStatus| s.channel == channel && s.thread_ts == thread_ts;
        let had = self.world.statuses.iter().any(place);
        self.world.statuses.retain(|s| !place(s));
        if status.is_empty() && !had {
            return;
        }
        if !status.is_empty() {
            self.world.statuses.push(ThreadStatus {
                channel: channel.to_owned(),
                thread_ts: thread_ts.to_owned(),
                status: status.to_owned(),
                expires: unix_now() + STATUS_SECONDS,
            });
        }
        self.announce(SlackChange::Status {
            channel: channel.to_owned(),
            thread_ts: thread_ts.to_owned(),
            status: status.to_owned(),
        });
    }
}

/// The fields of a `json!` object.
pub(super) fn into_object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
