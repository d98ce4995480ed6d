//! Backoff before an object is tried again: longer with each failure in a row, from the start after
//! a success.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

/// Failures in a row by object.
#[derive(Debug)]
pub struct KeyBackoff<K> {
    first: Duration,
    longest: Duration,
    failures: Mutex<HashMap<K, u32>>,
}

impl<K: Eq + Hash> KeyBackoff<K> {
    /// Makes a backoff from the wait after the first failure and the longest wait.
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, failures: Mutex::default() }
    }

    /// Counts a failure and says how long to wait.
    pub fn failed(&self, key: K) -> Duration {
        let mut counts = self.failures.lock();
        let count = counts.entry(key).or_default();
        let delay = self.first.saturating_mul(1 << (*count).min(16)).min(self.longest);
        *count = count.saturating_add(1);
        delay
    }

    /// Forgets an object: it succeeded, or it is gone.
    pub fn reset(&self, key: &K) {
        self.failures.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_limit_and_start_again_after_a_success() {
        let (first, longest) = (Duration::from_millis(200), Duration::from_mins(1));
        let backoff = KeyBackoff::new(first, longest);
        let millis: Vec<_> = (0..4).map(|_| backoff.failed("a").as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1600]);
        assert_eq!(backoff.failed("b"), first);
        (0..100).for_each(|_| assert!(backoff.failed("a") <= longest));
        assert_eq!(backoff.failed("a"), longest);
        backoff.reset(&"a");
        assert_eq!(backoff.failed("a"), first);
    }
}
