//! Releases, each with its tag.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Caller, Host, Name, Paged, find_repository};
use crate::github::error::ApiError;
use crate::github::json;
use crate::github::state::{HostedRelease, HostedRepository};

#[derive(Deserialize)]
pub(super) struct TagPath {
    owner: String,
    repo: String,
    tag: String,
}

#[derive(Deserialize)]
pub(super) struct CreateRelease {
    tag_name: String,
    target_commitish: Option<String>,
    name: Option<String>,
    body: Option<String>,
    #[serde(default)]
    draft: bool,
    #[serde(default)]
    prerelease: bool,
}

pub(super) async fn list_releases(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let shown = repo.releases.iter().rev().map(|one| release_json(&caller, repo, one));
    Ok(page.answer(&caller.urls, shown.collect()))
}

pub(super) async fn by_tag(State(shared): Host, caller: Caller, Path(at): Path<TagPath>) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let found = repo.releases.iter().find(|one| one.tag == at.tag);
    let found = found.ok_or_else(ApiError::not_found)?;
    Ok(Json(release_json(&caller, repo, found)).into_response())
}

pub(super) async fn create_release(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    body: Result<Json<CreateRelease>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    if repo.releases.iter().any(|one| one.tag == body.tag_name) {
        return Err(ApiError::field("Release", "tag_name", "already_exists"));
    }
    let target = body.target_commitish.unwrap_or_else(|| repo.default_branch.clone());
    let tag = format!("refs/tags/{}", body.tag_name);
    if !body.draft && repo.git.commit_id(&tag).await.is_none() {
        let bad = || ApiError::field("Release", "target_commitish", "invalid");
        let commit = repo.git.commit_id(&target).await.ok_or_else(bad)?;
        let malformed = |_| ApiError::field("Release", "tag_name", "custom");
        repo.git.update_ref(&tag, &commit, "").await.map_err(malformed)?;
    }
    let made = HostedRelease {
        id: shared.next_id(),
        name: body.name.unwrap_or_else(|| body.tag_name.clone()),
        tag: body.tag_name,
        body: body.body.unwrap_or_default(),
        prerelease: body.prerelease,
        target,
        created_at: Timestamp::now(),
    };
    let value = release_json(&caller, repo, &made);
    repo.releases.push(made);
    Ok((StatusCode::CREATED, Json(value)).into_response())
}

fn release_json(caller: &Caller, repo: &HostedRepository, release: &HostedRelease) -> Value {
    let HostedRelease { id, tag, name, body, prerelease, target, created_at } = release;
    let api = caller.urls.repo(repo, &format!("/releases/{id}"));
    let archive = |kind: &str| caller.urls.repo(repo, &format!("/{kind}/{tag}"));
    json!({
        "id": id, "url": api, "assets_url": format!("{api}/assets"),
        "upload_url": format!("{api}/assets{{?name,label}}"), "tarball_url": archive("tarball"),
        "zipball_url": archive("zipball"), "created_at": created_at.to_string(),
        "published_at": created_at.to_string(), "node_id": format!("RE_{id}"), "immutable": false,
        "html_url": caller.urls.page(repo, &format!("/releases/tag/{tag}")), "tag_name": tag,
        "target_commitish": target, "name": name, "body": body, "draft": false,
        "prerelease": prerelease, "author": json::user_json(&caller.urls, &caller.login), "assets": [],
    })
}
