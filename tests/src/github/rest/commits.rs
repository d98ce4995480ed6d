//! Commits, comparisons, files, and what services say of a commit.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use base64::Engine as _;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Answer, Caller, Host, Name, Paged, find_repository};
use crate::github::error::ApiError;
use crate::github::git::GitSignature;
use crate::github::json;
use crate::github::state::{HostedCheck, HostedRepository};
use crate::github::urls::GitHubUrls;

#[derive(Deserialize)]
pub(super) struct CommitTail {
    owner: String,
    repo: String,
    /// All that follows: it may contain slashes.
    #[serde(alias = "range", alias = "path", rename = "rest")]
    tail: String,
}

#[derive(Deserialize)]
pub(super) struct CommitsQuery {
    sha: Option<String>,
}

pub(super) async fn list_commits(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<CommitsQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let start = query.sha.unwrap_or_else(|| repo.default_branch.clone());
    let start = repo.git.commit_id(&start).await.ok_or_else(ApiError::not_found)?;
    let commits = repo.git.log(&start, 1000).await?;
    let items = commits.iter().map(|c| json::commit_json(&caller.urls, repo, c));
    Ok(page.answer(&caller.urls, items.collect()))
}

/// `/commits/{ref}` and what hangs below it. A ref may contain slashes.
pub(super) async fn read_commit(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<CommitTail>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let (name, below) = ["check-runs", "check-suites", "status", "statuses"]
        .into_iter()
        .find_map(|below| {
            let name = path.tail.strip_suffix(below)?.strip_suffix('/')?;
            Some((name, below))
        })
        .unwrap_or((&path.tail, ""));
    let unknown = || ApiError::unprocessable(format!("No commit found for SHA: {name}"));
    let sha = repo.git.commit_id(name).await.ok_or_else(unknown)?;
    let urls = &caller.urls;
    Ok(match below {
        "check-runs" if shared.is_fine_grained() => {
            let message = "Resource not accessible by personal access token";
            return Err(ApiError::new(StatusCode::FORBIDDEN, message));
        }
        "check-runs" => {
            let all = repo.checks.iter().filter(|c| c.commit == sha && !c.status);
            let all: Vec<_> = all.collect();
            // As with `filter=latest`, the default: a check that ran again is listed once.
            let is_newest = |id: u64, name: &str| all.iter().all(|c| c.name != name || c.id <= id);
            let runs = all.iter().filter(|c| is_newest(c.id, &c.name));
            let runs = runs.map(|c| json::check_run(urls, repo, c));
            page.answer_in(urls, "check_runs", runs.collect())
        }
        "check-suites" => page.answer_in(urls, "check_suites", Vec::new()),
        "statuses" => page.answer(urls, list_statuses(urls, repo, &sha)),
        "status" => {
            let (whole, statuses) = combined_status(urls, repo, &sha);
            page.answer_as(urls, statuses, |shown, total| {
                json_merged(whole, &json!({"statuses": shown, "total_count": total}))
            })
        }
        _ => Json(in_full(urls, repo, &sha).await?).into_response(),
    })
}

fn json_merged(mut whole: Value, more: &Value) -> Value {
    json_patch::merge(&mut whole, more);
    whole
}

/// A commit as Git has it: by its full id only.
pub(super) async fn read_object(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<CommitPath>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let sha = repo.git.commit_id(&path.sha).await.filter(|sha| *sha == path.sha);
    let commit = repo.git.log(&sha.ok_or_else(ApiError::not_found)?, 1).await?.pop();
    let commit = commit.ok_or_else(ApiError::not_found)?;
    let mut value = json::commit_json(&caller.urls, repo, &commit);
    let mut whole = value["commit"].take();
    for field in ["sha", "node_id", "html_url", "parents"] {
        whole[field] = value[field].take();
    }
    let of = format!("/repos/{}/git/commits/{}", repo.full_name(), commit.sha);
    whole["url"] = caller.urls.api(&of).into();
    Ok(Json(whole).into_response())
}

#[derive(Deserialize)]
pub(super) struct CommitPath {
    owner: String,
    repo: String,
    sha: String,
}

#[derive(Deserialize)]
pub(super) struct RunsQuery {
    head_sha: Option<String>,
}

/// Runs of the host's own workflows.
pub(super) async fn list_runs(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<RunsQuery>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let of = |check: &&HostedCheck| {
        !check.status && query.head_sha.as_ref().is_none_or(|sha| *sha == check.commit)
    };
    let runs = repo.checks.iter().filter(of).map(|c| json::workflow_run(&caller.urls, repo, c));
    Ok(page.answer_in(&caller.urls, "workflow_runs", runs.collect()))
}

#[derive(Deserialize)]
pub(super) struct RunPath {
    owner: String,
    repo: String,
    run: u64,
}

pub(super) async fn list_jobs(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<RunPath>,
    page: Paged,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    let run = repo.checks.iter().find(|c| c.id == at.run).ok_or_else(ApiError::not_found)?;
    let job = json::job_json(&caller.urls, repo, run);
    Ok(page.answer_in(&caller.urls, "jobs", vec![job]))
}

