//! Work queue of the gateway's reconcilers of Threads: each has a queue of those for which
//! something of its kind may be due. A Thread is looked at as soon as it changes, and again when
//! its last look said.

use std::collections::{HashMap, HashSet};
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::Thread;
use codebutler_runtime::queue::{FollowUp, KeyBackoff, WorkQueue, wait_until};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::attended::{AttendedThreads, ChangedThreads};
use crate::thread_key::ThreadKey;

/// Threads that are looked at at once, where they are not looked at one by one.
const CONCURRENCY: usize = 64;
/// Time that looks under way may still take at the end.
const LAST: Duration = Duration::from_secs(2);

/// A Thread that has its turn.
enum QueuedThread {
    /// The Thread is to be looked at. Its turn lasts until [`ThreadQueue::end`] or
    /// [`ThreadQueue::fail`].
    Due(ThreadKey, Arc<Thread>),
    /// The Thread needs no more looks: what is remembered of it can be forgotten.
    Left(ThreadKey),
}

/// Threads for which something of one kind may be due, as of what they say themselves.
pub struct ThreadQueue {
    attended: AttendedThreads,
    changed: ChangedThreads,
    wanted: fn(&Thread) -> bool,
    work: WorkQueue<ThreadKey>,
    backoff: KeyBackoff<ThreadKey>,
    /// Threads that were looked at.
    known: HashSet<ThreadKey>,
}

impl ThreadQueue {
    /// `again`: how long to wait after a first failure, and at most.
    pub fn new(
        attended: &AttendedThreads,
        wanted: fn(&Thread) -> bool,
        again: (Duration, Duration),
    ) -> Self {
        Self {
            attended: attended.clone(),
            changed: attended.follow(),
            wanted,
            work: WorkQueue::default(),
            backoff: KeyBackoff::new(again.0, again.1),
            known: HashSet::new(),
        }
    }

    /// Waits for the next turn. Dropped while it waits, it has begun none.
    async fn next(&mut self) -> QueuedThread {
        loop {
            for key in self.changed.take() {
                self.work.now(key);
            }
            self.work.wake(Instant::now());
            while let Some(key) = self.work.begin() {
                let found = self.attended.get(&key).filter(|thread| (self.wanted)(thread));
                if let Some(thread) = found {
                    self.known.insert(key.clone());
                    return QueuedThread::Due(key, thread);
                }
                self.work.end(&key);
                self.backoff.reset(&key);
                if self.known.remove(&key) {
                    return QueuedThread::Left(key);
                }
            }
            let due = self.work.first_due();
            tokio::select! {
                () = self.changed.wait() => {}
                () = wait_until(due) => {}
            }
        }
    }

    /// Ends a look, and schedules the next one.
    fn end(&mut self, key: &ThreadKey, next: FollowUp) {
        if !next.failed {
            self.backoff.reset(key);
        }
        match next.after.map(|after| Instant::now() + after) {
            Some(at) if next.holds => self.work.hold(key.clone(), at),
            Some(at) => self.work.later(key.clone(), at),
            None => {}
        }
        self.work.end(key);
    }

    /// A look came to nothing: it is tried again after a while, and not before.
    fn fail(&mut self, key: &ThreadKey) {
        let wait = self.backoff.failed(key.clone());
        self.work.hold(key.clone(), Instant::now() + wait);
        self.work.end(key);
    }
}

/// A reconciler that looks at Threads one by one, with a memory of its own.
pub trait ThreadReconciler: Send {
    const NAME: &'static str;
    type Error: Display + Send;

    /// Looks at a Thread once. The look is begun anew if the process ends in the middle.
    fn reconcile(
        &mut self,
        key: &ThreadKey,
        thread: &Thread,
    ) -> impl Future<Output = Result<FollowUp, Self::Error>> + Send;

    /// Forgets a Thread that needs no more looks.
    fn forget(&mut self, key: &ThreadKey);
}

/// Looks at one Thread after the other until `stop`.
pub async fn drive_one_by_one<R: ThreadReconciler>(
    mut queue: ThreadQueue,
    stop: &CancellationToken,
    mut reconciler: R,
) {
    while let Some(turn) = stop.run_until_cancelled(queue.next()).await {
        let (key, thread) = match turn {
            QueuedThread::Due(key, thread) => (key, thread),
            QueuedThread::Left(key) => {
                reconciler.forget(&key);
                continue;
            }
        };
        let look = Box::pin(reconciler.reconcile(&key, &thread));
        match stop.run_until_cancelled(look).await {
            Some(Ok(next)) => queue.end(&key, next),
            Some(Err(error)) => {
                tracing::warn!(thread = key.name, %error, reconciler = R::NAME, "reconcile_failed");
                queue.fail(&key);
            }
            None => return,
        }
    }
}

