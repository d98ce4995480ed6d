//! Taking answers in: clicks and reactions. Words are taken in with their message.

use std::time::Duration;

use codebutler_crds::SlackTs;
use jiff::Timestamp;

use super::super::Inner;
use super::super::effects::Effect;
use super::super::ingest::{Deciding, TakeError};
use super::super::route::Channel;
use super::{Answered, Outcome, take};
use crate::gateway::threads::WriteError;

/// How long after a message a question may still be on its way into the Thread.
const UNRECORDED: Duration = Duration::from_mins(2);
/// Before it is looked for once more.
const ANOTHER_LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// Takes a click in, or a reaction: those say nothing to who was too late.
    pub(in crate::gateway::slack) async fn answered(
        &self,
        channel: &Channel,
        root: &SlackTs,
        answered: &Answered,
        by_reaction: bool,
    ) -> Result<Vec<Effect>, TakeError> {
        let (key, _turn) = match self.deciding(channel, root, &answered.user).await? {
            Deciding::In(key, turn) => (key, turn),
            // A thumb on something else is everybody's right.
            Deciding::Not(_)
                if by_reaction && !self.asks(channel, root, &answered.message).await? =>
            {
                return Ok(Vec::new());
            }
            Deciding::Not(effects) => return Ok(effects),
        };
        let now = Timestamp::now();
        let whisper = |text: &str| {
            let (thread, user) = (key.clone(), answered.user.clone());
            Ok(vec![Effect::Whisper { thread, user, text: text.to_owned() }])
        };
        let mut taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        if by_reaction
            && matches!(taken, Ok((_, Outcome::Unknown)))
            && is_new(&answered.message, now)
        {
            // Slack tells a reaction once: another replica may be recording what was asked.
            tokio::time::sleep(ANOTHER_LOOK).await;
            taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        }
        match taken {
            Ok((_, Outcome::Counts)) => Ok(vec![Effect::Settled { thread: key }]),
            Ok((_, Outcome::Unknown | Outcome::Stale)) if by_reaction => Ok(Vec::new()),
            Ok((_, Outcome::Unknown)) if is_new(&answered.message, now) => {
                whisper("This was posted a moment ago and is not recorded yet: please click again.")
            }
            Ok((_, Outcome::Unknown | Outcome::Stale)) => {
                whisper("This is no longer open: it was answered.")
            }
            Ok((_, Outcome::Late)) => whisper(
                "This is no longer open: nobody answered in time. It has to be asked again.",
            ),
            Err(WriteError::Refused(refusal)) => whisper(&refusal.to_string()),
            Err(WriteError::Missing(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether a message is a question about an action that is on record.
    async fn asks(
        &self,
        channel: &Channel,
        root: &SlackTs,
        message: &SlackTs,
    ) -> Result<bool, TakeError> {
        let thread = self.find(channel, root, false).await?;
        let status = thread.as_ref().and_then(|thread| thread.status.as_ref());
        Ok(status.is_some_and(|status| status.approvals.iter().any(|one| one.ts == *message)))
    }
}

fn is_new(message: &SlackTs, now: Timestamp) -> bool {
    let (posted, _) = message.parts();
    now.as_second() < posted.saturating_add(UNRECORDED.as_secs()).cast_signed()
}
