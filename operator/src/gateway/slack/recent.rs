//! What was seen not long ago.

use std::collections::HashSet;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

/// A bounded memory of things seen: two generations, the older one dropped when the newer is full.
pub struct Recent<T> {
    generations: Mutex<[HashSet<T>; 2]>,
}

impl<T> Default for Recent<T> {
    fn default() -> Self {
        Self { generations: Mutex::new([HashSet::new(), HashSet::new()]) }
    }
}

impl<T: Eq + Hash> Recent<T> {
    const SIZE: usize = 4096;

    /// Remembers it; answers whether it is new.
    pub fn first_time(&self, item: T) -> bool {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if generations.iter().any(|g| g.contains(&item)) {
            return false;
        }
        if generations[0].len() >= Self::SIZE {
            generations.swap(0, 1);
            generations[0].clear();
        }
        generations[0].insert(item)
    }

    /// Whether it was remembered.
    pub fn contains(&self, item: &T) -> bool {
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.iter().any(|generation| generation.contains(item))
    }
}
