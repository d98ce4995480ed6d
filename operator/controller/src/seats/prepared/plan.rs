//! Decides about a Repo's prepared volume. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::prepared::{PreparedStatus, PreparedVolumes, PreparingPod};
use codebutler_crds::{AgentRole, Repo, condition, names};
use codebutler_runtime::apply::{ApplyRefusal, owned_by, shorten_text};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource as _, ResourceExt as _};

use super::wanted::wanted_claim;
use crate::pod_life::{FailureCause, PodLife};
use crate::refusals;
use crate::seat_memory::{FailedSeats, SeatFailure};
use crate::seats::failures::start_limit;
use crate::seats::making::{SeatMaker, works_in_worktree};
use crate::snapshots::{self, AskedSnapshot, SnapshotAnswer, SnapshotState, VolumeSnapshot};
use crate::thread::pod::has_other_shard;
use crate::thread::volume::{self, VolumeState};

#[cfg(test)]
mod tests;

/// Interval between tries of what was refused, or was given up for work.
const RETRY: Duration = Duration::from_mins(1);
/// Key of its failures among those of seats: no role has such a name.
pub(super) const FAILURES: &str = "-prepared";
const COLD: &str = "Threads do their own set-up";
/// Interval of looks at a snapshot that is being taken, and the time after which it takes too long.
const SNAPSHOT_SOON: Duration = Duration::from_secs(2);
const SNAPSHOT_LIMIT: SignedDuration = SignedDuration::from_mins(10);
/// Most characters of a driver's words.
const MAX_SAID: usize = 300;

/// The facts that a decision on a Repo's prepared volume is made from.
pub(super) struct PreparedView<'a> {
    pub repo: &'a Repo,
    /// Maker of its pod; none while the gateway, or a role whose commands run in the worktree, is missing.
    pub maker: Option<&'a SeatMaker<'a>>,
    /// True once the Repo's account, network policy and certificate authority are there.
    pub prepared: bool,
    /// Its pods, whatever their state.
    pub pods: &'a [Arc<Pod>],
    /// Its claims, whatever their state.
    pub claims: &'a [Arc<PersistentVolumeClaim>],
    pub failed: Option<&'a FailedSeats>,
    pub refusal: Option<&'a ApplyRefusal>,
    /// The current claim, if clones of it were too late, one after the other.
    pub uncloned: Option<&'a str>,
    /// The snapshot of the current claim, where the Repo wants snapshots.
    pub snapshot: Option<&'a AskedSnapshot>,
    /// Claims of which volumes are still to be made.
    pub awaited: &'a BTreeSet<String>,
    /// True while work of some Thread waits for room.
    pub waits: bool,
    pub now: Timestamp,
}

/// The steps to be taken, in this order.
#[derive(Debug, Default, PartialEq)]
pub(super) struct PreparedPlan {
    /// Names of the claims to delete.
    pub delete_claims: Vec<String>,
    /// UIDs of the pods to delete.
    pub delete_pods: Vec<String>,
    /// Claim to make with its pod.
    pub create: Option<Box<(PersistentVolumeClaim, Pod)>>,
    /// Snapshot to take.
    pub take: Option<Box<VolumeSnapshot>>,
    pub status: Option<PreparedStatus>,
    /// All conditions, those of others unchanged.
    pub conditions: Vec<Condition>,
    pub notices: Vec<EventNotice>,
    pub again: Option<Duration>,
}

impl PreparedPlan {
    fn look_again_at(&mut self, moment: Timestamp, now: Timestamp) {
        let left = moment.duration_since(now).max(SignedDuration::from_millis(100)).unsigned_abs();
        self.again = Some(self.again.map_or(left, |again| again.min(left)));
    }

    fn look_again_in(&mut self, after: Duration) {
        self.again = Some(self.again.map_or(after, |again| again.min(after)));
    }
}

