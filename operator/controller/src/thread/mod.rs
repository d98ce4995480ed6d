//! Threads: one pod per role with something to do, one volume, nothing once closed.

mod collect;
mod desired;
mod disruption;
mod ends;
mod hang;
mod lineage;
pub(crate) mod observe;
mod plan;
pub(crate) mod pod;
mod queue;
mod repair;
mod role;
mod scale_up;
mod seat;
pub(crate) mod security;
mod shield;
pub(crate) mod size;
mod slow_start;
mod status;
mod stranded;
pub(crate) mod vacant;
mod view;
pub(crate) mod volume;
mod volume_need;
pub(crate) mod volumes;
mod waits;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::{Thread, names};
use codebutler_runtime::apply::{ApplyError, ApplyRefusal, MadeObject};
use codebutler_runtime::metrics::repo_of;
use codebutler_runtime::notice::EventNotice;
use codebutler_runtime::queue::FollowUp;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use kube::{Resource as _, ResourceExt as _};
use plan::{PodBegin, ThreadPlan};
use serde_json::Value;

use super::context::ControllerContext;
use super::fence::{self, CachedSight};
use super::index::ObjectKey;
pub(crate) use queue::{prime_late, prime_queue};

/// Looks at a Thread and does what is due.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(crate) async fn reconcile_thread(
    thread: Arc<Thread>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    match context.fence.look(&thread) {
        CachedSight::Current => {}
        CachedSight::Behind => return Ok(FollowUp::await_change()),
        CachedSight::Unsure => {
            let version = context.apply.status(&*thread, &fence::next_term(&thread)).await?;
            context.fence.wrote(&thread, version.as_deref());
            return Ok(FollowUp::await_change());
        }
    }
    let mut observed = observe::observe_thread(&context, &thread);
    let decide =
        |observed: &_| desired::plan_thread(&thread, observed, &context.args, context.clock.now());
    let wish = decide(&observed);
    observed.admission = queue::ask_for_slots(&context, &thread, &observed, &wish);
    let plan = decide(&observed);
    let done = Box::pin(perform_plan(&thread, plan, &context)).await;
    let key = ObjectKey::of(&*thread);
    let Some(refusal) = find_refusal(&context, &key, &done) else { return done };
    // Decide again, knowing that: the decision is then what to tell.
    tracing::warn!(thread = %key, %refusal, "object_refused");
    let failed = matches!(refusal, ApplyRefusal::NotAccepted { .. });
    let mut observed = observe::observe_thread(&context, &thread);
    observed.refusal = Some(refusal);
    // The Thread starts nothing now, so its slots are free for others.
    observed.admission = queue::ask_for_slots(&context, &thread, &observed, &decide(&observed));
    Box::pin(perform_plan(&thread, decide(&observed), &context)).await?;
    let wait = context.refusals.told(&key, Instant::now());
    Ok(if failed { FollowUp::retry(wait) } else { FollowUp::requeue(wait) })
}

/// Returns a refusal of the API server that a person should hear about.
fn find_refusal(
    context: &ControllerContext,
    key: &ObjectKey,
    done: &Result<FollowUp, ApplyError>,
) -> Option<ApplyRefusal> {
    match done {
        Ok(_) => {
            context.refusals.forget(key);
            None
        }
        Err(ApplyError::Refused(refusal)) => Some(refusal.clone()),
        Err(error) => error.unaccepted().filter(|_| context.refusals.failed(key)),
    }
}

/// Carries out a plan. Events are sent at the end, and after a failure too for the steps before it: no pod waits for
/// an event about its volume.
async fn perform_plan(
    thread: &Thread,
    plan: ThreadPlan,
    context: &ControllerContext,
) -> Result<FollowUp, ApplyError> {
    let mut told = Vec::new();
    let done = apply_plan(thread, plan, context, &mut told).await;
    let about = thread.object_ref(&());
    for (related, notice) in &told {
        context.apply.tell(&about, related.as_ref(), notice).await;
    }
    done
}