/// Newest first, one of each context.
fn list_statuses(urls: &GitHubUrls, repo: &HostedRepository, sha: &str) -> Vec<Value> {
    let mut newest: Vec<&HostedCheck> = Vec::new();
    for check in repo.checks.iter().rev().filter(|c| c.commit == sha && c.status) {
        if newest.iter().all(|known| known.name != check.name) {
            newest.push(check);
        }
    }
    newest.into_iter().map(|check| json::status_json(urls, repo, check)).collect()
}

/// The combined state of all statuses of a commit, and the statuses themselves.
fn combined_status(urls: &GitHubUrls, repo: &HostedRepository, sha: &str) -> (Value, Vec<Value>) {
    let commit = format!("/repos/{}/commits/{sha}", repo.full_name());
    let statuses = list_statuses(urls, repo, sha);
    let any = |state: &str| statuses.iter().any(|status| status["state"] == state);
    let state = match () {
        () if any("failure") || any("error") => "failure",
        // The real host says `pending` where nothing has reported.
        () if statuses.is_empty() || any("pending") => "pending",
        () => "success",
    };
    let whole = json!({
        "state": state, "sha": sha, "repository": json::repository_in_short(urls, repo),
        "commit_url": urls.api(&commit), "url": urls.api(&format!("{commit}/status")),
    });
    (whole, statuses)
}

async fn in_full(urls: &GitHubUrls, repo: &HostedRepository, sha: &str) -> Result<Value, ApiError> {
    let commit = repo.git.log(sha, 1).await?.pop().ok_or_else(ApiError::not_found)?;
    let changes = match commit.parents.first() {
        Some(parent) => repo.git.changes(parent, sha).await?,
        None => Vec::new(),
    };
    let (additions, deletions) =
        changes.iter().fold((0, 0), |(a, d), c| (a + c.additions, d + c.deletions));
    let mut value = json::commit_json(urls, repo, &commit);
    value["stats"] =
        json!({"additions": additions, "deletions": deletions, "total": additions + deletions});
    let files = changes.iter().map(|c| json::change_json(urls, repo, sha, c));
    value["files"] = files.collect::<Vec<_>>().into();
    Ok(value)
}

pub(super) async fn compare_commits(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<CommitTail>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let urls = &caller.urls;
    let (base, head) = path.tail.split_once("...").ok_or_else(ApiError::not_found)?;
    let own = |name: &str| name.rsplit_once(':').map_or(name.to_owned(), |(_, n)| n.to_owned());
    let base = repo.git.commit_id(&own(base)).await.ok_or_else(ApiError::not_found)?;
    let head = repo.git.commit_id(&own(head)).await.ok_or_else(ApiError::not_found)?;
    let merge_base = repo.git.run(&["merge-base", &base, &head]).await;
    let merge_base = merge_base.map_err(|_| ApiError::not_found())?;
    let mut ahead = repo.git.log(&format!("{base}..{head}"), 250).await?;
    ahead.reverse();
    let behind = repo.git.log(&format!("{head}..{base}"), 10_000).await?.len();
    let status = match (ahead.len(), behind) {
        (0, 0) => "identical",
        (_, 0) => "ahead",
        (0, _) => "behind",
        _ => "diverged",
    };
    let changes = repo.git.changes(&merge_base, &head).await?;
    let one = async |sha: &str| -> Result<Value, ApiError> {
        let commit = repo.git.log(sha, 1).await?.pop().ok_or_else(ApiError::not_found)?;
        Ok(json::commit_json(urls, repo, &commit))
    };
    let page = format!("{}/{}/compare/{}", urls.web, repo.full_name(), path.tail);
    let value = json!({
        "url": urls.api(&format!("/repos/{}/compare/{}", repo.full_name(), path.tail)),
        "html_url": page, "permalink_url": page,
        "diff_url": format!("{page}.diff"), "patch_url": format!("{page}.patch"),
        "base_commit": one(&base).await?, "merge_base_commit": one(&merge_base).await?,
        "status": status, "ahead_by": ahead.len(), "behind_by": behind,
        "total_commits": ahead.len(),
        "commits": ahead.iter().map(|c| json::commit_json(urls, repo, c)).collect::<Vec<_>>(),
        "files": changes.iter().map(|c| json::change_json(urls, repo, &head, c)).collect::<Vec<_>>(),
    });
    Ok(Json(value).into_response())
}

#[derive(Deserialize)]
pub(super) struct ContentsQuery {
    #[serde(rename = "ref")]
    at: Option<String>,
}

