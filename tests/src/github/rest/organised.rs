//! Issues as people organise them: closed for a reason, assigned, below one another.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Answer, Caller, Host, Numbered, Paged, PersonPath, find_repository};
use crate::github::error::ApiError;
use crate::github::json;
use crate::github::state::{HostedIssue, HostedRepository};

/// The most that an issue may have.
const MOST_ASSIGNEES: usize = 10;
const MOST_SUB_ISSUES: usize = 100;
const REASONS: [&str; 4] = ["completed", "not_planned", "duplicate", "reopened"];

fn find_issue(repo: &mut HostedRepository, number: u64) -> Result<&mut HostedIssue, ApiError> {
    repo.issues.get_mut(&number).ok_or_else(ApiError::not_found)
}

#[derive(Deserialize)]
pub(super) struct UpdateIssue {
    title: Option<String>,
    body: Option<String>,
    state: Option<String>,
    state_reason: Option<String>,
}

/// A pull request is closed here as well.
pub(super) async fn update_issue(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<UpdateIssue>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    if body.state.as_deref().is_some_and(|state| !matches!(state, "open" | "closed")) {
        return Err(ApiError::field("Issue", "state", "invalid"));
    }
    if body.state_reason.as_deref().is_some_and(|reason| !REASONS.contains(&reason)) {
        return Err(ApiError::field("Issue", "state_reason", "invalid"));
    }
    let now = Timestamp::now();
    if let Some(pull) = repo.pulls.get_mut(&at.number) {
        if body.state.as_deref() == Some("closed") && pull.open {
            pull.close(now);
        }
        let pull = pull.clone();
        return Ok(Json(json::pull_as_issue(&caller.urls, repo, &pull)).into_response());
    }
    let issue = find_issue(repo, at.number)?;
    match body.state.as_deref() {
        Some("closed") => {
            issue.open = false;
            issue.closed_at = Some(now);
            issue.reason = Some(body.state_reason.unwrap_or_else(|| "completed".to_owned()));
        }
        Some(_) if !issue.open => {
            issue.open = true;
            issue.closed_at = None;
            issue.reason = Some("reopened".to_owned());
        }
        _ => {}
    }
    if let Some(title) = body.title {
        issue.title = title;
    }
    issue.body = body.body.or_else(|| issue.body.clone());
    let issue = issue.clone();
    Ok(Json(json::issue_json(&caller.urls, repo, &issue)).into_response())
}

#[derive(Deserialize)]
pub(super) struct Assignees {
    #[serde(default)]
    assignees: Vec<String>,
}

fn may_work(repo: &HostedRepository, caller: &Caller, login: &str) -> bool {
    // All who may read a private repository of an organisation may be assigned.
    let known = repo.people.get(login).is_some_and(|standing| standing.permission() != "none");
    known || login == caller.login
}

/// Accounts that may not be assigned are passed over, without a word.
pub(super) async fn add_assignees(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<Assignees>, JsonRejection>,
) -> Answer {
    let Json(Assignees { assignees }) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let able: Vec<String> =
        assignees.into_iter().filter(|login| may_work(repo, &caller, login)).collect();
    let issue = find_issue(repo, at.number)?;
    for login in able {
        if !issue.assignees.contains(&login) && issue.assignees.len() < MOST_ASSIGNEES {
            issue.assignees.push(login);
        }
    }
    let issue = issue.clone();
    let value = json::issue_json(&caller.urls, repo, &issue);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

pub(super) async fn remove_assignees(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<Assignees>, JsonRejection>,
) -> Answer {
    let Json(Assignees { assignees }) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let issue = find_issue(repo, at.number)?;
    issue.assignees.retain(|login| !assignees.contains(login));
    let issue = issue.clone();
    Ok(Json(json::issue_json(&caller.urls, repo, &issue)).into_response())
}

pub(super) async fn may_be_assigned(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<PersonPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    if may_work(repo, &caller, &at.login) {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    Err(ApiError::not_found())
}

#[derive(Deserialize)]
pub(super) struct AddSubIssue {
    sub_issue_id: u64,
    #[serde(default)]
    replace_parent: bool,
}

fn refuse(why: &str) -> ApiError {
    ApiError::custom("Issue", why)
}

/// Adds a sub-issue, which is named by its id, not by its number.
pub(super) async fn add_sub_issue(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<AddSubIssue>, JsonRejection>,
) -> Answer {
    let Json(AddSubIssue { sub_issue_id, replace_parent }) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let upper = find_issue(repo, at.number)?.clone();
    let child = repo.issues.values().find(|issue| issue.id == sub_issue_id).cloned();
    let child = child.ok_or_else(ApiError::not_found)?;
    let mut above = Some(at.number);
    while let Some(number) = above {
        if number == child.number {
            return Err(refuse("Sub issue cannot be an ancestor of the parent issue"));
        }
        above = repo.issues.get(&number).and_then(|issue| issue.parent);
    }
    if child.parent.is_some() && !replace_parent {
        return Err(refuse("Sub issue may only have one parent"));
    }
    let below = repo.issues.values().filter(|issue| issue.parent == Some(at.number)).count();
    if below >= MOST_SUB_ISSUES {
        return Err(refuse("Parent issue cannot have more than 100 sub-issues"));
    }
    find_issue(repo, child.number)?.parent = Some(at.number);
    let value = json::issue_json(&caller.urls, repo, &upper);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

pub(super) async fn list_sub_issues(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    find_issue(repo, at.number)?;
    let below = repo.issues.values().filter(|issue| issue.parent == Some(at.number));
    let items = below.map(|issue| json::issue_json(&caller.urls, repo, issue));
    Ok(page.answer(&caller.urls, items.collect()))
}

pub(super) async fn read_parent(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let parent = find_issue(repo, at.number)?.parent;
    let parent = parent.and_then(|number| repo.issues.get(&number));
    let parent = parent.ok_or_else(ApiError::not_found)?;
    Ok(Json(json::issue_json(&caller.urls, repo, parent)).into_response())
}
