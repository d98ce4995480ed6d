//! Streamable HTTP through the dialer of the caller.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures::stream::{BoxStream, StreamExt as _};
use http::header::{ACCEPT, CONTENT_TYPE, LOCATION, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use serde_json::{Value, json};
use sse_stream::Sse;
use url::Url;

use super::dialer::{BodyStream, DialError, HttpDialer};
use super::intake::{Intake, in_sdk_form};
use super::repair::{UNREADABLE_CODE, too_large};
use super::sse::events_for_sdk;
use crate::error::McpError;
use crate::oauth::read_challenge;

/// Bytes of an error's body that are looked at.
const ERROR_BYTES: usize = 16 << 10;
/// Characters of it that people see.
const ERROR_CHARS: usize = 300;
/// Servers that are mounted at a path send `/mcp` on to `/mcp/`.
const REDIRECTS: usize = 3;

/// JSON-RPC's codes for parameters that a method does not take, and for a method that there is not.
const INVALID_PARAMS: i64 = -32_602;
const UNKNOWN_METHOD: i64 = -32_601;

/// Words about a session that is not known, in lower case.
const LOST_SESSION: [&str; 6] = [
    "session id",
    "session-id",
    "session not found",
    "unknown session",
    "invalid session",
    "session expired",
];

/// An HTTP exchange with the server failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum HttpFault {
    #[error("{0}")]
    Dial(#[from] DialError),
    #[error("a sign-in is needed")]
    SignIn { challenge: String },
    #[error("the right `{scope}` is missing")]
    Scope { challenge: String, scope: String },
    #[error("status {status}")]
    Status { status: u16, retry_after: Option<String>, text: Option<String> },
    #[error("{0}")]
    Form(String),
}

impl From<HttpFault> for McpError {
    fn from(fault: HttpFault) -> Self {
        match fault {
            HttpFault::Dial(DialError(reason)) => Self::Unreachable(reason),
            HttpFault::SignIn { challenge } => Self::SignIn { challenge },
            HttpFault::Scope { challenge, scope } => Self::Scope { challenge, scope },
            HttpFault::Status { status, retry_after, text } => {
                Self::Status { status, retry_after, text }
            }
            HttpFault::Form(reason) => Self::Unreadable { method: "HTTP".to_owned(), reason },
        }
    }
}

impl HttpFault {
    /// True where the server has not looked at the request for want of a sign-in or a right.
    pub(crate) const fn is_about_credentials(&self) -> bool {
        matches!(self, Self::SignIn { .. } | Self::Scope { .. })
    }

    /// True where the server has answered that it does not take the request, and would do so again.
    const fn is_refusal(&self) -> bool {
        match self {
            Self::Dial(_) | Self::SignIn { .. } | Self::Scope { .. } => false,
            Self::Status { status, .. } => !matches!(status, 408 | 429 | 502..=504),
            Self::Form(_) => true,
        }
    }
}

/// The right that a token lacks that is valid otherwise (RFC 6750). Without a name of it, there is nothing to ask
/// for.
fn missing_right(status: StatusCode, challenge: Option<&str>) -> Option<HttpFault> {
    let challenge = challenge.filter(|_| status == StatusCode::FORBIDDEN)?;
    let read = read_challenge(challenge);
    let lacks = read.lacks_scope();
    let scope = read.scope.filter(|_| lacks)?;
    // People and models read them; no right has such letters.
    let is_plain =
        |one: &&str| one.bytes().all(|b| b.is_ascii_graphic() && !b"<>`\"\\".contains(&b));
    let scope = scope.split_whitespace().filter(is_plain).collect::<Vec<_>>().join(" ");
    (!scope.is_empty()).then(|| HttpFault::Scope { challenge: challenge.to_owned(), scope })
}

type SdkResult<T> = Result<T, StreamableHttpError<HttpFault>>;

/// Channel for HTTP requests to one server.
#[derive(Clone)]
pub(crate) struct HttpChannel {
    pub dialer: Arc<dyn HttpDialer>,
    pub headers: HeaderMap,
    pub intake: Arc<Intake>,
    pub message_bytes: usize,
    /// True once a request without a session was answered with 400 and an error of the protocol.
    pub is_bad_request: Arc<AtomicBool>,
}

impl HttpChannel {
    /// Follows redirects to the same origin only: headers hold credentials.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &Url,
        own: HeaderMap,
        body: Bytes,
    ) -> Result<Response<BodyStream>, HttpFault> {
        let mut target = url.clone();
        for _ in 0..=REDIRECTS {
            let mut request = Request::new(body.clone());
            *request.method_mut() = method.clone();
            *request.uri_mut() = target
                .as_str()
                .parse()
                .map_err(|_| HttpFault::Form(format!("`{target}` is no URL for HTTP")))?;
            request.headers_mut().extend(self.headers.clone());
            request.headers_mut().extend(own.clone());
            let response = self.dialer.send(request).await?;
            if !matches!(
                response.status(),
                StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT
            ) {
                return Ok(response);
            }
            let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| target.join(location).ok());
            target = match next {
                Some(next) if next.origin() == url.origin() => next,
                _ => {
                    let nowhere = || "it redirects to nowhere".to_owned();
                    let reason = explain_redirect(&response).unwrap_or_else(nowhere);
                    return Err(HttpFault::Form(reason));
                }
            };
        }
        Err(HttpFault::Form("it redirects in a circle".to_owned()))
    }

    /// The fault in an answer that is not a success.
    pub(crate) async fn fault_of(&self, response: Response<BodyStream>) -> (HttpFault, Bytes) {
        let status = response.status();
        if let Some(reason) = explain_redirect(&response) {
            return (HttpFault::Form(reason), Bytes::new());
        }
        let challenge = find_challenge(&response);
        let retry_after = header_text(&response, RETRY_AFTER);
        if let Some(fault) = missing_right(status, challenge.as_deref()) {
            return (fault, Bytes::new());
        }
        if status == StatusCode::UNAUTHORIZED
            || (status == StatusCode::FORBIDDEN && challenge.is_some())
        {
            // Without a challenge the words may say something else.
            let body = match challenge {
                None => read_body(response.into_body(), ERROR_BYTES).await.unwrap_or_default(),
                Some(_) => Bytes::new(),
            };
            return (HttpFault::SignIn { challenge: challenge.unwrap_or_default() }, body);
        }
        let body = match read_body(response.into_body(), ERROR_BYTES).await {
            Ok(body) | Err(BodyFault::Broken(body) | BodyFault::TooLarge(body)) => body,
        };
        let text: String =
            String::from_utf8_lossy(&body).trim().chars().take(ERROR_CHARS).collect();
        let text = (!text.is_empty()).then_some(text);
        (HttpFault::Status { status: status.as_u16(), retry_after, text }, body)
    }

    async fn post(
        &self,
        url: &str,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> SdkResult<StreamableHttpPostResponse> {
        self.intake.note_sent(message);
        let url = parse_url(url)?;
        let mut own: HeaderMap = headers.into_iter().collect();
        own.extend(self.intake.headers_of(message));
        own.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        own.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        insert_text(&mut own, "mcp-session-id", session);
        let body = serde_json::to_vec(message)?.into();
        let response =
            self.send(Method::POST, &url, own, body).await.map_err(StreamableHttpError::Client)?;
        let request_id = match message {
            ClientJsonRpcMessage::Request(request) => serde_json::to_value(&request.id).ok(),
            _ => None,
        };
        if !response.status().is_success() {
            return self.refusal(response, session.is_some(), request_id).await;
        }
        let session_id = response.headers().get("mcp-session-id");
        let session_id = session_id.and_then(|id| id.to_str().ok()).map(str::to_owned);
        if session_id.is_some() {
            self.intake.has_session.store(true, Ordering::SeqCst);
        }
        if has_type(&response, "text/event-stream") {
            let intake = Arc::clone(&self.intake);
            let events = events_for_sdk(response.into_body(), intake, self.message_bytes);
            return Ok(StreamableHttpPostResponse::Sse(events, session_id));
        }
        if response.status() == StatusCode::ACCEPTED || request_id.is_none() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let messages = match read_body(response.into_body(), self.message_bytes).await {
            Ok(body) => self.intake.read(&body),
            Err(BodyFault::Broken(_)) => return Err(StreamableHttpError::UnexpectedEndOfStream),
            Err(BodyFault::TooLarge(_)) => {
                let reason = too_large(self.message_bytes);
                vec![error_answer(request_id.as_ref(), UNREADABLE_CODE, &reason)]
            }
        };
        in_post_form(messages, session_id)
    }

    async fn refusal(
        &self,
        response: Response<BodyStream>,
        has_session: bool,
        request_id: Option<Value>,
    ) -> SdkResult<StreamableHttpPostResponse> {
        let status = response.status();
        let (fault, body) = self.fault_of(response).await;
        let error: Option<Value> = serde_json::from_slice(&body).ok();
        let error = error.as_ref().and_then(|body| body.get("error"));
        let words = error.and_then(|error| error.get("message")).and_then(Value::as_str);
        let code = error.and_then(|error| error.get("code")).and_then(Value::as_i64);
        let text = String::from_utf8_lossy(&body);
        let is_asked = matches!(&fault, HttpFault::SignIn { challenge } if !challenge.is_empty());
        if has_session && !is_asked && is_session_lost(status, code, words.unwrap_or(&text)) {
            return Err(StreamableHttpError::SessionExpired);
        }
        // From 2026-07-28 on, this is how a server says that it has no such method.
        let is_unknown = status == StatusCode::NOT_FOUND
            && code == Some(UNKNOWN_METHOD)
            && self.intake.greeting().is_some();
        let is_other = matches!(
            status,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::TOO_MANY_REQUESTS
        );
        let is_refused = is_unknown || (status.is_client_error() && !is_other);
        if let (true, Some(id), Some(error)) =
            (is_refused && !fault.is_about_credentials(), request_id, error)
        {
            if status == StatusCode::BAD_REQUEST && !has_session {
                self.is_bad_request.store(true, Ordering::SeqCst);
            }
            // Servers put an id of their own into it.
            let answer = json!({"jsonrpc": "2.0", "id": id, "error": error});
            return in_post_form(self.intake.read(answer.to_string().as_bytes()), None);
        }
        Err(StreamableHttpError::Client(fault))
    }
}

