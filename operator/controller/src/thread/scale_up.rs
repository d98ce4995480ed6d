//! A pod that finds no node, where an autoscaler adds one or says that it does not: nobody is asked to add room
//! while a node is on its way. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::plan::ThreadPlan;
use super::view::ThreadView;
use crate::pod_life::{self, PodTrouble};
use crate::scale_up::{FRESH, ScaleUp};

/// A scheduler gets this long before autoscalers are asked about: most pods need none.
const TO_SCHEDULE: SignedDuration = SignedDuration::from_secs(10);
/// Time for an announced node to arrive.
const TO_ARRIVE: SignedDuration = SignedDuration::from_mins(10);

/// Explains a pod that finds no node with the autoscaler's answer. It is asked first, and its answer counts.
pub(super) fn explain_scale_up(
    view: &ThreadView,
    pod: &Pod,
    trouble: PodTrouble,
    plan: &mut ThreadPlan,
) -> PodTrouble {
    let waits = trouble.reason == "PodUnschedulable"
        && !trouble.said.to_lowercase().contains("persistentvolumeclaim");
    let Some((uid, since)) = pod.uid().zip(pod_life::unscheduled_since(pod)).filter(|_| waits)
    else {
        return trouble;
    };
    let left = TO_SCHEDULE - view.now.duration_since(since);
    if left.is_positive() {
        plan.look_again_in(left.unsigned_abs());
        return trouble;
    }
    plan.look_again_in(FRESH);
    match view.observed.scale_ups.get(&uid) {
        None => {
            plan.ask_events.insert(uid);
            trouble
        }
        Some(ScaleUp::Unknown) => trouble,
        Some(ScaleUp::Announced { at, said }) => announce_scale(view, pod, *at, said, trouble),
        Some(ScaleUp::Declined { said }) => {
            let message = format!(
                "pod `{}` can't be scheduled ({}), and the cluster's autoscaler adds no node for it ({said}): raise \
                 the autoscaler's limits, or change the AgentRole's resources, nodeSelector or tolerations",
                pod.name_any(),
                trouble.said
            );
            PodTrouble { message, passes: None, ..trouble }
        }
    }
}

fn announce_scale(
    view: &ThreadView,
    pod: &Pod,
    at: Timestamp,
    said: &str,
    trouble: PodTrouble,
) -> PodTrouble {
    let left = TO_ARRIVE - view.now.duration_since(at);
    let name = pod.name_any();
    if left.is_positive() {
        let message =
            format!("pod `{name}` waits for a node that the cluster's autoscaler adds ({said})");
        return PodTrouble { message, passes: Some(left), ..trouble };
    }
    let message = format!(
        "pod `{name}` can't be scheduled ({}): the cluster's autoscaler announced a node {} min ago ({said}), and \
         none has come: see its log, and the cloud's quota",
        trouble.said,
        TO_ARRIVE.as_mins()
    );
    PodTrouble { message, passes: None, ..trouble }
}
