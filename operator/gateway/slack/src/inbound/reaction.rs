//! Emoji that decide: thumbs answer what a message asks, a stop sign stops. All others are nobody's
//! business.

use std::time::Duration;

use codebutler_crds::{SlackTs, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::{ChangeRefusal, WriteError};
use serde::Deserialize;

use crate::Inner;
use crate::api::account::AccessError;
use crate::api::channel::RepoChannel;
use crate::api::stored_message::StoredMessage;
use crate::inbound::answering::{AnswerPermission, answer_effects, is_new};
use crate::inbound::effects::RouteEffect;
use crate::inbound::emoji::EmojiReaction;
use crate::inbound::emoji::EmojiSign;
use crate::inbound::message_outcome;
use crate::inbound::take_error::TakeError;
use crate::questions::{self, AnswerContext, AnswerOutcome, AnswerRight, ThumbAnswer};

/// Pauses before each further look for what a thumb may have answered: Slack tells it once.
const LOOKS: [Duration; 3] =
    [Duration::from_millis(500), Duration::from_secs(2), Duration::from_secs(8)];

#[derive(Deserialize)]
struct ReactionItem {
    message: StoredMessage,
}

impl Inner {
    /// Takes a reaction in: a thumb answers a question, any other sign stops what runs.
    pub(crate) async fn reacted(
        &self,
        channel: &RepoChannel,
        reacted: &EmojiReaction,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let EmojiSign::Thumb(up) = reacted.sign else {
            return match self.root_of(channel, &reacted.message).await? {
                Some(root) => self.stop(channel, &root, &reacted.at, &reacted.user).await,
                None => Ok(Vec::new()),
            };
        };
        // Ignored: people like what people say, too, and what was said long ago.
        let known = self.asked_in(channel, &reacted.message);
        if !reacted.on_ours || (known.is_none() && !is_new(&reacted.message)) {
            return Ok(Vec::new());
        }
        let root = match known {
            Some(root) => Some(root),
            None => self.root_of(channel, &reacted.message).await?,
        };
        let Some(root) = root else { return Ok(Vec::new()) };
        if let Some(effects) = self.thumb(channel, &root, reacted, up).await? {
            return Ok(effects);
        }
        // The question may be on its way into the Thread.
        let (channel, reacted) = (Box::new(channel.clone()), Box::new(reacted.clone()));
        Ok(vec![RouteEffect::LookAgain { channel, root, reacted }])
    }

    /// Looks once more for what a thumb may have answered.
    pub(crate) async fn look_again(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        reacted: &EmojiReaction,
    ) -> Vec<RouteEffect> {
        let EmojiSign::Thumb(up) = reacted.sign else { return Vec::new() };
        for pause in LOOKS {
            tokio::time::sleep(pause).await;
            match self.thumb(channel, root, reacted, up).await {
                Ok(Some(effects)) => return effects,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "reaction_write_failed"),
            }
        }
        Vec::new()
    }

    /// Takes a thumb in. `None` if nothing is asked there, as far as is known by now.
    async fn thumb(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        reacted: &EmojiReaction,
        up: bool,
    ) -> Result<Option<Vec<RouteEffect>>, TakeError> {
        let EmojiReaction { message, user, .. } = reacted;
        let (key, _turn) = match self.admit_answer(channel, root, user, AnswerRight::Decide).await?
        {
            AnswerPermission::May(key, turn) => (key, turn),
            AnswerPermission::MayNot(effects) => {
                // Anybody may put a thumb on something that is no question.
                let asked = self.asked_in(channel, message).is_some();
                return Ok(Some(if asked { effects } else { Vec::new() }));
            }
        };
        if self.asked_in(channel, message).is_none() {
            // Another replica may have recorded the question.
            self.threads.forget(&key);
        }
        let (now, today) = self.answer_day(channel);
        let context = AnswerContext { team: &channel.team, now, today: &today };
        let thumb = ThumbAnswer { message, up, user };
        let take = |status: &mut ThreadStatus| questions::take_thumb(status, &thumb, &context);
        let taken = self.threads.try_update(&key, take).await;
        if matches!(taken, Ok((_, AnswerOutcome::Unknown))) {
            return Ok(None);
        }
        // A thumb that comes second gets no message: the person sees that somebody was first.
        let told = |outcome| (outcome == AnswerOutcome::Late).then_some(questions::LATE);
        let effects = answer_effects(key, user, taken, told)?;
        Ok(Some(effects))
    }

    /// The conversation in which a message is a question that is on record, as far as this process
    /// knows.
    pub(crate) fn asked_in(&self, channel: &RepoChannel, message: &SlackTs) -> Option<SlackTs> {
        self.context.threads.state().iter().find_map(|thread| {
            let here = thread.conversation().filter(|slack| slack.channel == channel.id)?;
            let thread = self.thread(&ThreadKey::from(&**thread))?;
            questions::takes_thumb(thread.status.as_ref()?, message).then(|| here.ts.clone())
        })
    }

    /// Ends what runs: by a sign at `at`, or Slack's own button.
    pub(crate) async fn stop(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        at: &SlackTs,
        user: &str,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        let key = match self.admit_answer(channel, root, user, AnswerRight::Steer).await? {
            AnswerPermission::May(key, _) => key,
            AnswerPermission::MayNot(effects) => return Ok(effects),
        };
        let stop = |status: &mut ThreadStatus| message_outcome::stop_runs(status, at, user);
        match self.threads.try_update(&key, stop).await {
            Ok(_) | Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(WriteError::Refused(refusal @ ChangeRefusal::Full)) => {
                let (user, text) = (user.to_owned(), refusal.to_string());
                Ok(vec![RouteEffect::Whisper { thread: key, user, text }])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The first message of the conversation that a message belongs to: Slack's event does not say.
    pub(crate) async fn root_of(
        &self,
        channel: &RepoChannel,
        message: &SlackTs,
    ) -> Result<Option<SlackTs>, TakeError> {
        if self.thread(&channel.thread(message)).is_some() {
            return Ok(Some(message.clone()));
        }
        if let Some(root) = self.asked_in(channel, message) {
            return Ok(Some(root));
        }
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(None);
        };
        let account = self.account(&repo).await?;
        let params = [("channel", channel.id.as_str()), ("timestamp", message.as_str())];
        let found = self.web.get::<ReactionItem>(&account.bot, "reactions.get", &params).await;
        match found {
            Ok(item) => Ok(Some(item.message.root().clone())),
            // The message was deleted meanwhile, or a scope is missing.
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "reaction_lookup_failed");
                Ok(None)
            }
            Err(error) => Err(AccessError::from(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thumbs_answer_in_any_colour_and_stop_signs_stop() {
        for (name, sign) in [
            ("+1", Some(EmojiSign::Thumb(true))),
            ("thumbsup", Some(EmojiSign::Thumb(true))),
            ("+1::skin-tone-4", Some(EmojiSign::Thumb(true))),
            ("-1", Some(EmojiSign::Thumb(false))),
            ("octagonal_sign", Some(EmojiSign::Stop)),
            ("hand", Some(EmojiSign::Stop)),
            ("raised_hand::skin-tone-2", Some(EmojiSign::Stop)),
            ("eyes", None),
            ("+100", None),
            ("", None),
        ] {
            assert_eq!(EmojiSign::by_name(name), sign, "{name}");
        }
    }
}
