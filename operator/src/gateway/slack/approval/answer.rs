//! Taking clicks in. Words are taken in with their message, thumbs as [reactions](super::super::reaction).

use std::time::Duration;

use codebutler_crds::SlackTs;
use jiff::Timestamp;

use super::super::Inner;
use super::super::effects::Effect;
use super::super::ingest::{Act, Deciding, TakeError};
use super::super::route::Channel;
use super::super::verdict::{self, UNRECORDED_YET, Verdict};
use super::{Answered, LATE, Outcome, take};

/// How long after a message a question may still be on its way into the Thread.
const UNRECORDED: Duration = Duration::from_mins(2);

impl Inner {
    /// Takes a click in.
    pub(in crate::gateway::slack) async fn answered(
        &self,
        channel: &Channel,
        root: &SlackTs,
        answered: &Answered,
    ) -> Result<Vec<Effect>, TakeError> {
        let (key, _turn) = match self.deciding(channel, root, &answered.user, Act::Decide).await? {
            Deciding::In(key, turn) => (key, turn),
            Deciding::Not(effects) => return Ok(effects),
        };
        let now = Timestamp::now();
        let mut taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        if matches!(taken, Ok((_, Outcome::Unknown))) {
            // Another replica may have recorded it.
            self.threads.forget(&key);
            taken = self.threads.try_update(&key, |status| take(status, answered, now)).await;
        }
        verdict::answer(key, &answered.user, taken, |_, outcome| match outcome {
            Outcome::Counts => Verdict::Counts,
            Outcome::Unknown if is_new(&answered.message) => Verdict::Vain(UNRECORDED_YET),
            Outcome::Unknown | Outcome::Stale => {
                Verdict::Vain("This is no longer open: it was answered.")
            }
            Outcome::Late => Verdict::Vain(LATE),
        })
    }
}

/// Whether a message is so new that what it asks may not be on record yet.
pub fn is_new(message: &SlackTs) -> bool {
    let (posted, _) = message.parts();
    Timestamp::now().as_second() < posted.saturating_add(UNRECORDED.as_secs()).cast_signed()
}
