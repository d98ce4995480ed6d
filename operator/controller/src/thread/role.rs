//! Decides what is to be done about one role of a Thread.

use std::time::Duration;

use codebutler_crds::{condition, names};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::observe::RoleAdmission;
use super::plan::{GonePod, NewPod, PodBegin, ThreadPlan};
use super::pod::has_other_shard;
use super::view::{
    RoleView, ThreadView, has_moved, is_outdated, not_ending, pod_id, pod_input, tell_starting,
    tell_unknown, time_to_end,
};
use super::{hang, scale_up, seat, slow_start, stranded, volume_need};
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life::{self, FailureCause, PodLife, PodTrouble};

/// Pods that may die in a row before a person has to look.
pub(super) const MAX_FAILURES: u32 = 5;
/// A pod that can't start this long keeps no place from others.
const HOLDS_PLACE: SignedDuration = SignedDuration::from_secs(60);
/// Delay before the next pod where the gateway is away, so that many don't come at once.
const AFTER_GATEWAY: SignedDuration = SignedDuration::from_secs(20);
/// A node that evicts a pod gets this long to recover, and longer where pods go again and again.
const AFTER_EVICTION: SignedDuration = SignedDuration::from_secs(5);
const AFTER_EVICTIONS: SignedDuration = SignedDuration::from_mins(1);
/// So does one whose memory was not enough: people hear of it before the next attempt.
const AFTER_OUT_OF_MEMORY: SignedDuration = SignedDuration::from_secs(5);
/// A message from further in the future than this shows that clocks differ.
const SKEW: SignedDuration = SignedDuration::from_secs(2);

/// Adds to the plan what this role needs, and returns what is in its way.
pub(super) fn decide_role(
    view: &ThreadView,
    role: &RoleView,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let Some(pod) = role.pod else { return without_pod(view, role, plan) };
    match PodLife::of(pod) {
        PodLife::Ending => judge_ending(view, role, pod, plan),
        PodLife::Succeeded => {
            let own = plan.status.roles.entry(role.name.to_owned()).or_default();
            own.failures = 0;
            own.pod_uid.take_if(|uid| Some(&*uid) == pod.uid().as_ref());
            plan.delete_pods.push(pod_id(pod));
            let note = format!("role `{}` had nothing left to do and sleeps", role.name);
            plan.notices.push(EventNotice::normal("Suspended", note));
            role.wanted.then(|| tell_starting(role.name))
        }
        PodLife::Failed { at, cause: FailureCause::Evicted, why } => {
            judge_eviction(view, role, pod, at, &why, plan)
        }
        PodLife::Failed {
            at,
            cause: cause @ (FailureCause::GatewayAway | FailureCause::Refused),
            ..
        } => turned_away(view, role, pod, (at, cause), plan),
        PodLife::Failed { at, why, cause } => {
            count_failure(view, role, pod, (at, &why, cause), plan)
        }
        life => match hang::noticed_silence(view, role, pod, plan) {
            Some(silence) => hang::replace_silent(view, role, pod, silence, plan),
            None => judge_live(view, role, pod, &life, plan),
        },
    }
}

fn without_pod(view: &ThreadView, role: &RoleView, plan: &mut ThreadPlan) -> Option<ObjectHealth> {
    let own = plan.status.roles.get_mut(role.name);
    let lost = own.and_then(|own| own.pod_uid.take());
    let was_lost = lost.is_some();
    if let Some(uid) = lost {
        let name = names::pod_name(&view.thread.name_any(), role.name);
        plan.verify_gone.insert(role.name.to_owned(), GonePod { name, uid });
    }
    if !role.wanted {
        return None;
    }
    let Some(definition) = role.definition else { return Some(tell_unknown(view, role.name)) };
    if view.repo.spec.suspend {
        return Some(describe_hold(view));
    }
    if definition.lacks_prompt() {
        let name = definition.name_any();
        let message =
            format!("AgentRole `{name}` lacks its spec.promptFrom: its conditions say more");
        return Some(ObjectHealth::new(HealthLevel::Trouble, "PromptNotFound", message));
    }
    if let Some(delay) = gathering_time(view, role.name) {
        plan.look_again_in(delay);
        let message = format!("gathering messages before role `{}` starts", role.name);
        return Some(ObjectHealth::new(HealthLevel::Reconciling, "Gathering", message));
    }
    let gateway = match &view.observed.gateway {
        Ok(gateway) => gateway,
        Err(why) => {
            return Some(ObjectHealth::new(
                HealthLevel::Trouble,
                "GatewayNotFound",
                why.to_string(),
            ));
        }
    };
    if !view.observed.prepared {
        let repo = &view.thread.spec.repo;
        let message = format!("Repo `{repo}` is being prepared: its conditions say more");
        return Some(ObjectHealth::new(HealthLevel::Reconciling, "RepoNotPrepared", message));
    }
    if !is_admitted(view, role) {
        return Some(describe_queue(view));
    }
    let input = pod_input(view, definition, gateway);
    let begins = begin_of(view, role.name, was_lost);
    let seat = seat::find_seat(view, role.name, &input);
    let new = NewPod { pod: Box::new(input.build()), begins, seat };
    plan.create_pods.insert(role.name.to_owned(), new);
    Some(tell_starting(role.name))
}

