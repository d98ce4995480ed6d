//! A flag for the time of a copy, and a limit on its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

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

/// Runs a writer and its reader together. Once the writer has ended, the reader has `limit` left.
pub(super) async fn join_within<W, R>(
    writer: impl Future<Output = W>,
    reader: impl Future<Output = R>,
    limit: Duration,
) -> (W, Result<R, Elapsed>) {
    let written = Notify::new();
    let writing = async {
        let outcome = writer.await;
        written.notify_one();
        outcome
    };
    let reading = async {
        let mut reader = std::pin::pin!(reader);
        tokio::select! {
            outcome = &mut reader => return Ok(outcome),
            () = written.notified() => {}
        }
        timeout(limit, reader).await
    };
    tokio::join!(writing, reading)
}