/// The state of the volume: whether it can be cloned, a reason, and a sentence.
struct PreparedVerdict(bool, &'static str, String);

impl PreparedVerdict {
    fn starting(message: impl Into<String>) -> Self {
        Self(false, "PreparedVolumeStarting", format!("{}; {COLD}", message.into()))
    }
}

/// The first role whose commands run in the worktree itself: the set-up is for those, in its image.
pub(super) fn find_role(roles: &[Arc<AgentRole>]) -> Option<&AgentRole> {
    roles.iter().map(|role| &**role).find(|role| works_in_worktree(role))
}

fn claim_of(repo: &Repo, pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    names::prepared_of_pod(&repo.name_any(), &name).map(|(claim, _)| claim.to_owned())
}

fn is_ending(pod: &Pod) -> bool {
    PodLife::of(pod) == PodLife::Ending
}

/// True if this claim may still be what it was made for.
pub(super) fn is_usable(claim: &PersistentVolumeClaim) -> bool {
    !matches!(VolumeState::of(Some(claim)), VolumeState::Ending | VolumeState::Lost)
}

/// The end of a pod that has prepared nothing; none as long as it still may.
pub(super) fn find_failure(pod: &Pod, now: Timestamp) -> Option<SeatFailure> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let uid = pod.uid().unwrap_or_default();
    match PodLife::of(pod) {
        PodLife::Failed { at, why, cause } => {
            let why = format!(
                "pod `{name}` failed ({why}): see `kubectl -n {namespace} logs {name} --all-containers`"
            );
            let passes = matches!(cause, FailureCause::GatewayAway | FailureCause::Evicted);
            Some(SeatFailure { uid, made, at, why, passes, ended: true })
        }
        PodLife::Starting if start_limit(pod, now) <= now => {
            let why = format!(
                "pod `{name}` did not start: see `kubectl -n {namespace} describe pod {name}`"
            );
            Some(SeatFailure { uid, made, at: now, why, passes: false, ended: false })
        }
        _ => None,
    }
}

/// Decides about the prepared volume of `view.repo`. Pure.
pub(super) fn plan_prepared(view: &PreparedView) -> PreparedPlan {
    let before = view.repo.status.clone().unwrap_or_default();
    let known = before.prepared.map(|known| *known).unwrap_or_default();
    let mut plan = PreparedPlan { conditions: before.conditions, ..PreparedPlan::default() };
    if view.repo.spec.worktree.prepared.is_none() {
        let pods = view.pods.iter().filter(|pod| !is_ending(pod));
        plan.delete_pods = pods.filter_map(|pod| pod.uid()).collect();
        plan.delete_claims = view.claims.iter().map(|claim| claim.name_any()).collect();
        condition::clear_condition(&mut plan.conditions, condition::PREPARED_VOLUME_READY);
        return plan;
    }
    let mut status = known;
    let type_ = condition::PREPARED_VOLUME_READY;
    let mut told = plan.conditions.iter().filter(|known| known.type_ == type_);
    if told.any(|told| told.observed_generation != view.repo.metadata.generation) {
        // With another spec it may go otherwise: the class is another one, or the driver has more time.
        status.failed = None;
    }
    status.replaced = status.replaced.take().filter(|old| view.awaited.contains(old));
    let verdict = follow_pods(view, &mut status, &mut plan);
    plan.status = Some(status);
    tell_verdict(view, verdict, &mut plan);
    plan
}

fn follow_pods(
    view: &PreparedView,
    status: &mut PreparedStatus,
    plan: &mut PreparedPlan,
) -> PreparedVerdict {
    let locks = view.repo.status.as_ref().and_then(|status| status.base_locks.as_deref());
    let (Some(maker), Some(locks)) = (view.maker, locks) else {
        let message = match view.maker {
            None => {
                "the gateway is missing, or a role with Bash and `workspace.worktree: ReadWrite`"
            }
            Some(_) => {
                "the gateway has not read the base branch yet, which it does with the first conversation"
            }
        };
        // Both come back, and its work is not over.
        let runs = |known: &PreparingPod| {
            let mut live = view.pods.iter().filter(|pod| !is_ending(pod));
            live.any(|pod| pod.uid().as_ref() == Some(&known.uid))
        };
        status.pod = status.pod.take().filter(runs);
        return PreparedVerdict::starting(message);
    };
    status.pod = None;
    let is_there = |name: &String| {
        view.claims.iter().any(|claim| is_usable(claim) && claim.name_any() == *name)
    };
    if !status.claim.as_ref().is_some_and(is_there) {
        // Somebody has deleted it, or its storage is gone.
        (status.claim, status.since, status.asked, status.failed) = (None, None, None, None);
        status.snapshot = None;
    }
    let wanted = wanted_claim(view.repo, maker, locks);
    let (own, others): (Vec<_>, Vec<_>) = view
        .pods
        .iter()
        .filter(|pod| !is_ending(pod))
        .partition(|pod| claim_of(view.repo, pod).as_deref() == Some(wanted.as_str()));
    plan.delete_pods.extend(others.iter().filter_map(|pod| pod.uid()));
    let mut lacking = None;
    if status.claim.as_ref() == Some(&wanted) {
        plan.delete_pods.extend(own.iter().filter_map(|pod| pod.uid()));
    } else {
        lacking = match own.first() {
            Some(pod) => follow_pod(view, pod, &wanted, status, plan),
            None => begin_pod(view, maker, &wanted, plan),
        };
    }
    give_up_claims(view, &wanted, status, plan);
    if status.claim.as_ref() == Some(&wanted) {
        return judge_claim(view, &wanted, status, plan);
    }
    // A failure counts until a later attempt has succeeded.
    let lacking = lacking.or_else(|| Some(tell_failure(view, &view.failed?.why, plan)));
    lacking.unwrap_or_else(|| PreparedVerdict::starting("a volume is being prepared"))
}

