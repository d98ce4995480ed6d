//! The end of a Thread that nobody needs: what was pushed is kept under a ref that is no branch, its
//! stale pull request closed, its branch deleted, and all of it told in the thread with what had been
//! decided. When is the controller's decision (`Collecting`); each step finds what an earlier,
//! interrupted attempt has done. A conversation that is gone is told nothing.

use codebutler_crds::{Repo, Thread, ThreadStatus, condition, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ThreadWriter;
use codebutler_git::end_pictures;
use codebutler_slack::{SlackGateway, usage};
use kube::ResourceExt as _;

/// Ref prefix under which the work of collected Threads is kept on the remote.
const ARCHIVE: &str = "refs/codebutler/archive";

/// True once the controller has decided to collect the Thread.
pub fn is_due(thread: &Thread) -> bool {
    let conditions = thread.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.into_iter();
    conditions.any(|c| c.type_ == condition::COLLECTING && c.status == "True" && c.reason == "Due")
}

pub async fn collect_thread(
    context: &GatewayContext,
    slack: &SlackGateway,
    threads: &ThreadWriter,
    thread: &Thread,
    repo: &Repo,
) -> Result<(), ApiError> {
    let key = ThreadKey::from(thread);
    let status = thread.status.clone().unwrap_or_default();
    let archive = format!("{ARCHIVE}/{}", thread.name_any());
    let mut is_gone = true;
    if status.branch.is_some() {
        is_gone = undo_remote(&GitHub::of(context, repo).await?, thread, &archive).await?;
        end_pictures(context, repo, thread).await?;
    }
    let farewell = write_farewell(&status, &archive, is_gone);
    if let Err(error) = slack.notice(&key, "collected", &farewell).await {
        if !slack.is_gone(repo, thread).await {
            return Err(error);
        }
        tracing::info!(thread = key.name, "conversation_missing");
    }
    threads
        .close(&key)
        .await
        .map_err(|error| codebutler_gateway_core::threads::explain_unwritten(&error))
}

/// Archives and deletes the Thread's branch on the remote, and closes its pull request. Answers whether the branch is
/// gone.
async fn undo_remote(github: &GitHub, thread: &Thread, archive: &str) -> Result<bool, GitHubError> {
    let branch = names::branch_name(&thread.name_any());
    if let Some(tip) = github.tip(&branch).await? {
        github.keep(archive, &tip.commit).await?;
    }
    if let Some(pull) = github.find_pull(&branch).await?.filter(GitHubPull::is_open) {
        github.close_pull(pull.number).await?;
    }
    github.delete_branch(&branch).await
}

/// The last message: things that are gone, the decision there was, and the ref that keeps the work. Pure.
fn write_farewell(status: &ThreadStatus, archive: &str, is_gone: bool) -> String {
    let what = if is_gone {
        "worktree and branch are removed"
    } else {
        "the worktree is removed (rules of the repository keep the branch)"
    };
    let mut lines =
        vec![format!("Nobody has written here for three days: {what}, and this thread is closed.")];
    if status.branch.is_some() {
        lines.push(format!("What was pushed is kept: `git fetch origin {archive}`."));
    }
    if let Some(plan) = &status.plan {
        // The plan's own message names the person.
        let what = match (&plan.approved_by, &plan.declined_by) {
            (Some(_), _) => "was approved",
            (None, Some(_)) => "was not approved",
            (None, None) => "was not answered",
        };
        lines.push(format!("The plan {what}."));
    }
    if let Some(receipt) = &status.receipt {
        let commit: String = receipt.commit.chars().take(12).collect();
        let code = receipt.exit_code;
        lines.push(format!("Tested last: `{}`, exit code {code}, at {commit}.", receipt.command));
    }
    lines.push(usage::usage_table(status));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_decided_and_where_the_work_is_stands_at_the_end() {
        let status: ThreadStatus = serde_json::from_value(serde_json::json!({
            "branch": "codebutler/t",
            "plan": {"ts": "2.000000", "hash": "h", "role": "pm", "approvedBy": "U1"},
            "receipt": {"commit": "0123456789abcdef", "command": "cargo test", "exitCode": 0,
                        "role": "coder"},
        }))
        .unwrap();
        let text = write_farewell(&status, "refs/codebutler/archive/t", true);
        for part in [
            "`git fetch origin refs/codebutler/archive/t`",
            "The plan was approved.",
            "`cargo test`, exit code 0, at 0123456789ab.",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("worktree and branch are removed"), "{text}");
        let kept = write_farewell(&status, "refs/codebutler/archive/t", false);
        assert!(!kept.contains("branch are removed") && kept.contains("keep the branch"), "{kept}");
        let nothing = write_farewell(&ThreadStatus::default(), "refs/codebutler/archive/t", true);
        assert!(!nothing.contains("git fetch") && !nothing.contains("plan"), "{nothing}");
    }
}
