//! Reports of receipts: below the message that says that work is done, in the Thread, and in its open pull request.

use codebutler_crds::names;
use codebutler_crds::wire::{AskedDecision, PostMessage, TestProof};
use codebutler_description::{OwnPart, reads_same};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::approval::fresh_thread;
use codebutler_gateway_core::caller::ProvenCaller;
use codebutler_gateway_core::github::{BranchTip, GitHub, GitHubPull};
use codebutler_gateway_core::threads::explain_unwritten;
use kube::ResourceExt as _;

use crate::origin;
use crate::receipt::{
    ReceiptFacts, ReceiptVerdict, judge_receipt, read_description, test_command, under_plan,
};
use crate::work::WorkServices;

/// The line below a message that says that work is done: one that asks for the merge, or hands over the work of a
/// pull request.
pub async fn under_message(
    gateway: &WorkServices,
    caller: &ProvenCaller,
    message: &PostMessage,
) -> Option<String> {
    if message.decision == Some(AskedDecision::Plan) {
        return under_plan(caller.repo.spec.worktree.test.as_deref(), message);
    }
    let merge = message.decision == Some(AskedDecision::Merge);
    if !merge && message.proof.is_none() {
        return None;
    }
    let known = caller.thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    if !merge && known.is_none_or(|pull| pull.merge_commit.is_some()) {
        return None;
    }
    match told_receipt(gateway, caller, message.proof.as_ref()).await {
        Ok(verdict) => (merge || !verdict.is_told(caller.role_name())).then(|| verdict.line()),
        Err(error) => {
            let why = format!("what is pushed can't be looked at ({error})");
            Some(ReceiptVerdict::Unchecked(why).line())
        }
    }
}

/// The verdict, told in the open pull request too.
async fn told_receipt(
    gateway: &WorkServices,
    caller: &ProvenCaller,
    proof: Option<&TestProof>,
) -> Result<ReceiptVerdict, ApiError> {
    let github = GitHub::of(&gateway.context, &caller.repo).await?;
    let branch = names::branch_name(&caller.thread.name_any());
    let head = github.tip(&branch).await?;
    let verdict = weigh_proof(gateway, caller, head.as_ref(), proof).await?;
    if let Some(pull) = github.find_pull(&branch).await?.filter(GitHubPull::is_open) {
        let thread = fresh_thread(&gateway.context, caller).await?;
        let origin = origin::describe_origin(gateway, &caller.repo, &thread).await;
        refresh_receipt(&github, &pull, &verdict, &origin).await;
    }
    Ok(verdict)
}

/// The verdict on what the remote's branch is at; a new receipt is recorded.
///
/// # Errors
/// When the Thread can't be read or written.
pub async fn weigh_proof(
    gateway: &WorkServices,
    caller: &ProvenCaller,
    head: Option<&BranchTip>,
    proof: Option<&TestProof>,
) -> Result<ReceiptVerdict, ApiError> {
    let status = fresh_thread(&gateway.context, caller).await?.status.unwrap_or_default();
    let repo = caller.repo.name_any();
    let verdict = judge_receipt(&ReceiptFacts {
        expected: test_command(&caller.repo, &status),
        repo: &repo,
        role: caller.role_name(),
        head: head.map(|BranchTip { commit, tree }| (commit.as_str(), tree.as_str())),
        proof,
        known: status.receipt.as_deref(),
    });
    if let ReceiptVerdict::Checked(receipt, _) = &verdict
        && status.receipt.as_deref() != Some(receipt)
    {
        let written = gateway.threads.set_receipt(&caller.key(), receipt).await;
        written.map_err(|error| explain_unwritten(&error))?;
    }
    Ok(verdict)
}

/// Brings the receipt in an open pull request up to date. One that stays behind names its commit.
async fn refresh_receipt(
    github: &GitHub,
    pull: &GitHubPull,
    verdict: &ReceiptVerdict,
    origin: &str,
) {
    let before = pull.body.as_deref().unwrap_or_default();
    let mut description = read_description(before);
    description.put(OwnPart::Receipt, &verdict.section(origin), "");
    let Some(fitted) = description.fitted() else {
        tracing::warn!(pull = pull.number, "receipt_omitted");
        return;
    };
    if reads_same(&fitted.text, before) {
        return;
    }
    if let Err(error) = github.update_pull(pull.number, None, Some(&fitted.text)).await {
        tracing::warn!(%error, pull = pull.number, "receipt_update_failed");
    }
}
