//! State that calls to models share.

use std::collections::{HashMap, HashSet};

use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::repo_key::RepoKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::breaker::CircuitBreakers;
use super::calibration::EstimateCalibration;
use super::facts::catalog::{CatalogAsker, ModelCatalog};
use super::flights::CallSlots;
use super::params::{ParamsKey, SentParams};
use super::upstream::ProviderKeys;

#[derive(Default)]
pub struct ModelPool {
    pub(super) keys: ProviderKeys,
    pub(super) breakers: CircuitBreakers,
    pub(super) calibration: EstimateCalibration,
    pub(super) flights: CallSlots,
    /// Models that do not answer in streams.
    pub(super) wholes: Mutex<HashSet<(RepoKey, String)>>,
    /// The forms in which models take their parameters, where that is not the usual one, and since when that is known.
    pub(super) params: Mutex<HashMap<ParamsKey, (Instant, SentParams)>>,
    pub catalog: ModelCatalog,
}

impl ModelPool {
    /// Returns the means to ask providers for their lists.
    pub fn asker<'a>(&'a self, context: &'a GatewayContext) -> CatalogAsker<'a> {
        CatalogAsker { keys: &self.keys, context }
    }
}
