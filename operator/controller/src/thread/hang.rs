//! An agent that lives and says nothing. The gateway notices, since it hears agents; what is done about
//! the pod is decided here. Pure.

use codebutler_crds::thread::AgentSilence;
use codebutler_runtime::notice::EventNotice;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::plan::ThreadPlan;
use super::view::{RoleView, ThreadView, has_moved, pod_id, tell_starting, tell_unknown};
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life;

/// Agents of a role that may hang in a row before a person has to look.
pub(super) const MAX_HANGS: u32 = 3;

/// Returns the silence that the gateway has noticed of this pod. A pod whose agent has not run for as long is not to
/// blame.
pub(super) fn noticed_silence<'a>(
    view: &ThreadView<'a>,
    role: &RoleView,
    pod: &Pod,
    plan: &mut ThreadPlan,
) -> Option<&'a AgentSilence> {
    let silence = find_silence(view, role, pod)?;
    let ran = view.now.duration_since(pod_life::agent_since(pod)?);
    let left = SignedDuration::from_secs(silence.seconds.into()) - ran;
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        return None;
    }
    Some(silence)
}

fn find_silence<'a>(view: &ThreadView<'a>, role: &RoleView, pod: &Pod) -> Option<&'a AgentSilence> {
    let silence = view.status.roles.get(role.name)?.silent.as_ref()?;
    (pod.uid().as_ref() == Some(&silence.pod)).then_some(silence)
}

/// Takes its identity from a silent pod, which is counted once, and makes room for another one. The last
/// one of several in a row stays, to be looked at.
pub(super) fn replace_silent(
    view: &ThreadView,
    role: &RoleView,
    pod: &Pod,
    silence: &AgentSilence,
    plan: &mut ThreadPlan,
) -> Option<ObjectHealth> {
    let own = plan.status.roles.entry(role.name.to_owned()).or_default();
    if own.pod_uid.take_if(|uid| Some(&*uid) == pod.uid().as_ref()).is_some() {
        own.failures = own.failures.saturating_add(1);
        let note = format!("pod `{}` hangs: {}", pod.name_any(), describe_silence(role, silence));
        plan.notices.push(EventNotice::warning("AgentHung", note));
    }
    let failures = own.failures;
    let definition = role.definition.filter(|_| role.wanted);
    if let Some(definition) = definition
        && failures >= MAX_HANGS
    {
        if !has_moved(view, role.name, pod, definition) {
            return Some(tell_hanging(role, pod, silence, failures));
        }
        own.failures = 0;
        plan.delete_pods.push(pod_id(pod));
        return Some(tell_starting(role.name));
    }
    plan.delete_pods.push(pod_id(pod));
    match definition {
        Some(_) => Some(tell_replaced(role, pod, silence, failures)),
        None => role.wanted.then(|| tell_unknown(view, role.name)),
    }
}

/// Explains the end of a pod that is being deleted because its agent hung.
pub(super) fn why_it_ends(view: &ThreadView, role: &RoleView, pod: &Pod) -> Option<ObjectHealth> {
    let failures = view.status.roles.get(role.name)?.failures;
    // New input has reset the failures: the hang counts no more.
    if failures == 0 {
        return None;
    }
    Some(tell_replaced(role, pod, find_silence(view, role, pod)?, failures))
}

fn tell_replaced(
    role: &RoleView,
    pod: &Pod,
    silence: &AgentSilence,
    failures: u32,
) -> ObjectHealth {
    let message = format!(
        "{}: pod `{}` is replaced, and the role goes on from its transcript (time {failures} of \
         {MAX_HANGS})",
        describe_silence(role, silence),
        pod.name_any()
    );
    ObjectHealth::new(HealthLevel::Reconciling, "AgentHung", message)
}

fn tell_hanging(role: &RoleView, pod: &Pod, silence: &AgentSilence, failures: u32) -> ObjectHealth {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let message = format!(
        "{}, {failures} times in a row: look at `kubectl -n {namespace} logs {name} -c agent` and at its \
         node; it is tried again when you delete pod `{name}`, or after a new message",
        describe_silence(role, silence)
    );
    ObjectHealth::new(HealthLevel::Stalled, "AgentHangs", message)
}

fn describe_silence(role: &RoleView, silence: &AgentSilence) -> String {
    let seconds = silence.seconds;
    let time = if seconds < 120 { format!("{seconds} s") } else { format!("{} min", seconds / 60) };
    format!("the agent of role `{}` has said nothing for {time}", role.name)
}