/// True for the answer of a server that does not know a session any more. The protocol says 404; others, and the
/// official TypeScript server among them, answer 400 and say it in words, and Rust's SDK has answered 401. An error
/// about the call's own parameters speaks of another session, such as that of a browser, which a new session here would
/// end.
fn is_session_lost(status: StatusCode, code: Option<i64>, words: &str) -> bool {
    let words = words.to_lowercase();
    status == StatusCode::NOT_FOUND
        || ((status == StatusCode::BAD_REQUEST || status == StatusCode::UNAUTHORIZED)
            && code != Some(INVALID_PARAMS)
            && LOST_SESSION.iter().any(|known| words.contains(known)))
}

fn in_post_form(
    mut messages: Vec<Value>,
    session_id: Option<String>,
) -> SdkResult<StreamableHttpPostResponse> {
    if messages.len() > 1 {
        let events: Vec<_> =
            messages.iter().map(|one| Ok(Sse::default().data(one.to_string()))).collect();
        let events = futures::stream::iter(events).boxed();
        return Ok(StreamableHttpPostResponse::Sse(events, session_id));
    }
    let Some(message) = messages.pop().and_then(in_sdk_form) else {
        let reason = "the answer holds no message".to_owned();
        return Err(StreamableHttpError::Client(HttpFault::Form(reason)));
    };
    Ok(StreamableHttpPostResponse::Json(message, session_id))
}

