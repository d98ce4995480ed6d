//! Takes answers in: checks that whoever presses a button or raises a thumb may answer, waits while what they
//! answer is on its way onto the record, and tells them what came of it.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::WriteError;
use codebutler_runtime::calendar;
use jiff::Timestamp;
use tokio::sync::OwnedMutexGuard;

use crate::Inner;
use crate::api::channel::RepoChannel;
use crate::inbound::effects::RouteEffect;
use crate::inbound::take_error::{PATIENCE, TakeError};
use crate::people::access;
use crate::questions::{
    self, AnswerContext, AnswerOutcome, AnswerRight, ButtonPress, QuestionKind,
};

/// Age of a message up to which its question may still be on its way into the Thread.
const UNRECORDED: Duration = Duration::from_mins(2);
/// Told to people who are too quick: Slack may know the message before the Thread knows what it asks.
const UNRECORDED_YET: &str =
    "This was posted a moment ago and is not recorded yet: please click again.";

/// Permission of a person to answer something now.
pub(crate) enum AnswerPermission {
    /// Granted in this Thread; nothing is posted there while the lock is held.
    May(ThreadKey, Option<OwnedMutexGuard<()>>),
    MayNot(Vec<RouteEffect>),
}

impl Inner {
    /// Takes a press of a button in.
    pub(crate) async fn take_press(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        press: &ButtonPress,
    ) -> Result<Vec<RouteEffect>, TakeError> {
        if press.action_id == questions::LEARN {
            return self.begin_learning(channel, press).await;
        }
        let Some(kind) = questions::find_kind(&press.action_id) else { return Ok(Vec::new()) };
        let right = kind.needed_right(&press.action_id);
        let (key, _turn) = match self.admit_answer(channel, root, &press.user, right).await? {
            AnswerPermission::May(key, turn) => (key, turn),
            AnswerPermission::MayNot(effects) => return Ok(effects),
        };
        let seen = (key.clone(), press.clone());
        if self.handled.presses.contains(&seen) {
            return Ok(Vec::new());
        }
        let (now, today) = self.answer_day(channel);
        let context = AnswerContext { team: &channel.team, now, today: &today };
        let take = |status: &mut ThreadStatus| kind.take_press(status, press, &context);
        let mut taken = self.threads.try_update(&key, take).await;
        if matches!(taken, Ok((_, AnswerOutcome::Unknown))) {
            // Another replica may have recorded the question.
            self.threads.forget(&key);
            taken = self.threads.try_update(&key, take).await;
        }
        if matches!(taken, Ok((_, AnswerOutcome::Counts))) {
            self.handled.presses.first_time(seen);
        }
        answer_effects(key, &press.user, taken, |outcome| told_to_presser(kind, press, outcome))
    }

    /// Time of an answer, and the day of the Repo at that time.
    pub(crate) fn answer_day(&self, channel: &RepoChannel) -> (Timestamp, String) {
        let now = Timestamp::now();
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let zone = repo.map(|repo| repo.spec.limits.time_zone.clone()).unwrap_or_default();
        (now, calendar::find_moment(now, &zone).day)
    }

    /// Checks that a person may answer in a conversation, and waits for the turn to: a person may answer before
    /// it is recorded what a message asks.
    pub(crate) async fn admit_answer(
        &self,
        channel: &RepoChannel,
        root: &SlackTs,
        user: &str,
        right: AnswerRight,
    ) -> Result<AnswerPermission, TakeError> {
        let Some(thread) = self.find(channel, root, false).await? else {
            return Ok(AnswerPermission::MayNot(Vec::new()));
        };
        let key = ThreadKey::from(&*thread);
        let repo = self.context.repo(&channel.namespace, &channel.repo);
        let why = if thread.is_going() {
            "This thread is being deleted in the cluster."
        } else if thread.spec.state == ThreadState::Closed {
            "This thread is closed."
        } else if let Some(why) = self.lacks_right(repo.as_deref(), user, right).await? {
            why
        } else {
            let turn = self.posting.lock(&key);
            let turn = tokio::time::timeout(PATIENCE, turn).await.ok();
            return Ok(AnswerPermission::May(key, turn));
        };
        let (user, text) = (user.to_owned(), why.to_owned());
        Ok(AnswerPermission::MayNot(vec![RouteEffect::Whisper { thread: key, user, text }]))
    }

    /// Reason for which somebody lacks a right; `None` if they have it.
    async fn lacks_right(
        &self,
        repo: Option<&Repo>,
        user: &str,
        right: AnswerRight,
    ) -> Result<Option<&'static str>, TakeError> {
        match (repo, right) {
            (Some(repo), AnswerRight::Decide) => Ok(self.refusal(repo, user).await?),
            (Some(repo), AnswerRight::Steer)
                if access::permits_user(&repo.spec.access.users, user) =>
            {
                Ok(None)
            }
            _ => Ok(Some(access::NOT_PERMITTED)),
        }
    }
}

/// Effects of an answer that was, or could not be, put on record. `told`: words for the person who answered
/// where it does not count.
///
/// # Errors
/// When it is not known whether it was.
pub(crate) fn answer_effects(
    thread: ThreadKey,
    user: &str,
    taken: Result<(Arc<Thread>, AnswerOutcome), WriteError>,
    told: impl FnOnce(AnswerOutcome) -> Option<&'static str>,
) -> Result<Vec<RouteEffect>, TakeError> {
    let text = match taken {
        // The message shows who decided, and loses its buttons.
        Ok((_, AnswerOutcome::Counts)) => return Ok(vec![RouteEffect::Settled { thread }]),
        Ok((_, outcome)) => match told(outcome) {
            Some(why) => why.to_owned(),
            None => return Ok(Vec::new()),
        },
        Err(WriteError::Missing(_)) => return Ok(Vec::new()),
        Err(WriteError::Refused(refusal)) => refusal.to_string(),
        Err(error) => return Err(error.into()),
    };
    Ok(vec![RouteEffect::Whisper { thread, user: user.to_owned(), text }])
}

fn told_to_presser(
    kind: &dyn QuestionKind,
    press: &ButtonPress,
    outcome: AnswerOutcome,
) -> Option<&'static str> {
    match outcome {
        AnswerOutcome::Counts => None,
        AnswerOutcome::Late => Some(questions::LATE),
        AnswerOutcome::NotTheirs => Some(questions::NOT_YOURS),
        AnswerOutcome::Unknown if is_new(&press.message) => Some(UNRECORDED_YET),
        AnswerOutcome::Stale | AnswerOutcome::Unknown => Some(kind.stale_words()),
    }
}

/// True if a message is so new that what it asks may not be on record yet.
pub(crate) fn is_new(message: &SlackTs) -> bool {
    let (posted, _) = message.parts();
    Timestamp::now().as_second() < posted.saturating_add(UNRECORDED.as_secs()).cast_signed()
}
