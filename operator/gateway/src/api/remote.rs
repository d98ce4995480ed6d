//! `/v1/pull-request/comments`, `/v1/pull-request/reviews` and `/v1/issues`: what roles say on their
//! thread's own pull request, and what they read of the repository's issues. No request names a
//! pull request: it is found by the thread's branch.

use axum::extract::State;
use codebutler_crds::names;
use codebutler_crds::wire::{
    ErrorCode, LineComment, LineRef, PostComment, PostReview, PostedComment, RepoIssue, ReviewEvent,
};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, QueryParams, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull, RemarkKey, text};
use codebutler_gateway_core::redact::SecretRedactor;
use kube::ResourceExt as _;
use serde::{Deserialize, Serialize};

use super::conversation::check_key;
use crate::state::SharedGateway;

/// GitHub's own limit is 65,536 characters.
const MAX_BODY: usize = 60_000;
const MAX_PATH: usize = 500;
/// Maximum number of remarks on lines in one review.
const MAX_REMARKS: usize = 50;
const MAX_LABEL: usize = 100;

/// Comments on the pull request, or on a line of it.
pub(super) async fn post_comment(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<PostComment>,
) -> Result<axum::Json<PostedComment>, ApiError> {
    needs_tool(&caller, &["GHComment"])?;
    check_key(&wanted.key)?;
    if let Some(at) = &wanted.at {
        check_place(at)?;
    }
    let body = mask_written(&*gateway.git.outcomes.redactor(&caller).await?, &wanted.body)?;
    if body.is_empty() {
        return Err(invalid_request("`body` is empty: say something"));
    }
    let key = effect_key(&caller, "comment", &wanted.key);
    let _turn = gateway.work.context.github.turn(&caller.key()).await;
    let made = async {
        let (github, pull) = own_pull(&gateway, &caller).await?;
        github.comment(&pull, &key, &body, wanted.at.as_ref()).await
    };
    gateway.git.outcomes.note(&caller, made.await).await.map(axum::Json)
}

/// Reviews the pull request.
pub(super) async fn post_review(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<PostReview>,
) -> Result<axum::Json<PostedComment>, ApiError> {
    needs_tool(&caller, &["GHReview"])?;
    check_key(&wanted.key)?;
    if wanted.comments.len() > MAX_REMARKS {
        return Err(invalid_request(
            "too many remarks on lines: 50 at most, the most important ones",
        ));
    }
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let body = mask_written(&redactor, &wanted.body)?;
    if body.is_empty() && (wanted.comments.is_empty() || wanted.verdict != ReviewEvent::Comment) {
        return Err(invalid_request("`body` is empty: say what you conclude"));
    }
    let remark = |remark: &LineComment| {
        check_place(&remark.at)?;
        let body = mask_written(&redactor, &remark.body)?;
        Ok(LineComment { at: remark.at.clone(), body })
    };
    let remarks = wanted.comments.iter().map(remark).collect::<Result<Vec<_>, ApiError>>()?;
    let key = effect_key(&caller, "review", &wanted.key);
    let _turn = gateway.work.context.github.turn(&caller.key()).await;
    let made = async {
        let (github, pull) = own_pull(&gateway, &caller).await?;
        github.review(&pull, &key, wanted.verdict, &body, &remarks).await
    };
    gateway.git.outcomes.note(&caller, made.await).await.map(axum::Json)
}

/// The query of `/v1/issues`.
#[derive(Deserialize)]
pub(super) struct WantedIssues {
    number: Option<u64>,
    label: Option<String>,
}

/// Answer to [`read_issues`]: one issue, or the newest ones.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum IssuesQuery {
    /// The issue that was asked for by number.
    One(Box<RepoIssue>),
    Newest(Vec<RepoIssue>),
}

/// Reads one issue by number, or lists the newest ones.
pub(super) async fn read_issues(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    QueryParams(wanted): QueryParams<WantedIssues>,
) -> Result<axum::Json<IssuesQuery>, ApiError> {
    needs_tool(&caller, &["GHIssues"])?;
    if wanted.label.as_ref().is_some_and(|label| label.len() > MAX_LABEL) {
        return Err(invalid_request("`label` is too long"));
    }
    let read = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        Ok(match wanted.number {
            Some(number) => IssuesQuery::One(Box::new(github.issue(number).await?)),
            None => IssuesQuery::Newest(github.issues(wanted.label.as_deref()).await?),
        })
    };
    gateway.git.outcomes.note(&caller, read.await).await.map(axum::Json)
}

async fn own_pull(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
) -> Result<(GitHub, GitHubPull), GitHubError> {
    let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
    let branch = names::branch_name(&caller.thread.name_any());
    let pull = github.find_pull(&branch).await?.ok_or(GitHubError::NoPull)?;
    Ok((github, pull))
}

/// Key of one effect of one role in one Thread: a later Thread of the same name has other keys.
fn effect_key(caller: &ProvenCaller, kind: &str, key: &str) -> RemarkKey {
    let (thread, uid) = (caller.key(), caller.thread.uid().unwrap_or_default());
    RemarkKey::of(&[&thread.namespace, &thread.name, &uid, caller.role_name(), kind, key])
}

/// A model's text as it may leave.
fn mask_written(redactor: &SecretRedactor, body: &str) -> Result<String, ApiError> {
    if body.len() > MAX_BODY {
        return Err(invalid_request("`body` is too long: write less than 60,000 characters"));
    }
    Ok(text::outgoing_text(&redactor.mask(body)))
}

fn check_place(at: &LineRef) -> Result<(), ApiError> {
    if !at.is_plain() || at.path.len() > MAX_PATH {
        return Err(invalid_request(
            "a remark on a line needs a file's path and a line, counted from 1, and `first` is not behind it",
        ));
    }
    Ok(())
}

fn invalid_request(message: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidRequest, message)
}
