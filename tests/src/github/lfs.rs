//! Git LFS: which contents the host has. The contents themselves are nobody's business here.

use std::sync::PoisonError;

use axum::Json;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};

use super::{GitHubServer, Shared};

const KIND: &str = "application/vnd.git-lfs+json";
/// Longest question, in bytes.
const MAX: usize = 1024 * 1024;

impl GitHubServer {
    /// Adds a content, of which only its length is kept.
    pub fn store_lfs(&self, oid: &str, size: u64) {
        let mut known = self.shared.lfs.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(oid.to_owned(), size);
    }
}

pub(super) async fn serve_batch(shared: &Shared, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let is_own = |name| parts.headers.get(name).is_some_and(|kind| kind == KIND);
    if !is_own(header::ACCEPT) || !is_own(header::CONTENT_TYPE) {
        return refuse_batch(StatusCode::NOT_ACCEPTABLE, "This speaks Git LFS only");
    }
    let body = axum::body::to_bytes(body, MAX).await.unwrap_or_default();
    answer_batch(shared, &serde_json::from_slice(&body).unwrap_or_default())
}

fn answer_batch(shared: &Shared, question: &Value) -> Response {
    let objects = question["objects"].as_array().filter(|objects| !objects.is_empty());
    let (Some(objects), Some("download")) = (objects, question["operation"].as_str()) else {
        return refuse_batch(StatusCode::UNPROCESSABLE_ENTITY, "Invalid request");
    };
    let known = shared.lfs.lock().unwrap_or_else(PoisonError::into_inner);
    let describe = |object: &Value| {
        let (oid, size) = (object["oid"].as_str().unwrap_or_default(), &object["size"]);
        if known.get(oid).is_some_and(|known| size.as_u64() == Some(*known)) {
            let href = format!("https://lfs.example.com/{oid}");
            return json!({"oid": oid, "size": size, "actions": {"download": {"href": href}}});
        }
        let message = "Object does not exist on the server";
        json!({"oid": oid, "size": size, "error": {"code": 404, "message": message}})
    };
    let objects: Vec<Value> = objects.iter().map(describe).collect();
    let answer = json!({"objects": objects, "transfer": "basic"});
    ([(header::CONTENT_TYPE, KIND)], Json(answer)).into_response()
}

fn refuse_batch(status: StatusCode, message: &str) -> Response {
    (status, [(header::CONTENT_TYPE, KIND)], Json(json!({"message": message}))).into_response()
}