pub(super) async fn read_contents(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<CommitTail>,
    Query(query): Query<ContentsQuery>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let at = query.at.unwrap_or_else(|| repo.default_branch.clone());
    let missing = |_| ApiError::not_found();
    let spec = format!("{at}:{}", path.tail);
    let kind = repo.git.run(&["cat-file", "-t", &spec]).await.map_err(missing)?;
    if kind.trim() == "tree" {
        return list_folder(&caller.urls, repo, &at, &path.tail).await;
    }
    let content = repo.git.show(&at, &path.tail).await.map_err(missing)?;
    let sha = repo.git.run(&["rev-parse", &spec]).await.map_err(missing)?;
    let mut value = entry_json(&caller.urls, repo, ("file", sha.trim()), &path.tail);
    value["size"] = content.len().into();
    value["encoding"] = "base64".into();
    value["content"] = base64::engine::general_purpose::STANDARD.encode(content).into();
    Ok(Json(value).into_response())
}

#[derive(Deserialize)]
pub(super) struct WriteContents {
    message: String,
    content: String,
    branch: Option<String>,
    sha: Option<String>,
}

/// Commits one file on top of a branch, if it is the one that the client knows.
pub(super) async fn write_contents(
    State(shared): Host,
    caller: Caller,
    Path(path): Path<CommitTail>,
    body: Result<Json<WriteContents>, JsonRejection>,
) -> Answer {
    let Json(body) = body?;
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &path.owner, &path.repo)?;
    let branch = body.branch.unwrap_or_else(|| repo.default_branch.clone());
    let no_branch = || ApiError::new(StatusCode::NOT_FOUND, format!("Branch {branch} not found"));
    let tip = repo.git.branch(&branch).await.ok_or_else(no_branch)?;
    let content = base64::engine::general_purpose::STANDARD.decode(body.content.replace('\n', ""));
    let content = content.map_err(|_| ApiError::unprocessable("content is not valid Base64"))?;
    let known =
        repo.git.run(&["rev-parse", "--verify", &format!("{tip}:{}", path.tail)]).await.ok();
    match (known.as_deref().map(str::trim), body.sha.as_deref()) {
        (Some(_), None) => {
            let message = "Invalid request.\n\n\"sha\" wasn't supplied.";
            return Err(ApiError::unprocessable(message));
        }
        (Some(known), Some(sha)) if known != sha => {
            let message = format!("{} does not match {sha}", path.tail);
            return Err(ApiError::new(StatusCode::CONFLICT, message));
        }
        _ => {}
    }
    let created = known.is_none();
    let files = BTreeMap::from([(path.tail.clone(), Some(content))]);
    let tree = repo.git.tree_with(Some(&tip), &files).await?;
    let who = GitSignature::of(&caller.login);
    let commit = repo.git.commit_tree(&tree, &[&tip], &body.message, &who, &who).await?;
    let commit = commit.trim();
    let name = format!("refs/heads/{branch}");
    repo.git.update_ref(&name, commit, &tip).await?;
    repo.refresh().await?;
    let blob = repo.git.run(&["rev-parse", &format!("{commit}:{}", path.tail)]).await?;
    let entry = entry_json(&caller.urls, repo, ("file", blob.trim()), &path.tail);
    let made = repo.git.log(commit, 1).await?;
    let made = made.first().map(|made| json::commit_json(&caller.urls, repo, made));
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(json!({"content": entry, "commit": made}))).into_response())
}

/// Lists the top folder of a commit. A repository without commits has no contents.
pub(super) async fn read_top(
    State(shared): Host,
    caller: Caller,
    Path(name): Path<Name>,
    Query(query): Query<ContentsQuery>,
) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &name.owner, &name.repo)?;
    let at = query.at.unwrap_or_else(|| repo.default_branch.clone());
    repo.git.commit_id(&at).await.ok_or_else(ApiError::not_found)?;
    list_folder(&caller.urls, repo, &at, "").await
}

/// Lists the entries of a folder, without their contents.
async fn list_folder(urls: &GitHubUrls, repo: &HostedRepository, at: &str, folder: &str) -> Answer {
    let spec = format!("{at}:{folder}");
    let listed = repo.git.run(&["ls-tree", "-l", &spec]).await?;
    let entries = listed.lines().filter_map(|line| {
        let (facts, name) = line.split_once('\t')?;
        let facts: Vec<&str> = facts.split_whitespace().collect();
        let [mode, _, sha, size] = facts[..] else { return None };
        let kind = match mode {
            "040000" => "dir",
            "120000" => "symlink",
            "160000" => "submodule",
            _ => "file",
        };
        let path = format!("{folder}/{name}");
        let mut entry = entry_json(urls, repo, (kind, sha), path.trim_start_matches('/'));
        entry["size"] = size.parse::<u64>().unwrap_or_default().into();
        Some(entry)
    });
    Ok(Json(entries.collect::<Vec<_>>()).into_response())
}

fn entry_json(
    urls: &GitHubUrls,
    repo: &HostedRepository,
    (kind, sha): (&str, &str),
    path: &str,
) -> Value {
    let url = urls.api(&format!("/repos/{}/contents/{path}", repo.full_name()));
    let name = path.rsplit('/').next().unwrap_or_default();
    json!({
        "type": kind, "size": 0, "name": name, "path": path, "sha": sha, "url": url,
        "git_url": null, "html_url": null, "download_url": null,
        "_links": {"self": url, "git": null, "html": null},
    })
}
