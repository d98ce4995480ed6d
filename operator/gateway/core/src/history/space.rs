//! Quota for the space of all histories together. A write that would pass it is refused: a volume
//! that is full takes the whole gateway with it.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_history::HistoryStore;
use tokio::sync::Notify;

/// Interval between counts while no space is left.
const AGAIN: Duration = Duration::from_secs(1);
/// Interval between counts while there is some: others may have written or removed histories.
const ANEW: Duration = Duration::from_mins(10);

/// Quota for all histories together.
pub(super) struct HistorySpace {
    most: Option<u64>,
    /// Bytes in use: as counted last, plus those taken since.
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
