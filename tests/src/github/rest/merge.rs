//! Merging a pull request, with real commits.

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::{Answer, Caller, Host, Numbered, find_pull, find_repository};
use crate::github::error::ApiError;
use crate::github::git::{GitError, GitSignature};
use crate::github::state::{HostedPull, HostedRepository, MergedPull};
use crate::github::workflows::brings_workflow;

#[derive(Default, Deserialize)]
pub(super) struct MergeBody {
    commit_title: Option<String>,
    commit_message: Option<String>,
    sha: Option<String>,
    merge_method: Option<String>,
}

pub(super) async fn merge_pull(
    State(shared): Host,
    caller: Caller,
    Path(at): Path<Numbered>,
    body: Result<Option<Json<MergeBody>>, JsonRejection>,
) -> Answer {
    let body = body?.map(|Json(body)| body).unwrap_or_default();
    let mut all = shared.repositories.lock().await;
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
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
    let rules = repo.rules.clone();
    let method = body.merge_method.as_deref().unwrap_or("merge");
    let (kind, allowed) = match method {
        "merge" => ("Merge commits", rules.merge),
        "squash" => ("Squash merges", rules.squash),
        "rebase" => ("Rebase merges", rules.rebase),
        _ => return Err(ApiError::field("PullRequest", "merge_method", "invalid")),
    };
    if !allowed {
        return Err(refuse(&format!("{kind} are not allowed on this repository.")));
    }
    let violated = |rule: &str| refuse(&format!("Repository rule violations found\n\n{rule}\n\n"));
    if rules.merge_queue {
        return Err(violated("Changes must be made through the merge queue"));
    }
    if rules.linear && method == "merge" {
        return Err(violated("This branch must not contain merge commits."));
    }
    if let Some(unmet) = repo.unmet(&pull) {
        return Err(violated(&unmet));
    }
    if rules.base_moves > 0 {
        repo.rules.base_moves -= 1;
        return Err(refuse("Base branch was modified. Review and try the merge again."));
    }
    let squash = method == "squash";
    let Some(tree) = repo.git.merge_tree(&pull.base_sha, &pull.head_sha).await else {
        return Err(refuse("Pull Request is not mergeable"));
    };
    if !caller.changes_workflows && brings_workflow(&repo.git, &pull.base_sha, &tree).await? {
        let message = "Resource not accessible by integration";
        return Err(ApiError::new(StatusCode::FORBIDDEN, message));
    }
    let sha = if method == "rebase" {
        rebase_commits(repo, &pull).await
    } else {
        let message = merge_message(repo, &pull, squash, body).await?;
        make_commit(repo, &pull, squash, &message, &caller.login).await
    };
    let sha =
        sha.map_err(|_| refuse("Base branch was modified. Review and try the merge again."))?;
    record_merge(repo, &pull, &sha, &caller.login);
    let value = json!({"sha": sha, "merged": true, "message": "Pull Request successfully merged"});
    Ok(Json(value).into_response())
}

/// Makes the commit on the base branch.
pub(in crate::github) async fn make_commit(
    repo: &HostedRepository,
    pull: &HostedPull,
    squash: bool,
    message: &str,
    login: &str,
) -> Result<String, GitError> {
    let tree = repo.git.merge_tree(&pull.base_sha, &pull.head_sha).await;
    let conflict = || GitError::Failed { command: "merge-tree".into(), stderr: "conflict".into() };
    let tree = tree.ok_or_else(conflict)?;
    let parents: &[&str] =
        if squash { &[&pull.base_sha] } else { &[&pull.base_sha, &pull.head_sha] };
    let author = GitSignature::of(login);
    let host = GitSignature {
        name: "GitHub".to_owned(),
        email: "noreply@github.com".to_owned(),
        date: None,
    };
    let sha = repo.git.commit_tree(&tree, parents, message, &author, &host).await?;
    let base = format!("refs/heads/{}", pull.base);
    repo.git.update_ref(&base, &sha, &pull.base_sha).await?;
    Ok(sha)
}

/// The branch's commits, made anew on top of the base branch.
async fn rebase_commits(repo: &HostedRepository, pull: &HostedPull) -> Result<String, GitError> {
    let mut top = pull.base_sha.clone();
    let commits = repo.git.log(&format!("{}..{}", pull.base_sha, pull.head_sha), 250).await?;
    for commit in commits.into_iter().rev() {
        let from = format!("--merge-base={}", commit.parents.first().unwrap_or(&top));
        let tree = repo.git.run(&["merge-tree", "--write-tree", &from, &top, &commit.sha]).await?;
        let tree = tree.lines().next().unwrap_or_default().to_owned();
        let (name, email, date) = commit.author;
        let author = GitSignature { name, email, date: Some(date) };
        top = repo.git.commit_tree(&tree, &[&top], &commit.message, &author, &author).await?;
    }
    repo.git.update_ref(&format!("refs/heads/{}", pull.base), &top, &pull.base_sha).await?;
    Ok(top)
}

/// Words by which a description closes issues, where it is merged into the default branch.
const CLOSING: [&str; 9] =
    ["close", "closes", "closed", "fix", "fixes", "fixed", "resolve", "resolves", "resolved"];

/// The issues that a description closes.
fn closed_by(body: &str) -> Vec<u64> {
    let words: Vec<&str> = body.split_whitespace().collect();
    let number = |word: &str| -> Option<u64> {
        word.strip_prefix('#')?.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().ok()
    };
    let closes = |word: &str| {
        let word = word.trim_end_matches(':').to_ascii_lowercase();
        CLOSING.contains(&word.as_str())
    };
    let pairs = words.windows(2).filter(|pair| closes(pair[0]));
    pairs.filter_map(|pair| number(pair[1])).collect()
}

/// Records a merge, and closes the issues that the description names if it goes to the default branch.
pub(in crate::github) fn record_merge(
    repo: &mut HostedRepository,
    taken: &HostedPull,
    sha: &str,
    login: &str,
) {
    let now = Timestamp::now();
    if let Some(pull) = repo.pulls.get_mut(&taken.number) {
        pull.merged = Some(MergedPull { sha: sha.to_owned(), at: now, by: login.to_owned() });
        pull.close(now);
    }
    if taken.base != repo.default_branch {
        return;
    }
    let body = taken.body.as_deref().unwrap_or_default();
    for number in closed_by(body) {
        if let Some(issue) = repo.issues.get_mut(&number) {
            issue.open = false;
        }
    }
}

async fn merge_message(
    repo: &HostedRepository,
    pull: &HostedPull,
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
    let repo = find_repository(&mut all, &at.owner, &at.repo)?;
    repo.refresh().await?;
    match find_pull(repo, at.number)?.merged {
        Some(_) => Ok(StatusCode::NO_CONTENT.into_response()),
        None => Err(ApiError::not_found()),
    }
}
