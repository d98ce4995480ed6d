//! How long to wait before an object is tried again: longer with each failure in a row, from the
//! start after a success.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::time::Duration;

use parking_lot::Mutex;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_mins(1);

/// Failures in a row by object.
#[derive(Debug)]
pub struct Backoff<K>(Mutex<HashMap<K, u32>>);

impl<K> Default for Backoff<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> Backoff<K> {
    /// Counts a failure and says how long to wait.
    pub fn failed(&self, key: K) -> Duration {
        let mut counts = self.0.lock();
        let count = counts.entry(key).or_default();
        let delay = FIRST.saturating_mul(1 << (*count).min(16)).min(LONGEST);
        *count = count.saturating_add(1);
        delay
    }

    /// Forgets an object: it succeeded, or it is gone.
    pub fn reset(&self, key: &K) {
        self.0.lock().remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_grow_to_a_limit_and_start_again_after_a_success() {
        let backoff = Backoff::default();
        let millis: Vec<_> = (0..4).map(|_| backoff.failed("a").as_millis()).collect();
        assert_eq!(millis, [200, 400, 800, 1600]);
        assert_eq!(backoff.failed("b"), FIRST);
        (0..100).for_each(|_| assert!(backoff.failed("a") <= LONGEST));
        assert_eq!(backoff.failed("a"), LONGEST);
        backoff.reset(&"a");
        assert_eq!(backoff.failed("a"), FIRST);
    }
}
