//! The prepared volume of a Repo (`spec.worktree.prepared`): a pod of its own clones the base branch and sets the clone
//! up. Once it has ended, the volumes of new Threads are clones of its volume. It is replaced when what it was made from
//! has changed: lock files, set-up, image, size or class.
//!
//! The agent judges what it finds on such a clone as on any volume: it trusts a set-up only with the same command and
//! lock files.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::prepared::{PreparedStatus, PreparingPod};
use codebutler_crds::role::WorktreeAccess;
use codebutler_crds::{AgentRole, Repo, condition, names};
use codebutler_runtime::apply::{ApplyError, ApplyRefusal, MadeObject, owned_by};
use codebutler_runtime::notice::EventNotice;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::failures::start_limit;
use super::making::SeatMaker;
use super::work_waits;
use crate::context::ControllerContext;
use crate::index::ObjectKey;
use crate::refusals;
use crate::repo;
use crate::seat_memory::{FailedSeats, SeatFailure};
use crate::thread::life::{FailureCause, PodLife};
use crate::thread::volume;

#[cfg(test)]
mod tests;

/// Interval between tries of what was refused, or was given up for work.
const RETRY: Duration = Duration::from_mins(1);
/// Key of its failures among those of seats: no role has such a name.
const FAILURES: &str = "-prepared";
const COLD: &str = "Threads do their own set-up";

/// The facts that a decision on a Repo's prepared volume is made from.
struct PreparedView<'a> {
    repo: &'a Repo,
    /// Maker of its pod; none while the gateway, or a role whose commands run in the worktree, is missing.
    maker: Option<&'a SeatMaker<'a>>,
    /// True once the Repo's account, network policy and certificate authority are there.
    prepared: bool,
    /// Its pods, whatever their state.
    pods: &'a [Arc<Pod>],
    failed: Option<&'a FailedSeats>,
    refusal: Option<&'a ApplyRefusal>,
    /// The current claim, if no clone of it was made in time.
    uncloned: Option<&'a str>,
    /// Claims of which volumes are still to be made.
    awaited: &'a BTreeSet<String>,
    /// True while work of some Thread waits for room.
    waits: bool,
    now: Timestamp,
}

