//! Requests that a server does not carry out.

use axum::response::Response;
use http::{StatusCode, Uri};

use super::PlayedServer;
use super::answer::respond;

/// True for a request to the server's path. A token that begins with `/` is the end of it.
pub(super) fn has_path(state: &PlayedServer, uri: &Uri) -> bool {
    let token = state.token.lock();
    let key = token.as_deref().filter(|token| token.starts_with('/')).unwrap_or_default();
    uri.path().strip_prefix("/mcp") == Some(key)
}

/// True for a request with the token that is wanted: in its address, where that begins with `?`.
pub(super) fn has_token(state: &PlayedServer, authorization: Option<&str>, uri: &Uri) -> bool {
    let token = state.token.lock();
    let Some(token) = token.as_deref() else { return true };
    if token.starts_with('/') {
        return authorization.is_none();
    }
    match token.strip_prefix('?') {
        Some(query) => uri.query() == Some(query) && authorization.is_none(),
        None => authorization.and_then(|value| value.strip_prefix("Bearer ")) == Some(token),
    }
}

/// A request without a token that is good.
pub(super) fn refuse_token(challenge: &str) -> Response {
    let mut refused = respond(StatusCode::UNAUTHORIZED, "text/plain", "no such token");
    if let Ok(challenge) = http::HeaderValue::from_str(challenge) {
        refused.headers_mut().insert("www-authenticate", challenge);
    }
    refused
}

/// The refusal of a call for want of a right, or of patience.
pub(super) fn refuse_call(state: &PlayedServer, authorization: Option<&str>) -> Option<Response> {
    if let Some(seconds) = *state.limit.lock() {
        let mut refused = respond(StatusCode::TOO_MANY_REQUESTS, "text/plain", "slow down");
        refused.headers_mut().insert("retry-after", seconds.into());
        return Some(refused);
    }
    let right = state.wanted_right.lock().clone()?;
    let token = authorization.and_then(|value| value.strip_prefix("Bearer ")).unwrap_or_default();
    if state.authority.as_ref().is_some_and(|(authority, _)| authority.gives(token, &right)) {
        return None;
    }
    let mut refused = respond(StatusCode::FORBIDDEN, "text/plain", "a right is missing");
    let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{right}\"");
    let challenge = http::HeaderValue::try_from(challenge).ok()?;
    refused.headers_mut().insert("www-authenticate", challenge);
    Some(refused)
}

/// The words of a failure, as often as it should fail.
pub(super) fn take_failure(state: &PlayedServer) -> Option<String> {
    let mut failing = state.failing.lock();
    let (words, left) = failing.take()?;
    *failing = (left > 1).then(|| (words.clone(), left - 1));
    Some(words)
}
