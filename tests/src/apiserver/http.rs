//! Connections, identity and rights; then the request goes to whom it concerns.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::auth::{API_AUDIENCE, ApiUser, authorize_user};
use super::faults::{ApiFault, FaultSource};
use super::impersonation::effective_user;
use super::render::{self, ApiResponse};
use super::request::{ApiRequest, RequestQuery, ResourcePath};
use super::status::ApiError;
use super::{ServerState, VERSION, discovery, handlers, openapi};

/// Largest request body (bytes); etcd's limit is half of it.
const MAX_BODY: usize = 3 * 1024 * 1024;
/// Grace period of open requests once the server stops.
const GRACE: Duration = Duration::from_millis(500);

/// Serves until the server is stopped.
pub(super) async fn serve_api(
    server: Arc<ServerState>,
    listener: TcpListener,
    acceptor: TlsAcceptor,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = server.stop.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(Arc::clone(&server), stream, acceptor.clone()));
                }
                // Out of file descriptors, most likely: let some be closed.
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
    drop(listener);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, drained).await.is_err() {
        connections.shutdown().await;
    }
}

async fn serve_connection(server: Arc<ServerState>, stream: TcpStream, acceptor: TlsAcceptor) {
    // Small answers should not wait for more of them.
    let _ = stream.set_nodelay(true);
    let stop = server.stop.clone();
    let stream = match acceptor.accept(stream).await {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            return;
        }
    };
    let service = service_fn(move |request| {
        let server = Arc::clone(&server);
        async move { Ok::<_, Infallible>(answer_request(server, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}

async fn answer_request(server: Arc<ServerState>, request: http::Request<Incoming>) -> ApiResponse {
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return render::error_answer(&ApiError::too_large(&format!("limit is {MAX_BODY}")));
        }
        Err(error) => {
            return render::error_answer(&ApiError::bad_request(format!(
                "error reading body: {error}"
            )));
        }
    };
    let path = parts.uri.path().to_owned();
    let mut request = ApiRequest {
        method: parts.method,
        query: RequestQuery::parse(parts.uri.query().unwrap_or_default()),
        headers: parts.headers,
        body,
        target: ResourcePath::parse(&path),
        path,
        user: ApiUser::anonymous(),
    };
    let outcome = match identify_user(&server, &request) {
        Ok(user) => {
            request.user = user;
            serve_faulty(&server, &request).await
        }
        Err(error) => Err(error),
    };
    outcome.unwrap_or_else(|error| render::error_answer(&error))
}

fn identify_user(server: &ServerState, request: &ApiRequest) -> Result<ApiUser, ApiError> {
    let header = request.header("authorization");
    if header.is_empty() {
        return Ok(ApiUser::anonymous());
    }
    let (scheme, token) = header.split_once(' ').ok_or_else(ApiError::unauthorized)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(ApiError::unauthorized());
    }
    let token = token.trim();
    let user = match server.static_user(token) {
        Some(user) => user.clone(),
        None => {
            server
                .tokens
                .check(token, &[API_AUDIENCE.to_owned()], &server.store)
                .map_err(|_| ApiError::unauthorized())?
                .0
        }
    };
    effective_user(&server.store, request, user)
}

/// Serves a request unless something is to go wrong with it.
async fn serve_faulty(
    server: &Arc<ServerState>,
    request: &ApiRequest,
) -> Result<ApiResponse, ApiError> {
    let draw = |faults: &Arc<FaultSource>| faults.draw(&request.user, &request.attributes());
    match server.faults.as_ref().and_then(draw) {
        Some(ApiFault::Refused(code)) => return Err(ApiError::on_purpose(code)),
        Some(ApiFault::Lost) => {
            // Whatever came of it, the client does not hear.
            let _ = route_request(server, request, None);
            return Err(ApiError::on_purpose(500));
        }
        Some(ApiFault::Late(by)) => tokio::time::sleep(by).await,
        Some(ApiFault::Watch { lag, ends }) => {
            return route_request(server, request, Some((lag, ends)));
        }
        None => {}
    }
    route_request(server, request, None)
}

fn route_request(
    server: &Arc<ServerState>,
    request: &ApiRequest,
    watch: Option<(Duration, Duration)>,
) -> Result<ApiResponse, ApiError> {
    let wanted = request.attributes();
    let allowed = authorize_user(&server.store, &request.user, &wanted);
    server.audit.note(&request.user, &wanted, allowed);
    if !allowed {
        let why = wanted.refusal(&request.user);
        return Err(if wanted.resource.is_empty() {
            ApiError::forbidden_path(&why)
        } else {
            ApiError::forbidden(&wanted.group, &wanted.resource, &wanted.name, &why)
        });
    }
    if request.target.is_some() {
        return handlers::handle_request(server, request, watch);
    }
    if request.method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    match request.path.trim_end_matches('/') {
        path @ ("/healthz" | "/livez" | "/readyz") => {
            let text = if request.query.has("verbose") {
                format!("[+]ping ok\n{} check passed\n", &path[1..])
            } else {
                "ok".to_owned()
            };
            Ok(render::bytes_answer(200, "text/plain; charset=utf-8", text))
        }
        "/healthz/ping" | "/livez/ping" | "/readyz/ping" => {
            Ok(render::bytes_answer(200, "text/plain; charset=utf-8", "ok"))
        }
        "/version" => Ok(serve_version()),
        path if path.starts_with("/openapi") => openapi::answer_openapi(server, request),
        _ => discovery::answer_discovery(server, request),
    }
}

fn serve_version() -> ApiResponse {
    render::json_answer(
        200,
        &serde_json::json!({
            "major": "1", "minor": "36", "gitVersion": VERSION, "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z", "goVersion": "", "compiler": "rustc",
            "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        }),
    )
}
