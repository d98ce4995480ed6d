//! The server's face: `/api/…`, uploads, files, response URLs, the Socket Mode endpoint and the
//! chat page.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Query, Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::args::{self, MethodArgs};
use super::core::{SharedSlack, SlackCore};
use super::failure::{MethodFailure, MethodReply, fail_with};
use super::limits::CallFault;
use super::methods::{self, NeededToken, SlackMethod};
use super::openid;
use super::page;
use super::render::ORIGIN;
use super::socket;

/// Most bytes of a request body: an upload.
const MAX_BODY: usize = 64 << 20;
/// The beginning of a PNG: what every picture looks like when it is small.
const SMALLER: &[u8] = b"\x89PNG\r\n\x1a\nsmaller";

type Shared = State<Arc<SharedSlack>>;

pub(super) fn build_router(inner: Arc<SharedSlack>) -> Router {
    let page = page::build_router(Arc::clone(&inner));
    Router::new()
        .route("/api/{method}", any(serve_call))
        .route("/socket/", get(serve_socket))
        .route("/upload/v1/{file}", post(serve_upload))
        .route("/files-pri/{file}/{name}", get(serve_download))
        .route("/files-origin/{file}/{name}", get(serve_download))
        .route("/files-tmb/{file}/{name}", get(serve_download))
        .route("/actions/{token}", post(serve_response))
        .with_state(Arc::clone(&inner))
        .merge(page)
        .merge(openid::build_router(inner))
}

/// Slack carries out what it has taken in, whether or not its caller waits for the answer.
async fn serve_call(State(inner): Shared, Path(name): Path<String>, request: Request) -> Response {
    let carried_out = tokio::spawn(carry_out_call(inner, name, request));
    carried_out.await.unwrap_or_else(|_| StatusCode::INTERNAL_SERVER_ERROR.into_response())
}

async fn carry_out_call(inner: Arc<SharedSlack>, name: String, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = axum::body::to_bytes(body, MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let fault = inner.update(|core| core.limits.called(&name));
    match &fault {
        Some(CallFault::RateLimited { retry_after }) => return rate_limited(*retry_after),
        Some(CallFault::Http(status)) => return proxy_error(*status),
        Some(CallFault::BreakBefore) => return break_connection(),
        Some(CallFault::Slow(wait)) => tokio::time::sleep(*wait).await,
        Some(
            CallFault::Error(_)
            | CallFault::BreakLate(_)
            | CallFault::Elsewhere
            | CallFault::Explained(..)
            | CallFault::SlowReply(_)
            | CallFault::LostReply,
        )
        | None => {}
    }
    if let Some(CallFault::Error(code)) = &fault {
        return answer_call(&inner, fail_with(code), None, "");
    }
    if let Some(CallFault::Explained(code, why)) = &fault {
        return answer_call(&inner, Err(MethodFailure::explained(code, why)), None, "");
    }
    let Some(method) = methods::find_method(&name) else {
        let mut failure = MethodFailure::new("unknown_method");
        failure.extra.insert("req_method".to_owned(), json!(name));
        return answer_call(&inner, Err(failure), None, "");
    };
    let content_type = header_text(&parts.headers, header::CONTENT_TYPE);
    let query = parts.uri.query().unwrap_or_default();
    let args = match MethodArgs::read(query, &content_type, &body, method.json) {
        Ok(args) => args,
        Err(failure) => return answer_call(&inner, Err(failure), Some(method), &content_type),
    };
    let given = match header_text(&parts.headers, header::AUTHORIZATION).split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.to_owned()),
        _ => args.text("token"),
    };
    if let Some(CallFault::BreakLate(wait)) = fault {
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            let _ = inner.update(|core| run_method(core, method, given.as_deref(), &args));
        });
        return break_connection();
    }
    let done = inner.update(|core| run_method(core, method, given.as_deref(), &args));
    if fault == Some(CallFault::LostReply) {
        return break_connection();
    }
    if let Some(CallFault::SlowReply(wait)) = &fault {
        tokio::time::sleep(*wait).await;
    }
    match done {
        Ok(reply) => answer_call(&inner, reply, Some(method), &content_type),
        Err(retry_after) => rate_limited(retry_after),
    }
}

