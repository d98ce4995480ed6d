//! The work that a conversation left on the Git host, read once the product has been ended.

use std::path::Path;

use kube::api::ListParams;

use super::results::TrialCell;
use codebutler_testbed::stack::RunningStack;

/// The folder, beside the stack's, with a copy of the pull request's files.
pub(super) const CODE: &str = "code";

/// A pull request, or nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct LeftWork {
    /// Head commit of the pull request.
    pub commit: Option<String>,
    /// Diff from the first commit to its head.
    pub diff: String,
}

/// Reads the bill, and copies the newest pull request's files.
///
/// # Errors
/// When the cluster or Git can't be read.
pub(super) async fn look_at(
    stack: &RunningStack,
    cell: &mut TrialCell,
) -> anyhow::Result<LeftWork> {
    bill_cell(stack, cell).await?;
    let pulls = stack.remote.pulls().await?;
    let Some(pull) = pulls.last() else { return Ok(LeftWork::default()) };
    let git = stack.remote.git();
    let range = format!("{}..{}", stack.first_commit, pull.head_sha);
    let diff = git.run(&["diff", "--no-color", "--no-ext-diff", "--no-textconv", &range]).await?;
    let into = stack.dir.parent().unwrap_or(Path::new("/")).join(CODE);
    let (from, to) = (git.dir().to_string_lossy(), into.to_string_lossy());
    git.run(&["clone", "--quiet", "--no-hardlinks", "--no-checkout", &*from, &*to]).await?;
    let inside = codebutler_testbed::github::git::BareRepository::at(into.join(".git"));
    let checkout = ["--work-tree", &*to, "checkout", "--quiet", "--detach", &pull.head_sha];
    inside.run(&checkout).await?;
    std::fs::remove_dir_all(into.join(".git"))?;
    Ok(LeftWork { commit: Some(pull.head_sha.clone()), diff })
}

/// Reads the conversation's calls and costs from its Thread.
async fn bill_cell(stack: &RunningStack, cell: &mut TrialCell) -> anyhow::Result<()> {
    let threads = stack.threads().list(&ListParams::default()).await?;
    for (role, status) in
        threads.items.iter().filter_map(|t| t.status.as_ref()).flat_map(|s| &s.roles)
    {
        let usage = status.usage;
        if usage.calls == 0 {
            continue;
        }
        let share = cell.roles.entry(role.clone()).or_default();
        share.turns += usage.calls;
        share.dollars += usage.cost;
        cell.turns += usage.calls;
        cell.dollars += usage.cost;
    }
    Ok(())
}
