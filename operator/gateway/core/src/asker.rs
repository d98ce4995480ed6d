//! Answers of a role's own model for services of the gateway that know no models.

use std::sync::Arc;

use codebutler_crds::NanoUsd;
use futures::future::BoxFuture;
use serde_json::Value;

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;

/// An answer in text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelAnswer {
    /// Its words.
    pub text: String,
    /// The model that was asked.
    pub model: String,
    /// It ended at the bound of its length.
    pub is_cut: bool,
    /// USD that it cost.
    pub cost: NanoUsd,
}

/// Asks the model of a role, within the role's budget and on its account. The value has `messages`, `max_tokens` and
/// other fields of a chat request, and no model.
pub type ModelAsker = Arc<
    dyn Fn(ProvenCaller, Value) -> BoxFuture<'static, Result<ModelAnswer, ApiError>> + Send + Sync,
>;
