//! Seats of `spec.warm`: pods with a volume that wait for a Thread. They are made here, and given up; a look at a
//! Thread takes them ([`super::thread`]).
//!
//! A seat's claim belongs to its pod until then, so that neither is left behind by the other. A look at a Repo ends
//! here, when all else about it is done.

mod decide;
mod failures;
mod making;
mod plan;
mod prepared;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Repo, Thread, names};
use codebutler_runtime::apply::{ApplyError, ApplyRefusal, MadeObject, owned_by};
use codebutler_runtime::queue::FollowUp;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::ObjectRef;
use kube::{Resource as _, ResourceExt as _};
use serde_json::{Value, json};

use self::decide::plan_seats;
use self::failures::{find_failure, newest_ready};
use self::making::SeatMaker;
use self::plan::{NewSeat, SeatRole, SeatsPlan, SeatsView};
use super::caches::lacks_quota;
use super::context::ControllerContext;
use super::index::ObjectKey;
use super::thread::vacant::{own_seats, spent_seats};
use super::thread::volume;
use super::{repo, servers};
use crate::node_room::lacking;

/// The longest time until caches show that a seat was taken.
const STUCK: SignedDuration = SignedDuration::from_secs(30);
/// A Thread that is younger lets one more seat wait.
const RECENT: SignedDuration = SignedDuration::from_mins(10);

/// A look at a Repo and its servers, and then at its seats.
///
/// # Errors
/// When a write failed; what was done is found by the next look.
pub(crate) async fn look_at_repo(
    repo: Arc<Repo>,
    context: Arc<ControllerContext>,
) -> Result<FollowUp, ApplyError> {
    let mut follow =
        Box::pin(servers::look_at_repo(Arc::clone(&repo), Arc::clone(&context))).await?;
    if repo.metadata.deletion_timestamp.is_none() {
        let (written, again) = Box::pin(prepared::tend_prepared(&repo, &context)).await?;
        let after = follow.after.into_iter().chain(again).min();
        if written {
            // The next look, at the Repo as it is by then, goes on with its seats.
            return Ok(FollowUp { after, ..follow });
        }
        follow.after = after;
    }
    let known = repo.status.as_ref().is_some_and(|status| status.warm.is_some());
    if (repo.spec.warm.is_none() && !known && own_seats(&context, &repo).is_empty())
        || repo.metadata.deletion_timestamp.is_some()
    {
        // The seats of a deleted Repo go with it.
        return Ok(follow);
    }
    let again = tend_seats(&repo, &context).await?;
    let after = follow.after.into_iter().chain(again).min();
    Ok(FollowUp { after, ..follow })
}

async fn tend_seats(
    repo: &Repo,
    context: &ControllerContext,
) -> Result<Option<Duration>, ApplyError> {
    let pods = own_seats(context, repo);
    let stuck = give_up_stuck(repo, context).await?;
    let known = context.seat_memory.refusal(repo, context.clock.now());
    let mut plan = decide(repo, &pods, known.as_ref(), context);
    for pod in &pods {
        if pod.uid().is_some_and(|uid| plan.delete.contains(&uid)) {
            // The deletion fails, rightly, for a seat that a Thread takes at this moment.
            context.apply.delete_unchanged::<Pod>(pod).await?;
        }
    }
    if let Err(error) = make_seats(repo, &pods, &mut plan, context).await {
        let ApplyError::Refused(refusal) = error else { return Err(error) };
        context.seat_memory.refuse(repo, &refusal, context.clock.now());
        plan = decide(repo, &pods, Some(&refusal), context);
    }
    if let Some(patch) = patch_status(repo, &plan) {
        context.apply.status(repo, &patch).await?;
    }
    for notice in &plan.notices {
        context.apply.tell(&repo.object_ref(&()), None, notice).await;
    }
    if pods.is_empty() {
        // The seats given up have made room in the quota: nothing else wakes Threads that it has refused pods.
        for thread in context.all_threads.state_filter(lacks_quota) {
            context.queues.thread(&ObjectKey::of(&*thread));
        }
    }
    Ok(plan.again.into_iter().chain(stuck).min())
}

/// A seat that somebody wanted to take, and did not get, is nobody's. Answers when to look again.
async fn give_up_stuck(
    repo: &Repo,
    context: &ControllerContext,
) -> Result<Option<Duration>, ApplyError> {
    let mut again = None;
    for (pod, since) in spent_seats(context, repo) {
        if context.clock.now().duration_since(since) < STUCK {
            again = Some(STUCK.unsigned_abs());
            continue;
        }
        let namespace = repo.namespace().unwrap_or_default();
        let found = context.apply.find::<Pod>(&namespace, &pod.name_any()).await?;
        let ours = |found: &Pod| owned_by(found, &repo.uid().unwrap_or_default());
        if let Some(found) = found.filter(ours) {
            context.apply.delete_unchanged::<Pod>(&found).await?;
        }
    }
    Ok(again)
}

/// Pods first, since each claim belongs to its pod; one whose making was cut off gets its claim now.
async fn make_seats(
    repo: &Repo,
    pods: &[Arc<Pod>],
    plan: &mut SeatsPlan,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let owner = repo.uid().unwrap_or_default();
    for pod in pods {
        let seat = pod.uid().and_then(|uid| plan.claims.get(&uid));
        if let Some(seat) = seat {
            make_claim(pod, seat, repo, context).await?;
        }
    }
    for NewSeat { seat, pod } in std::mem::take(&mut plan.create) {
        let (MadeObject::New(made) | MadeObject::Found(made)) =
            context.apply.create(&pod, &owner).await?;
        context.seats.assume(&made);
        context.rewritten.made(&pod, &made);
        if let Err(error) = make_claim(&made, &seat, repo, context).await {
            if matches!(error, ApplyError::Refused(_)) {
                context.apply.delete::<Pod>(&made).await?;
            }
            return Err(error);
        }
        plan.status.pods.insert(made.name_any(), made.uid().unwrap_or_default());
    }
    Ok(())
}

