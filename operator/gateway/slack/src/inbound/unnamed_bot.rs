//! Workflows and other apps that mention CodeButler where the team does not name them: each is told why it is not heard,
//! once, since whoever made it sees nothing else. Pure.

use codebutler_crds::SlackTs;

use crate::api::channel::RepoChannel;
use crate::api::stored_message::StoredMessage;
use crate::own_metadata;
use crate::text::content;

/// A bot that is not heard, and its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnnamedBot {
    /// Namespace and name of the Repo.
    pub repo: (String, String),
    pub channel: String,
    /// First message of the conversation.
    pub root: SlackTs,
    /// The message that mentions CodeButler.
    pub asked: SlackTs,
    /// Id by which the Repo can name it.
    pub bot: String,
}

impl UnnamedBot {
    /// Finds the bot that wrote a message, if it mentions CodeButler and is none of our own.
    pub(crate) fn of(message: &StoredMessage, channel: &RepoChannel) -> Option<Self> {
        let own = channel.bot_user.as_deref().filter(|_| channel.is_own && message.is_said())?;
        let is_ours = message.user.as_deref() == Some(own)
            || own_metadata(message.metadata.as_ref()).is_some();
        if is_ours || !content::message_words(message).contains(&format!("<@{own}>")) {
            return None;
        }
        Some(Self {
            repo: (channel.namespace.clone(), channel.repo.clone()),
            channel: channel.id.clone(),
            root: message.root().clone(),
            asked: message.ts.clone(),
            bot: message.bot_id.clone().or_else(|| message.user.clone())?,
        })
    }

    /// The line that says what to do, as Slack shows it.
    pub(crate) fn explain(&self) -> String {
        let bot: String = self.bot.chars().filter(char::is_ascii_alphanumeric).collect();
        format!(
            "I read messages of workflows and other apps only where the team names them. Whoever runs CodeButler can add \
             `{bot}` to `spec.slack.allowBots` of this channel's Repo; until then, a person can ask me."
        )
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn find(message: Value, channel: &RepoChannel) -> Option<String> {
        let message: StoredMessage = serde_json::from_value(message).unwrap();
        UnnamedBot::of(&message, channel).map(|called| called.bot)
    }

    #[test]
    fn only_another_bot_that_mentions_the_app_is_told() {
        let channel = RepoChannel::test();
        let said = |text: &str| json!({"ts": "5.000000", "bot_id": "B2", "subtype": "bot_message", "text": text});
        assert_eq!(find(said("<@U0BOT> fix it"), &channel).as_deref(), Some("B2"));
        let mut section = said("");
        section["blocks"] = json!([{"type": "section",
            "text": {"type": "mrkdwn", "text": "<@U0BOT> fix it"}}]);
        assert_eq!(find(section, &channel).as_deref(), Some("B2"));
        let slackbot =
            json!({"ts": "5.000000", "user": "USLACKBOT", "text": "Reminder: <@U0BOT> go."});
        assert_eq!(find(slackbot, &channel).as_deref(), Some("USLACKBOT"));
        for silent in ["build 7 failed", "@codebutler.coder go", "<@U0BEN> look"] {
            assert_eq!(find(said(silent), &channel), None, "{silent}");
        }
        let mut own = said("<@U0BOT> fix it");
        own["user"] = json!("U0BOT");
        assert_eq!(find(own.clone(), &channel), None);
        own["user"] = Value::Null;
        own["metadata"] = json!({"event_type": "codebutler", "event_payload": {"role": "pm"}});
        assert_eq!(find(own, &channel), None);
        let joined = json!({"ts": "5.000000", "bot_id": "B2", "subtype": "channel_join",
            "text": "<@U0BOT> has joined"});
        assert_eq!(find(joined, &channel), None);
        let elsewhere = RepoChannel { is_own: false, ..channel };
        assert_eq!(find(said("<@U0BOT> fix it"), &elsewhere), None);
    }
}
