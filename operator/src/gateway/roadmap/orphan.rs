//! Threads whose parent was deleted: what they are a part of is worked off no more, and they go on. Said once,
//! in each of their own conversations, since the parent's is looked after by nobody.

use std::collections::HashSet;
use std::time::Duration;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{NanoUsd, Thread};

use super::{AGAIN, LookError, Purse};
use crate::gateway::state::Shared;
use crate::gateway::thread_key::ThreadKey;
use crate::gateway::thread_queue::{QueuedThread, ThreadQueue};
use crate::gateway::threads::WriteError;
use crate::queue::FollowUp;

/// How soon a child is looked at again: nothing of its own changes when its parent goes.
const EVERY: Duration = Duration::from_secs(2);

/// Tells those that were not told yet, until the gateway stops.
pub async fn run_orphans(gateway: &Shared) {
    let mut queue = ThreadQueue::new(&gateway.context.attended, has_parent, (AGAIN, AGAIN));
    // What is told spares a question. Nothing depends on it.
    let mut told = HashSet::new();
    while let Some(turn) = gateway.shutdown.run_until_cancelled(queue.next()).await {
        let (key, thread) = match turn {
            QueuedThread::Due(key, thread) => (key, thread),
            QueuedThread::Left(key) => {
                told.remove(&key);
                continue;
            }
        };
        let Some(parent) = thread.spec.parent.clone().filter(|_| !told.contains(&key)) else {
            queue.end(&key, FollowUp::await_change());
            continue;
        };
        let of = ThreadKey { namespace: key.namespace.clone(), name: parent };
        if gateway.context.thread(&of).is_some() {
            queue.end(&key, FollowUp::requeue(EVERY));
            continue;
        }
        match tell_orphan(gateway, &thread, &of).await {
            Ok(true) => {
                let parent = of.name;
                tracing::warn!(thread = key.name, parent, "a thread goes on without its parent");
                queue.end(&key, FollowUp::await_change());
                told.insert(key);
            }
            Ok(false) => queue.end(&key, FollowUp::requeue(EVERY)),
            Err(error) => {
                tracing::warn!(thread = key.name, %error, "a thread without its parent is told later");
                queue.fail(&key);
            }
        }
    }
}

/// Whether it is part of something.
fn has_parent(thread: &Thread) -> bool {
    let active = thread.spec.state == ThreadState::Active && !thread.is_going();
    active && thread.spec.parent.is_some() && thread.conversation().is_some()
}

/// Whether it was told: what is not in the cache may be new.
async fn tell_orphan(
    gateway: &Shared,
    thread: &Thread,
    parent: &ThreadKey,
) -> Result<bool, LookError> {
    match gateway.threads.read(parent).await {
        Ok(_) => return Ok(false),
        Err(WriteError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let repo = gateway.context.repo(&parent.namespace, &thread.spec.repo);
    let purse = repo.and_then(|repo| Purse::of(&gateway.context, thread, &repo));
    let text = describe_orphan(thread, parent, purse.map(|purse| purse.cap));
    let id = format!("parent-gone:{}", parent.name);
    gateway.slack.notice(&ThreadKey::from(thread), &id, &text).await?;
    Ok(true)
}

/// What people are told.
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
