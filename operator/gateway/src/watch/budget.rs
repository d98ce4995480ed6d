//! Budget of a Repo's polling: a tenth of what its credential is granted, so that roles and people's decisions always
//! find something left. Pure.

use codebutler_gateway_core::github::RateQuota;

/// Rounds within an hour, as rounds are by default: each is granted its part of the tenth.
const ROUNDS: u64 = 60;
/// Maximum that can be saved up, in rounds.
const SAVED: u64 = 6;
/// The part of the whole that is left to others.
const RESERVE: u64 = 5;

/// Requests that may still be made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PollBudget {
    /// Saved-up budget, in sixtieths of a request.
    saved: u64,
    unlimited: bool,
}

impl PollBudget {
    pub(super) fn begin(&mut self, quota: Option<RateQuota>) {
        // A host of one's own sets no limits.
        self.unlimited = quota.is_none();
        let share = quota.map_or(0, |quota| quota.limit / 10);
        self.saved = (self.saved + share).min(share * SAVED);
    }

    /// True if something may be asked.
    pub(super) const fn has_any(&self) -> bool {
        self.unlimited || self.saved >= ROUNDS
    }

    pub(super) const fn spend(&mut self, requests: u64) {
        self.saved = self.saved.saturating_sub(requests * ROUNDS);
    }
}

/// True if so little of the quota is left that a round is to be left out.
pub(super) const fn is_scarce(quota: RateQuota) -> bool {
    quota.left <= quota.limit / RESERVE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_of_rounds_costs_no_more_than_a_tenth() {
        let mut budget = PollBudget::default();
        let mut spent = 0;
        for _ in 0..60 {
            budget.begin(Some(RateQuota { limit: 5000, left: 4000 }));
            while budget.has_any() {
                budget.spend(4);
                spent += 4;
            }
        }
        assert!((450..=560).contains(&spent), "{spent}");
        let mut own_host = PollBudget::default();
        own_host.begin(None);
        own_host.spend(100_000);
        assert!(own_host.has_any());
    }

    #[test]
    fn what_is_left_at_the_end_is_for_others() {
        assert!(is_scarce(RateQuota { limit: 5000, left: 1000 }));
        assert!(!is_scarce(RateQuota { limit: 5000, left: 1001 }));
    }
}
