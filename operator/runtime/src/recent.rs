//! Memories that stay small: what was used not long ago is known, and all else is forgotten.

use std::collections::HashMap;
use std::hash::Hash;

use parking_lot::Mutex;

/// A bounded map: two generations, of which the older one is forgotten when the newer one is full. What is asked for
/// belongs to the newer one again.
#[derive(Debug)]
pub struct RecentMap<K, V> {
    newer: HashMap<K, V>,
    older: HashMap<K, V>,
    /// Entries of a generation at most.
    size: usize,
}

impl<K: Eq + Hash, V> RecentMap<K, V> {
    /// Remembers the last `size` entries at least, and twice as many at most.
    pub fn new(size: usize) -> Self {
        Self { newer: HashMap::new(), older: HashMap::new(), size }
    }

    pub fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.older.remove_entry(key) {
            self.insert(key, value);
        }
        self.newer.get_mut(key)
    }

    pub fn contains(&self, key: &K) -> bool {
        self.newer.contains_key(key) || self.older.contains_key(key)
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.older.remove(&key);
        if self.newer.len() >= self.size && !self.newer.contains_key(&key) {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, value);
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        self.newer.remove(key).or_else(|| self.older.remove(key))
    }
}

/// Set of recently seen keys, shared.
#[derive(Debug)]
pub struct RecentKeys<T>(Mutex<RecentMap<T, ()>>);

impl<T: Eq + Hash> Default for RecentKeys<T> {
    fn default() -> Self {
        Self::of(4096)
    }
}

impl<T: Eq + Hash> RecentKeys<T> {
    /// Remembers so many at least.
    pub fn of(size: usize) -> Self {
        Self(Mutex::new(RecentMap::new(size)))
    }

    /// Remembers it; answers whether it is new.
    pub fn first_time(&self, item: T) -> bool {
        let mut seen = self.0.lock();
        let is_new = !seen.contains(&item);
        if is_new {
            seen.insert(item, ());
        }
        is_new
    }

    /// Returns true if the item is still remembered.
    pub fn contains(&self, item: &T) -> bool {
        self.0.lock().contains(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_is_forgotten() {
        let mut known = RecentMap::new(2);
        for key in 0..100 {
            known.insert(key, key.to_string());
            assert_eq!(known.get(&0).map(|text| text.as_str()), Some("0"), "{key}");
            assert!(known.newer.len() + known.older.len() <= 4);
        }
        assert!(known.contains(&99) && !known.contains(&50));
        assert_eq!(known.remove(&0).as_deref(), Some("0"));
        assert!(known.get(&0).is_none());
    }

    #[test]
    fn something_is_new_once() {
        let seen = RecentKeys::of(8);
        assert!(seen.first_time("a") && !seen.first_time("a"));
        assert!(seen.contains(&"a") && !seen.contains(&"b"));
    }
}