impl StreamableHttpClient for HttpChannel {
    type Error = HttpFault;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> SdkResult<StreamableHttpPostResponse> {
        let posted = self.post(&uri, &message, session_id.as_deref(), custom_headers).await;
        let is_refused = match &posted {
            Ok(answer) => matches!(answer, StreamableHttpPostResponse::Accepted),
            Err(StreamableHttpError::Client(fault)) => fault.is_refusal(),
            Err(_) => false,
        };
        match &message {
            // Most servers know no such request: no failure of theirs, and nothing for the log.
            ClientJsonRpcMessage::Request(request)
                if is_refused && matches!(request.request, ClientRequest::DiscoverRequest(_)) =>
            {
                let id = serde_json::to_value(&request.id).ok();
                let answer = error_answer(id.as_ref(), UNKNOWN_METHOD, "no such method");
                in_post_form(vec![answer], None)
            }
            _ => posted,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> SdkResult<()> {
        let mut own: HeaderMap = custom_headers.into_iter().collect();
        insert_text(&mut own, "mcp-session-id", Some(&session_id));
        let url = parse_url(&uri)?;
        // Servers may refuse it; the session ends by itself then.
        self.send(Method::DELETE, &url, own, Bytes::new())
            .await
            .map_err(StreamableHttpError::Client)?;
        Ok(())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> SdkResult<BoxStream<'static, Result<Sse, SseError>>> {
        let mut own: HeaderMap = custom_headers.into_iter().collect();
        own.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        insert_text(&mut own, "mcp-session-id", session_id.as_deref());
        insert_text(&mut own, "last-event-id", last_event_id.as_deref());
        let url = parse_url(&uri)?;
        let sent = self.send(Method::GET, &url, own, Bytes::new()).await;
        let response = sent.map_err(StreamableHttpError::Client)?;
        if !response.status().is_success() {
            let was_open = self.intake.is_heard.load(Ordering::SeqCst);
            let status = response.status();
            let (fault, _) = self.fault_of(response).await;
            return Err(match fault {
                HttpFault::SignIn { challenge } => {
                    StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge))
                }
                // An overloaded server is asked again. So is one that had a stream before: it may be restarting.
                fault
                    if status == StatusCode::TOO_MANY_REQUESTS
                        || status == StatusCode::SERVICE_UNAVAILABLE
                        || (status.is_server_error() && was_open) =>
                {
                    StreamableHttpError::Client(fault)
                }
                _ => StreamableHttpError::ServerDoesNotSupportSse,
            });
        }
        if !has_type(&response, "text/event-stream") {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        // One that goes on after an event can be that of a single answer.
        if last_event_id.is_none() {
            self.intake.is_heard.store(true, Ordering::SeqCst);
        }
        Ok(events_for_sdk(response.into_body(), Arc::clone(&self.intake), self.message_bytes))
    }
}

fn header_text(response: &Response<BodyStream>, name: HeaderName) -> Option<String> {
    response.headers().get(name).map(cut_header)
}

/// A redirect that is not followed, with its target but for the query, which can hold a secret.
fn explain_redirect(response: &Response<BodyStream>) -> Option<String> {
    let status = response.status();
    let location = header_text(response, LOCATION).filter(|_| status.is_redirection())?;
    let end = location.find(['?', '#']).unwrap_or(location.len());
    Some(format!(
        "it redirects to `{}` ({}): if that is the server's address, name it in `url`",
        &location[..end],
        status.as_u16()
    ))
}

/// The challenge of a refusal; where there are several, that for `Bearer`.
fn find_challenge(response: &Response<BodyStream>) -> Option<String> {
    let all = response.headers().get_all(WWW_AUTHENTICATE);
    let is_bearer =
        |value: &&HeaderValue| value.as_bytes().to_ascii_lowercase().starts_with(b"bearer");
    all.iter().find(is_bearer).or_else(|| all.iter().next()).map(cut_header)
}

fn cut_header(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).chars().take(1000).collect()
}

