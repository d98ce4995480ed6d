//! Shields of pods: up while a role works, down while it waits for the next message.

use codebutler_crds::Thread;
use codebutler_runtime::apply::ApplyError;
use kube::ResourceExt as _;

use super::plan::{ShieldChange, ThreadPlan};
use super::shield::EvictionShield;
use super::view::{ThreadView, pod_id, role_of};
use crate::context::ControllerContext;
use crate::index::ObjectKey;
use crate::pod_life::PodLife;

/// Plans changes of the annotations that keep autoscalers from evicting pods, where they no longer fit.
pub(super) fn plan_shields(view: &ThreadView, plan: &mut ThreadPlan) {
    for pod in &view.observed.pods {
        let (role, pod_id) = (role_of(view.thread, pod), pod_id(pod));
        if !PodLife::of(pod).is_live() || plan.delete_pods.contains(&pod_id) {
            continue;
        }
        let works = view.status.is_running(&role) || view.status.wants(&role);
        let shield = if works { EvictionShield::Up } else { EvictionShield::Down };
        if !shield.is_on(pod) {
            plan.shields.push(ShieldChange { pod: pod_id, shield });
        }
    }
}

/// Applies the changes. A pod that has gone meanwhile needs none.
pub(super) async fn apply_shields(
    thread: &Thread,
    plan: &ThreadPlan,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    for pod in context.pods.of(&ObjectKey::of(thread)) {
        let wanted = plan.shields.iter().find(|change| Some(&change.pod.uid) == pod.uid().as_ref());
        let Some(wanted) = wanted else { continue };
        match context.apply.annotate(&*pod, &wanted.shield.annotations()).await {
            Ok(()) | Err(ApplyError::Stale { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
