//! What holds for every page: who may ask, and what a browser may do with the answer.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Lets requests through that were made to this machine by its own name.
pub async fn guard(request: Request, next: Next) -> Response {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
    let mut answer = if !host.is_some_and(is_own) {
        // A page of another site whose name leads here could read everything.
        let sentence = "Ask for localhost or 127.0.0.1: this is no public address.\n";
        (StatusCode::FORBIDDEN, sentence).into_response()
    } else if matches!(*request.method(), Method::GET | Method::HEAD) {
        next.run(request).await
    } else {
        (StatusCode::METHOD_NOT_ALLOWED, "Nothing can be changed here.\n").into_response()
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn is_own(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']');
    let address = address.parse::<std::net::IpAddr>();
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::is_own;

    #[test]
    fn names_of_other_sites_lead_nowhere() {
        for own in ["localhost", "localhost:8090", "LOCALHOST:1", "127.0.0.1:8090", "[::1]:8090"] {
            assert!(is_own(own), "{own}");
        }
        for other in [
            "evil.example:8090",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "",
        ] {
            assert!(!is_own(other), "{other}");
        }
    }
}
