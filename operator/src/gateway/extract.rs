//! What handlers take from a request, and whom they refuse.

use std::sync::Arc;

use axum::extract::{FromRef, FromRequest, FromRequestParts, Request};
use bytes::Bytes;
use codebutler_crds::wire::{ErrorCode, path};
use http::request::Parts;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;
use tracing::field::display;

use super::api_error::ApiError;
use super::caller::ProvenCaller;
use super::identity::{self, CallerIdentity};
use super::metrics::GatewayMetrics;
use super::pulse::AgentHeartbeats;

/// Largest request body but for Git's: a model call with a full context and pictures.
const MAX_BODY: usize = 32 * 1024 * 1024;

/// Who may come in: what a request is judged by before its handler sees it.
pub struct CallerGate {
    /// Proves who calls.
    pub identity: CallerIdentity,
    /// When each agent was heard last.
    pub pulse: AgentHeartbeats,
    /// What the gateway counts.
    pub metrics: GatewayMetrics,
}

/// A caller, whatever the state of its Thread.
pub struct AnyCaller(pub ProvenCaller);

/// A caller whose Thread is not closed.
pub struct OpenCaller(pub ProvenCaller);

impl<S> FromRequestParts<S> for AnyCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let gate = Arc::<CallerGate>::from_ref(state);
        // Apart: few tokens have to be reviewed, and every call would keep room for it.
        let caller = Box::pin(gate.identity.caller(&parts.headers)).await?;
        let span = tracing::Span::current();
        span.record("thread", display(caller.key()));
        span.record("role", caller.role_name());
        if is_own_word(parts.uri.path()) {
            gate.pulse.heard(&caller);
        }
        Ok(Self(caller))
    }
}

/// What commands do through the agent, and what is told of it after the fact, shows nothing of the agent.
fn is_own_word(called: &str) -> bool {
    called != path::CONNECT && called != path::HISTORY && !called.starts_with(path::GIT)
}

impl<S> FromRequestParts<S> for OpenCaller
where
    Arc<CallerGate>: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let AnyCaller(caller) = AnyCaller::from_request_parts(parts, state).await?;
        if identity::is_closed(&caller) {
            Arc::<CallerGate>::from_ref(state).metrics.refused("thread_closed");
            return Err(ApiError::new(ErrorCode::ThreadClosed, "the Thread is closed"));
        }
        Ok(Self(caller))
    }
}

pub struct QueryParams<T>(pub T);

impl<S, T> FromRequestParts<S> for QueryParams<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        axum::extract::Query::from_request_parts(parts, state)
            .await
            .map(|axum::extract::Query(query)| Self(query))
            .map_err(|refused| ApiError::new(ErrorCode::InvalidRequest, refused.body_text()))
    }
}

/// A whole body of bounded size.
pub struct BoundedBody(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for BoundedBody {
    type Rejection = ApiError;
    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let invalid = |message: String| ApiError::new(ErrorCode::InvalidRequest, message);
        match Limited::new(request.into_body(), MAX_BODY).collect().await {
            Ok(body) => Ok(Self(body.to_bytes())),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(invalid(format!("the request is longer than {} MiB", MAX_BODY / 1024 / 1024)))
            }
            Err(_) => Err(invalid("the request broke off".to_owned())),
        }
    }
}

pub struct JsonBody<T>(pub T);

impl<S, T> FromRequest<S> for JsonBody<T>
where
    S: Send + Sync,
    T: DeserializeOwned,
{
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let BoundedBody(body) = BoundedBody::from_request(request, state).await?;
        serde_json::from_slice(&body).map(Self).map_err(|error| {
            ApiError::new(ErrorCode::InvalidRequest, format!("the request's body: {error}"))
        })
    }
}

/// Refuses a caller whose role has none of `tools`.
///
/// # Errors
/// `Forbidden`, naming the first tool.
pub fn needs_tool(caller: &ProvenCaller, tools: &[&str]) -> Result<(), ApiError> {
    if tools.iter().any(|tool| caller.has_tool(tool)) {
        return Ok(());
    }
    let (role, tool) = (caller.role_name(), tools.first().copied().unwrap_or_default());
    let message = format!("the role {role} does not have the tool {tool}");
    Err(ApiError::new(ErrorCode::Forbidden, message))
}
