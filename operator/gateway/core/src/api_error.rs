//! A refusal as an agent sees it: on the wire a body in the shape of OpenAI's errors.

use axum::response::{IntoResponse, Response};
use codebutler_crds::Thread;
use codebutler_crds::thread::SlackThread;
use codebutler_crds::wire::{ErrorBody, ErrorCode, ErrorDetail};
use http::StatusCode;
use http::header::RETRY_AFTER;

/// A refusal, as the agent sees it. Never carries a secret or an upstream's raw answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    /// Stable code; decides the HTTP status.
    pub code: ErrorCode,
    /// A sentence that says what to do.
    pub message: String,
    /// Seconds after which asking again may help.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// A refusal with a sentence.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    /// The body in the shape of OpenAI's errors.
    pub fn body(&self) -> ErrorBody {
        ErrorBody {
            error: ErrorDetail {
                code: self.code,
                message: self.message.clone(),
                type_: "codebutler_error".to_owned(),
                retry_after: self.retry_after,
            },
        }
    }
}

/// Returns the Slack conversation of a Thread.
///
/// # Errors
/// When it was not opened yet.
pub fn require_conversation(thread: &Thread) -> Result<&SlackThread, ApiError> {
    let message = "the conversation in Slack is not opened yet: try again";
    thread.conversation().ok_or_else(|| ApiError::new(ErrorCode::Unavailable, message))
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (status_of(self.code), axum::Json(self.body())).into_response();
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }
}

const fn status_of(code: ErrorCode) -> StatusCode {
    match code {
        ErrorCode::Unauthenticated => StatusCode::UNAUTHORIZED,
        ErrorCode::NotRegistered
        | ErrorCode::Forbidden
        | ErrorCode::NeedsApproval
        | ErrorCode::ContentRefused => StatusCode::FORBIDDEN,
        ErrorCode::BudgetExceeded => StatusCode::PAYMENT_REQUIRED,
        ErrorCode::ThreadClosed => StatusCode::CONFLICT,
        ErrorCode::InvalidRequest | ErrorCode::ContextOverflow => StatusCode::BAD_REQUEST,
        ErrorCode::Upstream | ErrorCode::Unanswered => StatusCode::BAD_GATEWAY,
        ErrorCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
    }
}