fn begin_of(view: &ThreadView, role: &str, was_lost: bool) -> PodBegin {
    let own = view.status.roles.get(role);
    let failed = own.is_some_and(|own| own.failures > 0);
    if was_lost || failed || view.status.is_running(role) {
        PodBegin::Replaced
    } else if own.is_some_and(|own| own.done.is_some()) {
        PodBegin::Woken
    } else {
        PodBegin::First
    }
}

fn judge_live(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    life: &PodLife,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let Some(definition) = role.definition else {
        plan.delete_pods.push(pod_id(pod));
        return role.wanted.then(|| tell_unknown(view, role.name));
    };
    let suspended = view.repo.spec.suspend;
    // Its run has begun, or has to: a role that only has mail can still be stopped before it does.
    let at_work =
        view.status.is_running(role.name) || (role.wanted && view.status.may_run(role.name, false));
    let own = plan.status.roles.entry(role.name.to_owned()).or_default();
    own.pod_uid = pod.uid();
    if !role.wanted {
        // Whatever died before, a run has ended since.
        own.failures = 0;
    }
    if at_work || (role.wanted && !suspended) {
        plan.busy.insert(role.name.to_owned());
    }
    let trouble =
        pod_life::find_trouble(pod, view.now).map(|t| volume_need::explain_unbound(view, t));
    let trouble = trouble.map(|t| stranded::explain_unreachable(view, t, plan));
    if let Some(trouble) = trouble.map(|t| scale_up::explain_scale_up(view, pod, t, plan)) {
        if stranded::is_lost(view, pod, &trouble) {
            return Some(stranded::rebuild_volume(view, plan));
        }
        if is_outdated(view, pod, definition) {
            // The cause of the trouble may have been corrected by the change.
            plan.delete_pods.push(pod_id(pod));
            return Some(tell_starting(role.name));
        }
        return Some(judge_trouble(view, role, pod, trouble, plan));
    }
    let outdated = is_outdated(view, pod, definition);
    // Its gateway serves its Repo no more, whatever it has under way.
    let gateway = view.observed.gateway.as_ref();
    let moved = gateway.is_ok_and(|gateway| has_other_shard(pod, gateway));
    if moved || (outdated && (!at_work || *life == PodLife::Starting)) {
        plan.delete_pods.push(pod_id(pod));
        let why =
            if moved { "its Repo has another shard" } else { "its AgentRole or Repo has changed" };
        let note = format!("role `{}` is replaced: {why}", role.name);
        plan.notices.push(EventNotice::normal("Rolled", note));
        return role.wanted.then(|| tell_starting(role.name));
    }
    if suspended && !at_work {
        plan.delete_pods.push(pod_id(pod));
        let note = format!("role `{}` sleeps: its Repo is suspended", role.name);
        plan.notices.push(EventNotice::normal("Suspended", note));
        return role.wanted.then(|| describe_hold(view));
    }
    if plan.busy.contains(role.name) && !is_admitted(view, role) {
        return Some(describe_queue(view));
    }
    if *life == PodLife::Running {
        return None;
    }
    let slow = slow_start::find_slow_start(view, pod, plan);
    Some(slow.unwrap_or_else(|| tell_starting(role.name)))
}

/// Something keeps a pod from starting. What a cluster fixes by itself gets its time before anybody is
/// told, and a place that it can't use is another's after a minute.
fn judge_trouble(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    PodTrouble { reason, message, passes, .. }: PodTrouble,
    plan: &mut ThreadPlan,
) -> ObjectHealth {
    let created = pod.metadata.creation_timestamp.as_ref().map_or(view.now, |time| time.0);
    let holds = HOLDS_PLACE - view.now.duration_since(created);
    if !view.status.is_running(role.name) {
        if holds.is_positive() {
            plan.look_again_in(holds.unsigned_abs());
        } else {
            plan.busy.remove(role.name);
        }
    }
    match passes {
        Some(left) => {
            plan.look_again_in(left.unsigned_abs());
            let reason = if reason == pod_life::HELD { reason } else { "PodStarting" };
            ObjectHealth::new(HealthLevel::Reconciling, reason, message)
        }
        None => ObjectHealth::new(HealthLevel::Trouble, reason, message),
    }
}

