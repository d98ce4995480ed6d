//! Raises estimates of cost by as much as earlier ones of the same model were too low.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use codebutler_crds::NanoUsd;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::repo_key::RepoKey;

/// Errors of estimates that were too low, by model: what was billed once may be billed again.
#[derive(Default)]
pub(crate) struct EstimateCalibration {
    known: Mutex<HashMap<(RepoKey, String), EstimateError>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EstimateError {
    /// Estimates are multiplied by so many thousandths.
    factor: u64,
    /// The most that was billed for what was taken to cost nothing.
    least: NanoUsd,
}

impl EstimateCalibration {
    pub(crate) fn apply(&self, caller: &ProvenCaller, model: &str, estimate: NanoUsd) -> NanoUsd {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let error = known.get(&(RepoKey::from(&*caller.repo), model.to_owned()));
        error.copied().unwrap_or_default().correct(estimate)
    }

    pub(crate) fn learn(
        &self,
        caller: &ProvenCaller,
        model: &str,
        estimate: NanoUsd,
        billed: NanoUsd,
    ) {
        if billed > estimate {
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (RepoKey::from(&*caller.repo), model.to_owned());
            known.entry(key).or_default().grow(estimate, billed);
        }
    }
}

const ONE: u64 = 1000;
/// A single odd figure is not to block a model for ever.
const MOST: u64 = 100 * ONE;

impl Default for EstimateError {
    fn default() -> Self {
        Self { factor: ONE, least: NanoUsd::ZERO }
    }
}

impl EstimateError {
    fn correct(self, estimate: NanoUsd) -> NanoUsd {
        estimate.times(self.factor, ONE).max(self.least)
    }

    /// Nothing multiplied is nothing, so what was taken to be free is remembered as an amount.
    fn grow(&mut self, estimate: NanoUsd, billed: NanoUsd) {
        if estimate == NanoUsd::ZERO {
            self.least = self.least.max(billed);
        } else {
            self.factor = grow_factor(self.factor, estimate, billed);
        }
    }
}

fn grow_factor(factor: u64, estimate: NanoUsd, billed: NanoUsd) -> u64 {
    let grown = u128::from(factor) * u128::from(billed.0);
    u64::try_from(grown.div_ceil(u128::from(estimate.0.max(1)))).unwrap_or(MOST).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_taken_to_be_free_is_not_free_again() {
        let mut error = EstimateError::default();
        assert_eq!(error.correct(NanoUsd::ZERO), NanoUsd::ZERO);
        error.grow(NanoUsd::ZERO, NanoUsd(700));
        error.grow(NanoUsd::ZERO, NanoUsd(300));
        assert_eq!(error.correct(NanoUsd::ZERO), NanoUsd(700));
        error.grow(NanoUsd(1_000), NanoUsd(2_000));
        assert_eq!(error.correct(NanoUsd(1_000)), NanoUsd(2_000));
    }

    #[test]
    fn an_estimate_that_was_too_low_grows() {
        assert_eq!(grow_factor(ONE, NanoUsd(1_000), NanoUsd(2_500)), 2_500);
        assert_eq!(grow_factor(2_500, NanoUsd(2_500), NanoUsd(3_000)), 3_000);
        assert_eq!(grow_factor(ONE, NanoUsd(1), NanoUsd(u64::MAX)), MOST);
        assert_eq!(grow_factor(ONE, NanoUsd(0), NanoUsd(1)), ONE);
    }
}
