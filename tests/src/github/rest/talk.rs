//! Comments and reviews.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Answer, Caller, Host, Numbered, Paged, find, find_pull};
use crate::github::error::ApiError;
use crate::github::json;
use crate::github::state::{Comment, Review};

#[derive(Deserialize)]
pub(super) struct CommentBody {
    body: String,
}

pub(super) async fn comment(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<CommentBody>, JsonRejection>,
) -> Answer {
    let Json(CommentBody { body }) = body?;
    if body.is_empty() {
        return Err(ApiError::field("IssueComment", "body", "missing_field"));
    }
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    let created_at = Timestamp::now();
    let comment = Comment { id: shared.next_id(), user: caller.login, body, created_at };
    find_pull(repo, at.number)?.comments.push(comment.clone());
    let value = json::comment(&caller.urls, repo, at.number, &comment);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

pub(super) async fn comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    let comments = find_pull(repo, at.number)?.comments.clone();
    let items = comments.iter().map(|c| json::comment(&caller.urls, repo, at.number, c));
    Ok(page.answer(&caller.urls, items.collect()))
}

#[derive(Deserialize)]
pub(super) struct ReviewBody {
    body: Option<String>,
    event: Option<String>,
    commit_id: Option<String>,
}

pub(super) async fn review(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<ReviewBody>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let pull = find_pull(repo, at.number)?;
    let own = pull.user == caller.login;
    let state = match body.event.as_deref() {
        Some("APPROVE") if own => {
            return Err(ApiError::unprocessable("Can not approve your own pull request"));
        }
        Some("REQUEST_CHANGES") if own => {
            let message = "Can not request changes on your own pull request";
            return Err(ApiError::unprocessable(message));
        }
        Some("APPROVE") => "APPROVED",
        Some("REQUEST_CHANGES") => "CHANGES_REQUESTED",
        Some("COMMENT") => "COMMENTED",
        _ => return Err(ApiError::field("PullRequestReview", "event", "invalid")),
    };
    let review = Review {
        id: shared.next_id(),
        user: caller.login,
        body: body.body.unwrap_or_default(),
        state: state.into(),
        commit: body.commit_id.unwrap_or_else(|| pull.head_sha.clone()),
        submitted_at: Timestamp::now(),
    };
    pull.reviews.push(review.clone());
    Ok(Json(json::review(&caller.urls, repo, at.number, &review)).into_response())
}

pub(super) async fn reviews(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    let reviews = find_pull(repo, at.number)?.reviews.clone();
    let items = reviews.iter().map(|r| json::review(&caller.urls, repo, at.number, r));
    Ok(page.answer(&caller.urls, items.collect()))
}

/// Comments on lines: none are ever made here.
pub(super) async fn line_comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    find_pull(repo, at.number)?;
    Ok(page.answer(&caller.urls, Vec::new()))
}
