//! Read-only view for a decision on a Thread, and helpers that its parts share. Pure.

use codebutler_crds::{AgentRole, Repo, Thread, ThreadStatus, names};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::observe::ObservedThread;
use super::plan::{GonePod, ThreadPlan};
use super::pod;
use super::volume;
use crate::args::ControllerArgs;
use crate::gateway::GatewayAddress;
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life::PodLife;
use crate::rewritten;

/// A pod that is still there this long after its grace is reported.
const SLOW_END: SignedDuration = SignedDuration::from_secs(60);

/// Everything that is known when a role is decided on.
#[derive(Clone, Copy)]
pub(super) struct ThreadView<'a> {
    pub thread: &'a Thread,
    pub status: &'a ThreadStatus,
    pub repo: &'a Repo,
    pub observed: &'a ObservedThread,
    pub args: &'a ControllerArgs,
    pub now: Timestamp,
}

/// A role with its pod, as observed.
#[derive(Clone, Copy)]
pub(super) struct RoleView<'a> {
    pub name: &'a str,
    /// Its AgentRole, if the Repo has it.
    pub definition: Option<&'a AgentRole>,
    pub pod: Option<&'a Pod>,
    /// True if it has something to do.
    pub wanted: bool,
}

/// The role that a pod is for. By its name, which can't be edited, unlike its labels.
pub(super) fn role_of(thread: &Thread, pod: &Pod) -> String {
    let (pod, name) = (pod.name_any(), thread.name_any());
    let own = pod.strip_prefix(&name).and_then(|rest| rest.strip_prefix('-'));
    let seated = || names::seat_of_pod(&thread.spec.repo, &pod).map(|(_, role)| role);
    own.or_else(seated).unwrap_or(&pod).to_owned()
}

pub(super) fn find_definition<'a>(
    observed: &'a ObservedThread,
    role: &str,
) -> Option<&'a AgentRole> {
    observed.roles.iter().map(|found| &**found).find(|found| found.spec.role == role)
}

/// True if a pod is live and its role has nothing to do.
pub(super) fn is_idle(view: &ThreadView, pod: &Pod) -> bool {
    let role = role_of(view.thread, pod);
    PodLife::of(pod).is_live() && !view.status.is_running(&role) && !view.status.wants(&role)
}

pub(super) fn pod_id(pod: &Pod) -> GonePod {
    GonePod { name: pod.name_any(), uid: pod.uid().unwrap_or_default() }
}

/// True if something changed since the pod was made that may make the next one work.
pub(super) fn has_moved(
    view: &ThreadView,
    role: &str,
    failed: &Pod,
    definition: &AgentRole,
) -> bool {
    let woken_for = failed.annotations().get(pod::ANNOTATION_WOKEN_FOR);
    woken_for.is_none_or(|before| *before != pod::woken_for(view.thread, role))
        || is_outdated(view, failed, definition)
}

/// True if a pod made now would differ. While the gateway can't be found this is not known, and false.
pub(super) fn is_outdated(view: &ThreadView, pod: &Pod, definition: &AgentRole) -> bool {
    let Ok(gateway) = &view.observed.gateway else { return false };
    let made_from = pod.annotations().get(pod::ANNOTATION_CONFIG);
    let mut input = pod_input(view, definition, gateway);
    let name = pod.name_any();
    if let Some((seat, _)) = names::seat_of_pod(&view.thread.spec.repo, &name) {
        input.owner = pod::PodOwner::Seat(seat);
    }
    let rewritten = pod.uid().is_some_and(|uid| view.observed.rewritten.contains(&uid));
    made_from != Some(&input.config())
        || (!rewritten && rewritten::pod_images(pod) != rewritten::pod_images(&input.build()))
}

pub(super) fn pod_input<'a>(
    view: &ThreadView<'a>,
    role: &'a AgentRole,
    gateway: &'a GatewayAddress,
) -> pod::PodInput<'a> {
    let user = volume::find_user(view.observed.volume.as_deref());
    let owner = pod::PodOwner::Thread(view.thread);
    pod::PodInput { owner, repo: view.repo, role, gateway, args: view.args, user }
}

/// A pod whose node does not answer any more.
pub(super) fn not_ending(pod: &Pod) -> ObjectHealth {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let frees = node.map(|node| {
        format!(
            "; if it is shut down, `kubectl taint node {node} \
             node.kubernetes.io/out-of-service=nodeshutdown:NoExecute` frees its volumes, too"
        )
    });
    let node = node.map(|node| format!(" `{node}`")).unwrap_or_default();
    let message = format!(
        "pod `{name}` does not go: its node{node} may be lost; if it is, `kubectl -n {namespace} delete \
         pod {name} --force`{}",
        frees.unwrap_or_default()
    );
    ObjectHealth::new(HealthLevel::Trouble, "PodNotEnding", message)
}

/// Time that a pod that is being deleted may still take, counted from the end of its grace period.
pub(super) fn time_to_end(pod: &Pod, now: Timestamp) -> SignedDuration {
    let due = pod.metadata.deletion_timestamp.as_ref().map_or(now, |time| time.0);
    SLOW_END - now.duration_since(due)
}

pub(super) fn tell_starting(role: &str) -> ObjectHealth {
    ObjectHealth::new(HealthLevel::Reconciling, "PodStarting", format!("starting role `{role}`"))
}

pub(super) fn tell_unknown(view: &ThreadView, role: &str) -> ObjectHealth {
    let repo = &view.thread.spec.repo;
    let message = format!(
        "role `{role}` has mail, but none of the AgentRoles in spec.roles of Repo `{repo}` is it: \
         add one"
    );
    ObjectHealth::new(HealthLevel::Stalled, "RoleNotFound", message)
}

/// Removes all pods that are not on their way out.
pub(super) fn remove_pods(thread: &Thread, observed: &ObservedThread, plan: &mut ThreadPlan) {
    let doomed = observed.pods.iter().filter(|pod| PodLife::of(pod) != PodLife::Ending);
    for pod in doomed.map(|pod| pod_id(pod)) {
        if !plan.delete_pods.contains(&pod) {
            plan.delete_pods.push(pod);
        }
    }
    let there = |uid: &String| observed.pods.iter().any(|pod| pod.uid().as_ref() == Some(uid));
    for (name, role) in &mut plan.status.roles {
        role.failures = 0;
        if let Some(uid) = role.pod_uid.take_if(|uid| !there(uid)) {
            let pod = names::pod_name(&thread.name_any(), name);
            plan.verify_gone.insert(name.clone(), GonePod { name: pod, uid });
        }
    }
}