/// An event, and the object that it is about besides the Thread.
type ToldNotice = (Option<ObjectReference>, EventNotice);

async fn apply_plan(
    thread: &Thread,
    mut plan: ThreadPlan,
    context: &ControllerContext,
    told: &mut Vec<ToldNotice>,
) -> Result<FollowUp, ApplyError> {
    let apply = &context.apply;
    let repo = repo_of(&thread.namespace().unwrap_or_default(), &thread.spec.repo);
    let owner = thread.uid().unwrap_or_default();
    if let Some((pod, notice)) = seat::take_seat(thread, &mut plan, context).await? {
        told.push((Some(pod), notice));
    }
    if let Some(claim) = &plan.create_volume {
        match apply.create(claim, &owner).await? {
            MadeObject::New(claim) => {
                context.volumes.assume(&claim);
                context.metrics.volume_made(&repo, volume::awaited_source(&claim).is_some());
                let note = format!("volume claim `{}` made", claim.name_any());
                told.push((None, EventNotice::normal("VolumeCreated", note)));
            }
            MadeObject::Found(claim) => {
                repair::repair_claim(thread, &claim, context).await?;
                return Ok(found_again(&*context.volumes, &claim));
            }
        }
    }
    if let Some(size) = &plan.expand_volume {
        expand_claim(thread, size, context).await?;
    }
    if let Some(source) = &plan.clone_failed
        && let Some(repo) = context.repo(&thread.namespace().unwrap_or_default(), &thread.spec.repo)
        && let Some(waited) = observe::own_claim(context, thread).and_then(|claim| claim.uid())
    {
        context.prepared.fail(&repo, source, &waited);
        context.queues.repo(&ObjectKey::of(&*repo));
    }
    if plan.find_home
        && let Some(claim) = observe::own_claim(context, thread)
    {
        context.homes.look(&ObjectKey::of(thread), &claim).await;
        return Ok(FollowUp::requeue(Duration::ZERO));
    }
    if !plan.ask_events.is_empty() {
        let namespace = thread.namespace().unwrap_or_default();
        let looks = plan.ask_events.iter().map(|pod| context.scale_ups.look(&namespace, pod));
        futures::future::join_all(looks).await;
        return Ok(FollowUp::requeue(Duration::ZERO));
    }
    for (role, new) in &plan.create_pods {
        match apply.create(&*new.pod, &owner).await? {
            MadeObject::New(pod) => {
                context.pods.assume(&pod);
                context.rewritten.made(&new.pod, &pod);
                context.metrics.pod_started(&repo, role);
                plan.status.roles.entry(role.clone()).or_default().pod_uid = pod.uid();
                told.push(tell_started(role, &pod, new.begins));
            }
            MadeObject::Found(pod) => {
                repair::repair_pod(thread, role, &pod, context).await?;
                return Ok(found_again(&*context.pods, &pod));
            }
        }
    }
    for (role, gone) in &plan.verify_gone {
        if let Some(pod) = seat::find_pod(thread, role, gone, context).await? {
            // The cache is behind, or can't see it. The role keeps its pod; the watch will tell of it.
            plan.status.roles.entry(role.clone()).or_default().pod_uid = Some(gone.uid.clone());
            repair::repair_pod(thread, role, &pod, context).await?;
        }
    }
    if let Some(repair) = plan.repair {
        repair::repair_children(thread, repair, context).await?;
    }
    let before = thread.status.clone().unwrap_or_default();
    if let Some(patch) = plan.status.patch(&before) {
        write_status(thread, &patch, context).await?;
        queue::settle_slots(context, thread, &plan);
    }
    if let Some(wait) = queue::ended_wait(thread, &plan, context.clock.now()) {
        context.metrics.waited(&repo, wait);
    }
    disruption::apply_shields(thread, &plan, context).await?;
    told.extend(plan.notices.iter().map(|notice| (None, notice.clone())));
    remove_children(thread, &plan, context).await?;
    if plan.release {
        apply.release(thread, names::FINALIZER).await?;
        tracing::warn!(thread = %ObjectKey::of(thread), "finalizer_removed");
    }
    Ok(plan.again.map_or_else(FollowUp::await_change, FollowUp::requeue))
}

