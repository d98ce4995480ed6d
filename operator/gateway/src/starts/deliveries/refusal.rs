//! Reasons why a delivery begins nothing, said to its sender: enough to fix what is theirs, and nothing of what
//! there is here.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// Seconds that the sender's clock and ours may be apart, the way included.
pub(super) const TOLERANCE: u64 = 300;
/// Seconds after which to try again.
const AGAIN: HeaderValue = HeaderValue::from_static("5");

#[derive(Debug, thiserror::Error)]
pub(super) enum DeliveryRefusal {
    #[error("there is nothing here: POST to /v1/repos/NAMESPACE/REPO/deliveries")]
    NoPath,
    #[error("the header {0} is missing: sign the delivery as standardwebhooks.com has it")]
    Missing(&'static str),
    #[error("the header {0} can't be used: it has to be {1}")]
    Header(&'static str, &'static str),
    #[error(
        "webhook-timestamp is more than {TOLERANCE} seconds off: sign the delivery anew when it is sent \
         again, under the same webhook-id, and set the sender's clock"
    )]
    Stale,
    #[error("the body has to be JSON: send it with content-type: application/json")]
    NotJson,
    #[error("the body has more than 64 KiB: shorten the prompt, or link to what is long")]
    TooLarge,
    #[error("the body took too long: send it again, at once")]
    TooSlow,
    #[error("the body broke off: send it again")]
    Cut,
    /// The same words for whatever a stranger may not know apart.
    #[error(
        "the signature is not one of this Repo, or this Repo takes no deliveries: compare namespace, name \
         and secret with its spec.deliveries, and sign the bytes that are sent"
    )]
    NotSigned,
    /// A sentence about the body.
    #[error("{0}")]
    Body(String),
    #[error("too many deliveries at once: send it again in some seconds")]
    Busy,
    #[error(
        "deliveries can't be checked right now: events of the Repo say why. Send it again later"
    )]
    NoSecret,
    #[error("the Thread can't be made right now: send it again in some seconds, under the same id")]
    NotWritten,
}

impl DeliveryRefusal {
    const fn status(&self) -> (StatusCode, &'static str) {
        match self {
            Self::NoPath => (StatusCode::NOT_FOUND, "not_found"),
            Self::Missing(_) => (StatusCode::BAD_REQUEST, "header_missing"),
            Self::Header(..) => (StatusCode::BAD_REQUEST, "header_invalid"),
            Self::Stale => (StatusCode::BAD_REQUEST, "timestamp_stale"),
            Self::NotJson => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too_large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too_slow"),
            Self::Cut => (StatusCode::BAD_REQUEST, "body_cut"),
            Self::NotSigned => (StatusCode::UNAUTHORIZED, "not_signed"),
            Self::Body(_) => (StatusCode::BAD_REQUEST, "body_invalid"),
            Self::Busy => (StatusCode::TOO_MANY_REQUESTS, "busy"),
            Self::NoSecret => (StatusCode::SERVICE_UNAVAILABLE, "no_secret"),
            Self::NotWritten => (StatusCode::SERVICE_UNAVAILABLE, "not_written"),
        }
    }

    /// Label of the metric: it says whose turn it is to fix something.
    pub(super) const fn outcome(&self) -> &'static str {
        match self {
            Self::NotSigned => "unsigned",
            Self::Busy => "busy",
            Self::NoSecret | Self::NotWritten => "failed",
            _ => "refused",
        }
    }
}

impl IntoResponse for DeliveryRefusal {
    fn into_response(self) -> Response {
        let (status, code) = self.status();
        let body = json!({"error": {"code": code, "message": self.to_string()}});
        let mut answer = (status, Json(body)).into_response();
        if matches!(self, Self::Busy | Self::NoSecret | Self::NotWritten) {
            answer.headers_mut().insert(header::RETRY_AFTER, AGAIN);
        }
        answer
    }
}
