//! Queue of objects to look at, now or later. An object is in here once however often it is asked
//! for, and is looked at by one at a time; what is asked for meanwhile follows. What is due is due
//! at once: no timer, whose steps are milliseconds, is between a change and the look at it.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::time::Instant;

#[derive(Debug)]
pub struct WorkQueue<K> {
    /// Objects in the order in which they were asked for.
    ready: VecDeque<K>,
    /// Objects of `ready`, or to be ready as soon as the look under way ends.
    asked: HashSet<K>,
    under_way: HashSet<K>,
    later: BTreeSet<(Instant, K)>,
    /// Time at which each of `later` is due.
    due: HashMap<K, Instant>,
    /// Objects of `later` that are not due before, whoever asks.
    held: HashSet<K>,
}

impl<K> Default for WorkQueue<K> {
    fn default() -> Self {
        Self {
            ready: VecDeque::new(),
            asked: HashSet::new(),
            under_way: HashSet::new(),
            later: BTreeSet::new(),
            due: HashMap::new(),
            held: HashSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord> WorkQueue<K> {
    /// Asks for a look as soon as possible; one that was asked for later is not needed then.
    pub fn now(&mut self, key: K) {
        if self.held.contains(&key) {
            return;
        }
        if let Some(at) = self.due.remove(&key) {
            self.later.remove(&(at, key.clone()));
        }
        if self.asked.insert(key.clone()) && !self.under_way.contains(&key) {
            self.ready.push_back(key);
        }
    }

    /// Asks for a look at `at`, unless there is one before.
    pub fn later(&mut self, key: K, at: Instant) {
        let waits = self.asked.contains(&key) || self.held.contains(&key);
        if waits || self.due.get(&key).is_some_and(|due| *due <= at) {
            return;
        }
        if let Some(old) = self.due.insert(key.clone(), at) {
            self.later.remove(&(old, key.clone()));
        }
        self.later.insert((at, key));
    }

    /// Asks for a look at `at`, and for none before, whatever happens.
    pub fn hold(&mut self, key: K, at: Instant) {
        if self.asked.remove(&key) {
            self.ready.retain(|ready| *ready != key);
        }
        if let Some(old) = self.due.insert(key.clone(), at) {
            self.later.remove(&(old, key.clone()));
        }
        self.later.insert((at, key.clone()));
        self.held.insert(key);
    }

    /// Returns the time at which the first of those is due.
    pub fn first_due(&self) -> Option<Instant> {
        self.later.first().map(|(at, _)| *at)
    }

    pub fn wake(&mut self, now: Instant) {
        while let Some((_, key)) = self.later.first().filter(|(at, _)| *at <= now).cloned() {
            self.held.remove(&key);
            self.now(key);
        }
    }

    /// The next one to look at, which is then under way.
    pub fn begin(&mut self) -> Option<K> {
        let key = self.ready.pop_front()?;
        self.asked.remove(&key);
        self.under_way.insert(key.clone());
        Some(key)
    }

    /// The look at it has ended.
    pub fn end(&mut self, key: &K) {
        if self.under_way.remove(key) && self.asked.contains(key) {
            self.ready.push_back(key.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_object_is_looked_at_once_for_all_that_asked_and_by_one_at_a_time() {
        let mut work = WorkQueue::default();
        for key in ["a", "b", "a"] {
            work.now(key);
        }
        assert_eq!(work.begin(), Some("a"));
        work.now("a");
        work.now("a");
        assert_eq!(work.begin(), Some("b"));
        assert_eq!(work.begin(), None, "the first look has not ended");
        work.end(&"a");
        assert_eq!(work.begin(), Some("a"));
        work.end(&"a");
        work.end(&"b");
        assert_eq!(work.begin(), None);
    }

    #[test]
    fn the_earliest_of_all_that_asked_counts() {
        let mut work = WorkQueue::default();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        work.later("a", start + second * 3);
        work.later("a", start + second);
        work.later("a", start + second * 2);
        work.later("b", start + second * 2);
        assert_eq!(work.first_due(), Some(start + second));
        work.wake(start);
        assert_eq!(work.begin(), None);
        work.wake(start + second);
        assert_eq!(work.begin(), Some("a"));
        assert_eq!(work.first_due(), Some(start + second * 2));
        // An earlier look makes up for a later one.
        work.now("b");
        assert_eq!(work.first_due(), None);
        work.later("b", start);
        assert_eq!(work.first_due(), None);
        assert_eq!(work.begin(), Some("b"));
        // Asked for while it is under way: not before that ends.
        work.later("a", start);
        work.wake(start + second);
        assert_eq!(work.begin(), None);
        work.end(&"a");
        assert_eq!(work.begin(), Some("a"));
    }

    #[test]
    fn what_is_held_waits_whoever_asks() {
        let mut work = WorkQueue::default();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        work.now("a");
        assert_eq!(work.begin(), Some("a"));
        // A change meanwhile, and a look that wants to be left alone.
        work.now("a");
        work.hold("a", start + second);
        work.end(&"a");
        work.now("a");
        work.later("a", start);
        assert_eq!((work.begin(), work.first_due()), (None, Some(start + second)));
        work.wake(start + second);
        assert_eq!(work.begin(), Some("a"));
        work.end(&"a");
        work.now("a");
        assert_eq!(work.begin(), Some("a"), "once");
    }
}