/// Writes the status on the version that was seen.
async fn write_status(
    thread: &Thread,
    patch: &Value,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    match context.apply.status(thread, patch).await {
        Ok(version) => {
            context.fence.wrote(thread, version.as_deref());
            Ok(())
        }
        Err(error) => {
            if matches!(error, ApplyError::Api { .. }) {
                context.fence.unsure(thread);
            }
            Err(error)
        }
    }
}

/// Takes up an object that an earlier attempt made before it failed: assumes it, and looks again.
fn found_again<K: codebutler_runtime::apply::AppliedObject>(
    index: &super::index::ObjectIndex<K, K>,
    object: &K,
) -> FollowUp {
    index.assume(object);
    FollowUp::requeue(Duration::ZERO)
}

async fn remove_children(
    thread: &Thread,
    plan: &ThreadPlan,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let key = ObjectKey::of(thread);
    for pod in context.pods.of(&key) {
        if plan.delete_pods.iter().any(|doomed| Some(&doomed.uid) == pod.uid().as_ref()) {
            context.apply.delete::<Pod>(&pod).await?;
        }
    }
    if plan.delete_volume {
        for volume in context.volumes.of(&key) {
            if !codebutler_runtime::apply::owned_by(&*volume, &thread.uid().unwrap_or_default()) {
                continue;
            }
            if plan.clone_failed.is_some() {
                // The clone may just have been made: that one stays.
                context.apply.delete_unchanged::<PersistentVolumeClaim>(&volume).await?;
            } else {
                context.apply.delete::<PersistentVolumeClaim>(&volume).await?;
            }
        }
    }
    Ok(())
}

/// A claim that can't grow is no reason not to work.
async fn expand_claim(
    thread: &Thread,
    size: &str,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let key = ObjectKey::of(thread);
    if !context.unexpanded.is_due(&key, size) {
        return Ok(());
    }
    let claim = thread.volume_claim();
    let Some(claim) = context.volumes.of(&key).into_iter().find(|c| c.name_any() == claim) else {
        return Ok(());
    };
    let about = thread.object_ref(&());
    match context.apply.resize(&claim, size).await {
        Ok(()) => {
            context.unexpanded.forget(&key);
            let note = format!("volume claim `{}` grows to {size}", key.name);
            context.apply.tell(&about, None, &EventNotice::normal("VolumeExpanded", note)).await;
            Ok(())
        }
        Err(ApplyError::Refused(refusal)) => {
            let message = format!("the volume keeps its size: {refusal}");
            context.apply.tell(&about, None, &EventNotice::warning("NotExpanded", &*message)).await;
            context.unexpanded.keep(key, size, message);
            Err(ApplyError::Stale {
                kind: "PersistentVolumeClaim".to_owned(),
                name: claim.name_any(),
            })
        }
        Err(error) => Err(error),
    }
}

fn tell_started(role: &str, pod: &Pod, begins: PodBegin) -> ToldNotice {
    let name = pod.name_any();
    let (reason, note) = match begins {
        PodBegin::First => ("PodStarted", format!("role `{role}` started in pod `{name}`")),
        PodBegin::Woken => ("Woken", format!("role `{role}` woken in pod `{name}`")),
        PodBegin::Replaced => {
            let note = format!(
                "pod `{name}` takes the place of one of role `{role}` that is gone; the role goes on from its transcript"
            );
            ("PodReplaced", note)
        }
    };
    (Some(pod.object_ref(&())), EventNotice::normal(reason, note))
}
