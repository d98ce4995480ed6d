//! The people of the workspace: what they write, change and click.

use std::time::Duration;

use super::SlackServer;
use super::actions::MessageEdit;
use super::core::SlackCore;
use super::failure::MethodFailure;
use super::interaction::NoClick;
use super::text;
use super::view::AgentSession;
use super::world::{FileRecord, MessageSender, SlackChannel, SlackMessage, SlackUser, unix_now};

/// Why a test's wish can't be fulfilled.
#[derive(Debug, thiserror::Error)]
pub enum SlackError {
    /// No port.
    #[error("the Slack server can't listen")]
    Listen(#[source] std::io::Error),
    /// No such user id.
    #[error("no user `{0}`")]
    User(String),
    /// No such channel id.
    #[error("no channel `{0}`")]
    Channel(String),
    /// The user has no file with this id.
    #[error("no file `{0}`")]
    File(String),
    /// The user is not in the channel, or the message is for someone else's eyes.
    #[error("user `{user}` can't see this in channel `{channel}`")]
    Hidden {
        /// User id.
        user: String,
        /// Channel id.
        channel: String,
    },
    /// No such message.
    #[error("no message `{ts}` in channel `{channel}`")]
    Message {
        /// Channel id.
        channel: String,
        /// ts.
        ts: String,
    },
    /// Someone else's message.
    #[error("message `{0}` was written by someone else")]
    NotAuthor(String),
    /// The message has no such button.
    #[error("message `{ts}` has no button `{action_id}`")]
    Button {
        /// ts.
        ts: String,
        /// The button looked for.
        action_id: String,
    },
    /// Slack's own refusal.
    #[error("Slack says `{0}`")]
    Refused(String),
    /// It did not happen in time.
    #[error("after {after:?} still no {what}")]
    Timeout {
        /// What was waited for.
        what: String,
        /// For how long.
        after: Duration,
    },
}

impl From<MethodFailure> for SlackError {
    fn from(failure: MethodFailure) -> Self {
        Self::Refused(failure.code)
    }
}

impl SlackCore {
    pub(super) fn channel(&self, id: &str) -> Result<&SlackChannel, SlackError> {
        self.world.channels.get(id).ok_or_else(|| SlackError::Channel(id.to_owned()))
    }

    fn member(&self, user: &str, channel: &str) -> Result<&SlackChannel, SlackError> {
        if !self.world.users.contains_key(user) {
            return Err(SlackError::User(user.to_owned()));
        }
        let found = self.channel(channel)?;
        if !found.members.contains(user) {
            let (user, channel) = (user.to_owned(), channel.to_owned());
            return Err(SlackError::Hidden { user, channel });
        }
        Ok(found)
    }

    fn written_by(&self, user: &str, channel: &str, ts: &str) -> Result<&SlackMessage, SlackError> {
        let message = self.member(user, channel)?.messages.get(ts);
        let missing = || SlackError::Message { channel: channel.to_owned(), ts: ts.to_owned() };
        let message = message.ok_or_else(missing)?;
        match &message.sender {
            MessageSender::User { id } if id == user => Ok(message),
            _ => Err(SlackError::NotAuthor(ts.to_owned())),
        }
    }

    /// What begins with a slash is a command to Slack, wherever it is typed: it is never sent.
    fn sendable(typed: &str) -> Result<(), SlackError> {
        let word = typed.split_whitespace().next().unwrap_or_default();
        if typed.starts_with('/') {
            return Err(SlackError::Refused(format!("{word} is not a valid command")));
        }
        Ok(())
    }

    fn typed(&self, typed: &str) -> String {
        text::typed_text(typed, &|handle| self.world.user_named(handle).map(|user| user.id.clone()))
    }

