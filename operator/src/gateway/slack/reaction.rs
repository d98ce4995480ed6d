//! Emoji that decide: thumbs answer a question about an action, a stop sign stops. All others are
//! nobody's business.

use codebutler_crds::{SlackTs, ThreadStatus};
use serde::Deserialize;

use super::Inner;
use super::account::AccessError;
use super::approval::{Answer, Answered};
use super::effects::Effect;
use super::event::Stored;
use super::ingest::{Deciding, TakeError};
use super::route::Channel;
use super::verdict::{self, Verdict};
use super::{decision, offer};
use crate::gateway::threads::{Refusal, WriteError};

/// What an emoji can mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A thumb.
    Answer(Answer),
    /// End what runs now.
    Stop,
}

impl Sign {
    /// The meaning of an emoji's name.
    pub fn by_name(name: &str) -> Option<Self> {
        match name.split("::").next() {
            Some("octagonal_sign" | "hand" | "raised_hand") => Some(Self::Stop),
            _ => Answer::by_reaction(name).map(Self::Answer),
        }
    }
}

/// An emoji that means something, on a message of a Repo's channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reacted {
    /// The message.
    pub message: SlackTs,
    /// What it means.
    pub sign: Sign,
    /// Slack user id.
    pub user: String,
    /// Whether the message is CodeButler's own.
    pub on_ours: bool,
    /// When.
    pub at: SlackTs,
}

#[derive(Deserialize)]
struct Item {
    message: Stored,
}

impl Inner {
    /// Takes a reaction in.
    pub(super) async fn reacted(
        &self,
        channel: &Channel,
        reacted: &Reacted,
    ) -> Result<Vec<Effect>, TakeError> {
        // People like what people say, too.
        if matches!(reacted.sign, Sign::Answer(_)) && !reacted.on_ours {
            return Ok(Vec::new());
        }
        let Some(root) = self.root_of(channel, &reacted.message).await? else {
            return Ok(Vec::new());
        };
        match reacted.sign {
            Sign::Answer(answer) if self.offers(channel, &root, &reacted.message).await? => {
                self.judged(channel, &root, reacted, answer == Answer::Approve).await
            }
            Sign::Answer(Answer::Approve)
                if self.plans(channel, &root, &reacted.message).await? =>
            {
                let (message, user) = (reacted.message.clone(), reacted.user.clone());
                let clicked =
                    decision::Clicked { message, choice: decision::Choice::Approve, user };
                self.click(channel, &root, &clicked).await
            }
            Sign::Answer(answer) => {
                let (message, user) = (reacted.message.clone(), reacted.user.clone());
                self.answered(channel, &root, &Answered { message, answer, user }, true).await
            }
            Sign::Stop => self.stop(channel, &root, &reacted.at, &reacted.user).await,
        }
    }

    /// Whether a message is the plan that waits for an answer.
    async fn plans(
        &self,
        channel: &Channel,
        root: &SlackTs,
        message: &SlackTs,
    ) -> Result<bool, TakeError> {
        let thread = self.find(channel, root, false).await?;
        let plan = thread.as_ref().and_then(|thread| thread.status.as_ref()?.plan.as_ref());
        Ok(plan.is_some_and(|plan| {
            plan.ts == *message && plan.approved_by.is_none() && plan.declined_by.is_none()
        }))
    }

    /// Whether a message shows learnings.
    async fn offers(
        &self,
        channel: &Channel,
        root: &SlackTs,
        message: &SlackTs,
    ) -> Result<bool, TakeError> {
        let thread = self.find(channel, root, false).await?;
        let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
        Ok(status.is_some_and(|status| status.offers.iter().any(|offer| offer.ts == *message)))
    }

    /// A thumb judges all learnings of a message that nobody has judged.
    async fn judged(
        &self,
        channel: &Channel,
        root: &SlackTs,
        reacted: &Reacted,
        yes: bool,
    ) -> Result<Vec<Effect>, TakeError> {
        let (key, _turn) = match self.deciding(channel, root, &reacted.user).await? {
            Deciding::In(key, turn) => (key, turn),
            Deciding::Not(effects) => return Ok(effects),
        };
        let judge = |status: &mut ThreadStatus| {
            offer::take_all(status, &reacted.message, yes, &reacted.user)
        };
        let taken = self.threads.try_update(&key, judge).await;
        verdict::answer(key, &reacted.user, taken, |_, counts| {
            if counts { Verdict::Counts } else { Verdict::Silent }
        })
    }

    /// Ends what runs: by a sign at `at`, or Slack's own button.
    pub(super) async fn stop(
        &self,
        channel: &Channel,
        root: &SlackTs,
        at: &SlackTs,
        user: &str,
    ) -> Result<Vec<Effect>, TakeError> {
        let key = match self.deciding(channel, root, user).await? {
            Deciding::In(key, _) => key,
            Deciding::Not(effects) => return Ok(effects),
        };
        let stop = |status: &mut ThreadStatus| decision::stop(status, at, user);
        match self.threads.try_update(&key, stop).await {
            Ok(_) | Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(WriteError::Refused(refusal @ Refusal::Full)) => {
                let (user, text) = (user.to_owned(), refusal.to_string());
                Ok(vec![Effect::Whisper { thread: key, user, text }])
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The first message of the conversation that a message belongs to: Slack's event does not say.
    async fn root_of(
        &self,
        channel: &Channel,
        message: &SlackTs,
    ) -> Result<Option<SlackTs>, TakeError> {
        if self.thread(&channel.thread(message)).is_some() {
            return Ok(Some(message.clone()));
        }
        if let Some(thread) = self.context.threads.state().iter().find(|thread| {
            let here = thread.conversation().is_some_and(|slack| slack.channel == channel.id);
            let status = thread.status.as_ref().filter(|_| here);
            status.is_some_and(|status| {
                status.approvals.iter().any(|one| one.ts == *message)
                    || status.offers.iter().any(|one| one.ts == *message)
            })
        }) {
            return Ok(thread.conversation().map(|slack| slack.ts.clone()));
        }
        let Some(repo) = self.context.repo(&channel.namespace, &channel.repo) else {
            return Ok(None);
        };
        let account = self.account(&repo).await?;
        let params = [("channel", channel.id.as_str()), ("timestamp", message.as_str())];
        let found = self.web.get::<Item>(&account.bot, "reactions.get", &params).await;
        match found {
            Ok(item) => Ok(Some(item.message.root().clone())),
            // Deleted meanwhile, or a scope is missing.
            Err(error) if error.code().is_some() => {
                tracing::info!(%error, "a reaction can't be placed");
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
            ("+1", Some(Sign::Answer(Answer::Approve))),
            ("thumbsup", Some(Sign::Answer(Answer::Approve))),
            ("+1::skin-tone-4", Some(Sign::Answer(Answer::Approve))),
            ("-1", Some(Sign::Answer(Answer::Deny))),
            ("octagonal_sign", Some(Sign::Stop)),
            ("hand", Some(Sign::Stop)),
            ("raised_hand::skin-tone-2", Some(Sign::Stop)),
            ("eyes", None),
            ("+100", None),
            ("", None),
        ] {
            assert_eq!(Sign::by_name(name), sign, "{name}");
        }
    }
}
