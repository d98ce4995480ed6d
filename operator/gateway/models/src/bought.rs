//! Calls of services that are no models, at a price that is known before: granted and charged like those of models.

use codebutler_crds::NanoUsd;
use codebutler_crds::thread::TokenUsage;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_runtime::step;
use tokio::time::Instant;

use super::billing::ProviderBill;
use super::call::open_call;
use super::charge::{CallTerms, MadeCall, charge_call};
use super::services::ModelServices;
use super::upstream::ModelError;
use crate::budget::BilledCall;

/// A call that was granted. Dropped before it is sent it is taken back, and after that it counts as one that may be
/// billed.
pub struct BoughtCall {
    call: BilledCall,
    price: NanoUsd,
    /// The name under which it is counted.
    label: String,
    begun: Instant,
}

impl BoughtCall {
    /// Grants a call of this price, which is sent later.
    ///
    /// # Errors
    /// When a budget has no room for it, or it can't be put on record.
    pub async fn grant(
        gateway: &ModelServices,
        caller: &ProvenCaller,
        (label, price): (&str, NanoUsd),
    ) -> Result<Self, ModelError> {
        let call = open_call(gateway, caller, price).await?;
        Ok(Self { call, price, label: label.to_owned(), begun: Instant::now() })
    }

    /// Grants a call of this price that is sent at once.
    ///
    /// # Errors
    /// When a budget has no room for it, or it can't be put on record.
    pub async fn open(
        gateway: &ModelServices,
        caller: &ProvenCaller,
        priced: (&str, NanoUsd),
    ) -> Result<Self, ModelError> {
        let mut bought = Self::grant(gateway, caller, priced).await?;
        bought.send();
        Ok(bought)
    }

    /// Notes that the call is sent now: from now on it may be billed.
    pub fn send(&mut self) {
        step::point("before send");
        self.call.sent();
        self.begun = Instant::now();
    }

    /// The price that was granted for the call.
    pub const fn price(&self) -> NanoUsd {
        self.price
    }

    /// Charges the call, which was served.
    pub fn settle(self, gateway: &ModelServices, caller: &ProvenCaller) {
        step::point("after answer");
        let usage = TokenUsage { cost: self.price, calls: 1, ..TokenUsage::default() };
        let bill = ProviderBill { searches: 1, ..ProviderBill::priced(usage) };
        let terms = CallTerms::priced(self.price);
        let made = MadeCall::of_service(&self.label, self.begun);
        let bill = charge_call(gateway, caller, self.call, bill, &terms, &made);
        gateway.metrics.spent(caller, &self.label, &bill);
    }

    /// Ends the call without a bill: it was not served, or its outcome is unknown.
    pub fn end(mut self, may_be_billed: bool) {
        if may_be_billed {
            self.call.flag();
        } else {
            self.call.refused();
        }
    }
}