    pub(super) fn user_draft(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        typed: &str,
    ) -> Result<SlackMessage, SlackError> {
        Self::sendable(typed)?;
        if self.member(user, channel)?.is_archived {
            return Err(SlackError::Refused("is_archived".to_owned()));
        }
        if let Some(root) = thread {
            self.thread_root(channel, root)?;
        }
        let mut message =
            SlackMessage::draft(MessageSender::User { id: user.to_owned() }, self.typed(typed));
        message.thread_ts = thread.map(str::to_owned);
        Ok(message)
    }

    /// A user writes, as one types.
    pub(super) fn post_as(
        &mut self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        typed: &str,
    ) -> Result<String, SlackError> {
        let message = self.user_draft(user, channel, thread, typed)?;
        self.place(channel, message)
    }

    /// A user adds a reaction or takes it back.
    pub(super) fn react_as(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        (name, added): (&str, bool),
    ) -> Result<(), SlackError> {
        self.member(user, channel)?;
        Ok(self.react(channel, ts, user, name, added)?)
    }

    /// A user clicks a button; returns the click's `action_ts`.
    pub(super) fn click_as(
        &mut self,
        user: &str,
        channel: &str,
        ts: &str,
        action_id: &str,
    ) -> Result<String, SlackError> {
        self.member(user, channel)?;
        self.click(user, channel, ts, action_id).map_err(|why| match why {
            NoClick::Message => {
                SlackError::Message { channel: channel.to_owned(), ts: ts.to_owned() }
            }
            NoClick::Button => {
                SlackError::Button { ts: ts.to_owned(), action_id: action_id.to_owned() }
            }
            NoClick::Hidden => {
                SlackError::Hidden { user: user.to_owned(), channel: channel.to_owned() }
            }
        })
    }

    pub(super) fn place(
        &mut self,
        channel: &str,
        message: SlackMessage,
    ) -> Result<String, SlackError> {
        let posted = self.post(channel, message);
        posted.map(|view| view.ts).ok_or_else(|| SlackError::Channel(channel.to_owned()))
    }
}

/// People and places.
impl SlackServer {
    /// User id of the app's bot.
    pub fn bot_user_id(&self) -> String {
        self.inner.read(|core| core.world.app.user_id.clone())
    }

    /// Adds a person; returns the user id.
    pub fn create_user(&self, name: &str, real_name: &str) -> String {
        self.inner.update(|core| core.world.add_user(name, real_name, false))
    }

    /// Adds a guest of the workspace; returns the user id.
    pub fn create_guest(&self, name: &str, real_name: &str) -> String {
        self.created(name, real_name, |_, guest| guest.is_restricted = true)
    }

    /// Adds an account that is deactivated; returns the user id.
    pub fn create_former(&self, name: &str, real_name: &str) -> String {
        self.created(name, real_name, |_, former| former.is_deleted = true)
    }

    /// Adds the user of somebody else's bot, which can react like one; returns the user id.
    pub fn create_bot(&self, name: &str) -> String {
        self.created(name, name, |_, bot| bot.is_bot = true)
    }

    /// Adds somebody of another company, whose channels are shared by Slack Connect; returns the user
    /// id.
    pub fn create_stranger(&self, name: &str, real_name: &str) -> String {
        self.created(name, real_name, |team, stranger| stranger.team = Some(team))
    }

    fn created(&self, name: &str, real_name: &str, change: fn(String, &mut SlackUser)) -> String {
        self.inner.update(|core| {
            let (id, team) = (core.world.add_user(name, real_name, false), core.world.id('T'));
            if let Some(user) = core.world.users.get_mut(&id) {
                change(team, user);
            }
            id
        })
    }

    /// The channel id of a person's conversation with the app alone.
    pub fn direct(&self, user: &str) -> String {
        self.inner.update(|core| core.world.direct(user))
    }

    /// Adds public channels that nobody is in; returns the channel ids.
    pub fn create_channels(&self, names: impl Iterator<Item = String>) -> Vec<String> {
        self.inner.update(|core| {
            let other = core.world.id('U');
            names.map(|name| core.world.add_channel(&name, false, &[&other])).collect()
        })
    }

