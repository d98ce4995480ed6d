//! A merge whose turn has come in a merge train, and one that was left out of it.

use std::sync::Arc;

use codebutler_crds::thread::{MergeWait, ThreadState};
use codebutler_crds::wire::ErrorCode;
use codebutler_crds::{Repo, ThreadStatus};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;

use super::{LastWords, MergeProgress, ThreadEnding, commit, merge_commit};
use crate::work::WorkServices;

/// Outcome of an attempt to merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeTurn {
    /// The commit on the base branch; its Thread is closed.
    Merged(String),
    /// GitHub's merge queue has it.
    Queued,
    /// The merge was refused, for this reason.
    Refused(String),
}

/// Merges a Thread's pull request as people decided, and ends the Thread.
///
/// # Errors
/// When something can't be asked: it is found again later.
pub(crate) async fn merge_in_turn(
    gateway: &WorkServices,
    repo: &Arc<Repo>,
    github: &GitHub,
    key: &ThreadKey,
    pull: &GitHubPull,
) -> Result<MergeTurn, ApiError> {
    gateway.ledger.flush(key).await;
    let thread = gateway.threads.read(key).await.map_err(|error| explain_unwritten(&error))?;
    let status = thread.status.clone().unwrap_or_default();
    if thread.spec.state == ThreadState::Closed {
        let known = status.pull_request.and_then(|pull| pull.merge_commit);
        return Ok(known.map_or_else(|| refuse_turn("its thread was closed"), MergeTurn::Merged));
    }
    let ending = ThreadEnding { gateway, repo, thread: &thread, github };
    if let Some(commit) = merge_commit(pull)? {
        ending.merged(pull, &commit).await?;
        return Ok(MergeTurn::Merged(commit));
    }
    let Some(closing) = status.closing.filter(|closing| closing.choice.is_some()) else {
        return Ok(refuse_turn("nobody has decided any more that it is merged"));
    };
    let summary = commit::summary_in(pull.body.as_deref().unwrap_or_default());
    let last = LastWords { summary, work: commit::work_of(pull) };
    match ending.merge(&closing, pull, &last).await {
        Ok(MergeProgress::Done(commit)) => {
            ending.merged(pull, &commit).await?;
            Ok(MergeTurn::Merged(commit))
        }
        Ok(MergeProgress::Waits(MergeWait::Queue, said)) => {
            ending.put_off(&closing, pull, MergeWait::Queue, &said).await?;
            Ok(MergeTurn::Queued)
        }
        Ok(MergeProgress::Waits(MergeWait::Depends, what)) => {
            Ok(refuse_turn(&format!("it {what}")))
        }
        Ok(MergeProgress::Waits(_, said)) => {
            Ok(refuse_turn(&format!("GitHub does not merge it now. It says: “{said}”")))
        }
        Err(error) if error.code == ErrorCode::Unavailable => Err(error),
        Err(error) => Ok(MergeTurn::Refused(error.message)),
    }
}

fn refuse_turn(why: &str) -> MergeTurn {
    MergeTurn::Refused(why.to_owned())
}

/// A pull request does not wait for its turn any more: the decision is void, and the role that asked for it
/// hears why. The branch stays as it is.
///
/// # Errors
/// When Slack or the API server can't be asked: it is told once, however often it is begun.
pub(crate) async fn let_go(
    gateway: &WorkServices,
    key: &ThreadKey,
    why: &str,
) -> Result<(), ApiError> {
    let thread = match gateway.threads.read(key).await {
        Ok(thread) => thread,
        Err(codebutler_gateway_core::threads::WriteError::Missing(_)) => return Ok(()),
        Err(error) => return Err(explain_unwritten(&error)),
    };
    let status = thread.status.clone().unwrap_or_default();
    let waits = |status: &ThreadStatus| {
        let closing = status.closing.clone();
        closing.filter(|closing| closing.waits == Some(MergeWait::Train))
    };
    let Some(closing) = waits(&status).filter(|_| thread.spec.state == ThreadState::Active) else {
        return Ok(());
    };
    let number = status.pull_request.map(|pull| format!(" #{}", pull.number)).unwrap_or_default();
    let text = format!(
        "Pull request{number} was left out of the merge train: {why}. Nothing of it was merged, and its branch is as it \
         was. Once that is fixed, ask again whether it is to be merged."
    );
    let id = format!("merge-train-{}", closing.ts);
    gateway.slack.remark(key, &id, &text, &closing.role).await?;
    let end = |status: &mut ThreadStatus| {
        if waits(status).is_some_and(|known| known.ts == closing.ts) {
            status.closing = None;
        }
    };
    gateway.threads.update(key, end).await.map(drop).map_err(|error| explain_unwritten(&error))
}
