//! The end of a Thread that nobody needs: its stale pull request closed, its branch deleted, told in
//! the thread. When is the controller's decision (`Collecting`); each step finds what an earlier,
//! interrupted attempt has done.

use codebutler_crds::{Repo, Thread, condition, names};
use kube::ResourceExt as _;

use super::context::{ApiError, Context, ThreadKey};
use super::github::{GitHub, Pull};
use super::slack::{Slack, usage};
use super::threads::Threads;

/// Whether the controller has decided that it is time.
pub fn is_due(thread: &Thread) -> bool {
    let conditions = thread.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.into_iter();
    conditions.any(|c| c.type_ == condition::COLLECTING && c.status == "True" && c.reason == "Due")
}

/// Ends it.
pub async fn collect(
    context: &Context,
    slack: &Slack,
    threads: &Threads,
    thread: &Thread,
    repo: &Repo,
) -> Result<(), ApiError> {
    let (key, branch) = (ThreadKey::from(thread), names::branch(&thread.name_any()));
    let status = thread.status.clone().unwrap_or_default();
    if status.branch.is_some() {
        let github = GitHub::of(context, repo).await?;
        if let Some(pull) = github.find_pull(&branch).await?.filter(Pull::is_open) {
            github.close_pull(pull.number).await?;
        }
        github.delete_branch(&branch).await?;
    }
    let text = format!(
        "Nobody has written here for three days: worktree and branch are removed, and this thread \
         is closed.\n{}",
        usage::table(&status)
    );
    slack.notice(&key, "collected", &text).await?;
    threads.close(&key).await.map_err(|error| super::api::unwritten(&error))
}
