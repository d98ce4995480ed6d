//! Finds the conversations of which Slack has yet to hear that they wait for people, or no longer do.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_gateway_core::attended::{AttendedThreads, CandidateThreads};
use codebutler_gateway_core::thread_key::ThreadKey;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::session;
use crate::Inner;

/// Pause after an attempt, whatever became of it.
const AGAIN: Duration = Duration::from_secs(5);
/// Repetitions of what an earlier process recorded that go to Slack at a time: there is one for each conversation that
/// waits, all of them due at a start.
const AT_ONCE: usize = 1;

/// Conversations of which this process has told Slack that they wait.
type ToldWaits = Arc<Mutex<HashSet<ThreadKey>>>;

/// A look at all conversations, taken again and again.
pub(super) struct WaitingLook {
    inner: Arc<Inner>,
    candidates: CandidateThreads,
    looked: HashMap<ThreadKey, Instant>,
    told: ToldWaits,
    repeats: Arc<Semaphore>,
}

/// Reason for which Slack is to hear of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WaitingDue {
    /// It is on record otherwise than it is.
    Behind,
    /// It is on record that it waits. The process that wrote this may have died before Slack heard it.
    Unsure,
}

/// Decides whether Slack is to hear of a conversation. `is_told` is true if it has heard from this process that it
/// waits.
fn find_due(thread: &Thread, is_told: bool) -> Option<WaitingDue> {
    if session::is_behind(thread) {
        Some(WaitingDue::Behind)
    } else if session::waits(thread) && !is_told {
        Some(WaitingDue::Unsure)
    } else {
        None
    }
}

impl WaitingLook {
    pub(super) fn new(inner: &Arc<Inner>, attended: &AttendedThreads) -> Self {
        Self {
            inner: Arc::clone(inner),
            candidates: attended.candidates(|thread| find_due(thread, false).is_some()),
            looked: HashMap::new(),
            told: ToldWaits::default(),
            repeats: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    /// Begins to tell Slack what is due.
    pub(super) fn look(&mut self, tasks: &TaskTracker, stop: &CancellationToken) {
        self.looked.retain(|_, at| at.elapsed() < AGAIN);
        let threads = self.candidates.list();
        self.forget_others(&threads);
        for thread in threads {
            let key = ThreadKey::from(&*thread);
            let Some(due) = find_due(&thread, self.told.lock().contains(&key)) else { continue };
            let Entry::Vacant(first) = self.looked.entry(key.clone()) else { continue };
            let turn = match due {
                WaitingDue::Behind => None,
                WaitingDue::Unsure => match Arc::clone(&self.repeats).try_acquire_owned() {
                    Ok(turn) => Some(turn),
                    Err(_) => continue,
                },
            };
            first.insert(Instant::now());
            let (inner, told, stop) =
                (Arc::clone(&self.inner), Arc::clone(&self.told), stop.clone());
            tasks.spawn(async move {
                let _turn = turn;
                show_waiting(&inner, (&key, &thread), &told, &stop).await;
            });
        }
    }

    /// Keeps the memory as small as the number of conversations that wait.
    fn forget_others(&self, threads: &[Arc<Thread>]) {
        let mut told = self.told.lock();
        if told.len() > threads.len() {
            let known: HashSet<_> =
                threads.iter().map(|thread| ThreadKey::from(&**thread)).collect();
            told.retain(|key| known.contains(key));
        }
    }
}

async fn show_waiting(
    inner: &Arc<Inner>,
    (key, thread): (&ThreadKey, &Thread),
    told: &ToldWaits,
    stop: &CancellationToken,
) {
    if session::waits(thread) {
        told.lock().insert(key.clone());
    }
    let work = Box::pin(session::show_waiting(inner, thread));
    if let Some(Err(error)) = stop.run_until_cancelled(work).await {
        told.lock().remove(key);
        tracing::warn!(thread = key.name, %error, "session_status_failed");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::session::tests::thread;
    use super::*;

    #[test]
    fn what_an_earlier_process_recorded_is_told_once_more() {
        let plan = json!({"ts": "5.000000", "hash": "h", "role": "pm"});
        let recorded = thread(&json!({"plan": plan, "suspended": true}));
        assert_eq!(find_due(&recorded, false), Some(WaitingDue::Unsure));
        assert_eq!(find_due(&recorded, true), None);
        assert_eq!(find_due(&thread(&json!({"plan": plan})), true), Some(WaitingDue::Behind));
        assert_eq!(find_due(&thread(&json!({})), false), None);
    }
}
