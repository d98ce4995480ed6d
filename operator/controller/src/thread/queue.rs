//! A Thread at its Repo's desk: what of it runs, what it may start, and what is told of waiting.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{Repo, Thread, condition};
use codebutler_runtime::notice::EventNotice;
use codebutler_runtime::scope::WatchScope;
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ListParams;
use kube::runtime::reflector::Store;
use kube::{Api, Client, ResourceExt as _};

use super::observe::{ObservedThread, RoleAdmission};
use super::plan::ThreadPlan;
use crate::caches::is_open;
use crate::context::ControllerContext;
use crate::fence::{self, CacheFence};
use crate::index::ObjectKey;
use crate::slots::{RepoSlots, RoleSet, SlotRequest};

/// Threads per answer while the open ones are read.
const PAGE: u32 = 500;
const OPEN: &str = "spec.state=Active";
/// Threads that are taken over at the same time.
const AT_ONCE: usize = 16;
/// Interval between retries while the right to read a namespace is missing.
const AGAIN: Duration = Duration::from_secs(5);

/// Asks for slots for what runs and for what `plan` would start. Whatever it got before, it asks
/// again each time.
pub(super) fn ask_for_slots(
    context: &ControllerContext,
    thread: &Thread,
    observed: &ObservedThread,
    plan: &ThreadPlan,
) -> RoleAdmission {
    let limits = observed.repo.as_ref().map(|repo| repo.spec.limits.clone()).unwrap_or_default();
    let answer = context.slots.ask(
        &desk_key(thread),
        &limits,
        SlotRequest {
            thread: &thread.name_any(),
            admitted: admitted_roles(thread),
            wanted: plan.busy.iter().chain(plan.create_pods.keys()).cloned().collect(),
            since: waiting_since(thread).unwrap_or_else(|| context.clock.now()),
        },
    );
    context.queues.threads(&thread.namespace().unwrap_or_default(), answer.others);
    RoleAdmission::Only { roles: answer.admitted, position: answer.position }
}

/// Once `plan` is written: what it takes back is free.
pub(super) fn settle_slots(context: &ControllerContext, thread: &Thread, plan: &ThreadPlan) {
    let holds = |role: &String| plan.status.roles.get(role).is_some_and(|own| own.admitted);
    let dropped: RoleSet = admitted_roles(thread).into_iter().filter(|role| !holds(role)).collect();
    if !dropped.is_empty() {
        let others = context.slots.release(&desk_key(thread), &thread.name_any(), &dropped);
        context.queues.threads(&thread.namespace().unwrap_or_default(), others);
    }
}

/// Before anything is decided: every slot that is given, and nothing more that the replica before
/// this one may still be giving. Caches may lag behind what it wrote last, so the API server is asked.
/// Answers the namespaces that may not be read, of those that the installation is limited to: they
/// must not hold up the others. Nothing is decided in them until [`prime_late`] is through.
///
/// # Errors
/// When it can't be asked, or not be written to.
pub(crate) async fn prime_queue(
    client: &Client,
    scope: &WatchScope,
    known: &Store<Thread>,
    (slots, fence): (&RepoSlots, &CacheFence),
) -> kube::Result<Vec<String>> {
    let mut unread = Vec::new();
    for threads in scope.places::<Thread>(client) {
        match (prime_in(client, &threads, known, (slots, fence)).await, threads.namespace()) {
            (Err(error), Some(namespace)) if is_forbidden(&error) => {
                tracing::warn!(
                    namespace,
                    %error,
                    "namespace_forbidden"
                );
                fence.unread(namespace);
                unread.push(namespace.to_owned());
            }
            (primed, _) => primed?,
        }
    }
    Ok(unread)
}

/// Takes over what was forbidden at first, as soon as it is not.
pub(crate) async fn prime_late(
    client: Client,
    mut unread: Vec<String>,
    context: Arc<ControllerContext>,
) {
    while !unread.is_empty() {
        tokio::time::sleep(AGAIN).await;
        let mut still = Vec::new();
        for namespace in unread {
            let threads = Api::<Thread>::namespaced(client.clone(), &namespace);
            let known = (&*context.slots, &*context.fence);
            match prime_in(&client, &threads, &context.all_threads, known).await {
                Ok(()) => {
                    tracing::info!(namespace, "namespace_allowed");
                    context.fence.read(&namespace);
                    let threads =
                        context.all_threads.state().into_iter().map(|t| ObjectKey::of(&*t));
                    threads
                        .filter(|thread| thread.namespace == namespace)
                        .for_each(|thread| context.queues.thread(&thread));
                }
                Err(error) => {
                    tracing::debug!(namespace, %error, "namespace_still_forbidden");
                    still.push(namespace);
                }
            }
        }
        unread = still;
    }
}

fn is_forbidden(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}

