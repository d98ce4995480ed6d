//! Claims that could not be made larger, so that the API server is not asked again all the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::index::Key;

/// A storage class may be corrected meanwhile.
const RETRY: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct Refused {
    size: String,
    message: String,
    at: Instant,
}

#[derive(Debug, Default)]
pub struct Unexpanded(Mutex<HashMap<Key, Refused>>);

impl Unexpanded {
    /// Why a Thread's claim could not grow, if it was tried.
    pub fn get(&self, thread: &Key) -> Option<String> {
        self.with(|all| all.get(thread).map(|refused| refused.message.clone()))
    }

    /// Whether it is time to try.
    pub fn is_due(&self, thread: &Key, size: &str) -> bool {
        self.with(|all| all.get(thread).is_none_or(|r| r.size != size || r.at.elapsed() > RETRY))
    }

    pub fn keep(&self, thread: Key, size: &str, message: String) {
        let refused = Refused { size: size.to_owned(), message, at: Instant::now() };
        self.with(|all| all.insert(thread, refused));
    }

    /// It worked, or the Thread is gone.
    pub fn forget(&self, thread: &Key) {
        self.with(|all| all.remove(thread));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<Key, Refused>) -> T) -> T {
        act(&mut self.0.lock())
    }
}
