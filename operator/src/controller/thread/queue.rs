//! A Thread at its Repo's desk: what of it runs, what it may start, and what is told of waiting.

use std::collections::BTreeSet;

use codebutler_crds::thread::RoleState;
use codebutler_crds::{Repo, Thread, condition};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;

use super::life::Life;
use super::observe::{Admission, Observed};
use super::plan::Plan;
use crate::apply::owned_by;
use crate::controller::context::Context;
use crate::controller::health::Notice;
use crate::controller::index::Key;
use crate::controller::slots::{Request, Roles};

/// Asks for slots for what `plan` would start. Whatever it got before, it asks again each time.
pub fn ask(context: &Context, thread: &Thread, observed: &Observed, plan: &Plan) -> Admission {
    let Some(repo) = &observed.repo else { return Admission::default() };
    let starting: Roles = plan.create_pods.keys().cloned().collect();
    let answer = context.slots.ask(
        &Key::of(&**repo),
        &repo.spec.limits,
        Request {
            thread: &thread.name_any(),
            running: running(thread, observed.pods.iter().map(|pod| &**pod)),
            since: waiting_since(thread).unwrap_or_else(|| context.clock.now()),
            starting,
        },
    );
    context.queues.threads(&thread.namespace().unwrap_or_default(), answer.others);
    Admission::Only { roles: answer.admitted, position: answer.position }
}

/// Before anything is decided: every slot that is in use already.
pub fn prime(context: &Context, threads: &[std::sync::Arc<Thread>]) {
    for thread in threads {
        let (key, uid) = (Key::of(&**thread), thread.uid().unwrap_or_default());
        let pods = context.pods.of(&key);
        let own = pods.iter().map(|pod| &**pod).filter(|pod| owned_by(*pod, &uid));
        let repo = Key::new(&key.namespace, &thread.spec.repo);
        context.slots.prime(&repo, &key.name, running(thread, own));
    }
}

/// Roles that have a live pod and something to do.
fn running<'a>(thread: &Thread, pods: impl Iterator<Item = &'a Pod>) -> Roles {
    let Some(status) = &thread.status else { return Roles::new() };
    let live: BTreeSet<String> = pods
        .filter(|pod| Life::of(pod).is_live())
        .map(|pod| super::desired::role_of(thread, pod))
        .collect();
    let busy = |role: &String| {
        let running =
            |own: &codebutler_crds::thread::RoleStatus| own.state == Some(RoleState::Running);
        status.wants(role) || status.roles.get(role).is_some_and(running)
    };
    live.into_iter().filter(busy).collect()
}

fn waiting_since(thread: &Thread) -> Option<Timestamp> {
    let conditions = &thread.status.as_ref()?.conditions;
    let queued = conditions.iter().find(|c| c.type_ == condition::QUEUED && c.status == "True")?;
    Some(queued.last_transition_time.0)
}

/// Writes what became of it into the status.
pub fn tell(repo: &Repo, thread: &Thread, observed: &Observed, plan: &mut Plan, now: Timestamp) {
    let position = match &observed.admission {
        Admission::Only { position, .. } => *position,
        Admission::All => None,
    };
    plan.status.queue_position = position;
    let waited = waiting_since(thread).is_some();
    let Some(position) = position else {
        if condition::clear(&mut plan.status.conditions, condition::QUEUED)
            && waited
            && !plan.create_pods.is_empty()
        {
            plan.notices.push(Notice::normal("Admitted", "it is this thread's turn"));
        }
        return;
    };
    let limits = &repo.spec.limits;
    // Without the position, which would make it another condition with each step.
    let message = format!(
        "waits for a slot of Repo `{}`, which runs {} threads and {} roles at once (spec.limits)",
        repo.name_any(),
        limits.concurrent_threads,
        limits.concurrent_runs,
    );
    if !waited {
        let note = format!("position {position}: {message}");
        plan.notices.push(Notice::normal("Queued", note));
    }
    condition::set(
        &mut plan.status.conditions,
        condition::QUEUED,
        true,
        "NoFreeSlot",
        message,
        thread.metadata.generation,
        &Time(now),
    );
}