/// The steps to be taken, in this order.
#[derive(Debug, Default, PartialEq)]
struct PreparedPlan {
    /// UIDs of the pods to delete.
    delete_pods: Vec<String>,
    /// Claim to make with its pod.
    create: Option<Box<(PersistentVolumeClaim, Pod)>>,
    /// Names of the claims to delete.
    delete_claims: Vec<String>,
    status: Option<PreparedStatus>,
    /// All conditions, those of others unchanged.
    conditions: Vec<Condition>,
    notices: Vec<EventNotice>,
    again: Option<Duration>,
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
fn find_role(roles: &[Arc<AgentRole>]) -> Option<&AgentRole> {
    let works = |role: &&Arc<AgentRole>| {
        role.spec.tools.offered().any(|tool| tool == "Bash")
            && *role.spec.workspace.worktree == WorktreeAccess::ReadWrite
    };
    roles.iter().find(works).map(|role| &**role)
}

/// Name of the claim for everything that it is made from, as that is now.
fn wanted_claim(repo: &Repo, maker: &SeatMaker, locks: &str) -> String {
    let worktree = &repo.spec.worktree;
    let image = maker.role.spec.workspace.image.as_ref().unwrap_or(&maker.args.workspace_image);
    let parts = json!([
        repo.uid(),
        repo.spec.git.url,
        repo.spec.git.branch,
        worktree.setup,
        volume::describe_request(repo),
        image,
        locks
    ]);
    let digest = Sha256::digest(parts.to_string());
    let id = digest.iter().take(4).fold(0, |id, byte| (id << 8) | u32::from(*byte));
    names::prepared_name(&repo.name_any(), id)
}

fn claim_of(repo: &Repo, pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    names::prepared_of_pod(&repo.name_any(), &name).map(|(claim, _)| claim.to_owned())
}

fn is_ending(pod: &Pod) -> bool {
    PodLife::of(pod) == PodLife::Ending
}

/// The end of a pod that has prepared nothing; none as long as it still may.
fn find_failure(pod: &Pod, now: Timestamp) -> Option<SeatFailure> {
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
fn plan_prepared(view: &PreparedView) -> PreparedPlan {
    let before = view.repo.status.clone().unwrap_or_default();
    let known = before.prepared.map(|known| *known).unwrap_or_default();
    let mut plan = PreparedPlan { conditions: before.conditions, ..PreparedPlan::default() };
    if view.repo.spec.worktree.prepared.is_none() {
        let pods = view.pods.iter().filter(|pod| !is_ending(pod));
        plan.delete_pods = pods.clone().filter_map(|pod| pod.uid()).collect();
        let claims = pods.filter_map(|pod| claim_of(view.repo, pod));
        plan.delete_claims = claims.chain(known.claim).chain(known.replaced).collect();
        condition::clear_condition(&mut plan.conditions, condition::PREPARED_VOLUME_READY);
        return plan;
    }
    let mut status = PreparedStatus { pod: None, ..known };
    let verdict = follow_pods(view, &mut status, &mut plan);
    if let Some(old) = status.replaced.take() {
        if view.awaited.contains(&old) {
            status.replaced = Some(old);
            plan.look_again_in(RETRY);
        } else {
            plan.delete_claims.push(old);
        }
    }
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
        return PreparedVerdict::starting(message);
    };
    let wanted = wanted_claim(view.repo, maker, locks);
    let (own, others): (Vec<_>, Vec<_>) = view
        .pods
        .iter()
        .filter(|pod| !is_ending(pod))
        .partition(|pod| claim_of(view.repo, pod).as_deref() == Some(wanted.as_str()));
    for pod in others {
        plan.delete_pods.extend(pod.uid());
        let claim = claim_of(view.repo, pod);
        plan.delete_claims.extend(claim.filter(|claim| status.claim.as_ref() != Some(claim)));
    }
    let mut lacking = None;
    if status.claim.as_ref() == Some(&wanted) {
        plan.delete_pods.extend(own.iter().filter_map(|pod| pod.uid()));
    } else {
        lacking = match own.first() {
            Some(pod) => follow_pod(view, pod, &wanted, status, plan),
            None => begin_pod(view, maker, &wanted, plan),
        };
    }
    if status.claim.as_ref() == Some(&wanted) {
        return judge_claim(view, &wanted, status);
    }
    lacking.unwrap_or_else(|| PreparedVerdict::starting("a volume is being prepared"))
}

fn judge_claim(view: &PreparedView, claim: &str, status: &mut PreparedStatus) -> PreparedVerdict {
    if view.uncloned == Some(claim) || status.failed.as_deref() == Some(claim) {
        status.failed = Some(claim.to_owned());
        let message = format!(
            "no clone of volume claim `{claim}` was made within a minute: the StorageClass has to be one whose CSI \
             driver can clone volumes; until it is replaced volumes are empty, and {COLD}"
        );
        return PreparedVerdict(false, "PreparedVolumeNotCloned", message);
    }
    let message = format!("the volumes of new Threads are clones of volume claim `{claim}`");
    PreparedVerdict(true, "PreparedVolumeReady", message)
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
        }
        return Some(tell_failure(view, &failure.why, plan));
    }
    if PodLife::of(pod) == PodLife::Succeeded {
        plan.delete_pods.extend(pod.uid());
        plan.delete_claims.extend(status.replaced.take());
        status.replaced = status.claim.replace(wanted.to_owned());
        status.since = Some(Time(view.now));
        status.asked = Some(volume::describe_request(view.repo));
        status.failed = None;
        return None;
    }
    if view.waits {
        plan.delete_pods.extend(pod.uid());
        plan.look_again_in(RETRY);
        return Some(PreparedVerdict::starting("work waits for room, which its pod gives up"));
    }
    status.pod = Some(PreparingPod { name: pod.name_any(), uid: pod.uid().unwrap_or_default() });
    if PodLife::of(pod) == PodLife::Starting {
        plan.look_again_at(start_limit(pod, view.now), view.now);
    }
    None
}