/// Plans the end of claims that nothing is made from any more, also of those that an earlier controller has left.
fn give_up_claims(
    view: &PreparedView,
    wanted: &str,
    status: &PreparedStatus,
    plan: &mut PreparedPlan,
) {
    let kept = [status.claim.as_ref(), status.replaced.as_ref()];
    for claim in view.claims {
        let name = claim.name_any();
        let stays = kept.contains(&Some(&name)) || (name == wanted && is_usable(claim));
        if stays || VolumeState::of(Some(claim)) == VolumeState::Ending {
            continue;
        }
        if view.awaited.contains(&name) {
            plan.look_again_in(RETRY);
        } else {
            plan.delete_claims.push(name);
        }
    }
    if status.replaced.is_some() {
        plan.look_again_in(RETRY);
    }
}

fn judge_claim(
    view: &PreparedView,
    claim: &str,
    status: &mut PreparedStatus,
    plan: &mut PreparedPlan,
) -> PreparedVerdict {
    let is_snapshot = view.repo.spec.worktree.prepared == PreparedVolumes::Snapshot;
    if view.uncloned == Some(claim) || status.failed.as_deref() == Some(claim) {
        status.failed = Some(claim.to_owned());
        let seconds = view.repo.spec.worktree.clone_seconds;
        let (what, can) = if is_snapshot {
            (format!("no volume was restored from snapshot `{claim}`"), "restore")
        } else {
            (format!("no clone of volume claim `{claim}` was made"), "clone")
        };
        let message = format!(
            "{what} within {seconds} s, several times in a row: the StorageClass has to be one whose CSI driver can \
             {can} volumes, and a slow one needs a larger spec.worktree.cloneSeconds; until one of these is changed \
             volumes are empty, and {COLD}"
        );
        return PreparedVerdict(false, "PreparedVolumeNotCloned", message);
    }
    if is_snapshot {
        return judge_snapshot(view, claim, status, plan);
    }
    let message = format!("the volumes of new Threads are clones of volume claim `{claim}`");
    PreparedVerdict(true, "PreparedVolumeReady", message)
}

