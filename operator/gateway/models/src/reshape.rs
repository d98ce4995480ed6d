//! Changes the form of a call that was refused, where the refusal says how.

use codebutler_gateway_core::caller::ProvenCaller;

use super::facts::route::RoutedModel;
use super::params::SentParams;
use super::prepare::RequestShape;
use super::upstream::{ModelError, ModelUpstream};
use super::verdict::AnswerVerdict;
use crate::services::ModelServices;

/// Shortest answer, in tokens, that is worth asking for where the credit is low.
const WORTH: u32 = 1_000;

/// Changes what a refusal finds fault with: parameters that the model does not take, or an answer longer than there is
/// credit for. False if asking again would not help.
pub(crate) fn reshape_request(
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
        let role = &caller.role.spec.model;
        gateway.models.params.learn(role, routed.address(), SentParams::default());
    }
    let least = shape.affordable.is_none().then(|| error.affordable()).flatten();
    let Some(tokens) = least.filter(|tokens| *tokens >= WORTH) else { return false };
    shape.affordable = Some(tokens);
    gateway.budget.report_short_credit(caller, (model, upstream.secret()), tokens);
    tracing::warn!(model, tokens, %error, "answer_limit_reduced");
    true
}
