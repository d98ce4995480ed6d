//! A Thread takes a seat: a pod that waited for one, with its volume.
//!
//! Pod, claim, status, in this order. The pod's own version decides which of two Threads has it, and the Thread's
//! status, written on the version that was seen, makes it a role of the Thread at the gateway. Whatever is cut
//! off before that is completed by the next look: the pod belongs to the Thread by then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Thread, condition, names};
use codebutler_runtime::apply::{ApplyError, owned_by};
use codebutler_runtime::metrics::repo_of;
use codebutler_runtime::notice::EventNotice;
use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource as _, ResourceExt as _};

use super::plan::{GonePod, ThreadPlan};
use super::pod::{ANNOTATION_CONFIG, ANNOTATION_WOKEN_FOR, PodInput, PodOwner, woken_for};
use super::view::ThreadView;
use crate::context::ControllerContext;
use crate::labels;

/// Tries of a seat whose pod has only changed.
const TRIES: u32 = 3;

/// A seat for the first pod of a Thread: one that is as it would be made now. A Thread that has a volume, or had
/// one, needs that.
pub(super) fn find_seat(view: &ThreadView, role: &str, input: &PodInput) -> Option<Arc<Pod>> {
    let observed = view.observed;
    let is_fresh = observed.pods.is_empty()
        && observed.volume.is_none()
        && view.status.volume.is_none()
        && !condition::is_true(&view.status.conditions, condition::WORKTREE_READY);
    if !is_fresh {
        return None;
    }
    let repo = &view.thread.spec.repo;
    let fits = |pod: &&Arc<Pod>| {
        let name = pod.name_any();
        let Some((seat, own)) = names::seat_of_pod(repo, &name) else { return false };
        let wanted = PodInput { owner: PodOwner::Seat(seat), ..*input }.config();
        own == role && pod.annotations().get(ANNOTATION_CONFIG) == Some(&wanted)
    };
    observed.seats.iter().find(fits).cloned()
}

/// A seat's pod belongs to the Thread, and its status does not say so: what took it was cut off.
pub(super) fn finish_taking(view: &ThreadView, plan: &mut ThreadPlan) {
    if view.status.volume.is_some() {
        return;
    }
    let repo = &view.thread.spec.repo;
    let seat = view.observed.pods.iter().find_map(|pod| {
        let name = pod.name_any();
        names::seat_of_pod(repo, &name).map(|(seat, _)| seat.to_owned())
    });
    if let Some(seat) = seat {
        plan.status.volume = Some(seat.clone());
        plan.take_claim = Some(seat);
        plan.look_again_in(Duration::ZERO);
    }
}

/// Takes the seat that the plan has, and answers what to tell of it; or leaves the plan to make pod and volume.
pub(super) async fn take_seat(
    thread: &Thread,
    plan: &mut ThreadPlan,
    context: &ControllerContext,
) -> Result<Option<(ObjectReference, EventNotice)>, ApplyError> {
    let namespace = thread.namespace().unwrap_or_default();
    if let Some(claim) = &plan.take_claim {
        let found = context.apply.find(&namespace, claim).await?;
        take_claim(thread, found, None, context).await?;
        return Ok(None);
    }
    let mut wanted = plan.create_pods.iter();
    let found = wanted.find_map(|(role, new)| Some((role.clone(), new.seat.clone()?)));
    let Some((role, seat)) = found else { return Ok(None) };
    let Some(owner) = thread.controller_owner_ref(&()) else { return Ok(None) };
    let name = seat.name_any();
    let Some((claim, _)) = names::seat_of_pod(&thread.spec.repo, &name) else { return Ok(None) };
    let (pod, found) = tokio::join!(
        take_pod(thread, &role, seat, &owner, context),
        context.apply.find(&namespace, claim)
    );
    let Some(pod) = pod? else { return Ok(None) };
    context.pods.assume(&pod);
    take_claim(thread, found?, pod.uid(), context).await?;
    if plan.create_pods.len() > 1 {
        // The others were decided with another volume.
        plan.look_again_in(Duration::ZERO);
    }
    plan.create_pods.clear();
    plan.create_volume = None;
    plan.status.volume = Some(claim.to_owned());
    plan.status.roles.entry(role.clone()).or_default().pod_uid = pod.uid();
    let repo = repo_of(&thread.namespace().unwrap_or_default(), &thread.spec.repo);
    context.metrics.seat_taken(&repo, &role);
    let note = format!("role `{role}` started in pod `{name}`, which waited for it");
    Ok(Some((pod.object_ref(&()), EventNotice::normal("SeatTaken", note))))
}

