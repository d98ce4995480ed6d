//! The time between being told to stop and being ended, shared out once, so that what comes last is
//! never what is cut off: the books, and the lease that is given back.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::lease;

/// How long open requests may take, whatever the grace: nobody else serves agents meanwhile.
const REQUESTS: Duration = Duration::from_secs(20);
/// How long paid or half-done work may take once the agents' port is closed.
const WORK: Duration = Duration::from_secs(8);
/// How long the books may take to be closed.
pub const BOOKS: Duration = Duration::from_secs(5);
/// For what is not waited for: tasks that wind up, the runtime's own end, a machine that is busy.
const SPARE: Duration = Duration::from_secs(5);

/// How long each step may take.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Open requests, and whatever else ends by itself.
    pub requests: Duration,
    /// Work of requests that are gone.
    pub work: Duration,
    pub books: Duration,
}

impl Shares {
    pub fn of(grace: Duration) -> Self {
        let rest = WORK + BOOKS + lease::GIVE_UP + SPARE;
        Self { requests: grace.saturating_sub(rest).min(REQUESTS), work: WORK, books: BOOKS }
    }
}

/// The outcome of `work`, which ends soon after `stop`; nothing if it takes longer than `patience`.
pub async fn within<T>(
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
    use crate::args::GRACE;

    #[test]
    fn all_steps_together_end_before_the_grace() {
        for seconds in GRACE {
            let grace = Duration::from_secs(seconds);
            let Shares { requests, work, books } = Shares::of(grace);
            let last = requests + work + books + lease::GIVE_UP;
            assert!(last + SPARE <= grace, "{seconds}");
            assert!(requests >= Duration::from_secs(10), "{seconds}");
        }
    }

    #[tokio::test]
    async fn what_never_ends_is_given_up() {
        let stop = CancellationToken::new();
        let patience = Duration::from_millis(20);
        assert_eq!(within(&stop, patience, async { 1 }).await, Some(1));
        stop.cancel();
        assert_eq!(within(&stop, patience, std::future::pending::<()>()).await, None);
    }
}
