//! Decides which volume the pods of a Thread need, and what to do about one that does not fit. Pure.

use codebutler_runtime::notice::EventNotice;
use jiff::SignedDuration;
use kube::ResourceExt as _;

use super::plan::ThreadPlan;
use super::view::{ThreadView, is_idle, pod_id, remove_pods};
use super::volume::{self, VolumeState};
use crate::health::{HealthLevel, ObjectHealth};
use crate::pod_life::{PodLife, PodTrouble};

/// Plans the volume of a Thread, which its pods need first.
pub(super) fn provide_volume(view: &ThreadView, plan: &mut ThreadPlan) -> Option<ObjectHealth> {
    let claim = view.observed.volume.as_deref();
    let state = VolumeState::of(claim);
    if state == VolumeState::Lost {
        return Some(plan_rebuild(view, plan));
    }
    if let Some(claim) = claim {
        if state == VolumeState::Pending && volume::is_outdated(claim, view.repo) {
            return Some(plan_replacement(view, plan));
        }
        // A claim whose pod has no node, or is refused by a quota, says nothing against clones.
        if let (Some(source), Some(since)) =
            (volume::awaited_source(claim), view.observed.cloning_since)
        {
            let limit = SignedDuration::from_secs(view.repo.spec.worktree.clone_seconds.into());
            let waited = view.now.duration_since(since);
            if waited >= limit {
                return Some(plan_plain(view, source, plan));
            }
            plan.look_again_in((limit - waited).unsigned_abs());
        }
        plan.expand_volume = volume::find_expansion(claim, view.repo);
    }
    if plan.create_pods.is_empty() && !(state == VolumeState::Absent && is_missed(view, plan)) {
        return None;
    }
    match state {
        VolumeState::Absent => {
            let source = view.observed.source.as_ref();
            plan.create_volume = Some(volume::build_claim(view.thread, view.repo, source));
            None
        }
        VolumeState::Pending | VolumeState::Bound | VolumeState::Lost => None,
        VolumeState::Ending => {
            plan.create_pods.clear();
            // The old claim goes once no pod uses it any more.
            let idle = view.observed.pods.iter().filter(|pod| is_idle(view, pod));
            plan.delete_pods.extend(idle.map(|pod| pod_id(pod)));
            let name = view.thread.volume_claim();
            let message = format!("waiting until the old volume claim `{name}` is gone");
            Some(ObjectHealth::new(HealthLevel::Reconciling, "VolumeEnding", message))
        }
    }
}

/// True if a pod can't start for lack of a claim. A pod without a node yet does not protect its claim from deletion.
fn is_missed(view: &ThreadView, plan: &ThreadPlan) -> bool {
    let mut pods = view.observed.pods.iter();
    pods.any(|pod| {
        PodLife::of(pod) == PodLife::Starting && !plan.delete_pods.contains(&pod_id(pod))
    })
}

/// Plans a new volume. Work that was not pushed is lost with the old one; branch and conversation are not.
fn plan_rebuild(view: &ThreadView, plan: &mut ThreadPlan) -> ObjectHealth {
    plan.create_pods.clear();
    remove_pods(view.thread, view.observed, plan);
    plan.delete_volume = view.observed.pods.is_empty();
    let claim = view.thread.volume_claim();
    let message = format!(
        "the volume behind claim `{claim}` is gone, and what was not pushed with it: it is made \
         again from the branch and the Slack thread"
    );
    let told = view.status.conditions.iter().any(|c| c.reason == "VolumeLost");
    if !told {
        plan.notices.push(EventNotice::warning("VolumeLost", message.clone()));
    }
    ObjectHealth::new(HealthLevel::Reconciling, "VolumeLost", message)
}

/// Plans another claim in place of one that never had a volume. A claim can't be changed, and nothing is lost with it.
fn plan_replacement(view: &ThreadView, plan: &mut ThreadPlan) -> ObjectHealth {
    plan.create_pods.clear();
    remove_pods(view.thread, view.observed, plan);
    plan.delete_volume = true;
    let claim = view.thread.volume_claim();
    let message =
        format!("volume claim `{claim}` is made again: the Repo wants another one by now");
    plan.notices.push(EventNotice::normal("VolumeReplaced", message.clone()));
    ObjectHealth::new(HealthLevel::Reconciling, "VolumeReplaced", message)
}

/// Plans an empty volume, since the clone of a prepared one does not come.
fn plan_plain(view: &ThreadView, source: &str, plan: &mut ThreadPlan) -> ObjectHealth {
    plan.create_pods.clear();
    remove_pods(view.thread, view.observed, plan);
    plan.delete_volume = true;
    plan.clone_failed = Some(source.to_owned());
    let claim = view.thread.volume_claim();
    let message = format!(
        "volume claim `{claim}` is made again, empty: a clone of `{source}` was not there within {} s",
        view.repo.spec.worktree.clone_seconds
    );
    plan.notices.push(EventNotice::normal("VolumeReplaced", message.clone()));
    ObjectHealth::new(HealthLevel::Reconciling, "VolumeReplaced", message)
}

/// A pod that can't be scheduled because its claim has no volume: the claim is what is wrong.
pub(super) fn explain_unbound(view: &ThreadView, trouble: PodTrouble) -> PodTrouble {
    let claim = view.observed.volume.as_deref();
    let about = trouble.message.to_ascii_lowercase().contains("persistentvolumeclaim");
    let Some(claim) = claim.filter(|c| about && VolumeState::of(Some(c)) == VolumeState::Pending)
    else {
        return trouble;
    };
    let (name, namespace) = (claim.name_any(), claim.namespace().unwrap_or_default());
    let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_ref());
    let (of, advice) = match class {
        Some(class) => (
            format!("StorageClass `{class}`"),
            "spec.worktree.storageClassName of the Repo has to be a class that the cluster has and that \
             has room",
        ),
        None => (
            "no StorageClass".to_owned(),
            "the cluster has no default one, so name one in spec.worktree.storageClassName of the Repo",
        ),
    };
    let message = format!(
        "volume claim `{name}` of {of} has no volume yet: see `kubectl -n {namespace} describe pvc \
         {name}`; {advice} ({})",
        trouble.said
    );
    PodTrouble { reason: "VolumePending", message, ..trouble }
}
