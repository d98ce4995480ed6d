//! The charge for a call that was answered: on its budget, in its Thread's history, and for later estimates.

use codebutler_crds::NanoUsd;
use codebutler_crds::limits::ModelPrice;
use codebutler_crds::wire::history::ModelCall;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::estimate;
use jiff::Timestamp;
use kube::ResourceExt as _;
use tokio::time::Instant;

use super::billing::{self, ProviderBill};
use super::facts::price::ModelPrices;
use super::services::ModelServices;
use super::trace;
use crate::budget::BilledCall;

/// The outcome of a call, for metrics.
pub(crate) struct MadeCall {
    pub model: String,
    pub bill: Option<ProviderBill>,
    pub begun: Instant,
    /// The name of the host that served it, where the answer says so.
    pub provider: Option<String>,
    /// False for services that are no models, which think about nothing.
    pub is_model: bool,
}

impl MadeCall {
    /// A call of a model, before anything is known of it.
    pub(crate) fn of_model(model: &str, begun: Instant) -> Self {
        Self { model: model.to_owned(), bill: None, begun, provider: None, is_model: true }
    }

    /// A call of a service that is none.
    pub(crate) fn of_service(label: &str, begun: Instant) -> Self {
        Self { is_model: false, ..Self::of_model(label, begun) }
    }
}

/// The terms of a call, as they were before it was made.
pub(crate) struct CallTerms<'a> {
    pub prices: Option<&'a ModelPrices>,
    /// The price that counts where there are none.
    pub unlisted: ModelPrice,
    pub estimate: NanoUsd,
    /// Price of a search at this API, where neither the provider nor the Repo names one.
    pub search: Option<NanoUsd>,
}

impl CallTerms<'_> {
    /// Terms of a call whose price is known.
    pub(crate) fn priced(price: NanoUsd) -> Self {
        Self { prices: None, unlisted: ModelPrice::default(), estimate: price, search: None }
    }

    /// A price, with that of a search where it names none.
    fn complete(&self, price: ModelPrice) -> ModelPrice {
        ModelPrice { search: price.search.or(self.search), ..price }
    }
}

/// Ends a call with its bill, which is answered as it was charged.
pub(crate) fn charge_call(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    call: BilledCall,
    bill: ProviderBill,
    terms: &CallTerms<'_>,
    made: &MadeCall,
) -> ProviderBill {
    let model = &made.model;
    let price = terms.prices.map(|prices| prices.at(bill.usage.prompt_tokens, Timestamp::now()));
    let price = price.map(|price| terms.complete(price));
    let bill = bill.or_expected(terms.estimate);
    let is_named = bill.priced;
    let mut bill = bill.at(price.as_ref());
    if let Some(prices) = terms.prices.filter(|_| !is_named) {
        bill.usage.cost += prices.per_request();
    }
    let is_guessed = !bill.priced && terms.unlisted == estimate::UNKNOWN;
    if is_guessed {
        tracing::warn!(repo = caller.repo.name_any(), model, "model_price_missing");
    }
    let mut bill = bill.at(Some(&terms.complete(terms.unlisted)));
    bill.estimated |= is_guessed;
    gateway.models.calibration.learn(caller, model, terms.estimate, bill.usage.cost);
    keep_call(gateway, caller, &call, &bill, made);
    for near in call.settle(caller, bill.usage) {
        gateway.metrics.warned(caller, near.limit);
        gateway.budget.report_near(caller, near);
    }
    bill
}

/// Puts it into the Thread's history, under the provider's id for it: a later question about it gives the same.
fn keep_call(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    call: &BilledCall,
    bill: &ProviderBill,
    made: &MadeCall,
) {
    let own = || format!("{:016x}", rand::random::<u64>());
    let id = call.id().map_or_else(own, ToOwned::to_owned);
    let reasoning = caller.role.spec.model.reasoning.filter(|_| made.is_model);
    let effort = reasoning.and_then(|reasoning| reasoning.effort);
    let effort = effort.and_then(|effort| serde_json::to_value(effort).ok());
    let told = trace::record_call(ModelCall {
        provider: made.provider.clone(),
        effort: effort.and_then(|effort| effort.as_str().map(ToOwned::to_owned)),
        estimated: bill.estimated,
        millis: u64::try_from(made.begun.elapsed().as_millis()).ok(),
        ..billing::told_call(&made.model, &bill.usage)
    });
    gateway.context.history.call(&caller.key(), caller.role_name(), &id, told);
}
