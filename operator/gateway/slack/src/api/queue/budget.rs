//! Budget of a method's calls that may go at once: most of what Slack's tier allows in a minute, and with what
//! is added meanwhile never more. Other replicas need the rest. Pure.

use std::time::Duration;

use tokio::time::Instant;

use super::CallUrgency;

/// Calls of one method that may still be made at once.
#[derive(Debug)]
pub(super) struct CallBudget {
    most: f64,
    left: f64,
    at: Instant,
}

/// Answer to a call that asks to go at once.
#[derive(Debug, PartialEq)]
pub(super) enum CallGrant {
    Go,
    /// Time until the call may ask again.
    Wait(Duration),
}

impl CallBudget {
    pub(super) fn full(most: u32, now: Instant) -> Self {
        let most = f64::from(most.max(1));
        Self { most, left: most, at: now }
    }

    /// Takes one call if it may go at once; upkeep leaves half to others. `pace`: the time in which
    /// another one is added.
    pub(super) fn take(&mut self, urgency: CallUrgency, pace: Duration, now: Instant) -> CallGrant {
        let added = now.duration_since(self.at).as_secs_f64() / pace.as_secs_f64();
        self.left = (self.left + added).min(self.most);
        self.at = now;
        let least = if urgency == CallUrgency::Upkeep { self.most / 2.0 } else { 0.0 };
        if self.left >= least + 1.0 {
            self.left -= 1.0;
            return CallGrant::Go;
        }
        CallGrant::Wait(pace.mul_f64(least + 1.0 - self.left))
    }

    /// Empties the budget: calls go one by one now, and nothing is saved up meanwhile.
    pub(super) fn spend(&mut self, now: Instant) {
        (self.left, self.at) = (0.0, now);
    }
}
