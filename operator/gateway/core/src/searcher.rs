//! Searches of the web that a model makes: an interface between web tools and models.

use std::sync::Arc;

use codebutler_crds::wire::WebResults;
use futures::future::BoxFuture;

use crate::api_error::ApiError;
use crate::caller::ProvenCaller;

/// Searches the web for a role with one of its models, or says why it can't.
pub type WebSearcher = Arc<
    dyn Fn(ProvenCaller, String) -> BoxFuture<'static, Result<WebResults, ApiError>> + Send + Sync,
>;
