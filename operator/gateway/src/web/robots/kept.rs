//! A cache that is bounded by the bytes of what it keeps.

use std::collections::HashMap;
use std::hash::Hash;

/// Keeps what was used last, up to a number of entries and of bytes in all.
#[derive(Debug)]
pub(super) struct SizedCache<K, V> {
    entries: HashMap<K, SizedEntry<V>>,
    most_entries: usize,
    most_bytes: usize,
    /// Bytes of all entries.
    bytes: usize,
    /// Counts uses, to find the entry whose last one is the longest ago.
    uses: u64,
}

#[derive(Debug)]
struct SizedEntry<V> {
    value: V,
    bytes: usize,
    /// Number of its last use.
    used: u64,
}

impl<K: Clone + Eq + Hash, V> SizedCache<K, V> {
    pub(super) fn new(most_entries: usize, most_bytes: usize) -> Self {
        Self { entries: HashMap::new(), most_entries, most_bytes, bytes: 0, uses: 0 }
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&V> {
        let entry = self.entries.get_mut(key)?;
        self.uses += 1;
        entry.used = self.uses;
        Some(&entry.value)
    }

    /// Keeps a value that takes so many bytes, and forgets others if there is no room for it.
    pub(super) fn insert(&mut self, key: K, value: V, bytes: usize) {
        self.remove(&key);
        if bytes > self.most_bytes {
            return;
        }
        while self.entries.len() >= self.most_entries || self.bytes + bytes > self.most_bytes {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else { return };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.bytes += bytes;
        self.entries.insert(key, SizedEntry { value, bytes, used: self.uses });
    }

    fn remove(&mut self, key: &K) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_is_kept_within_the_bytes() {
        let mut cache = SizedCache::new(3, 100);
        cache.insert("a", 1, 40);
        cache.insert("b", 2, 40);
        assert_eq!(cache.get(&"a").copied(), Some(1));
        cache.insert("c", 3, 60);
        let found = ["a", "b", "c"].map(|key| cache.get(&key).copied());
        assert_eq!((found, cache.bytes), ([Some(1), None, Some(3)], 100));
        cache.insert("c", 4, 10);
        assert_eq!((cache.get(&"c").copied(), cache.bytes), (Some(4), 50));
        cache.insert("d", 5, 1);
        cache.insert("e", 6, 1);
        assert_eq!((cache.get(&"a").copied(), cache.entries.len(), cache.bytes), (None, 3, 12));
        cache.insert("f", 7, 101);
        assert_eq!((cache.get(&"f").copied(), cache.entries.len()), (None, 3));
    }
}
