//! Queues that drive reconcilers, the controller's and the gateway's: what is to be looked at and
//! when ([`WorkQueue`]), when to look again ([`FollowUp`]), and how long to wait after failures
//! ([`KeyBackoff`]). Nothing here knows what is looked at.

mod backoff;
mod work;

use std::time::{Duration, Instant};

pub use self::backoff::KeyBackoff;
pub use self::work::WorkQueue;

/// Time of the next look at an object, if nothing happens before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowUp {
    pub after: Option<Duration>,
    pub failed: bool,
    /// True if there is no look before, whatever happens.
    pub holds: bool,
}

impl FollowUp {
    /// Looks again after this long.
    pub const fn requeue(after: Duration) -> Self {
        Self { after: Some(after), failed: false, holds: false }
    }

    /// Looks again after this long, because of a failure that is told already.
    pub const fn retry(after: Duration) -> Self {
        Self { after: Some(after), failed: true, holds: false }
    }

    /// Looks again after this long, and not before: a look asks somebody who is not to be asked at
    /// each change.
    pub const fn hold_off(after: Duration) -> Self {
        Self { after: Some(after), failed: false, holds: true }
    }

    /// Looks again once something happens.
    pub const fn await_change() -> Self {
        Self { after: None, failed: false, holds: false }
    }
}

/// Sleeps until then; for ever without a moment.
pub async fn wait_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due.into()).await,
        None => std::future::pending().await,
    }
}
