//! Answers of a role's own model for services of the gateway that know no models.

use std::sync::Arc;

use codebutler_crds::NanoUsd;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;

/// A model's answer in text, with its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAnswer {
    pub text: String,
    /// The model that was asked.
    pub model: String,
    /// True if the answer ended at its length limit.
    pub is_cut: bool,
    /// Cost of the call.
    pub cost: NanoUsd,
}

/// Asks the model of a role, within the role's budget and on its account. The value has `messages`, `max_tokens` and
/// other fields of a chat request, and no model.
pub type ModelAsker = Arc<
    dyn Fn(ProvenCaller, Value) -> BoxFuture<'static, Result<ModelAnswer, ApiError>> + Send + Sync,
>;
