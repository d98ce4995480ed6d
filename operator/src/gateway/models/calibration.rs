//! By how much estimates were too low.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use codebutler_crds::NanoUsd;

use crate::gateway::caller::ProvenCaller;
use crate::gateway::repo_key::RepoKey;

/// By how much estimates were too low, by model: what was billed once may be billed again.
#[derive(Default)]
pub struct EstimateCalibration {
    factors: Mutex<HashMap<(RepoKey, String), u64>>,
}

impl EstimateCalibration {
    pub fn apply(&self, caller: &ProvenCaller, model: &str, estimate: NanoUsd) -> NanoUsd {
        let factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
        let known = factors.get(&(RepoKey::from(&*caller.repo), model.to_owned()));
        estimate.times(known.copied().unwrap_or(ONE), ONE)
    }

    pub fn learn(&self, caller: &ProvenCaller, model: &str, estimate: NanoUsd, billed: NanoUsd) {
        if billed > estimate {
            let mut factors = self.factors.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (RepoKey::from(&*caller.repo), model.to_owned());
            let factor = factors.entry(key).or_insert(ONE);
            *factor = grow_factor(*factor, estimate, billed);
        }
    }
}

/// Estimates are multiplied by so many thousandths.
const ONE: u64 = 1000;
/// A single odd figure is not to block a model for ever.
const MOST: u64 = 100 * ONE;

fn grow_factor(factor: u64, estimate: NanoUsd, billed: NanoUsd) -> u64 {
    let grown = u128::from(factor) * u128::from(billed.0);
    u64::try_from(grown.div_ceil(u128::from(estimate.0.max(1)))).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_that_was_too_low_grows() {
        assert_eq!(grow_factor(ONE, NanoUsd(1_000), NanoUsd(2_500)), 2_500);
        assert_eq!(grow_factor(2_500, NanoUsd(2_500), NanoUsd(3_000)), 3_000);
        assert_eq!(grow_factor(ONE, NanoUsd(1), NanoUsd(u64::MAX)), MOST);
        assert_eq!(grow_factor(ONE, NanoUsd(0), NanoUsd(1)), ONE);
    }
}
