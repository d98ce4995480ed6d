//! A pull request that a person merged at GitHub: the thread ends with it.

use codebutler_crds::thread::{PullRequest, PullState};
use codebutler_crds::{Thread, ThreadStatus, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubPull};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use codebutler_git::end_pictures;
use codebutler_slack::usage;

use crate::close::{REPORT, tell_kept, write_report};
use crate::overlap;
use crate::work::WorkServices;

/// Ends the Thread of a pull request that a person merged, as if that had been decided in the conversation.
pub(super) async fn close_merged(
    gateway: &WorkServices,
    github: &GitHub,
    thread: &Thread,
    pull: &GitHubPull,
    (by, commit): (&str, &str),
) -> Result<(), ApiError> {
    let key = ThreadKey::from(thread);
    gateway.ledger.flush(&key).await;
    let repo = gateway.context.repo(&key.namespace, &thread.spec.repo);
    if let Some(repo) = &repo {
        overlap::tell_of_merge(gateway, github, repo, &key, (pull.number, commit)).await;
    }
    let branch = names::branch_name(&key.name);
    let is_gone = github.delete_branch(&branch).await?;
    if let Some(repo) = &repo {
        end_pictures(&gateway.context, repo, thread).await?;
    }
    let record = PullRequest {
        merge_commit: Some(commit.to_owned()),
        state: Some(PullState::Merged),
        ..pull.record()
    };
    let status = report_status(gateway, &key, thread).await;
    let short: String = commit.chars().take(10).collect();
    let title = match &repo {
        Some(repo) => masks::as_known(&gateway.context, repo).await.mask(&pull.title).into_owned(),
        // It can't be masked.
        None => String::new(),
    };
    let how = format!(
        "{by} merged pull request #{} at GitHub as `{short}` and so closed this thread",
        pull.number
    );
    let page = gateway.context.page(&key);
    let cost = usage::usage_line(&status, thread.conversation().map(|slack| &slack.ts));
    let report = write_report(&how, Some((pull, &title)), page.as_deref(), &cost);
    let text = report + &tell_kept(&branch, is_gone);
    gateway.slack.notice(&key, REPORT, &text).await?;
    let written = gateway.threads.set_pull_request(&key, &record).await;
    written.map_err(|error| explain_unwritten(&error))?;
    gateway.threads.close(&key).await.map_err(|error| explain_unwritten(&error))?;
    tracing::info!(thread = key.name, how = "merged by a person", "thread_closed");
    Ok(())
}

/// The Thread's latest status, which has the cost up to now.
async fn report_status(gateway: &WorkServices, key: &ThreadKey, thread: &Thread) -> ThreadStatus {
    let fresh = gateway.threads.read(key).await.ok();
    let status = fresh.as_ref().and_then(|thread| thread.status.clone());
    status.or_else(|| thread.status.clone()).unwrap_or_default()
}
