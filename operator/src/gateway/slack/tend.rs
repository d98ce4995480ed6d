//! What has to happen to a Thread without anybody saying a word: its prompt is opened, its end is told,
//! settled questions lose their buttons. Found by looking at all Threads again and again, so that
//! nothing depends on an event that a restart swallowed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, ThreadStatus, names};
use jiff::Timestamp;
use kube::ResourceExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::later::LaterError;
use super::open;
use super::questions::action;
use super::{Inner, farewell, finish, settle};
use crate::gateway::finished;
use crate::gateway::thread_key::ThreadKey;
use crate::gateway::threads;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(500);
/// After the first failure, and at most.
const AGAIN: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(30);
/// How long what follows a decision at once is left to follow.
const AT_ONCE: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum UpkeepDue {
    /// Its prompt has no conversation yet.
    Open,
    /// It is deleted, and its conversation is to be told.
    Farewell,
    /// Its conversation would not be told if it were deleted.
    Hold,
    /// Nobody has to be told any more if it is deleted.
    Release,
    /// Buttons that nobody can use any more.
    Settle,
    /// A question about an action that nobody answered in time.
    Expire,
    /// What is finished does not show it.
    Finish,
}

/// What is due for a Thread. Pure.
fn find_due(thread: &Thread, now: Timestamp) -> Option<UpkeepDue> {
    let held = thread.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER);
    let settled = || thread.status.as_ref().is_some_and(|status| !status.settled.is_empty());
    let late = || {
        let mut approvals = thread.status.iter().flat_map(|status| &status.approvals);
        approvals.any(|question| action::is_late(question, now))
    };
    let active = thread.spec.state == ThreadState::Active;
    let asks = || thread.status.as_ref().is_some_and(|s| !threads::open_questions(s).is_empty());
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
        None | Some(_) => None,
    }
}

/// Whether anything can be due for it, now or with time alone.
fn may_be_due(thread: &Thread) -> bool {
    let asks = |status: &ThreadStatus| status.approvals.iter().any(|one| one.answer.is_none());
    let now = Timestamp::now();
    find_due(thread, now).is_some() || thread.status.as_ref().is_some_and(asks)
}

/// Attempts by Thread and what was due.
type Attempts = Arc<Mutex<HashMap<(ThreadKey, UpkeepDue), UpkeepAttempt>>>;

struct UpkeepAttempt {
    running: bool,
    failures: u32,
    next: Instant,
    /// The look in which it was last due.
    seen: u64,
}

/// Looks after all Threads until told to stop.
pub async fn run_upkeep(inner: Arc<Inner>, stop: CancellationToken) {
    let attempts = Attempts::default();
    let tasks = TaskTracker::new();
    let mut candidates = inner.context.attended.candidates(may_be_due);
    let changed = inner.context.attended.follow();
    for look in 0.. {
        let known = changed.take().into_iter().filter_map(|key| inner.context.attended.get(&key));
        inner.opened.learn(&known.collect::<Vec<_>>());
        for thread in &candidates.list() {
            let Some(due) = find_due(thread, Timestamp::now()) else { continue };
            let key = (ThreadKey::from(&**thread), due);
            if begin_attempt(&attempts, &key, look) {
                let (inner, attempts) = (Arc::clone(&inner), Arc::clone(&attempts));
                let (thread, stop) = (Arc::clone(thread), stop.clone());
                tasks.spawn(async move {
                    let outcome = stop
                        .run_until_cancelled(Box::pin(perform_upkeep(&inner, &thread, due)))
                        .await;
                    end_attempt(&attempts, &key, outcome.unwrap_or(Ok(())));
                });
            }
        }
        forget_attempts(&attempts, look);
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            break;
        }
    }
}

async fn perform_upkeep(
    inner: &Arc<Inner>,
    thread: &Thread,
    due: UpkeepDue,
) -> Result<(), LaterError> {
    let key = ThreadKey::from(thread);
    match due {
        UpkeepDue::Open => open::open_conversation(inner, thread).await,
        UpkeepDue::Farewell => farewell::take_leave(inner, thread).await,
        UpkeepDue::Hold => Ok(inner.threads.hold(&key, true).await?),
        UpkeepDue::Release => Ok(inner.threads.hold(&key, false).await?),
        UpkeepDue::Settle => {
            if thread.spec.state == ThreadState::Closed {
                inner.threads.update(&key, threads::settle_open).await?;
            }
            Ok(settle::settle_all(inner, &key).await?)
        }
        UpkeepDue::Finish => finish::mark_finished(inner, thread).await,
        UpkeepDue::Expire => {
            let expire =
                |status: &mut ThreadStatus| action::expire_questions(status, Timestamp::now());
            inner.threads.try_update(&key, expire).await?;
            Ok(settle::settle_all(inner, &key).await?)
        }
    }
}

/// Whether it is to be tried now.
fn begin_attempt(attempts: &Attempts, key: &(ThreadKey, UpkeepDue), look: u64) -> bool {
    let mut attempts = attempts.lock();
    let now = Instant::now();
    let attempt = attempts.entry(key.clone()).or_insert_with(|| {
        // What a decision left to do is done by who took it in, except after a restart.
        let patience =
            if key.1 == UpkeepDue::Settle && look > 0 { AT_ONCE } else { Duration::ZERO };
        UpkeepAttempt { running: false, failures: 0, next: now + patience, seen: look }
    });
    attempt.seen = look;
    if attempt.running || attempt.next > now {
        return false;
    }
    attempt.running = true;
    true
}

fn end_attempt(attempts: &Attempts, key: &(ThreadKey, UpkeepDue), outcome: Result<(), LaterError>) {
    let mut attempts = attempts.lock();
    let Some(attempt) = attempts.get_mut(key) else { return };
    attempt.running = false;
    attempt.next = Instant::now() + AGAIN;
    match outcome {
        Ok(()) => attempt.failures = 0,
        // What it waits for is looked at in the caches.
        Err(LaterError::Waits(_) | LaterError::Claimed) => {}
        Err(error) => {
            let wait = AGAIN.saturating_mul(1 << attempt.failures.min(5)).min(LONGEST);
            attempt.failures = attempt.failures.saturating_add(1);
            attempt.next = Instant::now() + wait;
            tracing::warn!(thread = key.0.name, due = ?key.1, %error, "tried again");
        }
    }
}

/// Drops what is not due any more.
fn forget_attempts(attempts: &Attempts, look: u64) {
    let mut attempts = attempts.lock();
    attempts.retain(|_, attempt| attempt.running || attempt.seen == look);
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
