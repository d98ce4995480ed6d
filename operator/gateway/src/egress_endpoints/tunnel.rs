//! `/v1/connect`: a connection to the outside as an upgraded request, with limits.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse as _, Response};
use codebutler_crds::wire::{ErrorCode, TUNNEL};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::egress::{ConnectionPermit, EgressTarget, HostList};
use codebutler_gateway_core::extract::{OutsideCaller, QueryParams, needs_tool};
use http::StatusCode;
use http::header::{CONNECTION, UPGRADE};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::time::Instant;

use crate::web::services::EgressServices;

/// Idle timeout, without a byte in either direction, and maximum age of a connection.
const IDLE: Duration = Duration::from_mins(5);
const LONGEST: Duration = Duration::from_hours(1);
/// Maximum bytes that go out through one connection, and that come in.
const MOST_OUT: u64 = 256 << 20;
const MOST_IN: u64 = 8 << 30;

/// The query of `/v1/connect`.
#[derive(Deserialize)]
pub struct WantedHost {
    /// Target of the tunnel: `host:port`.
    to: String,
}

/// Connects, and answers 101 once that worked.
pub async fn open_tunnel(
    State(gateway): State<Arc<EgressServices>>,
    caller: OutsideCaller,
    QueryParams(wanted): QueryParams<WantedHost>,
    mut request: Request,
) -> Result<Response, ApiError> {
    let refused = |error: ApiError, reason: &'static str| {
        gateway.metrics.egress_refused(reason);
        error
    };
    let (key, list) = match &caller {
        OutsideCaller::Role(caller) => {
            needs_tool(caller, &["Bash"]).map_err(|error| refused(error, "no_tool"))?;
            (caller.key(), HostList::from(&caller.repo.spec.egress))
        }
        OutsideCaller::Server(server) => (server.key(), HostList::from(&server.spec)),
        OutsideCaller::Seat(seat) => (seat.key(), HostList::from(&seat.repo.spec.egress)),
    };
    let upgrade = request.headers().get(UPGRADE).and_then(|value| value.to_str().ok());
    if upgrade != Some(TUNNEL) {
        let message = format!("ask for `Upgrade: {TUNNEL}`");
        return Err(refused(ApiError::new(ErrorCode::InvalidRequest, message), "form"));
    }
    let opened = async {
        let target = EgressTarget::parse(&wanted.to)?;
        let permit = gateway.egress.permit(&key)?;
        let stream = gateway.egress.open(list, &target).await?;
        Ok((permit, stream))
    };
    let (permit, stream) =
        opened.await.map_err(|refusal: codebutler_gateway_core::egress::EgressRefusal| {
            let reason = refusal.reason();
            refused(refusal.into(), reason)
        })?;
    let upgraded = hyper::upgrade::on(&mut request);
    let shutdown = gateway.shutdown.clone();
    tokio::spawn(shutdown.run_until_cancelled_owned(async move {
        match upgraded.await {
            Ok(inside) => carry_tunnel(TokioIo::new(inside), TokioIo::new(stream), permit).await,
            Err(error) => tracing::debug!(%error, "tunnel_handshake_failed"),
        }
    }));
    let mut answer = Body::empty().into_response();
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(CONNECTION, http::HeaderValue::from_static("upgrade"));
    answer.headers_mut().insert(UPGRADE, http::HeaderValue::from_static(TUNNEL));
    Ok(answer)
}

/// Copies bytes in both directions until either side ends, or a limit is reached.
async fn carry_tunnel(
    inside: impl AsyncRead + AsyncWrite + Unpin,
    outside: impl AsyncRead + AsyncWrite + Unpin,
    permit: ConnectionPermit,
) {
    let (inside_read, inside_write) = tokio::io::split(inside);
    let (outside_read, outside_write) = tokio::io::split(outside);
    let last = parking_lot::Mutex::new(Instant::now());
    let both = async {
        tokio::join!(
            copy_stream(inside_read, outside_write, MOST_OUT, &last),
            copy_stream(outside_read, inside_write, MOST_IN, &last),
        )
    };
    let idle = async {
        loop {
            let until = *last.lock() + IDLE;
            if Instant::now() >= until {
                return;
            }
            tokio::time::sleep_until(until).await;
        }
    };
    tokio::select! {
        _ = both => {}
        () = idle => tracing::debug!("tunnel_idle_timed_out"),
        () = tokio::time::sleep(LONGEST) => tracing::debug!("tunnel_expired"),
    }
    drop(permit);
}

async fn copy_stream(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    most: u64,
    last: &parking_lot::Mutex<Instant>,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut rest = most;
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        *last.lock() = Instant::now();
        rest = rest.saturating_sub(n as u64);
        if rest == 0 || to.write_all(&buffer[..n]).await.is_err() || to.flush().await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}