/// Looks at many Threads at once until `stop`, at each in a task of its own. `name` is its name in the
/// log; `forget` hears of those in which nothing is left to look at.
pub async fn drive_threads<F, E>(
    mut queue: ThreadQueue,
    (name, stop): (&'static str, &CancellationToken),
    look: impl Fn(ThreadKey, Arc<Thread>) -> F,
    forget: impl Fn(&ThreadKey),
) where
    F: Future<Output = Result<FollowUp, E>> + Send + 'static,
    E: Display + Send + 'static,
{
    let (mut looks, mut keys) = (JoinSet::new(), HashMap::new());
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(done) = looks.join_next_with_id(), if !looks.is_empty() => {
                let (task, looked) = match done {
                    Ok((task, looked)) => (task, looked),
                    // It broke down, and was logged.
                    Err(broken) => (broken.id(), None),
                };
                let Some(key) = keys.remove(&task) else { continue };
                match looked {
                    Some(Ok(next)) => queue.end(&key, next),
                    Some(Err(error)) => {
                        tracing::warn!(thread = key.name, %error, reconciler = name, "reconcile_failed");
                        queue.fail(&key);
                    }
                    None => queue.fail(&key),
                }
            }
            turn = queue.next(), if looks.len() < CONCURRENCY => match turn {
                QueuedThread::Due(key, thread) => {
                    let look = stop.clone().run_until_cancelled_owned(look(key.clone(), thread));
                    keys.insert(looks.spawn(look).id(), key);
                }
                QueuedThread::Left(key) => forget(&key),
            },
        }
    }
    let rest = async { while looks.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(LAST, rest).await;
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use kube::runtime::watcher::Event;
    use serde_json::json;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// Time to wait for what should not come.
    const BRIEF: Duration = Duration::from_millis(50);

    fn thread(name: &str, item: Option<&str>) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"repo": "shop", "item": item, "prompt": "p"},
        }))
        .unwrap()
    }

    fn queue_of(attended: &AttendedThreads) -> ThreadQueue {
        ThreadQueue::new(attended, |thread| thread.spec.item.is_some(), (SECOND, SECOND * 60))
    }

    async fn next_due(queue: &mut ThreadQueue) -> ThreadKey {
        match queue.next().await {
            QueuedThread::Due(key, _) => key,
            QueuedThread::Left(key) => panic!("{key} left"),
        }
    }

    #[tokio::test]
    async fn a_look_says_when_the_next_is_due_and_a_change_makes_it_due() {
        let attended = AttendedThreads::default();
        attended.observe(&Event::Apply(thread("a", Some("1"))));
        attended.observe(&Event::Apply(thread("b", None)));
        let mut queue = queue_of(&attended);
        let key = next_due(&mut queue).await;
        assert_eq!(key.name, "a", "what was there before is looked at, what is not wanted is not");
        queue.end(&key, FollowUp::await_change());
        assert!(tokio::time::timeout(BRIEF, queue.next()).await.is_err(), "it rests");

        attended.observe(&Event::Apply(thread("a", Some("2"))));
        let key =
            tokio::time::timeout(SECOND * 60, next_due(&mut queue)).await.expect("it changed");
        queue.end(&key, FollowUp::hold_off(SECOND * 3600));
        attended.observe(&Event::Apply(thread("a", Some("3"))));
        assert!(tokio::time::timeout(BRIEF, queue.next()).await.is_err(), "it is left alone");

        attended.observe(&Event::Apply(thread("c", Some("1"))));
        let key = next_due(&mut queue).await;
        queue.end(&key, FollowUp::await_change());
        attended.observe(&Event::Delete(thread("c", Some("1"))));
        assert!(matches!(queue.next().await, QueuedThread::Left(key) if key.name == "c"));
    }

    #[tokio::test]
    async fn many_are_looked_at_at_once_and_one_that_fails_is_tried_again() {
        let attended = AttendedThreads::default();
        for name in ["a", "b"] {
            attended.observe(&Event::Apply(thread(name, Some("1"))));
        }
        let queue = ThreadQueue::new(
            &attended,
            |thread| thread.spec.item.is_some(),
            (Duration::from_millis(1), Duration::from_millis(1)),
        );
        let stop = CancellationToken::new();
        let (looks, both) = (Arc::new(AtomicUsize::new(0)), Arc::new(tokio::sync::Barrier::new(2)));
        let look = |key: ThreadKey, _: Arc<Thread>| {
            let (looks, both, stop) = (Arc::clone(&looks), Arc::clone(&both), stop.clone());
            async move {
                match looks.fetch_add(1, Ordering::SeqCst) {
                    // Both are under way at once, or neither goes on.
                    0 | 1 => {
                        both.wait().await;
                    }
                    2 | 3 => panic!("{key} breaks down"),
                    4 | 5 => {}
                    _ => {
                        stop.cancel();
                        return Ok(FollowUp::await_change());
                    }
                }
                Err("not yet")
            }
        };
        let driven = drive_threads(queue, ("test", &stop), look, |_| {});
        tokio::time::timeout(SECOND * 60, driven).await.expect("each is tried until it succeeds");
        assert!(looks.load(Ordering::SeqCst) >= 7);
    }
}
