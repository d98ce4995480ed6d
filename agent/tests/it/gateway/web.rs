//! Documents of the web: those of the world's files whose name is a URL. And searches.

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use codebutler_wire::{ErrorCode, FILE_NAME, WebFetch, WebPage, WebResult, WebResults, WebSearch};
use serde::Deserialize;

use super::{Gateway, refuse};

#[derive(Deserialize)]
struct WantedDocument {
    url: String,
}

pub(super) fn routes() -> Router<Gateway> {
    Router::new()
        .route("/v1/web/fetch", post(fetch))
        .route("/v1/web/files", get(file))
        .route("/v1/web/search", post(search))
}

/// Made once for a key; what may have been made by a gateway that is gone is not made.
async fn search(State(gateway): State<Gateway>, Json(wanted): Json<WebSearch>) -> Response {
    let mut inner = gateway.lock();
    inner.searches.push(wanted.clone());
    if !inner.searched.contains(&wanted.key) {
        if wanted.again {
            return refuse(StatusCode::BAD_GATEWAY, ErrorCode::Upstream, "it may be lost");
        }
        inner.searched.push(wanted.key);
    }
    let guide = || WebResult {
        title: "Guide".to_owned(),
        url: "https://docs.invalid/".to_owned(),
        snippet: "It says so.".to_owned(),
    };
    let hit = inner.hit.clone().unwrap_or_else(guide);
    Json(WebResults { results: vec![hit], note: None }).into_response()
}

async fn fetch(State(gateway): State<Gateway>, Json(wanted): Json<WebFetch>) -> Response {
    if !gateway.lock().files.contains_key(&wanted.url) {
        return refuse(StatusCode::FORBIDDEN, ErrorCode::Forbidden, "not listed");
    }
    let page = WebPage {
        url: wanted.url,
        status: 200,
        content_type: "application/pdf".to_owned(),
        text: String::new(),
        page: 1,
        pages: 1,
        truncated: false,
        is_document: true,
    };
    Json(page).into_response()
}

async fn file(State(gateway): State<Gateway>, Query(wanted): Query<WantedDocument>) -> Response {
    let mut inner = gateway.lock();
    inner.files_got += 1;
    let (name, content) = inner.files[&wanted.url].clone();
    ([(FILE_NAME, name)], content).into_response()
}
