//! A flag for the time of a copy.

use std::sync::atomic::{AtomicBool, Ordering};

/// Set while somebody copies. One does at a time, who holds the lock.
#[derive(Debug, Default)]
pub(super) struct CopyFlag(AtomicBool);

/// A copy that is under way until this is dropped, however it ends.
pub(super) struct CopyUnderWay<'a>(&'a AtomicBool);

impl CopyFlag {
    pub(super) fn set(&self) -> CopyUnderWay<'_> {
        self.0.store(true, Ordering::Relaxed);
        CopyUnderWay(&self.0)
    }

    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for CopyUnderWay<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}
