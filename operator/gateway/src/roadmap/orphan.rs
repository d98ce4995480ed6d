//! Threads whose parent was deleted: what they are a part of is carried out no more, and they go on. Said once,
//! in each of their own conversations, since the parent's is looked after by nobody.

use std::collections::HashSet;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{NanoUsd, Thread};
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_gateway_core::threads::WriteError;
use codebutler_models::budget::purse::RoadmapBudget;
use codebutler_runtime::queue::FollowUp;

use super::{AGAIN, LookError};
use crate::work::WorkServices;

/// Interval of looks at a child: nothing of its own changes when its parent goes.
const EVERY: Duration = Duration::from_secs(10);

/// Tells those that were not told yet, until the gateway stops.
pub(super) async fn run_orphans(gateway: &WorkServices) {
    let queue = ThreadQueue::new(&gateway.context.attended, has_parent, (AGAIN, AGAIN));
    let orphans = OrphanReconciler { gateway, told: HashSet::new() };
    drive_one_by_one(queue, &gateway.shutdown, orphans).await;
}

struct OrphanReconciler<'a> {
    gateway: &'a WorkServices,
    /// Threads that were told. It saves requests, and may be lost.
    told: HashSet<ThreadKey>,
}

impl ThreadReconciler for OrphanReconciler<'_> {
    const NAME: &'static str = "parent_thread";
    type Error = LookError;

    async fn reconcile(&mut self, key: &ThreadKey, thread: &Thread) -> Result<FollowUp, LookError> {
        let Some(parent) = thread.spec.parent.clone().filter(|_| !self.told.contains(key)) else {
            return Ok(FollowUp::await_change());
        };
        let of = ThreadKey { namespace: key.namespace.clone(), name: parent };
        let is_there = self.gateway.context.thread(&of).is_some();
        if is_there || !tell_orphan(self.gateway, thread, &of).await? {
            return Ok(FollowUp::requeue(EVERY));
        }
        let parent = of.name;
        tracing::warn!(thread = key.name, parent, "parent_thread_missing");
        self.told.insert(key.clone());
        Ok(FollowUp::await_change())
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.told.remove(key);
    }
}

/// True if an open Thread has a parent.
fn has_parent(thread: &Thread) -> bool {
    let active = thread.spec.state == ThreadState::Active && !thread.is_going();
    active && thread.spec.parent.is_some() && thread.conversation().is_some()
}

/// Tells the Thread that its parent is gone, and returns true; false if it is there after all, as one that the cache
/// lacks may be new.
async fn tell_orphan(
    gateway: &WorkServices,
    thread: &Thread,
    parent: &ThreadKey,
) -> Result<bool, LookError> {
    match gateway.threads.read(parent).await {
        Ok(_) => return Ok(false),
        Err(WriteError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let repo = gateway.context.repo(&parent.namespace, &thread.spec.repo);
    let purse = repo.and_then(|repo| RoadmapBudget::of(&gateway.context, thread, &repo));
    let text = describe_orphan(thread, parent, purse.map(|purse| purse.cap));
    let id = format!("parent-gone:{}", parent.name);
    gateway.slack.notice(&ThreadKey::from(thread), &id, &text).await?;
    Ok(true)
}

/// The message to people of the Thread.
fn describe_orphan(thread: &Thread, parent: &ThreadKey, budget: Option<NanoUsd>) -> String {
    let what = match &thread.spec.item {
        Some(item) => {
            let budget = match budget {
                Some(budget) => format!("all its items may cost ${budget} together"),
                None => "the Repo's own limits hold".to_owned(),
            };
            format!(
                "Item `{item}` goes on here, but a plan that nobody has approved waits for a person, nothing begins once it is merged, and {budget}. \
                 `develop everything` in a new thread goes on with the rest."
            )
        }
        None => "This part goes on here: parts that had not begun will not, and nobody sees to their order any more. Who wants the \
                 rest asks for it in a new thread."
            .to_owned(),
    };
    format!(
        ":warning: The conversation that this belongs to is gone: there is no Thread `{}` in `{}`. {what}",
        parent.name, parent.namespace
    )
}