    /// From now on the bot's token is refused with this code, as when an administrator takes the app
    /// out; None: it is accepted again.
    pub fn revoke(&self, code: Option<&str>) {
        self.inner.update(|core| core.revoked = code.map(str::to_owned));
    }

    /// Adds a public channel with the bot and these users in it; returns the channel id.
    pub fn create_channel(&self, name: &str, members: &[&str]) -> String {
        self.channel_with_bot(name, false, members)
    }

    /// The user id of a person, who is added if nobody has that name.
    pub fn ensure_user(&self, name: &str) -> String {
        let known = self.inner.read(|core| core.world.user_named(name).map(|u| u.id.clone()));
        known.unwrap_or_else(|| self.create_user(name, name))
    }

    /// The channel id of a public channel, which is made if there is none of that name.
    pub fn ensure_channel(&self, name: &str, members: &[&str]) -> String {
        let known = self.inner.read(|core| {
            let mut channels = core.world.channels.values();
            channels.find(|channel| channel.name == name).map(|channel| channel.id.clone())
        });
        known.unwrap_or_else(|| self.create_channel(name, members))
    }

    /// Adds a private channel with the bot and these users in it; returns the channel id.
    pub fn create_private_channel(&self, name: &str, members: &[&str]) -> String {
        self.channel_with_bot(name, true, members)
    }

    fn channel_with_bot(&self, name: &str, is_private: bool, members: &[&str]) -> String {
        self.inner.update(|core| {
            let bot = core.world.app.user_id.clone();
            let everyone: Vec<&str> = members.iter().copied().chain([bot.as_str()]).collect();
            core.world.add_channel(name, is_private, &everyone)
        })
    }

