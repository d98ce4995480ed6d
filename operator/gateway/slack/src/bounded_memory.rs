//! Memory of what can be asked for again: once it is full, it begins anew.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// Most plans, or people, that are remembered.
const REMEMBERED: usize = 512;

pub(crate) struct BoundedMemory<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for BoundedMemory<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Hash + Eq, V: Clone> BoundedMemory<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.0.lock().get(key).cloned()
    }

    pub(crate) fn keep(&self, key: K, value: V) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            // Asked for again where it is still needed.
            known.clear();
        }
        known.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_has_an_end() {
        let memory = BoundedMemory::default();
        for n in 0..REMEMBERED * 2 {
            memory.keep(n, n);
        }
        assert_eq!(memory.get(&(REMEMBERED * 2 - 1)), Some(REMEMBERED * 2 - 1));
        assert!(memory.0.lock().len() <= REMEMBERED);
    }
}
