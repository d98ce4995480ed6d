//! Merging a pull request, with real commits.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Caller, Host, Numbered, find, find_pull};
use crate::github::error::ApiError;
use crate::github::git::{GitError, Signature};
use crate::github::state::{Merged, Pull, Repository};

#[derive(Default, Deserialize)]
pub(super) struct MergeBody {
    commit_title: Option<String>,
    commit_message: Option<String>,
    sha: Option<String>,
    merge_method: Option<String>,
}

pub(super) async fn merge(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Option<Json<MergeBody>>, JsonRejection>,
) -> Answer {
    let body = body?.map(|Json(body)| body).unwrap_or_default();
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    let pull = find_pull(repo, at.number)?.clone();
    let refuse = |message: &str| ApiError::new(StatusCode::METHOD_NOT_ALLOWED, message);
    if pull.draft {
        return Err(refuse("Pull Request is still a draft"));
    }
    if !pull.open {
        return Err(refuse("Pull Request is not mergeable"));
    }
    if body.sha.as_ref().is_some_and(|sha| *sha != pull.head_sha) {
        let message = "Head branch was modified. Review and try the merge again.";
        return Err(ApiError::new(StatusCode::CONFLICT, message));
    }
    let squash = match body.merge_method.as_deref() {
        None | Some("merge") => false,
        Some("squash") => true,
        Some("rebase") => {
            return Err(refuse("Rebase merges are not allowed on this repository."));
        }
        Some(_) => return Err(ApiError::field("PullRequest", "merge_method", "invalid")),
    };
    if repo.git.merge_tree(&pull.base_sha, &pull.head_sha).await.is_none() {
        return Err(refuse("Pull Request is not mergeable"));
    }
    let message = message(repo, &pull, squash, body).await?;
    let sha = commit(repo, &pull, squash, &message, &caller.login)
        .await
        .map_err(|_| refuse("Base branch was modified. Review and try the merge again."))?;
    record(find_pull(repo, at.number)?, &sha, &caller.login);
    let value = json!({"sha": sha, "merged": true, "message": "Pull Request successfully merged"});
    Ok(Json(value).into_response())
}

/// Makes the commit on the base branch.
pub(in crate::github) async fn commit(
    repo: &Repository,
    pull: &Pull,
    squash: bool,
    message: &str,
    login: &str,
) -> Result<String, GitError> {
    let tree = repo.git.merge_tree(&pull.base_sha, &pull.head_sha).await;
    let conflict = || GitError::Failed { command: "merge-tree".into(), stderr: "conflict".into() };
    let tree = tree.ok_or_else(conflict)?;
    let parents: &[&str] =
        if squash { &[&pull.base_sha] } else { &[&pull.base_sha, &pull.head_sha] };
    let author = Signature::of(login);
    let host =
        Signature { name: "GitHub".to_owned(), email: "noreply@github.com".to_owned(), date: None };
    let sha = repo.git.commit_tree(&tree, parents, message, &author, &host).await?;
    let base = format!("refs/heads/{}", pull.base);
    repo.git.update_ref(&base, &sha, &pull.base_sha).await?;
    Ok(sha)
}

/// Takes note of a merge.
pub(in crate::github) fn record(pull: &mut Pull, sha: &str, login: &str) {
    let now = Timestamp::now();
    pull.merged = Some(Merged { sha: sha.to_owned(), at: now, by: login.to_owned() });
    pull.close(now);
}

async fn message(
    repo: &Repository,
    pull: &Pull,
    squash: bool,
    body: MergeBody,
) -> Result<String, GitError> {
    let (title, text) = if squash {
        let commits = repo.git.log(&format!("{}..{}", pull.base_sha, pull.head_sha), 250).await?;
        let text = match commits.as_slice() {
            [only] => only.message.split_once("\n\n").map_or("", |(_, rest)| rest).to_owned(),
            many => {
                let items = many.iter().rev().map(|c| format!("* {}", c.message));
                items.collect::<Vec<_>>().join("\n\n")
            }
        };
        (format!("{} (#{})", pull.title, pull.number), text)
    } else {
        let from = format!("{}/{}", repo.owner, pull.head);
        (format!("Merge pull request #{} from {from}", pull.number), pull.title.clone())
    };
    let title = body.commit_title.unwrap_or(title);
    let text = body.commit_message.unwrap_or(text);
    Ok(format!("{title}\n\n{text}").trim_end().to_owned() + "\n")
}

pub(super) async fn is_merged(State(shared): Host, _: Caller, Path(at): Path<Numbered>) -> Answer {
    let mut all = shared.repositories.lock().await;
    let repo = find(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    match find_pull(repo, at.number)?.merged {
        Some(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        None => Err(ApiError::not_found()),
    }
}
