//! How much space all histories may take together. What would pass it is not written: a volume that is full
//! takes the whole gateway with it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_history::HistoryStore;
use tokio::sync::Notify;

/// How often it is counted anew while there is none left.
const AGAIN: Duration = Duration::from_secs(1);
/// And while there is: others may have written or removed some.
const ANEW: Duration = Duration::from_mins(10);

/// See the module.
pub(super) struct HistorySpace {
    most: Option<u64>,
    /// What was taken when it was counted, and has been since.
    taken: u64,
    counted: Option<Instant>,
    full: Arc<Notify>,
}

impl HistorySpace {
    pub(super) const fn of(most: Option<u64>, full: Arc<Notify>) -> Self {
        Self { most, taken: 0, counted: None, full }
    }

    /// Takes space for more bytes.
    ///
    /// # Errors
    /// When there is none: who removes old histories hears of it.
    pub(super) fn take(&mut self, store: &impl HistoryStore, bytes: u64) -> io::Result<()> {
        let Some(most) = self.most else { return Ok(()) };
        let fits = |taken: u64| taken.saturating_add(bytes) <= most;
        let every = if fits(self.taken) { ANEW } else { AGAIN };
        if self.counted.is_none_or(|at| at.elapsed() >= every) {
            self.taken = store.list()?.iter().map(|kept| kept.bytes).sum();
            self.counted = Some(Instant::now());
        }
        if !fits(self.taken) {
            self.full.notify_one();
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.taken += bytes;
        Ok(())
    }
}
