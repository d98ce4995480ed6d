//! `/v1/pull-request`: the thread's one pull request, found by its branch.

use axum::extract::State;
use codebutler_crds::names;
use codebutler_crds::thread::PullRequest;
use codebutler_crds::wire::{ErrorCode, OpenPullRequest, PullRequestState};
use kube::ResourceExt as _;

use super::session::note;
use super::{Json, Open, Shared, needs_tool, unwritten};
use crate::gateway::approval;
use crate::gateway::context::{ApiError, Caller};
use crate::gateway::github::{GitHub, Pull};

const MAX_TITLE: usize = 256;
/// GitHub's own limit is 65,536 characters.
const MAX_BODY: usize = 60_000;

/// Says how the pull request stands.
pub async fn state(
    State(gateway): State<Shared>,
    Open(caller): Open,
) -> Result<axum::Json<PullRequestState>, ApiError> {
    needs_tool(&caller, &["GHStatus", "GHCreatePR"])?;
    let branch = names::branch(&caller.thread.name_any());
    let found =
        async { GitHub::of(&gateway.context, &caller.repo).await?.find_pull(&branch).await };
    let pull = note(&gateway, &caller, found.await).await?.ok_or_else(|| {
        ApiError::new(ErrorCode::InvalidRequest, "this thread has no pull request yet")
    })?;
    record(&gateway, &caller, &pull).await?;
    Ok(axum::Json(pull.into_state(false)))
}

/// Opens the pull request, or updates it.
pub async fn open(
    State(gateway): State<Shared>,
    Open(caller): Open,
    Json(wanted): Json<OpenPullRequest>,
) -> Result<axum::Json<PullRequestState>, ApiError> {
    needs_tool(&caller, &["GHCreatePR"])?;
    let title = check(&wanted)?;
    let redactor = gateway.context.redactors.of(&caller.repo);
    let (title, body) = (redactor.mask(&title), redactor.mask(&wanted.body));
    if approval::lacks_approved_plan(&gateway, &caller).await? {
        let message = "a user has to approve the plan before a pull request is opened";
        return Err(ApiError::new(ErrorCode::NeedsApproval, message));
    }
    let branch = names::branch(&caller.thread.name_any());
    let opened = async {
        let github = GitHub::of(&gateway.context, &caller.repo).await?;
        let base = &caller.repo.spec.git.branch;
        github.open_pull(&branch, base, &title, &body).await
    };
    let (pull, created) = note(&gateway, &caller, opened.await).await?;
    record(&gateway, &caller, &pull).await?;
    Ok(axum::Json(pull.into_state(created)))
}

/// The title as one line.
fn check(wanted: &OpenPullRequest) -> Result<String, ApiError> {
    let invalid = |message: &str| Err(ApiError::new(ErrorCode::InvalidRequest, message));
    let title = wanted.title.split_whitespace().collect::<Vec<_>>().join(" ");
    if title.is_empty() || title.len() > MAX_TITLE {
        return invalid("`title` has to be one line of 1 to 256 characters");
    }
    if wanted.body.len() > MAX_BODY {
        return invalid("`body` is too long: write less than 60,000 characters");
    }
    Ok(title)
}

async fn record(gateway: &Shared, caller: &Caller, pull: &Pull) -> Result<(), ApiError> {
    let known = caller.thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    let merge_commit = pull.is_merged().then(|| pull.merge_commit_sha.clone()).flatten();
    let now = PullRequest {
        number: pull.number,
        url: pull.html_url.clone(),
        merge_commit,
        state: Some(pull.standing()),
        seen: known.and_then(|known| known.seen.clone()),
    };
    if known == Some(&now) {
        return Ok(());
    }
    let written = gateway.threads.set_pull_request(&caller.key(), &now).await;
    written.map_err(|error| unwritten(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_one_line() {
        let title =
            |text: &str| check(&OpenPullRequest { title: text.into(), body: String::new() });
        assert_eq!(title(" Fix\nthe  total ").unwrap(), "Fix the total");
        assert!(title(" \n ").is_err());
        assert!(title(&"x".repeat(MAX_TITLE + 1)).is_err());
    }
}