    /// Adds a user, or the bot, to a channel, with the notice that Slack posts.
    pub fn add_member(&self, channel: &str, user: &str) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            core.join(channel, user);
            Ok(())
        })
    }

    /// Takes a user, or the bot, out of a channel, silently.
    pub fn remove_member(&self, channel: &str, user: &str) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            if let Some(channel) = core.world.channels.get_mut(channel) {
                channel.members.remove(user);
            }
            Ok(())
        })
    }

    /// Archives a channel. Slack takes the app out of it.
    pub fn archive(&self, channel: &str) -> Result<(), SlackError> {
        self.set_archived(channel, true)
    }

    /// Takes that back. The app has to be invited again.
    pub fn unarchive(&self, channel: &str) -> Result<(), SlackError> {
        self.set_archived(channel, false)
    }

    fn set_archived(&self, channel: &str, archived: bool) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            let bot = core.world.app.user_id.clone();
            if let Some(channel) = core.world.channels.get_mut(channel) {
                channel.is_archived = archived;
                if archived {
                    channel.members.remove(&bot);
                }
            }
            Ok(())
        })
    }

    /// A user writes, as one types: `@handle` mentions, links are found, `<` means itself.
    /// Returns the ts.
    pub fn post_as(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        typed: &str,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| core.post_as(user, channel, thread, typed))
    }

    /// A user shares a file with a comment. Returns the message's ts and the file id.
    pub fn upload_as(
        &self,
        user: &str,
        channel: &str,
        thread: Option<&str>,
        comment: &str,
        (name, content): (&str, &[u8]),
    ) -> Result<(String, String), SlackError> {
        self.inner.update(|core| {
            let mut message = core.user_draft(user, channel, thread, comment)?;
            let id = core.world.id('F');
            let file = FileRecord {
                id: id.clone(),
                name: name.to_owned(),
                title: name.to_owned(),
                user: user.to_owned(),
                created: unix_now(),
                size: content.len(),
                content: Some(content.to_vec()),
                complete: true,
                channels: vec![channel.to_owned()],
                shares: Vec::new(),
                access: None,
            };
            core.world.files.insert(id.clone(), file);
            message.files.push(id.clone());
            Ok((core.place(channel, message)?, id))
        })
    }

    /// A user shares a file of their own once more. Returns the message's ts.
    pub fn share_as(
        &self,
        user: &str,
        channel: &str,
        comment: &str,
        file: &str,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            let own = core.world.files.get(file).is_some_and(|file| file.user == user);
            if !own {
                return Err(SlackError::File(file.to_owned()));
            }
            let mut message = core.user_draft(user, channel, None, comment)?;
            message.files.push(file.to_owned());
            core.place(channel, message)
        })
    }

    /// Somebody else's bot writes, in wire form. Returns the ts.
    pub fn post_as_other_bot(
        &self,
        name: &str,
        channel: &str,
        thread: Option<&str>,
        wire: &str,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            if let Some(root) = thread {
                core.thread_root(channel, root)?;
            }
            // The same bot whenever it writes.
            let name_id =
                name.to_ascii_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "");
            let (bot_id, app_id) = (format!("B0{name_id}"), core.world.id('A'));
            let sender = MessageSender::OtherBot { bot_id, app_id, name: name.to_owned() };
            let mut message = SlackMessage::draft(sender, text::posted_text(wire, true));
            message.thread_ts = thread.map(str::to_owned);
            core.place(channel, message)
        })
    }

    /// A user edits a message of their own.
    pub fn edit_as(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        typed: &str,
    ) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.written_by(user, channel, ts)?;
            SlackCore::sendable(typed)?;
            let text = Some(core.typed(typed));
            core.edit(channel, ts, MessageEdit { text, marked: true, ..MessageEdit::default() });
            Ok(())
        })
    }

    /// A user deletes a message of their own.
    pub fn delete_as(&self, user: &str, channel: &str, ts: &str) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.written_by(user, channel, ts)?;
            core.delete(channel, ts);
            Ok(())
        })
    }

    /// What comes from now on comes so much later.
    pub fn skip(&self, time: Duration) {
        let micros = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        self.inner.update(|core| core.world.skip(micros));
    }

    /// A user presses the stop button that Slack shows while an agent's session is processing.
    pub fn stop_as(&self, user: &str, channel: &str, thread: &str) -> Result<(), SlackError> {
        self.inner.update(|core| {
            core.channel(channel)?;
            let place = (channel.to_owned(), thread.to_owned());
            if core.sessions.get(&place).is_none_or(|session| session.status != "processing") {
                let (ts, action_id) = (thread.to_owned(), "stop".to_owned());
                return Err(SlackError::Button { ts, action_id });
            }
            let ts = core.world.ts();
            let event = super::actions::into_object(serde_json::json!({
                "type": "agent_session_stopped", "channel": channel, "thread_ts": thread,
                "user": user, "streaming_message_ts": [],
            }));
            core.emit(channel, &ts, event);
            Ok(())
        })
    }

    /// An agent's session in a thread.
    pub fn session(&self, channel: &str, thread: &str) -> Option<AgentSession> {
        let place = (channel.to_owned(), thread.to_owned());
        self.inner.read(|core| core.sessions.get(&place).cloned())
    }

    /// A user reacts to a message, with an emoji's name without colons.
    pub fn react_as(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        name: &str,
    ) -> Result<(), SlackError> {
        self.inner.update(|core| core.react_as(user, channel, ts, (name, true)))
    }

    /// A user takes a reaction back.
    pub fn unreact_as(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        name: &str,
    ) -> Result<(), SlackError> {
        self.inner.update(|core| core.react_as(user, channel, ts, (name, false)))
    }

    /// A user clicks a button; returns the click's `action_ts`, which names it in `Change` and
    /// in `redeliver`. Whether the app took it comes as `SlackChange::ClickAcked` or `ClickFailed`.
    pub fn click(
        &self,
        user: &str,
        channel: &str,
        ts: &str,
        action_id: &str,
    ) -> Result<String, SlackError> {
        self.inner.update(|core| core.click_as(user, channel, ts, action_id))
    }
}
