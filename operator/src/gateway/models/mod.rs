//! The model proxy: OpenAI's chat completions with the Repo's key, metered where the money is spent.
//! What is asked and answered is never logged.

pub mod billing;
pub mod request;
pub mod retry;
pub mod upstream;

use std::time::Instant;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use codebutler_crds::wire::ErrorCode;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use kube::ResourceExt as _;

use self::upstream::{ModelError, Upstream};
use super::api::{Body, Open, Shared};
use super::context::{ApiError, Caller};

/// `POST /v1/chat/completions`
pub async fn complete(
    State(gateway): State<Shared>,
    Open(caller): Open,
    Body(body): Body,
) -> Result<Response, ApiError> {
    let request = request::prepare(&body, &caller.role.spec.model.default)
        .map_err(|error| ApiError::new(ErrorCode::InvalidRequest, error.to_string()))?;
    // On a task of its own: a call that has begun is paid for, so it is metered even if the pod that
    // asked is gone before the answer comes.
    let call = gateway.calls.spawn(metered(gateway.clone(), caller, request));
    let outcome = call.await.map_err(|_| {
        ApiError::new(ErrorCode::Unavailable, "the gateway lost this call: try again")
    })?;
    Ok(match outcome {
        Ok(answer) => ([(CONTENT_TYPE, "application/json")], answer).into_response(),
        Err(error) => refusal(&error),
    })
}

/// Asks, and puts what it cost on the Thread before anybody sees the answer.
async fn metered(gateway: Shared, caller: Caller, request: Vec<u8>) -> Result<Bytes, ModelError> {
    let begun = Instant::now();
    let outcome = ask(&gateway, &caller, request).await;
    let label = outcome.as_ref().map_or_else(ModelError::outcome, |_| "ok");
    gateway.metrics.model_call(&caller, label, begun.elapsed());
    if let Err(error) = &outcome {
        tracing::warn!(
            thread = caller.thread.name_any(),
            role = caller.role_name(),
            %error,
            "a model call failed"
        );
    }
    outcome
}

async fn ask(gateway: &Shared, caller: &Caller, request: Vec<u8>) -> Result<Bytes, ModelError> {
    let upstream = Upstream::of(&gateway.context, caller).await?;
    let answer = upstream.ask(&gateway.http, request).await?;
    let bill = billing::read(&answer).ok_or(ModelError::Garbled)?;
    if bill.completed && !bill.priced {
        tracing::warn!(
            repo = caller.repo.name_any(),
            model = caller.role.spec.model.default,
            "the provider names no cost: its calls count as 0 USD"
        );
    }
    if bill.completed || bill.priced {
        gateway.metrics.spent(caller, &bill.usage);
        record(gateway, caller, &bill).await;
    }
    if bill.completed { Ok(answer) } else { Err(ModelError::Garbled) }
}

/// The writer retries; what it can't write is kept here until it can, and the answer, which is paid
/// for, is not thrown away.
async fn record(gateway: &Shared, caller: &Caller, bill: &billing::Bill) {
    let (key, role) = (caller.key(), caller.role_name());
    let Err(error) = gateway.threads.add_usage(&key, role, bill.usage).await else { return };
    tracing::error!(
        thread = key.name,
        role,
        cost = %bill.usage.cost,
        %error,
        "what a model call cost is not on its Thread yet"
    );
    let (gateway, role, usage) = (gateway.clone(), role.to_owned(), bill.usage);
    gateway.calls.clone().spawn(async move {
        for wait in [1, 2, 5, 10, 30, 60, 60, 60] {
            tokio::time::sleep(std::time::Duration::from_secs(wait)).await;
            if gateway.threads.add_usage(&key, &role, usage).await.is_ok() {
                return;
            }
        }
        tracing::error!(thread = key.name, role, cost = %usage.cost, "a cost was never recorded");
    });
}

fn refusal(error: &ModelError) -> Response {
    let after = match error {
        ModelError::Unavailable { after, .. } => *after,
        _ => None,
    };
    let mut response = ApiError::new(error.code(), error.to_string()).into_response();
    if let Some(after) = after {
        response.headers_mut().insert(RETRY_AFTER, after.as_secs().into());
    }
    response
}