/// A pod on its way out holds its name. One that does not go is on a node that does not answer.
fn judge_ending(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    if !role.wanted {
        return None;
    }
    let (name, left) = (pod.name_any(), time_to_end(pod, view.now));
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        if let Some(hung) = hang::why_it_ends(view, role, pod) {
            return Some(hung);
        }
        let message = format!("waiting until the old pod `{name}` is gone");
        return Some(ObjectHealth::new(HealthLevel::Reconciling, "PodEnding", message));
    }
    Some(not_ending(pod))
}

/// The cluster took the pod away. That is nobody's failure: it is made again, a little later.
fn judge_eviction(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    at: Timestamp,
    why: &str,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let own = plan.status.roles.entry(role.name.to_owned()).or_default();
    if own.pod_uid.take_if(|uid| Some(&*uid) == pod.uid().as_ref()).is_some() {
        let note = format!("pod `{}` of role `{}` was evicted: {why}", pod.name_any(), role.name);
        plan.notices.push(EventNotice::warning("Evicted", note));
    }
    let due = at.saturating_add(rest_after_eviction(view, at)).unwrap_or(view.now);
    let left = due.duration_since(view.now);
    if role.wanted && left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
    } else {
        plan.delete_pods.push(pod_id(pod));
    }
    let mut message = format!(
        "the cluster evicted the pod of role `{}` ({why}); another one follows by itself and goes on",
        role.name
    );
    if !pod_life::is_about_node(pod) {
        message += "; if that keeps happening, raise workspace.resources or priorityClassName of the \
                    AgentRole";
    }
    role.wanted.then(|| ObjectHealth::new(HealthLevel::Reconciling, "PodEvicted", message))
}

/// Time until a pod follows one that was taken away: longer, the longer the Thread has not worked, as where each pod is
/// turned down by the only node that is offered.
fn rest_after_eviction(view: &ThreadView, at: Timestamp) -> SignedDuration {
    let is_stopped = |c: &&Condition| c.type_ == condition::READY && c.status == "False";
    let stopped = view.status.conditions.iter().find(is_stopped);
    let waited = stopped.map(|c| at.duration_since(c.last_transition_time.0));
    (waited.unwrap_or_default() / 8).clamp(AFTER_EVICTION, AFTER_EVICTIONS)
}

/// The gateway does not answer, or does not let the role work: no fault of the pod's. Another one
/// tries again until it does.
fn turned_away(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    (at, cause): (Timestamp, FailureCause),
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let own = plan.status.roles.entry(role.name.to_owned()).or_default();
    own.pod_uid.take_if(|uid| Some(&*uid) == pod.uid().as_ref());
    let left = at.saturating_add(AFTER_GATEWAY).unwrap_or(view.now).duration_since(view.now);
    if role.wanted && left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
    } else {
        plan.delete_pods.push(pod_id(pod));
    }
    let (reason, message) = if cause == FailureCause::GatewayAway {
        let message = format!(
            "the gateway did not answer role `{}` for a minute: see the pods of Deployment \
             `codebutler-gateway`; it is tried again until it does",
            role.name
        );
        ("GatewayAway", message)
    } else {
        let message = format!(
            "the gateway does not let role `{}` work: see the conditions of Repo `{}` and `kubectl -n {} \
             logs {} -c agent`; it is tried again until it does",
            role.name,
            view.thread.spec.repo,
            pod.namespace().unwrap_or_default(),
            pod.name_any()
        );
        ("GatewayRefuses", message)
    };
    role.wanted.then(|| ObjectHealth::new(HealthLevel::Trouble, reason, message))
}