fn tell_failure(view: &PreparedView, why: &str, plan: &mut PreparedPlan) -> PreparedVerdict {
    let due = view.failed.map(|failed| failed.due).filter(|due| *due > view.now);
    let again = due.map(|due| format!("; it is tried again at {due:.0}")).unwrap_or_default();
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

/// Looks at a Repo's prepared volume. Answers whether it has written the Repo's status, and when to look again.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(super) async fn tend_prepared(
    repo: &Repo,
    context: &ControllerContext,
) -> Result<(bool, Option<Duration>), ApplyError> {
    let (key, owner) = (ObjectKey::of(repo), repo.uid().unwrap_or_default());
    let mut pods = context.prepared_pods.of(&key);
    pods.retain(|pod| owned_by(&**pod, &owner));
    let known = repo.status.as_ref().is_some_and(|status| status.prepared.is_some());
    if repo.spec.worktree.prepared.is_none() && !known && pods.is_empty() {
        return Ok((false, None));
    }
    let mut plan = decide(repo, &pods, None, context);
    for pod in &pods {
        if pod.uid().is_some_and(|uid| plan.delete_pods.contains(&uid)) {
            context.apply.delete::<Pod>(pod).await?;
        }
    }
    match make_pod(&plan, &owner, context).await {
        Ok(made) => {
            if let (Some(pod), Some(status)) = (made, &mut plan.status) {
                status.pod = Some(pod);
            }
        }
        Err(ApplyError::Refused(refusal)) => plan = decide(repo, &pods, Some(&refusal), context),
        Err(error) => return Err(error),
    }
    for name in &plan.delete_claims {
        let found = context.apply.find::<PersistentVolumeClaim>(&key.namespace, name).await?;
        if let Some(claim) = found.filter(|claim| owned_by(claim, &owner)) {
            context.apply.delete::<PersistentVolumeClaim>(&claim).await?;
        }
    }
    let patch = patch_status(repo, &plan);
    if let Some(patch) = &patch {
        context.apply.status(repo, patch).await?;
    }
    for notice in &plan.notices {
        context.apply.tell(&repo.object_ref(&()), None, notice).await;
    }
    Ok((patch.is_some(), plan.again))
}

/// The claim first: what was cut off between both is completed by the next look.
async fn make_pod(
    plan: &PreparedPlan,
    owner: &str,
    context: &ControllerContext,
) -> Result<Option<PreparingPod>, ApplyError> {
    let Some((claim, pod)) = plan.create.as_deref() else { return Ok(None) };
    context.apply.create(claim, owner).await.map(drop)?;
    let (MadeObject::New(made) | MadeObject::Found(made)) =
        context.apply.create(pod, owner).await?;
    context.prepared_pods.assume(&made);
    Ok(Some(PreparingPod { name: made.name_any(), uid: made.uid().unwrap_or_default() }))
}

fn decide(
    repo: &Repo,
    pods: &[Arc<Pod>],
    refusal: Option<&ApplyRefusal>,
    context: &ControllerContext,
) -> PreparedPlan {
    let (key, now) = (ObjectKey::of(repo), context.clock.now());
    let (roles, gateway) = (context.roles_of(repo), context.gateway());
    let found = gateway.as_ref().ok();
    let maker = find_role(&roles).and_then(|role| SeatMaker::new(repo, role, found, &context.args));
    let status = repo.status.as_ref();
    let locks = status.and_then(|status| status.base_locks.as_deref()).unwrap_or_default();
    let failed = maker.as_ref().and_then(|maker| {
        let seen = pods.iter().filter_map(|pod| find_failure(pod, now)).collect();
        let made_from = wanted_claim(repo, maker, locks);
        context.seat_memory.count_failures((&key, FAILURES), made_from, seen, None)
    });
    let claim = status.and_then(|status| status.prepared.as_ref()?.claim.as_deref());
    let taken = maker.as_ref().map(SeatMaker::taken).unwrap_or_default();
    plan_prepared(&PreparedView {
        repo,
        maker: maker.as_ref(),
        prepared: repo::observe::is_prepared(context, repo),
        pods,
        failed: failed.as_ref(),
        refusal,
        uncloned: claim.filter(|claim| context.prepared.has_failed(repo, claim)),
        awaited: &awaited_sources(&key, context),
        waits: work_waits(&key.namespace, &taken, context),
        now,
    })
}

/// Claims of which volumes of the Repo's Threads are still to be made.
fn awaited_sources(repo: &ObjectKey, context: &ControllerContext) -> BTreeSet<String> {
    let threads = context.open.names(repo).into_iter();
    let claims =
        threads.flat_map(|name| context.volumes.of(&ObjectKey::new(&repo.namespace, name)));
    claims.filter_map(|claim| volume::awaited_source(&claim).map(str::to_owned)).collect()
}

/// The merge patch of what changes in the Repo's status.
fn patch_status(repo: &Repo, plan: &PreparedPlan) -> Option<Value> {
    let before = repo.status.clone().unwrap_or_default();
    let mut patch = serde_json::Map::new();
    if before.conditions != plan.conditions {
        patch.insert("conditions".to_owned(), json!(plan.conditions));
    }
    if before.prepared.as_deref() != plan.status.as_ref() {
        let value = plan.status.as_ref().map_or(Value::Null, |status| {
            let PreparedStatus { claim, since, asked, pod, failed, replaced } = status;
            // What is absent now is to go.
            json!({"claim": claim, "since": since, "asked": asked, "pod": pod, "failed": failed,
                   "replaced": replaced})
        });
        patch.insert("prepared".to_owned(), value);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
