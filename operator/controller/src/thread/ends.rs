//! Ends a Thread that is closed or deleted, or whose Repo is gone. Pods are removed first, then the volume; an object
//! that does not go is named, with the remedy. Pure.

use codebutler_crds::names::FINALIZER;
use codebutler_crds::thread::PullState;
use codebutler_crds::{Thread, ThreadStatus, condition};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;

use super::observe::ObservedThread;
use super::plan::ThreadPlan;
use super::view::{not_ending, remove_pods, time_to_end};
use super::volume::VolumeState;
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life::PodLife;

/// Longest wait of a deleted Thread for a gateway, which may be gone for good.
const FAREWELL: SignedDuration = SignedDuration::from_mins(2);
/// Time for which a volume is kept after its Repo is gone: the Repo may only be replaced.
const WITHOUT_REPO: SignedDuration = SignedDuration::from_hours(1);
/// A claim that is still there this long after its deletion is reported.
const SLOW_CLAIM: SignedDuration = SignedDuration::from_mins(2);

/// Plans the end of a deleted Thread. Objects that it owns go with it, but that waits until the gateway has told the
/// conversation; pods do not wait, and the wait has an end.
pub(super) fn plan_leaving(
    thread: &Thread,
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) {
    remove_pods(thread, observed, plan);
    let held = thread.finalizers().iter().any(|name| name == FINALIZER);
    let since = thread.metadata.deletion_timestamp.as_ref().filter(|_| held);
    let Some(since) = since else { return };
    let left = FAREWELL - now.duration_since(since.0);
    plan.release = !left.is_positive();
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
    }
}

/// A Repo that is gone took its account and its network policy along: no pod may go on without. The
/// volume waits for a while whether it comes back.
pub(super) fn without_repo(
    thread: &Thread,
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) -> ObjectHealth {
    remove_pods(thread, observed, plan);
    let conditions = &mut plan.status.conditions;
    condition::clear_condition(conditions, condition::QUEUED);
    let known = |c: &Condition| c.type_ == condition::STALLED && c.reason == "RepoNotFound";
    let since = conditions.iter().find(|c| known(c)).map(|c| c.last_transition_time.0);
    if since.is_none() {
        // The condition's time has to tell since when the Repo is gone, so one with another reason is cleared first.
        condition::clear_condition(conditions, condition::STALLED);
    }
    let left = WITHOUT_REPO - since.map_or(SignedDuration::ZERO, |since| now.duration_since(since));
    let state = VolumeState::of(observed.volume.as_deref());
    let volume = match state {
        VolumeState::Absent => "",
        _ if left.is_positive() => "; its volume is kept for an hour, and then removed",
        _ => "; its volume is removed, and what was not pushed with it",
    };
    if state != VolumeState::Absent && left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
    }
    let doomed = !matches!(state, VolumeState::Absent | VolumeState::Ending) && !left.is_positive();
    plan.delete_volume = doomed && observed.pods.is_empty();
    let repo = &thread.spec.repo;
    let message = format!(
        "spec.repo: Repo `{repo}` does not exist in this namespace: create it, or delete this Thread{volume}"
    );
    ObjectHealth::new(HealthLevel::Stalled, "RepoNotFound", message)
}

/// Pods first, then the volume.
pub(super) fn plan_closing(
    thread: &Thread,
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) -> ObjectHealth {
    remove_pods(thread, observed, plan);
    plan.status.phase = Some("closed".to_owned());
    for type_ in [condition::AWAITING_USER, condition::QUEUED, condition::SUSPENDED] {
        condition::clear_condition(&mut plan.status.conditions, type_);
    }
    let volume = VolumeState::of(observed.volume.as_deref());
    let done = observed.pods.is_empty() && volume == VolumeState::Absent;
    tell_finish(thread, plan, done, now);
    if done {
        let done =
            ObjectHealth::new(HealthLevel::Ready, "Closed", "closed; pods and volume are removed");
        let before = thread.status.iter().flat_map(|status| &status.conditions);
        if !before.into_iter().any(|c| c.type_ == condition::READY && c.reason == done.reason) {
            plan.notices.push(EventNotice::normal("Closed", "pods and volume are removed"));
            if condition::clear_condition(&mut plan.status.conditions, condition::COLLECTING) {
                plan.notices
                    .push(EventNotice::normal("Collected", "nobody had written for three days"));
            }
        }
        return done;
    }
    plan.delete_volume = observed.pods.is_empty() && volume != VolumeState::Ending;
    find_stuck(observed, plan, now).unwrap_or_else(|| {
        ObjectHealth::new(HealthLevel::Reconciling, "Closing", "removing pods and volume")
    })
}

/// Finds a pod or claim that does not go, and says what to do.
fn find_stuck(
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) -> Option<ObjectHealth> {
    let mut stuck = None;
    for pod in observed.pods.iter().filter(|pod| PodLife::of(pod) == PodLife::Ending) {
        match time_to_end(pod, now) {
            left if left.is_positive() => plan.look_again_in(left.unsigned_abs()),
            _ => stuck = Some(not_ending(pod)),
        }
    }
    let idle = observed.volume.as_ref().filter(|_| observed.pods.is_empty());
    let ending = idle.and_then(|c| Some((c, c.metadata.deletion_timestamp.as_ref()?.0)));
    let Some((claim, since)) = ending else { return stuck };
    let left = SLOW_CLAIM - now.duration_since(since);
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        return stuck;
    }
    stuck.or_else(|| Some(claim_not_ending(claim)))
}

fn claim_not_ending(claim: &PersistentVolumeClaim) -> ObjectHealth {
    let (name, namespace) = (claim.name_any(), claim.namespace().unwrap_or_default());
    let held = claim.finalizers().join(", ");
    let message = format!(
        "volume claim `{name}` does not go, which its finalizers hold ({held}): see `kubectl -n \
         {namespace} describe pvc {name}` for who uses it"
    );
    ObjectHealth::new(HealthLevel::Trouble, "VolumeNotEnding", message)
}

/// Sets the Finished condition of a closed Thread: its reason is recorded at the first look, and it turns true once
/// nothing is left.
fn tell_finish(thread: &Thread, plan: &mut ThreadPlan, done: bool, now: Timestamp) {
    let status = thread.status.clone().unwrap_or_default();
    let known = status.conditions.iter().find(|c| c.type_ == condition::FINISHED);
    let (reason, message) = match known {
        Some(known) => (known.reason.clone(), known.message.clone()),
        None => closing_outcome(&status),
    };
    let generation = thread.metadata.generation;
    let conditions = &mut plan.status.conditions;
    let time = Time(now);
    condition::set_condition(
        conditions,
        condition::FINISHED,
        done,
        &reason,
        message,
        generation,
        &time,
    );
}

fn closing_outcome(status: &ThreadStatus) -> (String, String) {
    let find =
        |type_: &str| status.conditions.iter().find(|c| c.type_ == type_ && c.status == "True");
    let merged = status
        .pull_request
        .as_ref()
        .filter(|pull| pull.merge_commit.is_some() || pull.state == Some(PullState::Merged));
    let (reason, message) = if let Some(pull) = merged {
        ("Merged", format!("pull request {} was merged", pull.number))
    } else if find(condition::COLLECTING).is_some() {
        ("Collected", "nobody had written for three days".to_owned())
    } else if let Some(stalled) = find(condition::STALLED) {
        ("Failed", format!("closed when it could not go on: {}", stalled.message))
    } else {
        ("Closed", "somebody closed it".to_owned())
    };
    (reason.to_owned(), message)
}
