//! State that calls to models share.

use std::collections::HashSet;

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::repo_key::RepoKey;
use parking_lot::Mutex;

use super::breaker::CircuitBreakers;
use super::calibration::EstimateCalibration;
use super::catalog::{CatalogAsker, ModelCatalog};
use super::flights::CallSlots;
use super::learned::LearnedParams;
use super::upstream::ProviderKeys;

#[derive(Default)]
pub struct ModelPool {
    pub(super) keys: ProviderKeys,
    pub(super) breakers: CircuitBreakers,
    pub(super) calibration: EstimateCalibration,
    pub(super) flights: CallSlots,
    /// Models that do not answer in streams.
    pub(super) wholes: Mutex<HashSet<(RepoKey, String)>>,
    pub(super) params: LearnedParams,
    pub catalog: ModelCatalog,
}

impl ModelPool {
    /// Returns the means to ask providers for their lists.
    pub fn asker<'a>(&'a self, context: &'a GatewayContext) -> CatalogAsker<'a> {
        CatalogAsker { keys: &self.keys, context }
    }
}
