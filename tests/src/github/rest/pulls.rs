//! Pull requests: opened, listed, read and changed.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::{
    Answer, Caller, Host, Name, Numbered, Paged, check_length, find_pull, find_repository,
};
use crate::github::Shared;
use crate::github::error::ApiError;
use crate::github::git::GitError;
use crate::github::json::{self, PullDetail};
use crate::github::state::{HostedPull, HostedRepository};
use crate::github::urls::GitHubUrls;

const RESOURCE: &str = "PullRequest";

#[derive(Deserialize)]
pub(super) struct PullsQuery {
    state: Option<String>,
    head: Option<String>,
    base: Option<String>,
    sort: Option<String>,
    direction: Option<String>,
}

pub(super) async fn list_pulls(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<PullsQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    repo.refresh().await?;
    let state = query.state.as_deref().unwrap_or("open");
    let wanted = |pull: &&HostedPull| {
        let head = format!("{}:{}", repo.owner, pull.head);
        let state_fits = state == "all" || (state == "open") == pull.open;
        // Like the real host, a head without its owner filters nothing.
        let head_fits = query.head.as_ref().is_none_or(|h| !h.contains(':') || *h == head);
        state_fits && head_fits && query.base.as_ref().is_none_or(|b| *b == pull.base)
    };
    let mut found: Vec<&HostedPull> = repo.pulls.values().filter(wanted).collect();
    if query.sort.as_deref() == Some("updated") {
        found.sort_by_key(|pull| pull.updated_at);
    }
    let mut items: Vec<Value> =
        found.into_iter().map(|pull| json::pull_json(&caller.urls, repo, pull)).collect();
    if query.direction.as_deref() != Some("asc") {
        items.reverse();
    }
    Ok(page.answer(&caller.urls, items))
}

#[derive(Deserialize)]
pub(super) struct CreatePull {
    title: Option<String>,
    head: String,
    base: String,
    body: Option<String>,
    draft: Option<bool>,
}

pub(super) async fn create_pull(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    body: Result<Json<CreatePull>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    repo.refresh().await?;
    let pull = open_pull(&shared, repo, &caller.login, body).await?;
    let head_ref = format!("refs/pull/{}/head", pull.number);
    repo.git.run(&["update-ref", &head_ref, &pull.head_sha]).await?;
    let value = full_value(&caller.urls, repo, &pull).await?;
    repo.pulls.insert(pull.number, pull);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

async fn open_pull(
    shared: &Shared,
    repo: &HostedRepository,
    login: &str,
    body: CreatePull,
) -> Result<HostedPull, ApiError> {
    let title = body.title.filter(|t| !t.trim().is_empty());
    let title = title.ok_or_else(|| ApiError::field(RESOURCE, "title", "missing_field"))?;
    check_length(RESOURCE, "title", Some(&title))?;
    check_length("Issue", "body", body.body.as_ref())?;
    let (owner, head) = body.head.split_once(':').unwrap_or((&repo.owner, &body.head));
    let head_sha = if owner == repo.owner { repo.git.branch(head).await } else { None };
    let head_sha = head_sha.ok_or_else(|| ApiError::field(RESOURCE, "head", "invalid"))?;
    let base_sha = repo.git.branch(&body.base).await;
    let base_sha = base_sha.ok_or_else(|| ApiError::field(RESOURCE, "base", "invalid"))?;
    if repo
        .pulls
        .values()
        .any(|p| p.open && p.fork.is_none() && p.head == head && p.base == body.base)
    {
        let message = format!("A pull request already exists for {}:{head}.", repo.owner);
        return Err(ApiError::custom(RESOURCE, message));
    }
    if repo.git.log(&format!("{base_sha}..{head_sha}"), 1).await?.is_empty() {
        let message = format!("No commits between {} and {head}", body.base);
        return Err(ApiError::custom(RESOURCE, message));
    }
    let heads = (head.to_owned(), head_sha, body.base, base_sha);
    let pull = HostedPull::opened(shared.next_id(), repo.next_number(), heads, login);
    let draft = body.draft.unwrap_or(false);
    Ok(HostedPull { title, body: body.body, draft, ..pull })
}

/// Computes the fields that only a single pull request's answer has: mergeability, commits and changes.
pub(super) async fn pull_detail(
    repo: &HostedRepository,
    pull: &HostedPull,
) -> Result<PullDetail, GitError> {
    let (base, head) = (&pull.base_sha, &pull.head_sha);
    let merge_base = repo.git.run(&["merge-base", base, head]).await.unwrap_or(base.clone());
    let mergeable =
        if pull.open { Some(repo.git.merge_tree(base, head).await.is_some()) } else { None };
    Ok(PullDetail {
        mergeable,
        commits: repo.git.log(&format!("{merge_base}..{head}"), 250).await?.len(),
        changes: repo.git.changes(&merge_base, head).await?,
    })
}

async fn full_value(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    pull: &HostedPull,
) -> Result<Value, ApiError> {
    let detail = pull_detail(repo, pull).await?;
    Ok(json::pull_in_full(urls, repo, pull, &detail))
}

pub(super) async fn read_pull(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let pull = find_pull(repo, at.number)?.clone();
    Ok(Json(full_value(&caller.urls, repo, &pull).await?).into_response())
}

#[derive(Deserialize)]
pub(super) struct UpdatePull {
    title: Option<String>,
    body: Option<String>,
    state: Option<String>,
    base: Option<String>,
}

pub(super) async fn update_pull(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Json<UpdatePull>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let branches = repo.git.branches().await?;
    let pull = find_pull(repo, at.number)?;
    check_length(RESOURCE, "title", body.title.as_ref())?;
    check_length("Issue", "body", body.body.as_ref())?;
    let now = Timestamp::now();
    if let Some(base) = body.base {
        let sha = branches.get(&base);
        pull.base_sha = sha.ok_or_else(|| ApiError::field(RESOURCE, "base", "invalid"))?.clone();
        pull.base = base;
    }
    match body.state.as_deref() {
        Some("closed") if pull.open => pull.close(now),
        Some("open") if pull.open => {}
        None | Some("closed") => {}
        Some("open") if pull.merged.is_none() && branches.contains_key(&pull.head) => {
            pull.open = true;
            pull.closed_at = None;
        }
        Some("open") => {
            return Err(ApiError::custom(RESOURCE, "state cannot be changed."));
        }
        Some(_) => return Err(ApiError::field(RESOURCE, "state", "invalid")),
    }
    if let Some(title) = body.title {
        pull.title = title;
    }
    if let Some(text) = body.body {
        pull.body = Some(text);
    }
    pull.updated_at = now;
    let pull = pull.clone();
    Ok(Json(full_value(&caller.urls, repo, &pull).await?).into_response())
}

pub(super) async fn list_files(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let pull = find_pull(repo, at.number)?.clone();
    let changes = pull_detail(repo, &pull).await?.changes;
    // The patches that are shown depend on the page that they are on.
    let shown = json::changes_json(&caller.urls, repo, &pull.head_sha, page.part(&changes));
    Ok(page.answer_part(&caller.urls, shown, changes.len()))
}

pub(super) async fn list_commits(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let pull = find_pull(repo, at.number)?.clone();
    let range = format!("{}..{}", pull.base_sha, pull.head_sha);
    let commits = repo.git.log(&range, 250).await?;
    let items = commits.iter().rev().map(|c| json::commit_json(&caller.urls, repo, c));
    Ok(page.answer(&caller.urls, items.collect()))
}
