//! The Threads in which anything may still happen. Whatever looks at Threads again and again looks at
//! these: a closed one that was told costs nothing any more, however many there are.

use std::collections::HashMap;
use std::sync::Arc;

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;

use super::finished;
use super::thread_key::ThreadKey;
use super::threads;

type KnownThreads = HashMap<ThreadKey, Arc<Thread>>;

/// Follows the watch of all Threads. Cheap to clone.
#[derive(Clone, Default)]
pub struct Attended {
    now: Arc<RwLock<KnownThreads>>,
    /// What a list in progress has brought so far.
    listing: Arc<RwLock<KnownThreads>>,
}

impl Attended {
    pub fn all(&self) -> Vec<Arc<Thread>> {
        let now = self.now.read();
        now.values().cloned().collect()
    }

    /// Takes in what the watch says.
    pub fn observe(&self, event: &Event<Thread>) {
        let mut now = self.now.write();
        let mut listing = self.listing.write();
        match event {
            Event::Apply(thread) => take_in(&mut now, thread),
            Event::Delete(thread) => drop(now.remove(&ThreadKey::from(thread))),
            Event::Init => listing.clear(),
            Event::InitApply(thread) => take_in(&mut listing, thread),
            Event::InitDone => *now = std::mem::take(&mut *listing),
        }
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

    fn names(attended: &Attended) -> Vec<String> {
        let mut names: Vec<_> = attended.all().iter().map(|thread| thread.name_any()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_closed_thread_is_looked_at_until_nothing_is_left_to_tell() {
        let attended = Attended::default();
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
    fn twenty_thousand_closed_threads_cost_a_look_nothing() {
        let attended = Attended::default();
        attended.observe(&Event::Init);
        for n in 0..20_000 {
            attended.observe(&Event::InitApply(thread(&format!("closed-{n}"), "Closed")));
        }
        attended.observe(&Event::InitApply(thread("open", "Active")));
        assert_eq!(names(&attended), [""; 0], "a list counts once it is complete");
        attended.observe(&Event::InitDone);
        assert_eq!(names(&attended), ["open"]);
        // What a look walks through, and what is held of a list that is over.
        assert_eq!(attended.now.read().len(), 1);
        assert_eq!(attended.listing.read().len(), 0);
        attended.observe(&Event::Delete(thread("open", "Active")));
        assert_eq!(attended.all().len(), 0);
    }
}
