//! The prepared volume of a Repo (`spec.worktree.prepared`): a pod of its own clones the base branch and sets the clone
//! up. Once it has ended, the volumes of new Threads are clones of its volume. It is replaced when what it was made from
//! has changed: lock files, set-up, image, size or class.
//!
//! The agent judges what it finds on such a clone as on any volume: it trusts a set-up only with the same command and
//! lock files.

mod plan;
mod wanted;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::prepared::{PreparedStatus, PreparingPod};
use codebutler_runtime::apply::{ApplyError, ApplyRefusal, MadeObject, owned_by};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use self::plan::{
    FAILURES, PreparedPlan, PreparedView, find_failure, find_role, is_usable, plan_prepared,
};
use self::wanted::wanted_claim;
use super::making::SeatMaker;
use super::work_waits;
use crate::context::ControllerContext;
use crate::index::ObjectKey;
use crate::repo;
use crate::snapshots::AskedSnapshot;
use crate::thread::volume;

/// Looks at a Repo's prepared volume. Answers whether it has written the Repo's status, and when to look again.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(super) async fn tend_prepared(
    repo: &Repo,
    context: &ControllerContext,
) -> Result<(bool, Option<Duration>), ApplyError> {
    let (key, owner) = (ObjectKey::of(repo), repo.uid().unwrap_or_default());
    let mut pods = context.prepared_pods.of(&key);
    pods.retain(|pod| owned_by(&**pod, &owner));
    let mut claims = context.prepared_claims.of(&key);
    claims.retain(|claim| owned_by(&**claim, &owner));
    let known = repo.status.as_ref().and_then(|status| status.prepared.as_deref());
    let none = known.is_none() && pods.is_empty() && claims.is_empty();
    if repo.spec.worktree.prepared.is_none() && none {
        return Ok((false, None));
    }
    let snapshot = context.snapshots.look(repo).await;
    let seen = SeenVolumes { pods: &pods, claims: &claims, snapshot: snapshot.as_ref() };
    let mut plan = decide(repo, &seen, None, context);
    for claim in &claims {
        if plan.delete_claims.contains(&claim.name_any()) {
            context.apply.delete::<PersistentVolumeClaim>(claim).await?;
        }
    }
    for pod in &pods {
        if pod.uid().is_some_and(|uid| plan.delete_pods.contains(&uid)) {
            context.apply.delete::<Pod>(pod).await?;
        }
    }
    match make_objects(&plan, &owner, context).await {
        Ok(made) => {
            if let (Some(pod), Some(status)) = (made, &mut plan.status) {
                status.pod = Some(pod);
            }
        }
        Err(ApplyError::Refused(refusal)) => {
            plan = decide(repo, &seen, Some(&refusal), context);
        }
        Err(error) => return Err(error),
    }
    let claim = plan.status.as_ref().and_then(|status| status.claim.as_ref());
    if known.and_then(|known| known.claim.as_ref()) != claim {
        context.prepared.forget(repo);
    }
    let patch = patch_status(repo, &plan);
    if let Some(patch) = &patch {
        context.apply.status(repo, patch).await?;
    }
    for notice in &plan.notices {
        context.apply.tell(&repo.object_ref(&()), None, notice).await;
    }
    Ok((patch.is_some(), plan.again))
}

/// Objects of a Repo's prepared volume, whatever their state.
struct SeenVolumes<'a> {
    pods: &'a [Arc<Pod>],
    claims: &'a [Arc<PersistentVolumeClaim>],
    /// The snapshot of the current claim, where the Repo wants snapshots.
    snapshot: Option<&'a AskedSnapshot>,
}

async fn make_objects(
    plan: &PreparedPlan,
    owner: &str,
    context: &ControllerContext,
) -> Result<Option<PreparingPod>, ApplyError> {
    if let Some(snapshot) = plan.take.as_deref() {
        let claim = snapshot.owner_references().first().map(|own| own.uid.as_str());
        context.apply.create(snapshot, claim.unwrap_or_default()).await?;
    }
    make_pod(plan, owner, context).await
}

