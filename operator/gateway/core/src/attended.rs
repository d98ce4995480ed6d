//! The Threads in which anything may still happen, and which of them have changed. Whatever looks at Threads
//! again and again looks at those among these in which it has something to do ([`CandidateThreads`], or a
//! [`ThreadQueue`](crate::thread_queue::ThreadQueue)): what rests costs nothing, however many there are.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use codebutler_runtime::shards::GatewayShard;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::finished;
use crate::thread_key::ThreadKey;
use crate::threads;

type KnownThreads = HashMap<ThreadKey, Arc<Thread>>;

/// Keys of changed Threads that one follower has not taken yet.
#[derive(Default)]
struct ChangedKeys {
    keys: Mutex<HashSet<ThreadKey>>,
    some: Notify,
}

/// Follows the watch of all Threads, and answers for those of one shard. Cheap to clone.
#[derive(Clone, Default)]
pub struct AttendedThreads {
    shard: GatewayShard,
    now: Arc<RwLock<KnownThreads>>,
    /// Threads received so far from a list in progress.
    listing: Arc<RwLock<KnownThreads>>,
    /// Pending keys of each follower.
    changed: Arc<Mutex<Vec<Weak<ChangedKeys>>>>,
}

impl AttendedThreads {
    /// The same watch, for the Threads of a shard.
    #[must_use]
    pub fn of_shard(&self, shard: GatewayShard) -> Self {
        Self { shard, ..self.clone() }
    }

    pub fn all(&self) -> Vec<Arc<Thread>> {
        let now = self.now.read();
        now.values().filter(|thread| self.shard.has_thread(thread)).cloned().collect()
    }

    pub fn get(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        let found = self.now.read().get(key).cloned();
        found.filter(|thread| self.shard.has_thread(thread))
    }

    /// Follows the Threads that change from now on. At first all count as changed.
    pub fn follow(&self) -> ChangedThreads {
        // Not between a change and its telling.
        let now = self.now.read();
        let keys = Mutex::new(now.keys().cloned().collect());
        let own = Arc::new(ChangedKeys { keys, some: Notify::new() });
        self.changed.lock().push(Arc::downgrade(&own));
        ChangedThreads(own)
    }

    /// Follows the Threads for which something may be due, as `wanted` tells.
    pub fn candidates(&self, wanted: fn(&Thread) -> bool) -> CandidateThreads {
        let (attended, changed) = (self.clone(), self.follow());
        CandidateThreads { attended, changed, wanted, known: HashMap::new() }
    }

    /// Takes in what the watch says.
    pub fn observe(&self, event: &Event<Thread>) {
        let mut now = self.now.write();
        let mut listing = self.listing.write();
        match event {
            Event::Apply(thread) => {
                take_in(&mut now, thread);
                self.tell(&[ThreadKey::from(thread)]);
            }
            Event::Delete(thread) => {
                let key = ThreadKey::from(thread);
                now.remove(&key);
                self.tell(&[key]);
            }
            Event::Init => listing.clear(),
            Event::InitApply(thread) => take_in(&mut listing, thread),
            Event::InitDone => {
                let before = std::mem::replace(&mut *now, std::mem::take(&mut *listing));
                let all: Vec<_> = before.into_keys().chain(now.keys().cloned()).collect();
                self.tell(&all);
            }
        }
    }

    fn tell(&self, keys: &[ThreadKey]) {
        self.changed.lock().retain(|to| {
            let Some(to) = to.upgrade() else { return false };
            to.keys.lock().extend(keys.iter().cloned());
            to.some.notify_one();
            true
        });
    }
}

/// Keys of Threads that have changed, each once, however often.
pub struct ChangedThreads(Arc<ChangedKeys>);

impl ChangedThreads {
    /// Takes the keys that have changed since the last call.
    pub fn take(&self) -> HashSet<ThreadKey> {
        std::mem::take(&mut *self.0.keys.lock())
    }

    /// Waits until a key has changed. It may also return for keys that were taken meanwhile.
    pub async fn wait(&self) {
        self.0.some.notified().await;
    }
}

/// Attended Threads for which something of one kind may be due, as of what they say themselves.
pub struct CandidateThreads {
    attended: AttendedThreads,
    changed: ChangedThreads,
    wanted: fn(&Thread) -> bool,
    known: KnownThreads,
}

impl CandidateThreads {
    /// Returns the candidates as of now.
    pub fn list(&mut self) -> Vec<Arc<Thread>> {
        for key in self.changed.take() {
            match self.attended.get(&key).filter(|thread| (self.wanted)(thread)) {
                Some(thread) => drop(self.known.insert(key, thread)),
                None => drop(self.known.remove(&key)),
            }
        }
        self.known.values().cloned().collect()
    }
}

fn take_in(known: &mut KnownThreads, thread: &Thread) {
    let key = ThreadKey::from(thread);
    if needs_attention(thread) {
        known.insert(key, Arc::new(thread.clone()));
    } else {
        known.remove(&key);
    }
}

