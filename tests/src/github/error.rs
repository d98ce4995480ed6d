//! Refusals in the host's own words and shape.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::git::GitError;

/// An error answer of the API.
#[derive(Debug)]
pub(super) struct ApiError {
    status: StatusCode,
    message: String,
    errors: Vec<Value>,
}

impl ApiError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), errors: Vec::new() }
    }

    pub(super) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not Found")
    }

    /// An error with status 422 and a sentence.
    pub(super) fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }

    /// 422 because of one field.
    pub(super) fn field(resource: &str, field: &str, code: &str) -> Self {
        Self::validation(json!({"resource": resource, "field": field, "code": code}))
    }

    /// 422 with a sentence of the resource's own.
    pub(super) fn custom(resource: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::validation(json!({"resource": resource, "code": "custom", "message": message}))
    }

    /// 422 with a sentence about one field.
    pub(super) fn custom_field(resource: &str, field: &str, message: &str) -> Self {
        Self::validation(
            json!({"resource": resource, "field": field, "code": "custom", "message": message}),
        )
    }

    /// 422 whose errors are plain texts, as reviews have them.
    pub(super) fn plain(message: &str, error: &str) -> Self {
        Self { errors: vec![error.into()], ..Self::unprocessable(message) }
    }

    fn validation(error: Value) -> Self {
        Self { errors: vec![error], ..Self::unprocessable("Validation Failed") }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut body = json!({
            "message": self.message,
            "documentation_url": "https://docs.github.com/rest",
            "status": self.status.as_u16().to_string(),
        });
        if !self.errors.is_empty() {
            body["errors"] = self.errors.into();
        }
        (self.status, Json(body)).into_response()
    }
}

impl From<GitError> for ApiError {
    fn from(error: GitError) -> Self {
        tracing::warn!(%error, "git failed");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Server Error")
    }
}

impl From<JsonRejection> for ApiError {
    fn from(error: JsonRejection) -> Self {
        match error {
            JsonRejection::JsonDataError(e) => {
                Self::unprocessable(format!("Invalid request.\n\n{}", e.body_text()))
            }
            _ => Self::new(StatusCode::BAD_REQUEST, "Problems parsing JSON"),
        }
    }
}
