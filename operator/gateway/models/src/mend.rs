//! Sends a call otherwise where its refusal says how, and keeps the form that was taken.

use std::time::Duration;

use codebutler_crds::role::RoleModel;
use codebutler_gateway_core::caller::ProvenCaller;
use tokio::time::Instant;

use super::facts::route::RoutedModel;
use super::params::{ParamsKey, SentEffort, SentParams};
use super::prepare::{RequestShape, rank_effort};
use super::upstream::{ModelError, ModelUpstream};
use super::verdict::AnswerVerdict;
use crate::services::ModelServices;

/// Time after which the usual form is tried again: a server may have become another one.
const KEPT: Duration = Duration::from_hours(24);
/// Shortest answer, in tokens, that is worth asking for where the credit is low.
const WORTH: u32 = 1_000;

/// The form in which a model is sent its parameters, as far as its refusals have shown.
pub(crate) fn known_params(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    routed: &RoutedModel<'_, '_>,
) -> SentParams {
    find_params(gateway, &caller.role.spec.model, routed)
}

/// Returns true if a model is not told how much to think, as a role wants it, since it has refused that.
pub(crate) fn is_untold(
    gateway: &ModelServices,
    role: &RoleModel,
    routed: &RoutedModel<'_, '_>,
) -> bool {
    let is_wanted = role.reasoning.is_some_and(|reasoning| reasoning.effort.is_some());
    is_wanted && find_params(gateway, role, routed).effort != SentEffort::Wanted
}

fn find_params(
    gateway: &ModelServices,
    role: &RoleModel,
    routed: &RoutedModel<'_, '_>,
) -> SentParams {
    let known = gateway.models.params.lock().get(&params_key(role, routed)).copied();
    known.filter(|(at, _)| at.elapsed() < KEPT).map(|(_, params)| params).unwrap_or_default()
}

/// Keeps the form that a model has taken, for later calls. The usual one is not kept.
pub(crate) fn learn_params(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    routed: &RoutedModel<'_, '_>,
    params: SentParams,
) {
    let key = params_key(&caller.role.spec.model, routed);
    let mut known = gateway.models.params.lock();
    if params == SentParams::default() {
        known.remove(&key);
        return;
    }
    let last = known.get(&key);
    let is_kept = last.is_some_and(|(at, same)| *same == params && at.elapsed() < KEPT);
    if !is_kept {
        known.insert(key, (Instant::now(), params));
    }
}

/// A refusal of one effort says nothing of another.
fn params_key(role: &RoleModel, routed: &RoutedModel<'_, '_>) -> ParamsKey {
    let effort = role.reasoning.and_then(|reasoning| reasoning.effort);
    (routed.provider.base_url.to_owned(), routed.id.to_owned(), effort.map(rank_effort))
}

/// Changes what a refusal finds fault with: parameters that the model does not take, or an answer longer than there is
/// credit for. False if asking again would not help.
pub(crate) fn mend_shape(
    gateway: &ModelServices,
    caller: &ProvenCaller,
    (upstream, routed, model): (&ModelUpstream<'_>, &RoutedModel<'_, '_>, &str),
    (shape, error): (&mut RequestShape<'_>, &ModelError),
    is_stand_in: bool,
) -> bool {
    if let ModelError::Refused(refused) = error
        && refused.verdict == AnswerVerdict::Request
    {
        let (known, said) = (shape.params, &refused.sentence);
        let lacks = || known.after_lack(said).filter(|_| is_stand_in);
        if let Some(params) = known.after_refusal(said).or_else(lacks) {
            tracing::info!(model, %error, "model_parameter_refused");
            shape.params = params;
            return true;
        }
        // Whatever was learned has not helped: the next call begins with the usual form.
        learn_params(gateway, caller, routed, SentParams::default());
    }
    let least = shape.affordable.is_none().then(|| error.affordable()).flatten();
    let Some(tokens) = least.filter(|tokens| *tokens >= WORTH) else { return false };
    shape.affordable = Some(tokens);
    gateway.budget.report_short_credit(caller, (model, upstream.secret()), tokens);
    tracing::warn!(model, tokens, %error, "answer_limit_reduced");
    true
}
