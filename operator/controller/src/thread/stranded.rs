//! A volume that no node reaches: told with the way out, and made again where its nodes are gone for good.
//! Pure.

use codebutler_runtime::notice::EventNotice;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::plan::ThreadPlan;
use super::view::{ThreadView, remove_pods};
use super::volume::VolumeState;
use crate::health::{HealthLevel, ObjectHealth};
use crate::homes::{FRESH, VolumeHome};
use crate::pod_life::{self, PodTrouble};

/// A node that is gone gets this long to come back before its volume is given up.
const COMES_BACK: SignedDuration = SignedDuration::from_mins(10);

/// A pod that can't be scheduled because of where its volume is: the volume is what is wrong. Whether
/// its nodes still exist is asked first.
pub(super) fn explain_unreachable(
    view: &ThreadView,
    trouble: PodTrouble,
    plan: &mut ThreadPlan,
) -> PodTrouble {
    let claim = view.observed.volume.as_deref();
    let Some(claim) = claim.filter(|claim| VolumeState::of(Some(claim)) == VolumeState::Bound)
    else {
        return trouble;
    };
    if !is_about_nodes(&trouble.said) {
        return trouble;
    }
    let Some(home) = &view.observed.home else {
        plan.find_home = true;
        return trouble;
    };
    plan.look_again_in(FRESH);
    let (name, namespace) = (claim.name_any(), view.thread.namespace().unwrap_or_default());
    let command = format!("`kubectl -n {namespace} delete pvc {name}`");
    let (message, passes) = match home {
        VolumeHome::Gone(nodes) => {
            let message = format!(
                "the volume of claim `{name}` is on {}, which does not exist any more: if it does not come \
                 back within {} min, the volume is made again from the branch and the Slack thread, at once \
                 with {command}; what was not pushed is lost with it",
                named_nodes(nodes),
                COMES_BACK.as_mins()
            );
            (message, None)
        }
        VolumeHome::Somewhere(nodes) => {
            let message = format!(
                "the volume of claim `{name}` can be used on {} only, where the pod can't run ({}): bring \
                 that node back, or give the volume up with {command}; then it is made again from the \
                 branch and the Slack thread, without what was not pushed",
                named_nodes(nodes),
                trouble.said
            );
            (message, trouble.passes)
        }
    };
    PodTrouble { reason: "VolumeUnreachable", message, passes, ..trouble }
}

/// True if a scheduler, of whatever version, says that the volume is on other nodes.
fn is_about_nodes(said: &str) -> bool {
    said.contains("volume node affinity conflict")
        || said.contains("didn't match PersistentVolume's node affinity")
}

fn named_nodes(nodes: &[String]) -> String {
    match nodes {
        [] => "some nodes".to_owned(),
        [one] => format!("node `{one}`"),
        many => format!("the nodes `{}`", many.join("`, `")),
    }
}

/// True if the volume's nodes have been gone for so long that nobody expects them back.
pub(super) fn is_lost(view: &ThreadView, pod: &Pod, trouble: &PodTrouble) -> bool {
    let gone = matches!(view.observed.home, Some(VolumeHome::Gone(_)));
    let since = pod_life::unscheduled_since(pod);
    trouble.reason == "VolumeUnreachable"
        && gone
        && since.is_some_and(|since| view.now.duration_since(since) >= COMES_BACK)
}

/// Removes pods and volume at once, so that a claim that waits for its pods to go is not taken up by new ones.
pub(super) fn rebuild_volume(view: &ThreadView, plan: &mut ThreadPlan) -> ObjectHealth {
    plan.create_pods.clear();
    remove_pods(view.thread, view.observed, plan);
    plan.delete_volume = true;
    let claim = view.thread.volume_claim();
    let message = format!(
        "the volume of claim `{claim}` was on a node that is gone, and what was not pushed with it: it is \
         made again from the branch and the Slack thread"
    );
    plan.notices.push(EventNotice::warning("VolumeLost", message.clone()));
    ObjectHealth::new(HealthLevel::Reconciling, "VolumeLost", message)
}
