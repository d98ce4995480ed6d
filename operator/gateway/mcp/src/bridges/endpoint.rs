//! `/v1/mcp/bridge`: where bridges of servers connect.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::{BRIDGE_UPGRADE, ErrorCode};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::extract::ServerCaller;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderValue, StatusCode};
use hyper_util::rt::TokioIo;

use super::services::BridgeServices;

/// Holds the connection of a server's bridge until a session needs it.
#[expect(clippy::unused_async, reason = "a handler of a router")]
pub async fn open_bridge(
    State(services): State<Arc<BridgeServices>>,
    ServerCaller(server): ServerCaller,
    mut request: Request,
) -> Result<Response, ApiError> {
    let upgrade = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    if upgrade != Some(BRIDGE_UPGRADE) {
        let message = format!("ask for `Upgrade: {BRIDGE_UPGRADE}`");
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    let (pod, waiting) = (server.key(), services.waiting.clone());
    let uid = server.pod().and_then(|known| known.pod_uid.clone()).unwrap_or_default();
    let upgraded = hyper::upgrade::on(&mut request);
    let shutdown = services.shutdown.clone();
    tokio::spawn(shutdown.run_until_cancelled_owned(async move {
        match upgraded.await {
            Ok(line) => waiting.hold(&pod, &uid, Box::new(TokioIo::new(line))).await,
            Err(error) => tracing::debug!(%error, "bridge_handshake_failed"),
        }
    }));
    let mut answer = Body::empty().into_response();
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    answer.headers_mut().insert(UPGRADE, HeaderValue::from_static(BRIDGE_UPGRADE));
    Ok(answer)
}
