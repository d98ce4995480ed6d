//! Records where a Thread's branch left the base branch (its fork point), so that a rewrite of the base branch is
//! noticed: the conversation is told once what a merge would put back, and whoever is asked to merge is told again.

use codebutler_crds::thread::ForkPoint;
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use codebutler_gateway_core::thread_key::ThreadKey;
use kube::ResourceExt as _;

use super::branch_look::find_mover;
use super::fork::fork_of;
use super::survey::BranchSurvey;
use crate::services::GitServices;

/// Records where a Thread's branch left the base branch, and tells once what was taken off the base branch since.
/// `thread` is what was known before the survey was taken. What can't be told or recorded is tried again with the
/// next look.
pub async fn look_at_fork(
    gateway: &GitServices,
    repo: &Repo,
    survey: &BranchSurvey,
    thread: &Thread,
) {
    let key = ThreadKey::from(thread);
    let status = thread.status.as_ref();
    let branch = status.and_then(|status| status.branch.clone());
    let branch = branch.unwrap_or_else(|| names::branch_name(&thread.name_any()));
    let Some(tip) = survey.view().refs.get(&format!("refs/heads/{branch}")).cloned() else {
        return;
    };
    let Some(left) = gateway.branches.left(survey, &tip).await else { return };
    let base = &repo.spec.git.branch;
    let known = fork_of(thread, base);
    let redactor = gateway.context.redactors.of(repo);
    let removed = match known.filter(|fork| fork.commit != left) {
        Some(fork) => {
            gateway.branches.removed(survey, (&fork.commit, &tip), (base, &redactor)).await
        }
        None => Ok(None),
    };
    let removed = match removed {
        Ok(removed) => removed,
        Err(error) => {
            tracing::warn!(thread = key.name, %error, "base_rewrite_check_failed");
            return;
        }
    };
    let next = match (&removed, known) {
        (Some(removed), Some(fork)) => {
            ForkPoint { removed: u32::try_from(removed.count).unwrap_or(u32::MAX), ..fork.clone() }
        }
        _ => ForkPoint { base: base.clone(), commit: left, removed: 0 },
    };
    if known == Some(&next) {
        return;
    }
    if let Some(removed) = &removed
        && known.is_some_and(|fork| fork.removed == 0)
    {
        // Only a person who made all moves of it since then is named.
        let moved = (Some(next.commit.as_str()), Some(survey.base.as_str()));
        let who = find_mover(gateway, repo, base, moved).await;
        let text = removed.describe(&branch, who.as_deref());
        let id = format!("base-rewritten:{}:{}", next.commit, survey.base);
        if let Err(error) = gateway.notices.post_in_runs(&key, &id, &text).await {
            tracing::warn!(thread = key.name, %error, notice = "base_rewritten", "notice_post_failed");
            return;
        }
    }
    let note = |status: &mut ThreadStatus| {
        status.radar.get_or_insert_default().fork = Some(next.clone());
    };
    if let Err(error) = gateway.threads.update(&key, note).await {
        tracing::warn!(thread = key.name, %error, part = "fork_point", "thread_status_write_failed");
    }
}