/// The claim first: what was cut off between both is completed by the next look.
async fn make_pod(
    plan: &PreparedPlan,
    owner: &str,
    context: &ControllerContext,
) -> Result<Option<PreparingPod>, ApplyError> {
    let Some((claim, pod)) = plan.create.as_deref() else { return Ok(None) };
    let (MadeObject::New(made) | MadeObject::Found(made)) =
        context.apply.create(claim, owner).await?;
    context.prepared_claims.assume(&made);
    if !is_usable(&made) {
        return Ok(None);
    }
    let (MadeObject::New(made) | MadeObject::Found(made)) =
        context.apply.create(pod, owner).await?;
    context.prepared_pods.assume(&made);
    Ok(Some(PreparingPod { name: made.name_any(), uid: made.uid().unwrap_or_default() }))
}

fn decide(
    repo: &Repo,
    seen: &SeenVolumes<'_>,
    refusal: Option<&ApplyRefusal>,
    context: &ControllerContext,
) -> PreparedPlan {
    let (key, now) = (ObjectKey::of(repo), context.clock.now());
    let (roles, gateway) = (context.roles_of(repo), context.gateway_of(repo));
    let found = gateway.as_ref().ok();
    let maker = find_role(&roles).and_then(|role| SeatMaker::new(repo, role, found, &context.args));
    let status = repo.status.as_ref();
    let locks = status.and_then(|status| status.base_locks.as_deref()).unwrap_or_default();
    let failed = maker.as_ref().and_then(|maker| {
        let failures = seen.pods.iter().filter_map(|pod| find_failure(pod, now)).collect();
        let made_from = wanted_claim(repo, maker, locks);
        context.seat_memory.count_failures((&key, FAILURES), made_from, failures, None)
    });
    let claim = status.and_then(|status| status.prepared.as_ref()?.claim.as_deref());
    let taken = maker.as_ref().map(SeatMaker::taken).unwrap_or_default();
    plan_prepared(&PreparedView {
        repo,
        maker: maker.as_ref(),
        prepared: repo::observe::is_prepared(context, repo),
        pods: seen.pods,
        claims: seen.claims,
        failed: failed.as_ref(),
        refusal,
        uncloned: claim.filter(|claim| context.prepared.has_failed(repo, claim)),
        snapshot: seen.snapshot,
        awaited: &awaited_sources(&key, context),
        waits: work_waits(&key.namespace, &taken, context),
        now,
    })
}

/// Claims of which volumes of the Repo's Threads are still to be made.
fn awaited_sources(repo: &ObjectKey, context: &ControllerContext) -> BTreeSet<String> {
    let threads = context.open.names(repo).into_iter();
    let claims =
        threads.flat_map(|name| context.volumes.of(&ObjectKey::new(&repo.namespace, name)));
    claims.filter_map(|claim| volume::awaited_source(&claim).map(str::to_owned)).collect()
}

/// The merge patch of what changes in the Repo's status.
fn patch_status(repo: &Repo, plan: &PreparedPlan) -> Option<Value> {
    let before = repo.status.clone().unwrap_or_default();
    let mut patch = serde_json::Map::new();
    if before.conditions != plan.conditions {
        patch.insert("conditions".to_owned(), json!(plan.conditions));
    }
    if before.prepared.as_deref() != plan.status.as_ref() {
        let value = plan.status.as_ref().map_or(Value::Null, |status| {
            let PreparedStatus { claim, since, asked, pod, snapshot, failed, replaced } = status;
            // What is absent now is to go.
            json!({"claim": claim, "since": since, "asked": asked, "pod": pod,
                   "snapshot": snapshot, "failed": failed, "replaced": replaced})
        });
        patch.insert("prepared".to_owned(), value);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