fn needs_attention(thread: &Thread) -> bool {
    if thread.spec.state == ThreadState::Active || !thread.finalizers().is_empty() {
        return true;
    }
    let Some(status) = &thread.status else { return false };
    let shows = status.roles.values().any(|role| role.shown.is_some());
    let asks = !status.settled.is_empty() || !threads::open_questions(status).is_empty();
    thread.is_going()
        || shows
        || asks
        || status.suspended
        || finished::find_finished(thread, Timestamp::now()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn thread(name: &str, state: &str) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": name, "namespace": "team"},
            "spec": {"repo": "shop", "state": state,
                     "slack": {"channel": "C0TEAM", "ts": "1767268700.000100"}},
            "status": {"roles": {"pm": {"inbox": "1767268700.000100", "done": "1767268700.000100"}}},
        }))
        .unwrap()
    }

    fn names(attended: &AttendedThreads) -> Vec<String> {
        let mut names: Vec<_> = attended.all().iter().map(|thread| thread.name_any()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_closed_thread_is_looked_at_until_nothing_is_left_to_tell() {
        let attended = AttendedThreads::default();
        let mut one = thread("a", "Active");
        attended.observe(&Event::Apply(one.clone()));
        one.spec.state = ThreadState::Closed;
        one.metadata.finalizers = Some(vec!["codebutler.dev/cleanup".to_owned()]);
        attended.observe(&Event::Apply(one.clone()));
        assert_eq!(names(&attended), ["a"], "its finalizer is to be taken off");
        one.metadata.finalizers = None;
        let settled = json!([{"ts": "2.000000"}]);
        one.status.as_mut().unwrap().settled = serde_json::from_value(settled).unwrap();
        attended.observe(&Event::Apply(one.clone()));
        assert_eq!(names(&attended), ["a"], "its buttons are to be taken off");
        one.status.as_mut().unwrap().settled.clear();
        attended.observe(&Event::Apply(one));
        assert_eq!(names(&attended), [""; 0]);
    }

    #[test]
    fn candidates_come_and_go_with_what_they_say() {
        let attended = AttendedThreads::default();
        let mut one = thread("a", "Active");
        one.spec.item = Some("1".to_owned());
        attended.observe(&Event::Apply(one.clone()));
        attended.observe(&Event::Apply(thread("b", "Active")));
        let mut open = attended.candidates(|thread| thread.spec.item.is_some());
        assert_eq!(open.list().len(), 1, "what was there before is looked at, too");
        assert_eq!(open.list().len(), 1, "and stays without a change");
        one.spec.item = None;
        attended.observe(&Event::Apply(one.clone()));
        assert_eq!(open.list().len(), 0);
        one.spec.item = Some("2".to_owned());
        attended.observe(&Event::Apply(one.clone()));
        attended.observe(&Event::Delete(one.clone()));
        assert_eq!(open.list().len(), 0, "what is gone before anybody looks is gone");
        // A list anew says what went meanwhile.
        attended.observe(&Event::Apply(one.clone()));
        assert_eq!(open.list().len(), 1);
        attended.observe(&Event::Init);
        attended.observe(&Event::InitDone);
        assert_eq!(open.list().len(), 0);
        drop(open);
        attended.observe(&Event::Apply(one));
        assert_eq!(attended.changed.lock().len(), 0, "nobody is told who does not listen");
    }

    #[test]
    fn each_shard_looks_at_the_threads_of_its_own_repos() {
        let attended = AttendedThreads::default();
        for n in 0..30 {
            let mut one = thread(&format!("t{n}"), "Active");
            one.spec.repo = format!("repo-{n}");
            attended.observe(&Event::Apply(one));
        }
        let shards: Vec<_> =
            (0..3).map(|index| attended.of_shard(GatewayShard::new(index, 3))).collect();
        let mut all: Vec<_> = shards.iter().flat_map(names).collect();
        all.sort();
        assert_eq!(all, names(&attended), "each Thread is looked at once");
        let mut candidates = shards[1].candidates(|_| true);
        assert_eq!(candidates.list().len(), shards[1].all().len());
        let foreign = ThreadKey::from(&*shards[0].all()[0]);
        assert!(attended.get(&foreign).is_some() && shards[1].get(&foreign).is_none());
    }

    #[test]
    fn twenty_thousand_closed_threads_cost_a_look_nothing() {
        let attended = AttendedThreads::default();
        attended.observe(&Event::Init);
        for n in 0..20_000 {
            attended.observe(&Event::InitApply(thread(&format!("closed-{n}"), "Closed")));
        }
        attended.observe(&Event::InitApply(thread("open", "Active")));
        assert_eq!(names(&attended), [""; 0], "a list counts once it is complete");
        attended.observe(&Event::InitDone);
        assert_eq!(names(&attended), ["open"]);
        // The Threads that a look walks through, and those held of a list that is complete.
        assert_eq!(attended.now.read().len(), 1);
        assert_eq!(attended.listing.read().len(), 0);
        attended.observe(&Event::Delete(thread("open", "Active")));
        assert_eq!(attended.all().len(), 0);
    }
}