/// Carries out a call; the outer error is the time to wait.
fn run_method(
    core: &mut SlackCore,
    method: &SlackMethod,
    token: Option<&str>,
    args: &MethodArgs,
) -> Result<MethodReply, u64> {
    if let Err(failure) = authorise_call(core, method, token) {
        return Ok(Err(failure));
    }
    let channel = args.text("channel");
    let rules = core.options.rate_limits;
    let now = tokio::time::Instant::now();
    if let Some(wait) = core.limits.check(rules, method.name, method.tier, channel.as_deref(), now)
    {
        return Err(wait);
    }
    Ok((method.run)(core, args))
}

fn authorise_call(
    core: &SlackCore,
    method: &SlackMethod,
    token: Option<&str>,
) -> Result<(), MethodFailure> {
    let (wanted, other) = match method.needs {
        NeededToken::Nothing => return Ok(()),
        NeededToken::BotToken => (&core.bot_token, &core.app_token),
        NeededToken::AppToken => (&core.app_token, &core.bot_token),
    };
    match token {
        None => fail_with("not_authed"),
        Some(token) if token == core.bot_token && core.revoked.is_some() => {
            fail_with(core.revoked.as_deref().unwrap_or_default())
        }
        Some(token) if token == wanted => {
            method.scopes.iter().try_for_each(|scope| core.require(scope))
        }
        Some(token) if token == other => fail_with("not_allowed_token_type"),
        Some(_) => fail_with("invalid_auth"),
    }
}

fn answer_call(
    inner: &SharedSlack,
    reply: MethodReply,
    method: Option<&SlackMethod>,
    content_type: &str,
) -> Response {
    let mut body = match reply {
        Ok(fields) => {
            let mut body = Map::from_iter([("ok".to_owned(), json!(true))]);
            body.extend(fields);
            body
        }
        Err(failure) => {
            let mut body = Map::from_iter([("ok".to_owned(), json!(false))]);
            body.insert("error".to_owned(), json!(failure.code));
            body.extend(failure.extra);
            body
        }
    };
    if content_type == "application/json" && !body.contains_key("warning") {
        body.insert("warning".to_owned(), json!("missing_charset"));
        let metadata = body.entry("response_metadata").or_insert_with(|| json!({}));
        metadata["warnings"] = json!(["missing_charset"]);
    }
    let text = Value::Object(body)
        .to_string()
        .replace(&ORIGIN.replacen("http", "ws", 1), &inner.origin.replacen("http", "ws", 1));
    let mut response = text.replace(ORIGIN, &inner.origin).into_response();
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, json);
    if method.is_some_and(|method| method.needs == NeededToken::BotToken) {
        let scopes = inner.read(|core| core.options.scopes.join(","));
        put_header(headers, "x-oauth-scopes", &scopes);
        let accepted = method.map(|method| method.scopes.join(",")).unwrap_or_default();
        put_header(headers, "x-accepted-oauth-scopes", &accepted);
    }
    put_header(headers, "x-slack-req-id", &uuid::Uuid::new_v4().simple().to_string());
    response
}

fn put_header(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(HeaderName::from_static(name), value);
    }
}

fn header_text(headers: &HeaderMap, name: HeaderName) -> String {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
}

fn rate_limited(retry_after: u64) -> Response {
    let body = json!({ "ok": false, "error": "ratelimited" }).to_string();
    let headers = [
        (header::CONTENT_TYPE, "application/json; charset=utf-8".to_owned()),
        (header::RETRY_AFTER, retry_after.to_string()),
    ];
    (StatusCode::TOO_MANY_REQUESTS, headers, body).into_response()
}

fn proxy_error(status: u16) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
    let headers = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (status, headers, "<html><body>Slack is having trouble</body></html>").into_response()
}

