//! Taking answers in: clicks and reactions. Words are taken in with their message.

use std::time::Duration;

use codebutler_crds::SlackTs;
use jiff::Timestamp;

use super::super::Inner;
use super::super::effects::Effect;
use super::super::ingest::{Deciding, TakeError};
use super::super::route::Channel;
use super::super::verdict::{self, UNRECORDED_YET, Verdict};
use super::{Answered, Outcome, take};

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
        let mut taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        if by_reaction
            && matches!(taken, Ok((_, Outcome::Unknown)))
            && is_new(&answered.message, now)
        {
            // Slack tells a reaction once: another replica may be recording what was asked.
            tokio::time::sleep(ANOTHER_LOOK).await;
            taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        }
        verdict::answer(key, &answered.user, taken, |_, outcome| match outcome {
            Outcome::Counts => Verdict::Counts,
            Outcome::Unknown | Outcome::Stale if by_reaction => Verdict::Silent,
            Outcome::Unknown if is_new(&answered.message, now) => Verdict::Vain(UNRECORDED_YET),
            Outcome::Unknown | Outcome::Stale => {
                Verdict::Vain("This is no longer open: it was answered.")
            }
            Outcome::Late => Verdict::Vain(
                "This is no longer open: nobody answered in time. It has to be asked again.",
            ),
        })
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
