//! Threads whose parent was deleted: what they are a part of is worked off no more, and they go on. Said once,
//! in each of their own conversations, since the parent's is looked after by nobody.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use codebutler_crds::thread::ThreadState;
use codebutler_crds::{NanoUsd, Thread};

use super::{AGAIN, LookError, Purse};
use crate::gateway::state::Shared;
use crate::gateway::thread_key::ThreadKey;
use crate::gateway::threads::WriteError;

/// Tells those that were not told yet. `later`: who has to wait after a failure.
pub async fn tell_orphans(
    gateway: &Shared,
    children: &[Arc<Thread>],
    (told, later): (&mut HashSet<(ThreadKey, String)>, &mut HashMap<ThreadKey, Instant>),
) {
    for thread in children {
        let key = ThreadKey::from(&**thread);
        let Some(parent) = thread.spec.parent.clone() else { continue };
        let of = ThreadKey { namespace: key.namespace.clone(), name: parent.clone() };
        let mark = (key.clone(), format!("parent-gone:{parent}"));
        let waits = later.get(&key).is_some_and(|later| *later > Instant::now());
        if waits || told.contains(&mark) || gateway.context.thread(&of).is_some() {
            continue;
        }
        match tell_orphan(gateway, thread, (&of, &mark.1)).await {
            Ok(true) => {
                tracing::warn!(thread = key.name, parent, "a thread goes on without its parent");
                told.insert(mark);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(thread = key.name, %error, "a thread without its parent is told later");
                later.insert(key, Instant::now() + AGAIN);
            }
        }
    }
}

/// Whether it is part of something.
pub fn has_parent(thread: &Thread) -> bool {
    let active = thread.spec.state == ThreadState::Active && !thread.is_going();
    active && thread.spec.parent.is_some() && thread.conversation().is_some()
}

/// Whether it was told: what is not in the cache may be new.
async fn tell_orphan(
    gateway: &Shared,
    thread: &Thread,
    (parent, id): (&ThreadKey, &str),
) -> Result<bool, LookError> {
    match gateway.threads.read(parent).await {
        Ok(_) => return Ok(false),
        Err(WriteError::Missing(_)) => {}
        Err(error) => return Err(error.into()),
    }
    let repo = gateway.context.repo(&parent.namespace, &thread.spec.repo);
    let purse = repo.and_then(|repo| Purse::of(&gateway.context, thread, &repo));
    let text = describe_orphan(thread, parent, purse.map(|purse| purse.cap));
    gateway.slack.notice(&ThreadKey::from(thread), id, &text).await?;
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