/// Headers, then a connection that breaks: the caller can't tell what was done.
fn break_connection() -> Response {
    let cut = futures::stream::iter([Err::<String, _>(std::io::Error::other("cut off"))]);
    Response::new(Body::from_stream(cut))
}

#[derive(Deserialize)]
struct Ticket {
    #[serde(default)]
    ticket: String,
    #[serde(default)]
    debug_reconnects: bool,
}

async fn serve_socket(
    State(inner): Shared,
    Query(query): Query<Ticket>,
    upgrade: WebSocketUpgrade,
) -> Response {
    if !inner.update(|core| core.dispatcher.redeem_ticket(&query.ticket)) {
        return StatusCode::FORBIDDEN.into_response();
    }
    upgrade
        .on_upgrade(move |socket| socket::serve_connection(inner, socket, query.debug_reconnects))
}

async fn serve_upload(State(inner): Shared, Path(id): Path<String>, request: Request) -> Response {
    let content_type = header_text(request.headers(), header::CONTENT_TYPE);
    let Ok(body) = axum::body::to_bytes(request.into_body(), MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let content = match content_type.split_once("boundary=") {
        Some((kind, boundary)) if kind.starts_with("multipart/form-data") => {
            let parts = args::multipart_parts(&body, boundary.trim_matches('"'));
            parts.first().map(|part| part.content.to_vec()).unwrap_or_default()
        }
        _ => body.to_vec(),
    };
    let size = content.len();
    let taken = inner.update(|core| match core.world.files.get_mut(&id) {
        Some(file) if file.content.is_none() && file.size == size => {
            file.content = Some(content);
            true
        }
        _ => false,
    });
    if taken {
        format!("OK - {size}").into_response()
    } else {
        (StatusCode::BAD_REQUEST, "upload does not fit what was announced").into_response()
    }
}

async fn serve_download(
    State(inner): Shared,
    Path((file, name)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match inner.update(|core| core.limits.ordered("files.download")) {
        Some(CallFault::Http(status)) => return proxy_error(status),
        Some(CallFault::RateLimited { retry_after }) => return rate_limited(retry_after),
        Some(CallFault::Elsewhere) => {
            let to = format!("/files-origin/{file}/{name}");
            return (StatusCode::FOUND, [(header::LOCATION, to)]).into_response();
        }
        _ => {}
    }
    let id = file.rsplit('-').next().unwrap_or_default().to_owned();
    let bearer = header_text(&headers, header::AUTHORIZATION);
    let found = inner.read(|core| {
        let allowed = bearer == format!("Bearer {}", core.bot_token);
        let scoped = core.require("files:read").is_ok();
        if !allowed || !scoped {
            return None;
        }
        Some(core.world.files.get(&id).and_then(|file| file.content.clone()))
    });
    match found {
        // A smaller picture, whatever the file is.
        Some(Some(_)) if uri.path().starts_with("/files-tmb/") => SMALLER.into_response(),
        Some(Some(content)) => content.into_response(),
        Some(None) => StatusCode::NOT_FOUND.into_response(),
        // Slack sends strangers to its sign-in page.
        None => (StatusCode::FOUND, [(header::LOCATION, "/signin")]).into_response(),
    }
}

async fn serve_response(
    State(inner): Shared,
    Path(token): Path<String>,
    request: Request,
) -> Response {
    let content_type = header_text(request.headers(), header::CONTENT_TYPE);
    let Ok(body) = axum::body::to_bytes(request.into_body(), MAX_BODY).await else {
        return StatusCode::PAYLOAD_TOO_LARGE.into_response();
    };
    let done = MethodArgs::read("", &content_type, &body, true)
        .and_then(|args| inner.update(|core| core.respond(&token, &args)));
    match done {
        Ok(()) => "ok".into_response(),
        Err(failure) => {
            let body = json!({ "ok": false, "error": failure.code }).to_string();
            let headers = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
            (StatusCode::NOT_FOUND, headers, body).into_response()
        }
    }
}
