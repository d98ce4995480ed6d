//! Branches and refs.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Caller, Host, Name, Paged, find_repository};
use crate::github::error::ApiError;
use crate::github::json;

#[derive(Deserialize)]
pub(super) struct RefPath {
    owner: String,
    repo: String,
    #[serde(alias = "branch", alias = "prefix")]
    name: String,
}

pub(super) async fn list_branches(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let branches = repo.git.branches().await?;
    let items = branches.iter().map(|(branch, sha)| {
        let path = format!("/repos/{}/commits/{sha}", repo.full_name());
        let commit = json!({"sha": sha, "url": caller.urls.api(&path)});
        let mut branch = json::branch_json(&caller.urls, repo, branch, &commit);
        if let Some(fields) = branch.as_object_mut() {
            fields.remove("_links");
        }
        branch
    });
    Ok(page.answer(&caller.urls, items.collect()))
}

pub(super) async fn read_branch(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let missing = || ApiError::new(StatusCode::NOT_FOUND, "Branch not found");
    let Some(sha) = repo.git.branch(&path.name).await else {
        let now = repo.renamed.get(&path.name).ok_or_else(missing)?;
        let place = caller.urls.api(&format!("/repos/{}/branches/{now}", repo.full_name()));
        let body = json!({"message": "Moved Permanently", "url": place});
        let moved = (StatusCode::MOVED_PERMANENTLY, [(header::LOCATION, place)], Json(body));
        return Ok(moved.into_response());
    };
    let commit = repo.git.log(&sha, 1).await?.pop().ok_or_else(missing)?;
    let commit = json::commit_json(&caller.urls, repo, &commit);
    Ok(Json(json::branch_json(&caller.urls, repo, &path.name, &commit)).into_response())
}

/// The rules of a branch; a branch that does not exist has those that it would have.
pub(super) async fn read_rules(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let source = |kind: &str| {
        json!({
            "type": kind, "ruleset_source_type": "Repository",
            "ruleset_source": repo.full_name(), "ruleset_id": 1,
        })
    };
    let mut rules = Vec::new();
    let is_base = path.name == repo.default_branch;
    if is_base && !repo.rules.required_checks.is_empty() {
        let mut rule = source("required_status_checks");
        let checks = repo.rules.required_checks.iter().map(|name| json!({"context": name}));
        rule["parameters"] = json!({
            "required_status_checks": checks.collect::<Vec<_>>(),
            "strict_required_status_checks_policy": false,
            "do_not_enforce_on_create": false,
        });
        rules.push(rule);
    }
    if is_base && repo.rules.merge_queue {
        let mut rule = source("merge_queue");
        rule["parameters"] = json!({
            "check_response_timeout_minutes": 60, "grouping_strategy": "ALLGREEN",
            "max_entries_to_build": 5, "max_entries_to_merge": 5, "merge_method": "SQUASH",
            "min_entries_to_merge": 1, "min_entries_to_merge_wait_minutes": 5,
        });
        rules.push(rule);
    }
    Ok(page.answer(&caller.urls, rules))
}

pub(super) async fn read_ref(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let name = format!("refs/{}", path.name);
    let refs = repo.git.refs(&name).await?;
    let found = refs.into_iter().find(|(n, _)| *n == name);
    let (name, sha) = found.ok_or_else(ApiError::not_found)?;
    Ok(Json(json::reference_json(&caller.urls, repo, &name, &sha)).into_response())
}

pub(super) async fn matching_refs(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let refs = repo.git.refs(&format!("refs/{}", path.name)).await?;
    let items = refs.iter().map(|(name, sha)| json::reference_json(&caller.urls, repo, name, sha));
    Ok(page.answer(&caller.urls, items.collect()))
}

#[derive(Deserialize)]
pub(super) struct CreateRef {
    #[serde(rename = "ref")]
    name: String,
    sha: String,
}

pub(super) async fn create_ref(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    body: Result<Json<CreateRef>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let valid = repo.git.succeeds(&["check-ref-format", &body.name]).await;
    if !body.name.starts_with("refs/") || !valid {
        return Err(ApiError::unprocessable("Reference name is invalid"));
    }
    let known = repo.git.commit_id(&body.sha).await;
    if body.sha.len() != 40 || known.is_none() {
        return Err(ApiError::unprocessable("Object does not exist"));
    }
    let restricted = repo.rules.no_branches.as_ref().is_some_and(|prefix| {
        body.name.strip_prefix("refs/heads/").is_some_and(|name| name.starts_with(prefix))
    });
    if restricted {
        let why = "Cannot create ref due to creations being restricted.";
        let message = format!("Repository rule violations found\n\n{why}\n\n");
        return Err(ApiError::unprocessable(message));
    }
    let exists = ApiError::unprocessable("Reference already exists");
    repo.git.update_ref(&body.name, &body.sha, "").await.map_err(|_| exists)?;
    let value = json::reference_json(&caller.urls, repo, &body.name, &body.sha);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

#[derive(Deserialize)]
pub(super) struct UpdateRef {
    sha: String,
    #[serde(default)]
    force: bool,
}

pub(super) async fn update_ref(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
    body: Result<Json<UpdateRef>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let name = format!("refs/{}", path.name);
    let missing = || ApiError::unprocessable("Reference does not exist");
    let old = repo.git.commit_id(&name).await.ok_or_else(missing)?;
    if repo.git.commit_id(&body.sha).await.is_none() {
        return Err(ApiError::unprocessable("Object does not exist"));
    }
    let forward = ["merge-base", "--is-ancestor", &old, &body.sha];
    if !body.force && !repo.git.succeeds(&forward).await {
        return Err(ApiError::unprocessable("Update is not a fast forward"));
    }
    repo.git.update_ref(&name, &body.sha, &old).await?;
    repo.refresh_by(Some(&caller.login)).await?;
    Ok(Json(json::reference_json(&caller.urls, repo, &name, &body.sha)).into_response())
}

pub(super) async fn delete_ref(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<RefPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let name = format!("refs/{}", path.name);
    if name == format!("refs/heads/{}", repo.default_branch) {
        return Err(ApiError::unprocessable("Cannot delete the default branch"));
    }
    let missing = || ApiError::unprocessable("Reference does not exist");
    let old = repo.git.commit_id(&name).await.ok_or_else(missing)?;
    let kept = repo.rules.no_deletions.as_deref();
    let branch = name.strip_prefix("refs/heads/");
    if kept.zip(branch).is_some_and(|(kept, branch)| branch.starts_with(kept)) {
        let message = "Repository rule violations found\n\nCannot delete this branch\n\n";
        return Err(ApiError::unprocessable(message));
    }
    repo.git.run(&["update-ref", "-d", &name, &old]).await?;
    repo.refresh_by(Some(&caller.login)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