/// A failed pod stays, for its logs, until it is time to try again. Its failure is counted once:
/// together with taking its identity away.
fn count_failure(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    (at, why, cause): (Timestamp, &str, FailureCause),
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let (name, advice) = (pod.name_any(), cause.advice());
    let own = plan.status.roles.entry(role.name.to_owned()).or_default();
    if own.pod_uid.take_if(|uid| Some(&*uid) == pod.uid().as_ref()).is_some() {
        own.failures = own.failures.saturating_add(1);
        let note = format!("pod `{name}` of role `{}` failed: {why}{advice}", role.name);
        plan.notices.push(EventNotice::warning("PodFailed", note));
    }
    let Some(definition) = role.definition.filter(|_| role.wanted) else {
        plan.delete_pods.push(pod_id(pod));
        return role.wanted.then(|| tell_unknown(view, role.name));
    };
    if cause.is_lasting() {
        own.failures = MAX_FAILURES;
    }
    if own.failures >= MAX_FAILURES {
        if !has_moved(view, role.name, pod, definition) {
            let times = own.failures;
            let why = format!("{why}{advice}");
            let (reason, message) = match cause {
                FailureCause::VolumeNotWritable => {
                    ("VolumeNotWritable", describe_unable(role, &name, &why))
                }
                FailureCause::NotConfined => (
                    "SandboxUnavailable",
                    describe_unable(role, &name, &describe_unconfined(view, role, pod)),
                ),
                _ => ("PodFailing", describe_failing(role, times, pod, &why)),
            };
            return Some(ObjectHealth::new(HealthLevel::Stalled, reason, message));
        }
        own.failures = 0;
        plan.delete_pods.push(pod_id(pod));
        return Some(tell_starting(role.name));
    }
    let failures = own.failures;
    let (reason, least) = match cause {
        FailureCause::OutOfMemory => ("OutOfMemory", AFTER_OUT_OF_MEMORY),
        FailureCause::OutOfDisk => ("OutOfDisk", AFTER_OUT_OF_MEMORY),
        _ => ("PodFailed", SignedDuration::ZERO),
    };
    let retry_at = at.saturating_add(restart_backoff(failures).max(least)).unwrap_or(view.now);
    let left = retry_at.duration_since(view.now);
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
    } else {
        plan.delete_pods.push(pod_id(pod));
    }
    let message = format!(
        "pod `{name}` of role `{}` failed ({why}{advice}); attempt {} of {MAX_FAILURES} follows",
        role.name,
        failures + 1
    );
    Some(ObjectHealth::new(HealthLevel::Reconciling, reason, message))
}

fn describe_failing(role: &RoleView, times: u32, pod: &Pod, why: &str) -> String {
    format!(
        "{times} pods of role `{}` failed in a row, the last one because {why}: see `kubectl -n {} logs {} \
         --all-containers`; it is tried again after a new message, a change of the AgentRole or Repo, or \
         when you delete that pod",
        role.name,
        pod.namespace().unwrap_or_default(),
        pod.name_any()
    )
}

/// Message for a failure that retrying does not fix.
fn describe_unable(role: &RoleView, pod: &str, why: &str) -> String {
    format!(
        "role `{}` can't work: {why}; it is tried again when you delete pod `{pod}`, or after a new message",
        role.name
    )
}

/// The node, and what its agent has said of it.
fn describe_unconfined(view: &ThreadView, role: &RoleView, pod: &Pod) -> String {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let said = view.status.roles.get(role.name).and_then(|own| own.sandbox.as_deref());
    let said = said.unwrap_or("its kernel has no Landlock of version 2 or later (Linux 5.19)");
    format!("node `{node}`: {said}")
}

fn is_admitted(view: &ThreadView, role: &RoleView) -> bool {
    match &view.observed.admission {
        RoleAdmission::All => true,
        RoleAdmission::Only { roles, .. } => roles.contains(role.name),
    }
}

pub(super) fn describe_hold(view: &ThreadView) -> ObjectHealth {
    let repo = &view.thread.spec.repo;
    let message = format!("Repo `{repo}` is suspended: unset its spec.suspend to go on");
    ObjectHealth::new(HealthLevel::Held, "RepoSuspended", message)
}

fn describe_queue(view: &ThreadView) -> ObjectHealth {
    let repo = &view.thread.spec.repo;
    let message = format!(
        "all slots of Repo `{repo}` are in use (spec.limits): it starts by itself when it is its \
         turn"
    );
    ObjectHealth::new(HealthLevel::Reconciling, "Queued", message)
}

/// 1 s, 3 s, 9 s, 27 s: quick after an accident, patient with what keeps happening.
fn restart_backoff(failures: u32) -> SignedDuration {
    SignedDuration::from_secs(3_i64.saturating_pow(failures.saturating_sub(1).min(5)))
}

/// Time to wait for more of a user's burst of messages before the first role of the Thread starts (a debounce).
/// Decisions are not gathered, and neither are hand-overs: later messages of a burst are seen before the next model
/// call anyway.
fn gathering_time(view: &ThreadView, role: &str) -> Option<Duration> {
    let status = view.status;
    let begun = status.roles.values().any(|role| role.state.is_some() || role.done.is_some());
    if begun || status.pending.iter().any(|pending| pending.role == role) {
        return None;
    }
    let (secs, micros) = status.roles.get(role)?.inbox.as_ref()?.parts();
    let posted = Timestamp::new(i64::try_from(secs).ok()?, i32::try_from(micros).ok()? * 1000);
    let posted = posted.ok()?;
    if posted > view.now.saturating_add(SKEW).ok()? {
        return None;
    }
    let burst = SignedDuration::from_secs(view.repo.spec.slack.debounce_seconds.into());
    let left = posted.saturating_add(burst).ok()?.duration_since(view.now);
    left.is_positive().then(|| left.unsigned_abs())
}