/// The snapshot of the current claim: it is taken once, and volumes are made from it when it can be used.
fn judge_snapshot(
    view: &PreparedView,
    claim: &str,
    status: &mut PreparedStatus,
    plan: &mut PreparedPlan,
) -> PreparedVerdict {
    let asked = view.snapshot.filter(|asked| asked.name == claim);
    let known = status.snapshot.take();
    let (again, verdict) = match asked.map(|asked| &asked.answer) {
        None => (SNAPSHOT_SOON, taking_snapshot(claim)),
        Some(SnapshotAnswer::Unserved) => (RETRY, no_snapshots()),
        Some(SnapshotAnswer::Unknown(why)) => {
            // A snapshot that could be used can still be.
            let usable = known.as_deref() == Some(claim);
            status.snapshot = known;
            let message = format!("snapshot `{claim}` can't be read now ({why})");
            let verdict = if usable {
                PreparedVerdict(true, "PreparedVolumeReady", message)
            } else {
                PreparedVerdict::starting(message)
            };
            (RETRY, verdict)
        }
        Some(SnapshotAnswer::Absent) => {
            if let Some(refusal) = view.refusal {
                let said = refusals::refusal_health(refusal, &view.repo.spec.policy.redaction);
                (RETRY, snapshot_failed(&format!("its snapshot is refused: {}", said.message)))
            } else {
                let source = view.claims.iter().find(|own| own.name_any() == claim);
                plan.take = source.map(|source| Box::new(VolumeSnapshot::build(view.repo, source)));
                (SNAPSHOT_SOON, taking_snapshot(claim))
            }
        }
        Some(SnapshotAnswer::Found(snapshot)) if !is_own(view, claim, snapshot) => {
            let since = status.since.as_ref().map_or(view.now, |since| since.0);
            if view.now.duration_since(since) < SNAPSHOT_LIMIT {
                // One of an earlier claim of this name goes with that.
                (SNAPSHOT_SOON, taking_snapshot(claim))
            } else {
                let other = "there already is a VolumeSnapshot of another volume with its name";
                (RETRY, snapshot_failed(&format!("{other}, `{claim}`: delete it")))
            }
        }
        Some(SnapshotAnswer::Found(snapshot)) => match snapshot.state() {
            SnapshotState::Ready => {
                status.snapshot = Some(claim.to_owned());
                let message =
                    format!("the volumes of new Threads are restored from snapshot `{claim}`");
                return PreparedVerdict(true, "PreparedVolumeReady", message);
            }
            SnapshotState::Failed(why) => {
                let why = shorten_text(why, MAX_SAID);
                (RETRY, snapshot_failed(&format!("snapshot `{claim}` could not be taken: {why}")))
            }
            SnapshotState::Pending => follow_snapshot(view, claim, snapshot),
        },
    };
    plan.look_again_in(again);
    verdict
}

/// True for a snapshot of this very claim: one of that name may be of an earlier claim, or somebody else's.
fn is_own(view: &PreparedView, claim: &str, snapshot: &VolumeSnapshot) -> bool {
    let mut claims = view.claims.iter().filter(|own| own.name_any() == claim);
    claims.any(|own| owned_by(snapshot, &own.uid().unwrap_or_default()))
}

/// A snapshot that is being taken, for how long that may last, and when to look again.
fn follow_snapshot(
    view: &PreparedView,
    claim: &str,
    snapshot: &VolumeSnapshot,
) -> (Duration, PreparedVerdict) {
    let made = snapshot.meta().creation_timestamp.as_ref().map_or(view.now, |made| made.0);
    if view.now.duration_since(made) < SNAPSHOT_LIMIT {
        return (SNAPSHOT_SOON, taking_snapshot(claim));
    }
    let namespace = view.repo.namespace().unwrap_or_default();
    let why = format!(
        "snapshot `{claim}` is not ready to use after {} min: see `kubectl -n {namespace} describe volumesnapshot {claim}`",
        SNAPSHOT_LIMIT.as_mins()
    );
    (RETRY, snapshot_failed(&why))
}

fn taking_snapshot(claim: &str) -> PreparedVerdict {
    PreparedVerdict::starting(format!("a snapshot of volume claim `{claim}` is being taken"))
}

fn snapshot_failed(why: &str) -> PreparedVerdict {
    PreparedVerdict(false, "PreparedVolumeFailed", format!("{why}; it is looked at again; {COLD}"))
}

fn no_snapshots() -> PreparedVerdict {
    let message = format!(
        "the cluster serves no VolumeSnapshots ({}/v1): install their definitions and their controller, or set \
         spec.worktree.prepared to Clone or None; until then {COLD}",
        snapshots::GROUP
    );
    PreparedVerdict(false, "PreparedVolumeNoSnapshots", message)
}

