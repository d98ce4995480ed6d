//! Issues: written by people, read by everybody. Pull requests are among them.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde::Deserialize;

use super::{Answer, Caller, Host, Name, Numbered, Paged, check_length, find_repository};
use crate::github::error::ApiError;
use crate::github::json;
use crate::github::state::HostedIssue;

#[derive(Deserialize)]
pub(super) struct ListQuery {
    state: Option<String>,
    labels: Option<String>,
    direction: Option<String>,
}

pub(super) async fn list_issues(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<ListQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    repo.refresh().await?;
    let state = query.state.as_deref().unwrap_or("open");
    let fits = |open: bool| state == "all" || (state == "open") == open;
    let labels: Vec<&str> = query.labels.iter().flat_map(|l| l.split(',')).collect();
    let labelled = |own: &[String]| labels.iter().all(|l| own.iter().any(|o| o == l));
    let issues = repo.issues.values().filter(|i| fits(i.open) && labelled(&i.labels));
    let issues = issues.map(|i| (i.number, json::issue_json(&caller.urls, repo, i)));
    let pulls = repo.pulls.values().filter(|p| fits(p.open) && labels.is_empty());
    let pulls = pulls.map(|p| (p.number, json::pull_as_issue(&caller.urls, repo, p)));
    let mut both: Vec<_> = issues.chain(pulls).collect();
    both.sort_by_key(|(number, _)| *number);
    if query.direction.as_deref() != Some("asc") {
        both.reverse();
    }
    Ok(page.answer(&caller.urls, both.into_iter().map(|(_, value)| value).collect()))
}

#[derive(Deserialize)]
pub(super) struct CreateIssue {
    title: String,
    body: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
}

pub(super) async fn create_issue(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    body: Result<Json<CreateIssue>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    if body.title.trim().is_empty() {
        return Err(ApiError::field("Issue", "title", "missing_field"));
    }
    check_length("Issue", "title", Some(&body.title))?;
    check_length("Issue", "body", body.body.as_ref())?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let ids = (shared.next_id(), repo.next_number());
    let issue = HostedIssue {
        labels: body.labels,
        ..HostedIssue::opened(ids, &caller.login, body.title, body.body)
    };
    let value = json::issue_json(&caller.urls, repo, &issue);
    repo.issues.insert(issue.number, issue);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

pub(super) async fn read_issue(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let value = match (repo.issues.get(&at.number), repo.pulls.get(&at.number)) {
        (Some(issue), _) => json::issue_json(&caller.urls, repo, issue),
        (None, Some(pull)) => json::pull_as_issue(&caller.urls, repo, pull),
        (None, None) => return Err(ApiError::not_found()),
    };
    Ok(Json(value).into_response())
}

#[derive(Deserialize)]
pub(super) struct AddLabels {
    labels: Vec<String>,
}

#[derive(Deserialize)]
pub(super) struct LabelPath {
    owner: String,
    repo: String,
    number: u64,
    label: String,
}

/// Labels that the repository does not have yet are made.
pub(super) async fn add_labels(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<AddLabels>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let issue = repo.issues.get_mut(&at.number).ok_or_else(ApiError::not_found)?;
    for label in body.labels {
        if !issue.labels.contains(&label) {
            issue.labels.push(label);
        }
    }
    let issue = issue.clone();
    Ok(Json(json::issue_json(&caller.urls, repo, &issue)["labels"].clone()).into_response())
}

pub(super) async fn remove_label(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<LabelPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let issue = repo.issues.get_mut(&at.number).ok_or_else(ApiError::not_found)?;
    if !issue.labels.contains(&at.label) {
        return Err(ApiError::new(StatusCode::NOT_FOUND, "Label does not exist"));
    }
    issue.labels.retain(|label| *label != at.label);
    let issue = issue.clone();
    Ok(Json(json::issue_json(&caller.urls, repo, &issue)["labels"].clone()).into_response())
}