async fn make_claim(
    pod: &Pod,
    seat: &str,
    repo: &Repo,
    context: &ControllerContext,
) -> Result<(), ApplyError> {
    let claim = volume::build_seat_claim(pod, seat, repo);
    context.apply.create(&claim, &pod.uid().unwrap_or_default()).await.map(drop)
}

fn decide(
    repo: &Repo,
    pods: &[Arc<Pod>],
    refusal: Option<&ApplyRefusal>,
    context: &ControllerContext,
) -> SeatsPlan {
    let (key, now) = (ObjectKey::of(repo), context.clock.now());
    let gateway = context.gateway_of(repo);
    let threads = context.open.names(&key);
    let threads = threads
        .iter()
        .filter_map(|name| context.all_threads.get(&ObjectRef::new(name).within(&key.namespace)));
    let threads: Vec<_> = threads.collect();
    let roles = context.roles_of(repo);
    let (found, args) = (gateway.as_ref().ok(), &context.args);
    let mut taken = BTreeSet::new();
    let mut of_seats = Vec::new();
    for (at, role) in roles.iter().enumerate() {
        let name = role.spec.role.as_str();
        let named = repo.spec.warm.as_ref().is_some_and(|warm| warm.seats_of(name) > 0);
        let own = own_pods(repo, name, pods);
        let concerned = at == 0 || named || !own.is_empty();
        let maker = SeatMaker::new(repo, role, found, args).filter(|_| concerned);
        let failed = maker.and_then(|maker| {
            taken.extend(maker.taken());
            let seen = own.iter().filter_map(|pod| find_failure(pod, now)).collect();
            let newest = context.spent.newest_made(&key, name);
            let served = newest_ready(own.iter().copied()).into_iter().chain(newest).max();
            context.seat_memory.count_failures((&key, name), maker.describe(), seen, served)
        });
        of_seats.push(SeatRole { role, failed });
    }
    let begun = |thread: &&Arc<Thread>| {
        let made = thread.metadata.creation_timestamp.as_ref();
        made.is_some_and(|made| now.duration_since(made.0) < RECENT)
    };
    plan_seats(&SeatsView {
        repo,
        roles: &of_seats,
        gateway: gateway.as_ref(),
        prepared: repo::observe::is_prepared(context, repo),
        args: &context.args,
        pods,
        refusal,
        waits: work_waits(&key.namespace, &taken, context),
        activity: threads.iter().filter_map(|thread| newest_activity(thread)).max(),
        taken: context.spent.last(&key),
        begun: u32::try_from(threads.iter().filter(begun).count()).unwrap_or(u32::MAX),
        now,
    })
}

/// Those of the pods that were made for this role.
fn own_pods<'a>(repo: &Repo, role: &str, pods: &'a [Arc<Pod>]) -> Vec<&'a Pod> {
    let is_own = |pod: &&Pod| {
        let name = pod.name_any();
        names::seat_of_pod(&repo.name_any(), &name).is_some_and(|(_, own)| own == role)
    };
    pods.iter().map(|pod| &**pod).filter(is_own).collect()
}

/// True if work waits for room that seats have: of any Repo where nodes lack what they have `taken`, of the same
/// namespace where its quota is full.
fn work_waits(namespace: &str, taken: &BTreeSet<String>, context: &ControllerContext) -> bool {
    let full =
        |thread: &Thread| lacks_quota(thread) && thread.namespace().as_deref() == Some(namespace);
    // Read from the pods, not from what people are told of them, which comes minutes later.
    let lacks = |pod: &Pod| {
        let lacks = lacking(pod);
        (!lacks.is_empty()).then(|| lacks.iter().any(|name| taken.contains(name)))
    };
    let all = [&context.pods, &context.server_pods, &context.repo_server_pods];
    let nodeless: Vec<_> = all.iter().flat_map(|pods| pods.find_all(lacks)).collect();
    context.seat_memory.waits(&nodeless, context.clock.now())
        || !context.all_threads.state_filter(full).is_empty()
}

fn newest_activity(thread: &Thread) -> Option<Timestamp> {
    let made = thread.metadata.creation_timestamp.as_ref().map(|made| made.0);
    let last = thread.status.as_ref().and_then(|status| status.last_activity.as_ref());
    made.into_iter().chain(last.map(|last| last.0)).max()
}

/// The merge patch of what changes in the Repo's status.
fn patch_status(repo: &Repo, plan: &SeatsPlan) -> Option<Value> {
    let before = repo.status.clone().unwrap_or_default();
    let mut patch = serde_json::Map::new();
    if before.conditions != plan.conditions {
        patch.insert("conditions".to_owned(), json!(plan.conditions));
    }
    match (&before.warm, repo.spec.warm.is_some()) {
        (Some(_), false) => {
            patch.insert("warm".to_owned(), Value::Null);
        }
        (known, true) if known.as_deref() != Some(&plan.status) => {
            let mut warm = json!(plan.status);
            let gone = known.iter().flat_map(|known| known.pods.keys());
            let gone = gone.filter(|name| !plan.status.pods.contains_key(*name));
            let mut pods: BTreeMap<&String, Value> = gone.map(|name| (name, Value::Null)).collect();
            pods.extend(plan.status.pods.iter().map(|(name, uid)| (name, json!(uid))));
            warm["pods"] = json!(pods);
            patch.insert("warm".to_owned(), warm);
        }
        _ => {}
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}
