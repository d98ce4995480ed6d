//! Keys of what this process is doing, so that it does each once at a time.

use std::collections::HashSet;
use std::hash::Hash;

use parking_lot::Mutex;

/// Keys of what is under way.
#[derive(Debug)]
pub(crate) struct InFlight<K>(Mutex<HashSet<K>>);

/// Entry that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightGuard<'a, K: Eq + Hash> {
    all: &'a InFlight<K>,
    key: K,
}

impl<K> Default for InFlight<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Clone + Eq + Hash> InFlight<K> {
    /// Begins it; `None` if it is under way.
    pub(crate) fn begin(&self, key: &K) -> Option<InFlightGuard<'_, K>> {
        let is_new = self.0.lock().insert(key.clone());
        is_new.then(|| InFlightGuard { all: self, key: key.clone() })
    }
}

impl<K: Eq + Hash> Drop for InFlightGuard<'_, K> {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_begins_again_when_it_has_ended() {
        let all = InFlight::default();
        let first = all.begin(&1);
        assert!(first.is_some() && all.begin(&1).is_none() && all.begin(&2).is_some());
        drop(first);
        assert!(all.begin(&1).is_some());
    }
}
