//! Upkeep of Threads, without anybody saying a word: a prompt is opened, an end is told, settled questions lose
//! their buttons. Found by looking at all Threads again and again, so that nothing depends on an event that a
//! restart swallowed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, ThreadStatus, names};
use codebutler_gateway_core::finished;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, drive_threads};
use codebutler_gateway_core::threads;
use codebutler_runtime::queue::FollowUp;
use jiff::Timestamp;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::Inner;
use crate::api::deferral::LaterError;
use crate::outbound::opening;
use crate::outbound::settled_messages;
use crate::questions::action;
use crate::upkeep::deletion_notice;
use crate::upkeep::finish_reaction;

/// Interval between two looks at what time alone makes due.
const EVERY: Duration = Duration::from_millis(500);
/// Backoff after the first failure, and its limit.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// Time that the follow-up of a decision is left to whoever took the decision in.
const AT_ONCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum UpkeepDue {
    /// Open: its prompt has no conversation yet.
    Open,
    /// Tell the conversation that the Thread is deleted.
    Farewell,
    /// Hold it with the finalizer: its conversation would not be told if it were deleted.
    Hold,
    /// Release the finalizer: nobody has to be told any more if it is deleted.
    Release,
    /// Remove buttons that nobody can use any more.
    Settle,
    /// Expire a question about an action that nobody answered in time.
    Expire,
    /// Mark it as finished, which it does not show yet.
    Finish,
    /// Answer people who asked for help and have no answer yet.
    Help,
}

/// Finds the upkeep that is due for a Thread. Pure.
fn find_due(thread: &Thread, now: Timestamp) -> Option<UpkeepDue> {
    let held = thread.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER);
    let settled = || thread.status.as_ref().is_some_and(|status| !status.settled.is_empty());
    let late = || {
        let mut approvals = thread.status.iter().flat_map(|status| &status.approvals);
        approvals.any(|question| action::is_late(question, now))
    };
    let active = thread.spec.state == ThreadState::Active;
    let asks = || thread.status.as_ref().is_some_and(|s| !threads::open_questions(s).is_empty());
    let helps = || thread.status.as_ref().is_some_and(|status| !status.helping.is_empty());
    if thread.is_going() {
        return held.then_some(UpkeepDue::Farewell);
    }
    match thread.conversation() {
        None if active && thread.spec.prompt.is_some() => Some(UpkeepDue::Open),
        Some(_) if settled() || (!active && asks()) => Some(UpkeepDue::Settle),
        Some(_) if active && late() => Some(UpkeepDue::Expire),
        Some(_) if active && !held => Some(UpkeepDue::Hold),
        Some(_) if !active && held => Some(UpkeepDue::Release),
        Some(_) if finished::find_finished(thread, now).is_some() => Some(UpkeepDue::Finish),
        Some(_) if helps() => Some(UpkeepDue::Help),
        None | Some(_) => None,
    }
}

/// True if anything can be due for it, now or with time alone.
fn may_be_due(thread: &Thread) -> bool {
    let asks = |status: &ThreadStatus| status.approvals.iter().any(|one| one.answer.is_none());
    let now = Timestamp::now();
    find_due(thread, now).is_some() || thread.status.as_ref().is_some_and(asks)
}

/// State of the upkeep. `patient`: Threads whose settled questions are left to somebody else, and until when.
struct UpkeepReconciler {
    inner: Arc<Inner>,
    began: Instant,
    patient: Mutex<HashMap<ThreadKey, Instant>>,
}

/// Looks after all Threads until told to stop.
pub(crate) async fn run_upkeep(inner: Arc<Inner>, stop: CancellationToken) {
    let queue = ThreadQueue::new(&inner.context.attended, may_be_due, (AGAIN, LONGEST));
    let learning = learn_conversations(Arc::clone(&inner), &stop);
    let upkeep =
        Arc::new(UpkeepReconciler { inner, began: Instant::now(), patient: Mutex::default() });
    let look = |key: ThreadKey, thread: Arc<Thread>| {
        let upkeep = Arc::clone(&upkeep);
        async move { Box::pin(upkeep.look_at(&key, &thread)).await }
    };
    let forget = |key: &ThreadKey| {
        upkeep.patient.lock().remove(key);
    };
    tokio::join!(drive_threads(queue, ("thread_upkeep", &stop), look, forget), learning);
}

/// Remembers which conversations were opened for Threads.
async fn learn_conversations(inner: Arc<Inner>, stop: &CancellationToken) {
    let attended = &inner.context.attended;
    let changed = attended.follow();
    loop {
        let known = changed.take().into_iter().filter_map(|key| attended.get(&key));
        inner.opened.learn(&known.collect::<Vec<_>>());
        if stop.run_until_cancelled(changed.wait()).await.is_none() {
            return;
        }
    }
}

