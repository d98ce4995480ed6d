//! Checks and headers of every page: the host names that lead to it, and the browser's limits on the answer.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HOST, HeaderMap, HeaderValue, ORIGIN, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use http::{Method, StatusCode};
use url::Url;

use super::PageServices;
use super::door::PageDoor;

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Lets requests through that were made to these pages by their own name.
pub(super) async fn guard_page(
    State(pages): State<PageServices>,
    request: Request,
    next: Next,
) -> Response {
    let own = match &pages.door {
        PageDoor::Open => None,
        PageDoor::Signed(sign_in) => Some(&sign_in.plan.own),
    };
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let mut answer = match (own, request.method()) {
        // A page of another site whose name leads here could read everything.
        (None, _) if !is_own(host) => {
            let sentence = "Ask for localhost or 127.0.0.1: this is no public address.\n";
            (StatusCode::FORBIDDEN, sentence).into_response()
        }
        (Some(own), _) if !is_of(host, own) => {
            (StatusCode::FORBIDDEN, format!("Ask for {own}: these pages have one name.\n"))
                .into_response()
        }
        (_, &Method::GET | &Method::HEAD) => next.run(request).await,
        (Some(own), &Method::POST) if is_from(request.headers(), own) => next.run(request).await,
        _ => (StatusCode::METHOD_NOT_ALLOWED, "Nothing can be changed so.\n").into_response(),
    };
    let headers = answer.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    headers.insert("cross-origin-opener-policy", HeaderValue::from_static("same-origin"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if own.is_some_and(|own| own.scheme() == "https") {
        let year = HeaderValue::from_static("max-age=31536000");
        headers.insert(STRICT_TRANSPORT_SECURITY, year);
    }
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

/// True if a `Host` header names the origin of this address.
fn is_of(host: &str, own: &Url) -> bool {
    let named = Url::parse(&format!("{}://{host}", own.scheme()));
    named.is_ok_and(|named| named.origin() == own.origin() && named.username().is_empty())
}

/// True if the `Origin` header is this address, so that the change comes from one of its pages. Browsers
/// always send it with a change.
fn is_from(headers: &HeaderMap, own: &Url) -> bool {
    let origin = headers.get(ORIGIN).and_then(|origin| origin.to_str().ok());
    let origin = origin.and_then(|origin| Url::parse(origin).ok());
    origin.is_some_and(|origin| origin.origin() == own.origin())
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn a_public_address_has_one_name_and_changes_come_from_its_own_pages() {
        let own = Url::parse("https://butler.example.com").unwrap();
        assert!(is_of("butler.example.com", &own) && is_of("Butler.example.com:443", &own));
        for other in ["butler.example.com:8090", "evil.example", "", "x@butler.example.com", "a b"]
        {
            assert!(!is_of(other, &own), "{other}");
        }
        let from = |origin: &str| {
            let headers = [(ORIGIN, origin.parse().unwrap())];
            is_from(&headers.into_iter().collect(), &own)
        };
        assert!(from("https://butler.example.com"));
        assert!(
            !from("https://evil.example") && !from("null") && !from("http://butler.example.com")
        );
        assert!(!is_from(&HeaderMap::new(), &own));
    }
}
