//! `/v1/pull-request`: the thread's one pull request, found by its branch.

use axum::extract::State;
use codebutler_crds::names;
use codebutler_crds::policy::GuardedEffects;
use codebutler_crds::thread::PullRequest;
use codebutler_crds::wire::{ErrorCode, OpenPullRequest, PullRequestState};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::consent::{ConsentStanding, GuardedEffect};
use codebutler_gateway_core::extract::{JsonBody, OpenCaller, needs_tool};
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull, text};
use codebutler_gateway_core::threads::explain_unwritten;
use kube::ResourceExt as _;

use crate::compared::write_section;
use crate::described::{PullWords, compose_pull};
use crate::origin;
use crate::receipt_report;
use crate::roadmap::{find_mark, stack};
use crate::state::SharedGateway;
use crate::watch::checks::tell_checks;

const MAX_TITLE: usize = 256;
/// GitHub's own limit is 65,536 characters.
const MAX_BODY: usize = 60_000;

/// Returns the state of the pull request.
pub(super) async fn read_state(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
) -> Result<axum::Json<PullRequestState>, ApiError> {
    needs_tool(&caller, &["GHStatus", "GHCreatePR"])?;
    let branch = names::branch_name(&caller.thread.name_any());
    let found = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let pull = github.find_pull(&branch).await?.ok_or(GitHubError::NoPull)?;
        let state = Box::pin(github.state(pull.clone())).await?;
        Ok((pull, state))
    };
    let (pull, state) = gateway.git.outcomes.note(&caller, Box::pin(found).await).await?;
    record_pull(&gateway, &caller, &pull).await?;
    tell_checks(&gateway.work, &caller.repo, &caller.thread, (pull.head(), &state.checks)).await;
    Ok(axum::Json(state))
}

/// Opens the pull request, or updates it.
pub(super) async fn open_pull(
    State(gateway): State<SharedGateway>,
    OpenCaller(caller): OpenCaller,
    JsonBody(wanted): JsonBody<OpenPullRequest>,
) -> Result<axum::Json<PullRequestState>, ApiError> {
    // The other tools propose things that people accept, and accepted ones have to be merged, too.
    needs_tool(
        &caller,
        &["GHCreatePR", "ProposeLearnings", "ProposeMaps", "ProposeItems", "GHOpenIssues"],
    )?;
    let title = check_title(&wanted)?;
    let redactor = gateway.git.outcomes.redactor(&caller).await?;
    let title = text::outgoing_text(&redactor.mask(&title));
    let title: String = title.chars().take(MAX_TITLE).collect();
    let body = text::outgoing_text(&redactor.mask(&wanted.body));
    if approval::lacks_approved_plan(&gateway.work.context, &caller).await? {
        let message = "a user has to approve the plan before a pull request is opened";
        return Err(ApiError::new(ErrorCode::NeedsApproval, message));
    }
    let branch = names::branch_name(&caller.thread.name_any());
    let is_guarded = is_guarded(&gateway, &caller);
    let asked = async {
        let github = GitHub::of(&gateway.work.context, &caller.repo).await?;
        let base = stack::base_branch(&gateway.work, &github, &caller.repo, &caller.thread).await?;
        let head = github.tip(&branch).await?;
        let pull = if is_guarded { github.find_pull(&branch).await? } else { None };
        let commit = head.as_ref().map(|head| head.commit.as_str());
        let mark = find_mark(&github, &caller.thread, commit).await?;
        Ok((github, base, head, pull, mark))
    };
    let (github, base, head, pull, mut mark) =
        gateway.git.outcomes.note(&caller, asked.await).await?;
    if let Some(missing) = mark.missing.take() {
        return Err(missing);
    }
    let body = mark.inscribe(body);
    let mut standing = ConsentStanding::Unasked;
    if is_guarded && !pull.as_ref().is_some_and(GitHubPull::is_open) {
        let commit = head.as_ref().map_or("", |head| head.commit.as_str());
        let last = pull.map_or(0, |pull| pull.number).to_string();
        let short: String = commit.chars().take(10).collect();
        let effect = GuardedEffect {
            kind: GuardedEffects::PullRequest,
            is_required: true,
            summary: format!("Open a pull request of `{branch}` at `{short}` against `{base}`"),
            detail: format!("{title}\n\n{body}"),
            exactly: &[&base, &branch, commit, &title, &body, &last],
        };
        standing = Box::pin(gateway.work.consent.require(&caller, &effect)).await?;
    }
    let verdict =
        receipt_report::weigh_proof(&gateway.work, &caller, head.as_ref(), wanted.proof.as_ref())
            .await?;
    let thread = approval::fresh_thread(&gateway.work.context, &caller).await?;
    let origin = origin::describe_origin(&gateway.work, &caller.repo, &thread).await;
    let receipt = verdict.section(&origin);
    let pictures = thread.status.as_ref().and_then(|status| status.pictures.as_deref());
    let pictures = write_section(github.remote(), pictures);
    let words = PullWords { title: &title, body: &body, receipt: &receipt, pictures: &pictures };
    let mut kept = Vec::new();
    let write = |open: Option<&GitHubPull>| {
        let composed = compose_pull(&words, open);
        kept = composed.kept;
        composed.text
    };
    let opened = github.open_pull(&branch, &base, write).await;
    let (pull, created) = gateway.git.outcomes.note(&caller, opened).await?;
    record_pull(&gateway, &caller, &pull).await?;
    tell_thread(&gateway, &caller, &pull).await;
    gateway.work.consent.spend(&caller, &standing).await;
    Ok(axum::Json(PullRequestState { kept, ..pull.into_state(created) }))
}

