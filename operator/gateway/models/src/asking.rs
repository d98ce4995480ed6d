//! One question to a role's own model, asked by the gateway for somebody else.

use std::sync::Arc;

use codebutler_crds::NanoUsd;
use codebutler_crds::wire::ErrorCode;
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::asker::{ModelAnswer, ModelAsker};
use codebutler_gateway_core::caller::ProvenCaller;
use serde_json::Value;
use tracing::Instrument as _;

use super::call;
use super::call::ModelReply;
use super::job::ModelJob;
use super::request::ForwardableRequest;
use super::services::ModelServices;

/// Asks a role's model within the role's budget and on its account.
pub fn build_asker(gateway: &Arc<ModelServices>) -> ModelAsker {
    let gateway = Arc::clone(gateway);
    Arc::new(move |caller, body| {
        let gateway = Arc::clone(&gateway);
        Box::pin(async move { ask_model(gateway, caller, body).await })
    })
}

async fn ask_model(
    gateway: Arc<ModelServices>,
    caller: ProvenCaller,
    mut body: Value,
) -> Result<ModelAnswer, ApiError> {
    let model = caller.role.spec.model.default.clone();
    body["model"] = Value::String(model.clone());
    let mut request = ForwardableRequest::own(model.clone(), &body)
        .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, error.to_string()))?;
    if caller.repo.spec.policy.redact_models {
        request.mask(&*Box::pin(gateway.outcomes.redactor(&caller)).await?);
    }
    let (reply, answered) = tokio::sync::oneshot::channel();
    let making = call::make_call(gateway.clone(), caller, ModelJob::Chat(request), reply);
    // It is paid for even if nobody waits any more.
    let made = gateway.answers.spawn(making.in_current_span());
    let unreadable = || ApiError::new(ErrorCode::Upstream, "the model's answer has no text");
    match answered.await {
        Ok(Ok(ModelReply::Whole { answer, .. })) => {
            // It was charged before it was answered.
            let bill = made.await.ok().flatten().flatten();
            let cost = bill.map(|bill| bill.usage.cost).unwrap_or_default();
            read_answer(&answer, model, cost).ok_or_else(unreadable)
        }
        Ok(Ok(ModelReply::Stream(_))) => Err(unreadable()),
        Ok(Err(error)) => Err(ApiError::new(error.code(), error.to_string())),
        Err(_) => {
            Err(ApiError::new(ErrorCode::Unavailable, "the gateway lost this call: try again"))
        }
    }
}

fn read_answer(answer: &[u8], model: String, cost: NanoUsd) -> Option<ModelAnswer> {
    let answer: Value = serde_json::from_slice(answer).ok()?;
    let choice = answer.pointer("/choices/0")?;
    let text = choice["message"]["content"].as_str().filter(|text| !text.is_empty())?.to_owned();
    Some(ModelAnswer { text, model, is_cut: choice["finish_reason"] == "length", cost })
}
