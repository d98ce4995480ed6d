//! One lock per key, in order of arrival.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

/// Locks by key; clones share them. Locks that nobody holds or waits for are dropped.
#[derive(Clone)]
pub struct KeyedLocks<K> {
    locks: Arc<Mutex<HashMap<K, Arc<tokio::sync::Mutex<()>>>>>,
}

impl<K> Default for KeyedLocks<K> {
    fn default() -> Self {
        Self { locks: Arc::default() }
    }
}

impl<K: Clone + Eq + Hash> KeyedLocks<K> {
    /// Waits for the key's turn and holds it until the guard is dropped.
    pub async fn lock(&self, key: &K) -> OwnedMutexGuard<()> {
        let lock = {
            let mut locks = self.locks.lock();
            if locks.len() > 256 {
                locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            }
            locks.entry(key.clone()).or_default().clone()
        };
        lock.lock_owned().await
    }
}