impl UpkeepReconciler {
    async fn look_at(&self, key: &ThreadKey, thread: &Thread) -> Result<FollowUp, LaterError> {
        // With time alone something may become due.
        let Some(due) = find_due(thread, Timestamp::now()) else {
            self.patient.lock().remove(key);
            return Ok(FollowUp::requeue(EVERY));
        };
        if let Some(patience) = self.find_patience(key, due) {
            // Something else may become due before.
            return Ok(FollowUp::requeue(patience.min(AT_ONCE)));
        }
        match perform_upkeep(&self.inner, thread, due).await {
            Ok(()) => Ok(FollowUp::requeue(AGAIN)),
            // The caches are looked at for what it waits for.
            Err(LaterError::Waits(_) | LaterError::Claimed) => Ok(FollowUp::hold_off(AGAIN)),
            Err(error) => {
                tracing::debug!(thread = key.name, ?due, "upkeep_delayed");
                Err(error)
            }
        }
    }

    /// Time for which it is left to somebody else: the follow-up of a decision comes from who took it in, except after a
    /// restart.
    fn find_patience(&self, key: &ThreadKey, due: UpkeepDue) -> Option<Duration> {
        if due != UpkeepDue::Settle {
            self.patient.lock().remove(key);
            return None;
        }
        let now = Instant::now();
        let until = now + if self.began.elapsed() < EVERY { Duration::ZERO } else { AT_ONCE };
        let known = *self.patient.lock().entry(key.clone()).or_insert(until);
        known.checked_duration_since(now).filter(|left| !left.is_zero())
    }
}

async fn perform_upkeep(
    inner: &Arc<Inner>,
    thread: &Thread,
    due: UpkeepDue,
) -> Result<(), LaterError> {
    let key = ThreadKey::from(thread);
    match due {
        UpkeepDue::Open => opening::open_conversation(inner, thread).await,
        UpkeepDue::Farewell => deletion_notice::take_leave(inner, thread).await,
        UpkeepDue::Hold => Ok(inner.threads.hold(&key, true).await?),
        UpkeepDue::Release => Ok(inner.threads.hold(&key, false).await?),
        UpkeepDue::Settle => {
            if thread.spec.state == ThreadState::Closed {
                inner.threads.update(&key, threads::settle_open).await?;
            }
            Ok(settled_messages::settle_all(inner, &key).await?)
        }
        UpkeepDue::Finish => finish_reaction::mark_finished(inner, thread).await,
        UpkeepDue::Help => {
            let (shared, thread) = (Arc::clone(inner), thread.clone());
            // Comes to its end when upkeep is stopped in the middle: what was shown goes on record.
            let answering =
                inner.background.spawn(async move { shared.answer_waiting(&thread).await });
            answering.await.unwrap_or(Ok(())).map_err(LaterError::from)
        }
        UpkeepDue::Expire => {
            let expire =
                |status: &mut ThreadStatus| action::expire_questions(status, Timestamp::now());
            inner.threads.try_update(&key, expire).await?;
            Ok(settled_messages::settle_all(inner, &key).await?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn thread(metadata: &Value, spec: &Value, status: &Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": metadata, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn what_is_due() {
        let (held, free) =
            (json!({"name": "t", "finalizers": [names::FINALIZER]}), json!({"name": "t"}));
        let slack = json!({"channel": "C01", "ts": "1.000000"});
        let began = json!({"repo": "r", "slack": slack});
        let prompt = json!({"repo": "r", "prompt": "p"});
        let closed = json!({"repo": "r", "slack": slack, "state": "Closed"});
        let mut going = held.clone();
        going["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        let settled = json!({"settled": [{"ts": "2.000000"}]});
        let helping = json!({"helping": [{"ts": "2.000000", "user": "U1"}]});
        let asked = |expires: &str, answer: Value| {
            json!({"approvals": [{"id": "pm:k", "role": "pm", "tool": "Bash", "hash": "aa",
                "ts": "2.000000", "expires": expires, "answer": answer}]})
        };
        for (metadata, spec, status, expected) in [
            (&held, &began, json!({}), None),
            (&free, &began, json!({}), Some(UpkeepDue::Hold)),
            (&held, &closed, json!({}), Some(UpkeepDue::Release)),
            (&free, &closed, json!({}), None),
            (&free, &prompt, json!({}), Some(UpkeepDue::Open)),
            (&held, &prompt, json!({"slack": slack}), None),
            (&held, &began, settled, Some(UpkeepDue::Settle)),
            (&held, &began, helping.clone(), Some(UpkeepDue::Help)),
            (&free, &began, helping, Some(UpkeepDue::Hold)),
            (&held, &began, asked("1970-01-01T00:00:09Z", Value::Null), Some(UpkeepDue::Expire)),
            (&held, &closed, asked("1970-01-01T00:00:09Z", Value::Null), Some(UpkeepDue::Settle)),
            (&held, &began, asked("1970-01-01T00:00:09Z", json!("denied")), None),
            (&held, &began, asked("1970-01-01T00:00:11Z", Value::Null), None),
            (&going, &prompt, json!({}), Some(UpkeepDue::Farewell)),
        ] {
            assert_eq!(
                find_due(&thread(metadata, spec, &status), Timestamp::from_second(10).unwrap()),
                expected
            );
        }
    }
}