/// Links the pull request in the thread, once, whatever the role says of it.
async fn tell_thread(gateway: &SharedGateway, caller: &ProvenCaller, pull: &GitHubPull) {
    let GitHubPull { number, html_url, .. } = pull;
    let (key, text) =
        (format!("pull-request:{number}"), format!("Pull request: [#{number}]({html_url})"));
    if let Err(error) = gateway.work.slack.notice(&caller.key(), &key, &text).await {
        tracing::warn!(%error, notice = "pull_request_opened", "notice_post_failed");
    }
}

/// True if each pull request needs a person's yes, by the Repo or the repository's policy.
fn is_guarded(gateway: &SharedGateway, caller: &ProvenCaller) -> bool {
    let repo = &caller.repo;
    repo.spec.policy.require_approval.contains(&GuardedEffects::PullRequest)
        || gateway.work.context.redactors.approvals(repo).guards_pull(&repo.spec.git.branch)
}

/// Validates the title: one line that is not empty.
fn check_title(wanted: &OpenPullRequest) -> Result<String, ApiError> {
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

async fn record_pull(
    gateway: &SharedGateway,
    caller: &ProvenCaller,
    pull: &GitHubPull,
) -> Result<(), ApiError> {
    let known = caller.thread.status.as_ref().and_then(|status| status.pull_request.as_deref());
    let merge_commit = pull.is_merged().then(|| pull.merge_commit_sha.clone()).flatten();
    let now = PullRequest {
        merge_commit,
        state: Some(pull.standing()),
        seen: known.and_then(|known| known.seen.clone()),
        updated: known.and_then(|known| known.updated.clone()),
        ..pull.record()
    };
    if known == Some(&now) {
        return Ok(());
    }
    let written = gateway.work.threads.set_pull_request(&caller.key(), &now).await;
    written.map_err(|error| explain_unwritten(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_becomes_one_line() {
        let title = |text: &str| {
            check_title(&OpenPullRequest { title: text.into(), ..OpenPullRequest::default() })
        };
        assert_eq!(title(" Fix\nthe  total ").unwrap(), "Fix the total");
        assert!(title(" \n ").is_err());
        assert!(title(&"x".repeat(MAX_TITLE + 1)).is_err());
    }
}