/// A role's pod that the cache does not have, under either of the names that it may have.
pub(super) async fn find_pod(
    thread: &Thread,
    role: &str,
    gone: &GonePod,
    context: &ControllerContext,
) -> Result<Option<Pod>, ApplyError> {
    let namespace = thread.namespace().unwrap_or_default();
    let seat = thread.status.as_ref().and_then(|status| status.volume.as_deref());
    let seated = seat.map(|seat| names::pod_name(seat, role));
    for name in std::iter::once(gone.name.clone()).chain(seated) {
        let there = context.apply.find::<Pod>(&namespace, &name).await?;
        if let Some(pod) = there.filter(|pod| pod.uid().as_ref() == Some(&gone.uid)) {
            return Ok(Some(pod));
        }
    }
    Ok(None)
}

/// The pod, once it is the Thread's; none if it can't be had.
async fn take_pod(
    thread: &Thread,
    role: &str,
    seat: Arc<Pod>,
    owner: &OwnerReference,
    context: &ControllerContext,
) -> Result<Option<Pod>, ApplyError> {
    let key = thread.namespace().unwrap_or_default();
    let Some(repo) = context.repo(&key, &thread.spec.repo) else { return Ok(None) };
    let (name, uid) = (seat.name_any(), seat.uid());
    // Others look for another one, whoever gets this.
    context.spent.spend(&repo, &seat, context.clock.now());
    let labels = labels::of_pod(thread, role);
    let annotations: BTreeMap<String, String> =
        [(ANNOTATION_WOKEN_FOR.to_owned(), woken_for(thread, role))].into();
    let mut seen = seat;
    for _ in 0..TRIES {
        let waits = owned_by(&*seen, &repo.uid().unwrap_or_default())
            && seen.metadata.deletion_timestamp.is_none()
            && seen.uid() == uid;
        if !waits {
            break;
        }
        match context.apply.hand_over(&*seen, owner, (&labels, &annotations)).await {
            Ok(pod) => return Ok(Some(pod)),
            Err(ApplyError::Stale { .. }) => {
                let Some(found) = context.apply.find::<Pod>(&key, &name).await? else { break };
                seen = Arc::new(found);
            }
            Err(ApplyError::Refused(refusal)) => {
                tracing::warn!(seat = name, %refusal, "warm_pod_refused");
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The claim goes where its pod has gone. `pod` is that one's UID where it is known.
async fn take_claim(
    thread: &Thread,
    found: Option<PersistentVolumeClaim>,
    pod: Option<String>,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let Some(owner) = thread.controller_owner_ref(&()) else { return Ok(()) };
    let Some(found) = found else { return Ok(()) };
    if owned_by(&found, &owner.uid) {
        context.volumes.assume(&found);
        return Ok(());
    }
    let theirs = context.pods.of(&crate::index::ObjectKey::of(thread));
    let of_pod = pod.into_iter().chain(theirs.iter().filter_map(|pod| pod.uid()));
    if !of_pod.into_iter().any(|uid| owned_by(&found, &uid)) {
        // A claim of the same name that belongs to somebody else is left alone.
        return Ok(());
    }
    let none = BTreeMap::new();
    let labels = labels::of_claim(thread);
    let taken = context.apply.hand_over(&found, &owner, (&labels, &none)).await?;
    context.volumes.assume(&taken);
    Ok(())
}
