//! The time between being told to stop and being ended, shared out once, so that what comes last is
//! never what is cut off.
//!
//! First, requests that are no model calls end, and with them whatever else only one gateway may do.
//! Then the books are handed over and the lease is given back: from that moment another gateway serves
//! all that is new. Model calls under way have what is left, and their costs are put on record last.

use std::ops::RangeInclusive;
use std::time::Duration;

use codebutler_runtime::lease;
use tokio_util::sync::CancellationToken;

/// Seconds that a gateway may be given to stop.
pub const GRACE: RangeInclusive<u64> = 30..=3600;

/// Longest share of requests that are no model calls, and of the work that they have begun,
/// whatever the grace period: nobody else serves agents meanwhile.
const REQUESTS: Duration = Duration::from_secs(20);
/// Least share of model calls, however short the grace period.
const CALLS: Duration = Duration::from_secs(5);
/// Time limit for writing all books: at the hand-over, and again at the end.
const BOOKS: Duration = Duration::from_secs(5);
/// Reserve for work that nothing waits for: tasks that wind up, the runtime's own end, a busy
/// machine.
const SPARE: Duration = Duration::from_secs(3);

/// Time limit of each step of a shutdown.
#[derive(Clone, Copy, Debug)]
pub struct DrainShares {
    /// Requests that are no model calls.
    pub requests: Duration,
    /// Each of the two writes of the books.
    pub books: Duration,
    /// Model calls, once another gateway may serve.
    pub calls: Duration,
    /// Time after which nothing of this process is left, whenever one begins to count.
    pub all: Duration,
}

impl DrainShares {
    pub fn of(grace: Duration) -> Self {
        let free = grace.saturating_sub(BOOKS + lease::GIVE_UP + BOOKS + SPARE);
        let requests = free.saturating_sub(CALLS).min(REQUESTS);
        Self { requests, books: BOOKS, calls: free.saturating_sub(requests), all: grace }
    }
}

/// The outcome of `work`, which ends soon after `stop`; nothing if it takes longer than `patience`.
pub async fn finish_within<T>(
    stop: &CancellationToken,
    patience: Duration,
    work: impl Future<Output = T>,
) -> Option<T> {
    let late = async {
        stop.cancelled().await;
        tokio::time::sleep(patience).await;
    };
    tokio::select! {
        biased;
        done = work => Some(done),
        () = late => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_steps_together_end_before_the_grace() {
        for seconds in GRACE {
            let grace = Duration::from_secs(seconds);
            let DrainShares { requests, books, calls, all } = DrainShares::of(grace);
            let last = requests + books + lease::GIVE_UP + calls + books;
            assert!(last + SPARE <= grace && all >= last, "{seconds}");
            assert!(calls >= CALLS && requests >= Duration::from_secs(10), "{seconds}");
        }
    }

    #[tokio::test]
    async fn what_never_ends_is_given_up() {
        let stop = CancellationToken::new();
        let patience = Duration::from_millis(20);
        assert_eq!(finish_within(&stop, patience, async { 1 }).await, Some(1));
        stop.cancel();
        assert_eq!(finish_within(&stop, patience, std::future::pending::<()>()).await, None);
    }
}