/// The pod that there is. Answers what keeps the volume from being ready, if that is worth saying.
fn follow_pod(
    view: &PreparedView,
    pod: &Arc<Pod>,
    wanted: &str,
    status: &mut PreparedStatus,
    plan: &mut PreparedPlan,
) -> Option<PreparedVerdict> {
    if let Some(failure) = find_failure(pod, view.now) {
        let due = view.failed.map(|failed| failed.due).filter(|due| *due > view.now);
        // The log of a failure is kept until the next try.
        if !failure.ended || due.is_none() {
            plan.delete_pods.extend(pod.uid());
            // The next attempt begins with an empty volume: on this one the set-up counts as tried, or it is full.
            if !failure.passes {
                plan.delete_claims.push(wanted.to_owned());
            }
        }
        return Some(tell_failure(view, &failure.why, plan));
    }
    if PodLife::of(pod) == PodLife::Succeeded {
        plan.delete_pods.extend(pod.uid());
        status.replaced = status.claim.replace(wanted.to_owned());
        status.since = Some(Time(view.now));
        status.asked = Some(volume::describe_source(view.repo));
        (status.failed, status.snapshot) = (None, None);
        return None;
    }
    if view.waits {
        plan.delete_pods.extend(pod.uid());
        plan.look_again_in(RETRY);
        return Some(PreparedVerdict::starting("work waits for room, which its pod gives up"));
    }
    if view.maker.is_some_and(|maker| has_other_shard(pod, maker.gateway)) {
        // Its gateway answers it no more.
        plan.delete_pods.extend(pod.uid());
        return Some(PreparedVerdict::starting("its pod goes on with another gateway"));
    }
    status.pod = Some(PreparingPod { name: pod.name_any(), uid: pod.uid().unwrap_or_default() });
    if PodLife::of(pod) == PodLife::Starting {
        plan.look_again_at(start_limit(pod, view.now), view.now);
    }
    None
}

fn tell_failure(view: &PreparedView, why: &str, plan: &mut PreparedPlan) -> PreparedVerdict {
    let due = view.failed.map(|failed| failed.due).filter(|due| *due > view.now);
    let again = due.map_or_else(
        || "; it is tried again now".to_owned(),
        |due| format!("; it is tried again at {due:.0}"),
    );
    if let Some(due) = due {
        plan.look_again_at(due, view.now);
    }
    PreparedVerdict(false, "PreparedVolumeFailed", format!("{why}{again}; {COLD}"))
}

/// Plans the pod, where it may begin now.
fn begin_pod(
    view: &PreparedView,
    maker: &SeatMaker,
    wanted: &str,
    plan: &mut PreparedPlan,
) -> Option<PreparedVerdict> {
    if let Some(refusal) = view.refusal {
        plan.look_again_in(RETRY);
        let said = refusals::refusal_health(refusal, &view.repo.spec.policy.redaction).message;
        return Some(PreparedVerdict(
            false,
            "PreparedVolumeFailed",
            format!("its claim or pod is refused: {said}; {COLD}"),
        ));
    }
    if view.snapshot.is_some_and(|asked| asked.answer == SnapshotAnswer::Unserved) {
        plan.look_again_in(RETRY);
        return Some(no_snapshots());
    }
    if let Some(failed) = view.failed.filter(|failed| failed.due > view.now) {
        return Some(tell_failure(view, &failed.why, plan));
    }
    if view.repo.spec.suspend || !view.prepared {
        return Some(PreparedVerdict::starting(
            "the Repo is suspended, or is being prepared itself",
        ));
    }
    if view.waits {
        plan.look_again_in(RETRY);
        return Some(PreparedVerdict::starting("work waits for room"));
    }
    // What an earlier attempt has left goes first; its end wakes this Repo.
    let old = view.claims.iter().any(|claim| claim.name_any() == wanted && !is_usable(claim));
    if old || view.pods.iter().any(|pod| claim_of(view.repo, pod).as_deref() == Some(wanted)) {
        return None;
    }
    let claim = volume::build_prepared_claim(view.repo, wanted);
    plan.create = Some(Box::new((claim, maker.prepared(wanted).build())));
    None
}

fn tell_verdict(view: &PreparedView, verdict: PreparedVerdict, plan: &mut PreparedPlan) {
    let PreparedVerdict(holds, reason, message) = verdict;
    let type_ = condition::PREPARED_VOLUME_READY;
    let told = plan.conditions.iter().any(|c| c.type_ == type_ && c.reason == reason);
    if !holds && !told && reason != "PreparedVolumeStarting" {
        plan.notices.push(EventNotice::warning(reason, message.clone()));
    }
    let generation = view.repo.metadata.generation;
    let now = Time(view.now);
    condition::set_condition(&mut plan.conditions, type_, holds, reason, message, generation, &now);
}
