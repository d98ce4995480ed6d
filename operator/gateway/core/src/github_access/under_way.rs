//! Writes that nobody has seen the outcome of: what they make may be there a moment later, and is not to be made again.

use std::sync::Arc;
use std::time::Duration;

use codebutler_runtime::recent::RecentMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

/// Time after which a write whose caller went away has had its effect, or never will.
const SETTLES: Duration = Duration::from_secs(2);
/// Addresses that are remembered.
const REMEMBERED: usize = 512;

/// Addresses of such writes, each with the time until which it has to be waited for. Clones share them.
#[derive(Clone)]
pub(crate) struct UnsettledWrites(Arc<Mutex<RecentMap<String, Instant>>>);

impl Default for UnsettledWrites {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(RecentMap::new(REMEMBERED))))
    }
}

/// A write on its way. Dropped before its end, as with a caller that went away, it is unsettled.
pub(crate) struct WriteUnderWay {
    writes: UnsettledWrites,
    address: String,
    is_known: bool,
}

impl UnsettledWrites {
    pub(crate) fn begin(&self, address: &str) -> WriteUnderWay {
        WriteUnderWay { writes: self.clone(), address: address.to_owned(), is_known: false }
    }

    /// Waits for writes to an address, before it is read to see what they have made.
    pub(crate) async fn settle(&self, address: &str) {
        let until = self.0.lock().get(&address.to_owned()).copied();
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }
}

impl WriteUnderWay {
    /// Notes that the outcome is known.
    pub(crate) fn end(mut self) {
        self.is_known = true;
    }
}

impl Drop for WriteUnderWay {
    fn drop(&mut self) {
        if !self.is_known {
            let address = std::mem::take(&mut self.address);
            self.writes.0.lock().insert(address, Instant::now() + SETTLES);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn what_was_cut_off_is_waited_for_and_nothing_else() {
        let writes = UnsettledWrites::default();
        let waits = |address: &str| writes.settle(address).now_or_never().is_none();
        let write = writes.begin("comments");
        assert!(!waits("comments"), "its own caller looks first");
        drop(write);
        assert!(waits("comments") && !waits("reviews"));
        writes.begin("reviews").end();
        assert!(!waits("reviews"));
    }
}
