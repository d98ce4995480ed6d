//! Time that passes, given rather than taken: tests let hours pass in no time.

use std::future::Future;
use std::time::{Duration, Instant};

pub(super) trait LeaseTime: Send + Sync + 'static {
    fn now(&self) -> Instant;

    /// Returns after `duration`.
    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send;

    /// The outcome of `future`, unless it takes longer than `duration`.
    fn within<F>(
        &self,
        duration: Duration,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send
    where
        F: Future + Send,
        F::Output: Send,
    {
        async move {
            tokio::select! {
                biased;
                outcome = future => Some(outcome),
                () = self.sleep(duration) => None,
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SystemTimer;

impl LeaseTime for SystemTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}
