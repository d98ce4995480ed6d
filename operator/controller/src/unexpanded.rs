//! Claims that could not be made larger, so that the API server is not asked again all the time.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::index::ObjectKey;

/// A storage class may be corrected meanwhile.
const RETRY: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct RefusedSize {
    size: String,
    message: String,
    at: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct UnexpandedClaims(Mutex<HashMap<ObjectKey, RefusedSize>>);

impl UnexpandedClaims {
    /// Message of the API server when it refused to grow a Thread's claim, if it did.
    pub(crate) fn get(&self, thread: &ObjectKey) -> Option<String> {
        self.with(|all| all.get(thread).map(|refused| refused.message.clone()))
    }

    /// True if growing the claim to this size has not been refused lately.
    pub(crate) fn is_due(&self, thread: &ObjectKey, size: &str) -> bool {
        self.with(|all| all.get(thread).is_none_or(|r| r.size != size || r.at.elapsed() > RETRY))
    }

    pub(crate) fn keep(&self, thread: ObjectKey, size: &str, message: String) {
        let refused = RefusedSize { size: size.to_owned(), message, at: Instant::now() };
        self.with(|all| all.insert(thread, refused));
    }

    /// Forgets a refusal: growing the claim worked, or the Thread is gone.
    pub(crate) fn forget(&self, thread: &ObjectKey) {
        self.with(|all| all.remove(thread));
    }

    fn with<T>(&self, act: impl FnOnce(&mut HashMap<ObjectKey, RefusedSize>) -> T) -> T {
        act(&mut self.0.lock())
    }
}