fn parse_url(url: &str) -> SdkResult<Url> {
    Url::parse(url)
        .map_err(|error| StreamableHttpError::Client(HttpFault::Form(format!("`{url}`: {error}"))))
}

fn insert_text(headers: &mut HeaderMap, name: &'static str, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

pub(crate) fn has_type(response: &Response<BodyStream>, expected: &str) -> bool {
    let value = response
        .headers()
        .get(CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    value.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

fn error_answer(id: Option<&Value>, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// A body as far as it was read.
enum BodyFault {
    TooLarge(Bytes),
    Broken(Bytes),
}

async fn read_body(mut body: BodyStream, limit: usize) -> Result<Bytes, BodyFault> {
    let mut whole = Vec::new();
    while let Some(chunk) = body.next().await {
        let Ok(chunk) = chunk else {
            return Err(BodyFault::Broken(whole.into()));
        };
        if whole.len() + chunk.len() > limit {
            whole.extend_from_slice(&chunk[..limit.saturating_sub(whole.len())]);
            return Err(BodyFault::TooLarge(whole.into()));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_that_is_an_argument_of_a_tool_is_not_that_of_the_server() {
        let is_lost = |code, words| is_session_lost(StatusCode::BAD_REQUEST, code, words);
        assert!(is_lost(Some(-32_000), "Bad Request: No valid session ID provided"));
        assert!(is_lost(None, "Invalid session ID"));
        assert!(!is_lost(Some(INVALID_PARAMS), "open_page: invalid session id `b1`"));
        assert!(!is_lost(Some(-32_000), "no such tool"));
        assert!(is_session_lost(StatusCode::NOT_FOUND, None, ""));
        assert!(!is_session_lost(StatusCode::UNAUTHORIZED, None, "no token"));
    }
}
