//! Settings of a campaign, and the states that it can be in.

use std::time::Duration;

/// Time limit for giving up a lease.
pub const GIVE_UP: Duration = Duration::from_secs(2);

/// Name of a lease, identity of the candidate, and duration.
#[derive(Clone, Debug)]
pub struct LeaseSettings {
    pub namespace: String,
    pub name: String,
    /// Identity of the candidate: no two processes that live at the same time may share one. A
    /// process that is started again under the same identity goes on with its predecessor's lease
    /// at once.
    pub identity: String,
    /// Time that others wait for a holder that is not heard of. Whole seconds, at least 3.
    pub duration: Duration,
}

impl LeaseSettings {
    /// Time after its last successful renewal within which a holder may act: of 15 seconds 10, as
    /// client-go has it.
    pub(super) fn deadline(&self) -> Duration {
        self.duration * 2 / 3
    }

    /// Interval between renewals.
    pub(super) fn interval(&self) -> Duration {
        self.duration / 4
    }

    /// Time between two looks of a candidate, before jitter.
    pub(super) fn retry(&self) -> Duration {
        (self.duration / 4).min(Duration::from_secs(1))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeadershipState {
    /// Somebody else holds the lease, or nobody yet.
    Waiting,
    Held,
    /// We held it and don't any more: others may act already. The end of this campaign.
    Lost,
}
