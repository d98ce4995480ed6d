//! Repos: what all their pods share, and whether everything they name is there.

mod children;
mod desired;
pub(crate) mod observe;
mod reach;
mod status;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::redact::log;
use codebutler_crds::{Repo, names};
use codebutler_runtime::apply::{ApplyError, owned_by};
use codebutler_runtime::queue::FollowUp;
use desired::RepoPlan;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Resource as _, ResourceExt as _};

use super::context::ControllerContext;
use super::index::ObjectKey;

/// Delay before a refused step is retried. A timer is needed because the cause is not watched.
const RETRY_REFUSED: Duration = Duration::from_secs(15);

/// Looks at a Repo and does what is due.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(crate) async fn reconcile_repo(
    repo: Arc<Repo>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    // Compiled once: from now on the log says nothing of it.
    log::mask_patterns(&ObjectKey::of(&*repo).to_string(), &repo.spec.policy.redaction);
    let mut observed = observe::observe_repo(&context, &repo);
    let decide =
        |observed: &_| desired::plan_repo(&repo, observed, &context.args, context.clock.now());
    match perform_plan(&repo, decide(&observed), &context).await {
        // Decide again, knowing that: the decision is then what to tell.
        Err(ApplyError::Refused(refusal)) => {
            tracing::warn!(repo = %ObjectKey::of(&*repo), %refusal, "object_refused");
            observed.refusal = Some(refusal);
            perform_plan(&repo, decide(&observed), &context).await?;
            Ok(FollowUp::requeue(RETRY_REFUSED))
        }
        other => other,
    }
}

async fn perform_plan(
    repo: &Repo,
    plan: RepoPlan,
    context: &ControllerContext,
) -> Result<FollowUp, ApplyError> {
    let apply = &context.apply;
    let uid = repo.uid().unwrap_or_default();
    if let Some(account) = &plan.account {
        apply.ensure(account, |found| owned_by(found, &uid)).await?;
    }
    if let Some(policy) = &plan.policy {
        apply.ensure(policy, |found| owned_by(found, &uid)).await?;
    }
    if let Some(authority) = &plan.authority {
        apply.ensure(authority, is_managed).await?;
    }
    if let Some(patch) = plan.status.patch(repo.status.as_ref()) {
        apply.status(repo, &patch).await?;
    }
    for notice in &plan.notices {
        apply.tell(&repo.object_ref(&()), None, notice).await;
    }
    Ok(FollowUp::await_change())
}

/// True if the controller manages this copy of the certificate authority. It goes by the label: all Repos of a
/// namespace share the copy, later ones too, so no single owner can tell.
fn is_managed(found: &ConfigMap) -> bool {
    let manager = found.labels().get(names::LABEL_MANAGED_BY);
    manager.is_some_and(|manager| manager == names::CONTROLLER)
}