/// There can be any number of closed Threads, and nothing is granted to one: a grant that is under way
/// was decided on before it was closed. What it holds still it has held for so long that the cache,
/// which was filled before, shows it.
async fn prime_in(
    client: &Client,
    threads: &Api<Thread>,
    known: &Store<Thread>,
    (slots, fence): (&RepoSlots, &CacheFence),
) -> kube::Result<()> {
    let mut seen = HashSet::new();
    let mut page = ListParams::default().limit(PAGE).fields(OPEN);
    loop {
        let found = match threads.list(&page).await {
            // Kubernetes before 1.31 has no selectable fields for custom resources.
            Err(kube::Error::Api(status))
                if status.code == 400 && page.field_selector.is_some() =>
            {
                page.field_selector = None;
                continue;
            }
            found => found?,
        };
        let open: Vec<_> = found.items.into_iter().filter(is_open).collect();
        seen.extend(open.iter().map(ObjectKey::of));
        take_over(client, open, (slots, fence)).await?;
        match found.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let here = |thread: &Thread| {
        threads.namespace().is_none_or(|n| thread.namespace().as_deref() == Some(n))
    };
    let holds = |thread: &Thread| is_open(thread) || !admitted_roles(thread).is_empty();
    for thread in known.state_filter(|thread| here(thread) && holds(thread)) {
        let ObjectKey { namespace, name } = ObjectKey::of(&*thread);
        if !seen.contains(&ObjectKey::of(&*thread)) {
            let only = ListParams::default().fields(&format!("metadata.name={name}"));
            let threads = Api::<Thread>::namespaced(client.clone(), &namespace);
            take_over(client, threads.list(&only).await?.items, (slots, fence)).await?;
        }
    }
    Ok(())
}

async fn take_over(
    client: &Client,
    threads: Vec<Thread>,
    (slots, fence): (&RepoSlots, &CacheFence),
) -> kube::Result<()> {
    let here = futures::stream::iter(threads).map(|thread| {
        let namespace = thread.namespace().unwrap_or_default();
        let api = Api::<Thread>::namespaced(client.clone(), &namespace);
        async move { fence::take_over(&api, fence, thread).await }
    });
    let mut here = here.buffer_unordered(AT_ONCE);
    while let Some(thread) = here.try_next().await? {
        if let Some(thread) = thread {
            slots.prime(&desk_key(&thread), &thread.name_any(), admitted_roles(&thread));
        }
    }
    Ok(())
}

/// Key of the queue in which a Thread asks for slots, even if its Repo does not exist.
fn desk_key(thread: &Thread) -> ObjectKey {
    ObjectKey::new(thread.namespace().unwrap_or_default(), &thread.spec.repo)
}

/// Roles that have a slot by what is written.
fn admitted_roles(thread: &Thread) -> RoleSet {
    let roles = thread.status.iter().flat_map(|status| &status.roles);
    roles.filter(|(_, own)| own.admitted).map(|(role, _)| role.clone()).collect()
}

fn waiting_since(thread: &Thread) -> Option<Timestamp> {
    let conditions = &thread.status.as_ref()?.conditions;
    let queued = conditions.iter().find(|c| c.type_ == condition::QUEUED && c.status == "True")?;
    Some(queued.last_transition_time.0)
}

/// Time for which a Thread had to wait, if all its roles start now.
pub(super) fn ended_wait(thread: &Thread, plan: &ThreadPlan, now: Timestamp) -> Option<Duration> {
    let starts = !plan.create_pods.is_empty() && plan.status.queue_position.is_none();
    let since = waiting_since(thread).unwrap_or(now);
    starts.then(|| now.duration_since(since).unsigned_abs())
}

/// Writes what became of it into the status.
pub(super) fn tell_place(
    repo: &Repo,
    thread: &Thread,
    observed: &ObservedThread,
    plan: &mut ThreadPlan,
    now: Timestamp,
) {
    let position = match &observed.admission {
        RoleAdmission::Only { position, .. } => *position,
        RoleAdmission::All => None,
    };
    plan.status.queue_position = position;
    let waited = waiting_since(thread).is_some();
    let Some(position) = position else {
        if condition::clear_condition(&mut plan.status.conditions, condition::QUEUED)
            && waited
            && matches!(&observed.admission, RoleAdmission::Only { roles, .. } if !roles.is_empty())
        {
            plan.notices.push(EventNotice::normal("Admitted", "it is this thread's turn"));
        }
        return;
    };
    let limits = &repo.spec.limits;
    // The position is left out: with it, the condition would change at each step.
    let message = format!(
        "waits for a slot of Repo `{}`, which runs {} threads and {} roles at once (spec.limits)",
        repo.name_any(),
        limits.concurrent_threads,
        limits.concurrent_runs,
    );
    if !waited {
        let note = format!("position {position}: {message}");
        plan.notices.push(EventNotice::normal("Queued", note));
    }
    condition::set_condition(
        &mut plan.status.conditions,
        condition::QUEUED,
        true,
        "NoFreeSlot",
        message,
        thread.metadata.generation,
        &Time(now),
    );
}
