//! Comments and reviews.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{Answer, Caller, Host, Numbered, Paged, check_length, find_pull, find_repository};
use crate::github::Shared;
use crate::github::error::ApiError;
use crate::github::git::FileChange;
use crate::github::json;
use crate::github::state::{
    HostedPull, HostedRepository, LineComment, PullComment, PullReview, member,
};

#[derive(Deserialize)]
pub(super) struct CommentBody {
    body: String,
}

/// The conversation of an issue or pull request.
fn find_conversation(
    repo: &mut HostedRepository,
    number: u64,
) -> Result<&mut Vec<PullComment>, ApiError> {
    if let Some(issue) = repo.issues.get_mut(&number) {
        return Ok(&mut issue.comments);
    }
    let pull = repo.pulls.get_mut(&number).ok_or_else(ApiError::not_found)?;
    pull.updated_at = Timestamp::now();
    Ok(&mut pull.comments)
}

pub(super) async fn create_comment(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<CommentBody>, JsonRejection>,
) -> Answer {
    let Json(CommentBody { body }) = body?;
    if body.is_empty() {
        return Err(ApiError::field("IssueComment", "body", "missing_field"));
    }
    check_length("IssueComment", "body", Some(&body))?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    check_unlocked(repo)?;
    let comment = make_comment(&shared, caller.login, body);
    find_conversation(repo, at.number)?.push(comment.clone());
    let value = json::comment_json(&caller.urls, repo, at.number, &comment);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

/// Refuses words where conversations are locked, as the host does with those of an App.
fn check_unlocked(repo: &HostedRepository) -> Result<(), ApiError> {
    if repo.rules.locked {
        let message = "Unable to create comment because issue is locked.";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    Ok(())
}

fn make_comment(shared: &Shared, user: String, body: String) -> PullComment {
    let (id, created_at) = (shared.next_id(), Timestamp::now());
    PullComment { id, user, body, created_at, association: member(), reactions: Vec::new() }
}

#[derive(Deserialize)]
pub(super) struct SinceQuery {
    since: Option<Timestamp>,
}

pub(super) async fn list_comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    Query(SinceQuery { since }): Query<SinceQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let comments = match (repo.issues.get(&at.number), repo.pulls.get(&at.number)) {
        (Some(issue), _) => issue.comments.clone(),
        (None, Some(pull)) => pull.comments.clone(),
        (None, None) => return Err(ApiError::not_found()),
    };
    let comments = comments.iter().filter(|c| since.is_none_or(|since| c.created_at >= since));
    let items = comments.map(|c| json::comment_json(&caller.urls, repo, at.number, c));
    Ok(page.answer(&caller.urls, items.collect()))
}

#[derive(Deserialize)]
pub(super) struct ReviewBody {
    body: Option<String>,
    event: Option<String>,
    commit_id: Option<String>,
    #[serde(default)]
    comments: Vec<OnLine>,
}

#[derive(Deserialize)]
struct OnLine {
    #[serde(flatten)]
    at: DiffPlace,
    body: String,
}

/// Place in a diff, as a request names it.
#[derive(Clone, Debug, Default, Deserialize)]
pub(in crate::github) struct DiffPlace {
    pub path: String,
    #[serde(default)]
    pub line: Option<u64>,
    #[serde(default)]
    pub start_line: Option<u64>,
    #[serde(default)]
    pub side: Option<String>,
}

impl DiffPlace {
    /// A line of the new version.
    pub(in crate::github) fn of(path: &str, line: u64) -> Self {
        Self { path: path.to_owned(), line: Some(line), ..Self::default() }
    }

    fn is_before(&self) -> bool {
        self.side.as_deref() == Some("LEFT")
    }

    fn on(self, comment: PullComment, review: u64, commit: String) -> LineComment {
        let (removed, first) = (self.is_before(), self.start_line);
        let (path, line) = (self.path, self.line.unwrap_or_default());
        LineComment { comment, review, path, line, first, removed, commit }
    }
}

pub(super) async fn create_review(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<ReviewBody>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    check_unlocked(repo)?;
    repo.refresh().await?;
    let before = find_pull(repo, at.number)?.clone();
    let own = before.user == caller.login;
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
    let changes = super::pulls::pull_detail(repo, &before).await?.changes;
    for remark in &body.comments {
        if let Some(what) = unresolved_field(&changes, &remark.at) {
            let why = format!("{what} could not be resolved");
            return Err(ApiError::plain("Unprocessable Entity", &why));
        }
    }
    let now = Timestamp::now();
    let review = PullReview {
        id: shared.next_id(),
        user: caller.login.clone(),
        body: body.body.unwrap_or_default(),
        state: state.into(),
        commit: body.commit_id.unwrap_or_else(|| before.head_sha.clone()),
        submitted_at: now,
        association: member(),
    };
    let lines = body.comments.into_iter().map(|remark| {
        let comment = make_comment(&shared, caller.login.clone(), remark.body);
        remark.at.on(comment, review.id, review.commit.clone())
    });
    let lines: Vec<_> = lines.collect();
    let pull = find_pull(repo, at.number)?;
    pull.reviews.push(review.clone());
    pull.lines.extend(lines);
    pull.updated_at = now;
    Ok(Json(json::review_json(&caller.urls, repo, at.number, &review)).into_response())
}

pub(super) async fn list_reviews(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let reviews = find_pull(repo, at.number)?.reviews.clone();
    let items = reviews.iter().map(|r| json::review_json(&caller.urls, repo, at.number, r));
    Ok(page.answer(&caller.urls, items.collect()))
}

#[derive(Deserialize)]
pub(super) struct LineBody {
    body: String,
    commit_id: String,
    #[serde(flatten)]
    at: DiffPlace,
}

pub(super) async fn line_comment(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<LineBody>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    check_unlocked(repo)?;
    repo.refresh().await?;
    let before = find_pull(repo, at.number)?.clone();
    if body.commit_id != before.head_sha && repo.git.commit_id(&body.commit_id).await.is_none() {
        return Err(ApiError::field("PullRequestReviewComment", "commit_id", "invalid"));
    }
    let changes = super::pulls::pull_detail(repo, &before).await?.changes;
    if let Some(what) = unresolved_field(&changes, &body.at) {
        let field = format!("pull_request_review_thread.{}", what.to_ascii_lowercase());
        let message = format!("{field} must be part of the diff");
        return Err(ApiError::custom_field("PullRequestReviewComment", &field, &message));
    }
    let comment = make_comment(&shared, caller.login, body.body);
    let pull = find_pull(repo, at.number)?;
    let made = on_line(&shared, pull, comment, body.at, body.commit_id);
    let value = json::line_comment(&caller.urls, repo, at.number, &made);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

/// A comment on a line, in a review of its own.
pub(in crate::github) fn on_line(
    shared: &Shared,
    pull: &mut HostedPull,
    comment: PullComment,
    at: DiffPlace,
    commit: String,
) -> LineComment {
    let review = PullReview {
        id: shared.next_id(),
        user: comment.user.clone(),
        body: String::new(),
        state: "COMMENTED".into(),
        commit: commit.clone(),
        submitted_at: comment.created_at,
        association: comment.association.clone(),
    };
    let made = at.on(comment, review.id, commit);
    pull.updated_at = review.submitted_at;
    pull.reviews.push(review);
    pull.lines.push(made.clone());
    made
}

pub(super) async fn line_comments(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let lines = find_pull(repo, at.number)?.lines.clone();
    let items = lines.iter().map(|l| json::line_comment(&caller.urls, repo, at.number, l));
    Ok(page.answer(&caller.urls, items.collect::<Vec<Value>>()))
}

/// Names the field, path or line, that is not part of the pull request's diff.
fn unresolved_field(changes: &[FileChange], at: &DiffPlace) -> Option<&'static str> {
    let Some(change) = changes.iter().find(|change| change.path == at.path) else {
        return Some("Path");
    };
    let shown = shown_lines(&change.patch, at.is_before());
    let line = at.line.unwrap_or_default();
    if !shown.contains(&line) {
        return Some("Line");
    }
    // The host takes no range that ends where it begins, or goes from one hunk to another.
    let is_torn = |first: u64| first >= line || !(first..line).all(|one| shown.contains(&one));
    at.start_line.is_some_and(is_torn).then_some("Start line")
}

/// Lines that a patch shows: of the new version, or of the one before.
fn shown_lines(patch: &str, before: bool) -> Vec<u64> {
    let (own, other) = if before { ('-', '+') } else { ('+', '-') };
    let (mut shown, mut next) = (Vec::new(), 0);
    for line in patch.lines() {
        if let Some(hunk) = line.strip_prefix("@@ ") {
            let range = hunk.split(' ').find_map(|part| part.strip_prefix(own));
            let first = range.and_then(|range| range.split(',').next());
            next = first.and_then(|first| first.parse().ok()).unwrap_or(0);
        } else if !line.starts_with([other, '\\']) {
            shown.push(next);
            next += 1;
        }
    }
    shown
}
