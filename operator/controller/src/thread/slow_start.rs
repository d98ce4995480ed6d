//! Reports a pod that has a node and does not start, with the latest warning event about it. Pure.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::plan::ThreadPlan;
use super::view::ThreadView;
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life;
use crate::remedies::needs_host_users;
use crate::scale_up::FRESH;

/// A pod that has not started after this long is reported.
const SLOW_START: SignedDuration = SignedDuration::from_secs(120);

/// Tells of a pod that takes too long. Events about it are asked for first.
pub(super) fn find_slow_start(
    view: &ThreadView,
    pod: &Pod,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let created = pod.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
    let since = pod_life::scheduled_at(pod).map_or(created, |scheduled| scheduled.max(created));
    let left = SLOW_START - view.now.duration_since(since);
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        return None;
    }
    plan.look_again_in(FRESH);
    let uid = pod.uid().unwrap_or_default();
    let warning = view.observed.warnings.get(&uid);
    if warning.is_none() {
        plan.ask_events.insert(uid);
    }
    let said = warning.cloned().flatten().unwrap_or_default();
    let why = if said.is_empty() { String::new() } else { format!(" ({said})") };
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let message = format!(
        "pod `{name}` has not started for {} s{why}{}: see `kubectl -n {namespace} describe pod {name}`",
        SLOW_START.as_secs(),
        needs_host_users(&said)
    );
    Some(ObjectHealth::new(HealthLevel::Trouble, "PodNotStarted", message))
}
