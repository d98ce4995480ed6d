//! Seats that are of no use to anybody: what is wrong with them.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use crate::pod_life::{self, FailureCause, PodLife};
use crate::seat_memory::SeatFailure;

/// A seat that has a node and has not started after this long is none: it takes room, and nobody can use it.
const STARTS: SignedDuration = SignedDuration::from_mins(10);
/// Time limit for a seat that has found no node. A node that an autoscaler adds is there by then.
const SCHEDULES: SignedDuration = SignedDuration::from_mins(15);
/// Time limit for a seat that runs without a clone, whatever its agent does.
const CLONES: SignedDuration = SignedDuration::from_mins(30);

/// Finds the reason for which a seat that no Thread has had is given up; None as long as it may still be of use.
pub(super) fn find_failure(pod: &Pod, now: Timestamp) -> Option<SeatFailure> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let uid = pod.uid().unwrap_or_default();
    match PodLife::of(pod) {
        PodLife::Failed { at, cause: FailureCause::Evicted, .. }
            if pod_life::ended_unready(pod).is_some_and(|unready| unready >= CLONES) =>
        {
            // The kubelet's own limit, after a time without a controller.
            Some(SeatFailure { uid, made, at, why: tell_no_clone(pod), passes: false, ended: true })
        }
        PodLife::Failed { at, why, cause } => {
            let why = format!(
                "seat `{name}` failed ({why}): see `kubectl -n {namespace} logs {name} --all-containers`"
            );
            let passes = matches!(cause, FailureCause::GatewayAway | FailureCause::Evicted);
            Some(SeatFailure { uid, made, at, why, passes, ended: true })
        }
        PodLife::Starting if start_limit(pod, now) <= now => {
            let (what, limit) = match pod_life::scheduled_at(pod) {
                Some(_) => ("did not start", STARTS),
                None => ("found no node", SCHEDULES),
            };
            let trouble = pod_life::find_trouble(pod, now);
            let why = trouble.map(|trouble| format!(": {}", trouble.message)).unwrap_or_default();
            let why = format!("seat `{name}` {what} within {} min{why}", limit.as_mins());
            Some(SeatFailure { uid, made, at: now, why, passes: false, ended: false })
        }
        PodLife::Running if clone_limit(pod, now).is_some_and(|limit| limit <= now) => {
            let why = tell_no_clone(pod);
            Some(SeatFailure { uid, made, at: now, why, passes: false, ended: false })
        }
        _ => None,
    }
}

fn tell_no_clone(pod: &Pod) -> String {
    let namespace = pod.namespace().unwrap_or_default();
    format!(
        "seat `{}` had no clone of the base branch within {} min: the log of the next one says what is in the way \
         (`kubectl -n {namespace} logs POD -c agent`)",
        pod.name_any(),
        CLONES.as_mins()
    )
}

/// The time at which a seat that runs is given up, unless it has its clone by then.
pub(super) fn clone_limit(pod: &Pod, now: Timestamp) -> Option<Timestamp> {
    let since = pod_life::agent_since(pod).filter(|_| !pod_life::is_ready(pod))?;
    Some(since.saturating_add(CLONES).unwrap_or(now))
}

/// Time at which a seat that has not started is given up. Images are pulled only once the pod has a node, so the
/// limit differs before and after it is scheduled.
pub(super) fn start_limit(pod: &Pod, now: Timestamp) -> Timestamp {
    let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let limit = match pod_life::scheduled_at(pod) {
        Some(scheduled) => scheduled.max(made).checked_add(STARTS),
        // Another one would be the last in the queue.
        None if pod_life::is_held_back(pod) => now.checked_add(SCHEDULES),
        None => made.checked_add(SCHEDULES),
    };
    limit.unwrap_or(now)
}

/// The time at which the newest of the ready seats was made: failures from before it are over.
pub(super) fn newest_ready<'a>(pods: impl Iterator<Item = &'a Pod>) -> Option<Timestamp> {
    let ready = pods.filter(|pod| pod_life::is_ready(pod));
    ready.filter_map(|pod| Some(pod.metadata.creation_timestamp.as_ref()?.0)).max()
}
