//! The warning that a thread will be closed because nobody writes: Keep or Close. Pure, but for
//! [`Inner::kept`], which takes clicks in.

use codebutler_crds::thread::Settled;
use codebutler_crds::{SlackTs, ThreadStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::Inner;
use super::decision::{self, Said};
use super::effects::Effect;
use super::ingest::{Act, Deciding, TakeError};
use super::route::Channel;
use super::verdict::{self, Verdict};
use crate::gateway::threads::{self, Refusal};

/// Slack's `action_id`s.
pub const KEEP: &str = "collect:keep";
pub const CLOSE: &str = "collect:close";

/// In place of the buttons, once chosen.
pub fn told(action_id: &str) -> Option<&'static str> {
    match action_id {
        KEEP => Some(":white_check_mark: Kept by"),
        CLOSE => Some(":wastebasket: Closed by"),
        _ => None,
    }
}

/// A click.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The message with the button.
    pub message: SlackTs,
    /// Keep; false: close.
    pub keep: bool,
    /// Slack user id.
    pub user: String,
}

/// Takes a click in; answers whether it counts. `first` is the role that ends a thread.
///
/// # Errors
/// When too many decisions wait already.
pub fn take(
    status: &mut ThreadStatus,
    kept: &Kept,
    first: Option<&str>,
    now: &Time,
) -> Result<bool, Refusal> {
    if status.warned.as_ref() != Some(&kept.message) {
        let choice = if kept.keep { KEEP } else { CLOSE };
        let again = |one: &Settled| one.ts == kept.message && one.choice.as_deref() == Some(choice);
        return Ok(status.settled.iter().any(again));
    }
    let mut changed = status.clone();
    end(&mut changed, if kept.keep { KEEP } else { CLOSE }, &kept.user);
    changed.last_activity = Some(now.clone());
    changed.speaker = Some(kept.user.clone());
    if let (false, Some(role)) = (kept.keep, first) {
        let (ts, user) = (kept.message.clone(), kept.user.clone());
        let said = Said { ts, user, mentioned: Vec::new(), intent: None, is_bot: false };
        decision::close_in_words(&mut changed, &said, role)?;
    }
    *status = changed;
    Ok(true)
}

/// The warning is answered: with a word, `KEEP`, or with a click.
pub fn end(status: &mut ThreadStatus, choice: &str, user: &str) {
    if let Some(ts) = status.warned.take() {
        let (choice, user) = (Some(choice.to_owned()), Some(user.to_owned()));
        threads::settle(status, Settled { ts, choice, user });
    }
}

impl Inner {
    /// Takes a click in.
    pub(super) async fn kept(
        &self,
        channel: &Channel,
        root: &SlackTs,
        kept: &Kept,
    ) -> Result<Vec<Effect>, TakeError> {
        let act = if kept.keep { Act::Steer } else { Act::Decide };
        let (key, _turn) = match self.deciding(channel, root, &kept.user, act).await? {
            Deciding::In(key, turn) => (key, turn),
            Deciding::Not(effects) => return Ok(effects),
        };
        let now = Time(jiff::Timestamp::now());
        let taken = |status: &mut ThreadStatus| take(status, kept, channel.first(), &now);
        let taken = self.threads.try_update(&key, taken).await;
        verdict::answer(key, &kept.user, taken, |_, counts| {
            if counts {
                Verdict::Counts
            } else {
                Verdict::Vain("This is no longer open: somebody answered or wrote.")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::thread::ClosingChoice;

    use super::*;

    fn kept(keep: bool) -> Kept {
        Kept { message: "5.000000".parse().unwrap(), keep, user: "U1".to_owned() }
    }

    #[test]
    fn keep_is_activity_and_close_is_a_decision() {
        let now = Time(jiff::Timestamp::UNIX_EPOCH);
        let warned = || ThreadStatus {
            warned: Some("5.000000".parse().unwrap()),
            ..ThreadStatus::default()
        };
        let mut status = warned();
        assert!(take(&mut status, &kept(true), Some("pm"), &now).unwrap());
        assert!((status.last_activity.is_some(), status.closing.is_none()) == (true, true));
        assert!(status.pending.is_empty());
        assert!(take(&mut status, &kept(true), Some("pm"), &now).unwrap(), "again");
        assert!(!take(&mut status, &kept(false), Some("pm"), &now).unwrap(), "too late");

        let mut status = warned();
        assert!(take(&mut status, &kept(false), Some("pm"), &now).unwrap());
        assert_eq!(status.closing.unwrap().choice, Some(ClosingChoice::Discard));
        assert_eq!(status.pending[0].role, "pm");
        assert_eq!(status.settled[0].choice.as_deref(), Some(CLOSE));
    }
}
