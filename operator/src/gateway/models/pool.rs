//! What calls to models share.

use super::breaker::Breakers;
use super::calibration::Calibration;
use super::facts::catalog::{Asker, Catalog};
use super::flights::Flights;
use super::upstream::Keys;
use crate::gateway::context::Context;

#[derive(Default)]
pub struct Models {
    pub(super) keys: Keys,
    pub(super) breakers: Breakers,
    pub(super) calibration: Calibration,
    pub(super) flights: Flights,
    pub catalog: Catalog,
}

impl Models {
    /// What providers are asked for their lists with.
    pub fn asker<'a>(&'a self, context: &'a Context) -> Asker<'a> {
        Asker { keys: &self.keys, context }
    }
}
