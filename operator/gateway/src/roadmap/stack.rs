//! An item that began on the branch of another one, its predecessor, while that waited for people: it is stacked. Its
//! pull request is for the predecessor's branch, and for the base branch once that one is over. What it is stacked on
//! is written on its Thread when it is made, and only read here.

use std::sync::Arc;

use codebutler_crds::thread::{StackStanding, ThreadState};
use codebutler_crds::wire::{ErrorCode, StackedBranch};
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubError, GitHubPull};
use kube::ResourceExt as _;

use super::child::ChildState;
use super::freshest_thread;
use crate::work::WorkServices;

/// Steps down a stack: people may begin an item anew at any height.
const MOST_BELOW: usize = 16;

/// The Thread that an item's is stacked on, by name.
pub fn stacked_on(thread: &Thread) -> Option<&str> {
    thread.spec.item.as_ref()?;
    thread.annotations().get(names::ANNOTATION_STACKED_ON).map(String::as_str)
}

/// The Thread that an item's is stacked on: another item of the same roadmap.
pub(super) fn find_predecessor(gateway: &WorkServices, thread: &Thread) -> Option<Arc<Thread>> {
    let name = stacked_on(thread)?;
    let found = freshest_thread(gateway, &thread.namespace()?, name)?;
    let (own, other) = (&thread.spec, &found.spec);
    let same = own.repo == other.repo && own.parent.is_some() && own.parent == other.parent;
    (same && other.item.is_some() && own.item != other.item).then_some(found)
}

/// The predecessor's branch, as long as an item's work is for it.
fn open_branch(gateway: &WorkServices, thread: &Thread) -> Option<String> {
    let before = find_predecessor(gateway, thread)?;
    let over = matches!(ChildState::of(&before), ChildState::Merged | ChildState::Dropped);
    (!over).then(|| names::branch_name(&before.name_any()))
}

pub(super) fn is_active(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active && !thread.is_going()
}

pub(super) fn standing_of(thread: &Thread) -> StackStanding {
    let known = thread.status.as_ref().and_then(|status| status.stack.as_deref());
    known.cloned().unwrap_or_default()
}

/// True while another item's branch, on which the Thread's own began, is still open.
pub fn is_for_branch_below(gateway: &WorkServices, thread: &Thread) -> bool {
    open_branch(gateway, thread).is_some()
}

/// True if the predecessor is merged and the gateway has not done yet what follows from that.
pub fn awaits_upkeep(gateway: &WorkServices, thread: &Thread) -> bool {
    let before = find_predecessor(gateway, thread);
    let merged = before.is_some_and(|before| ChildState::of(&before) == ChildState::Merged);
    merged && !standing_of(thread).settled
}

/// Commits that a Thread's branch has of others that are merged: the base branch has all that they lead to.
pub fn merged_below(gateway: &WorkServices, thread: &Thread) -> Vec<String> {
    let mut found = Vec::new();
    let mut next = Arc::new(thread.clone());
    for _ in 0..MOST_BELOW {
        let Some(before) = find_predecessor(gateway, &next) else { break };
        let standing = standing_of(&next);
        if ChildState::of(&before) == ChildState::Merged && standing.settled {
            found.extend(standing.has);
        }
        next = before;
    }
    found
}

/// True if a Thread's branch began on the branch of the Thread `name`, or on one that did.
pub fn is_above(gateway: &WorkServices, thread: &Thread, name: &str) -> bool {
    let mut next = Arc::new(thread.clone());
    // Names may lead round.
    for _ in 0..MOST_BELOW {
        if stacked_on(&next) == Some(name) {
            return true;
        }
        let Some(before) = find_predecessor(gateway, &next) else { return false };
        next = before;
    }
    false
}

/// True once the predecessor of a stacked item is merged, closed or gone.
pub fn is_base_over(gateway: &WorkServices, thread: &Thread) -> bool {
    let pulled = thread.status.as_ref().is_some_and(|status| status.pull_request.is_some());
    pulled && stacked_on(thread).is_some() && open_branch(gateway, thread).is_none()
}

/// The branch that a Thread's begins from, and that its pull request is for.
///
/// # Errors
/// When GitHub can't be asked.
pub async fn base_branch(
    gateway: &WorkServices,
    github: &GitHub,
    repo: &Repo,
    thread: &Thread,
) -> Result<String, GitHubError> {
    if let Some(branch) = open_branch(gateway, thread)
        && github.tip(&branch).await?.is_some()
    {
        return Ok(branch);
    }
    Ok(repo.spec.git.branch.clone())
}

/// True if an item's predecessor was closed without a merge, and nobody was asked since whether to merge the item.
pub fn has_lost_base(gateway: &WorkServices, thread: &Thread) -> bool {
    find_predecessor(gateway, thread).is_some_and(|before| is_lost(&before, thread))
}

/// Pure: people who are asked after the end of the predecessor know of it.
fn is_lost(before: &Thread, thread: &Thread) -> bool {
    let ended = before.status.as_ref().and_then(|status| status.last_activity.as_ref());
    let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
    let asked = closing.map(|closing| closing.ts.parts().0.cast_signed());
    let since = asked.zip(ended).is_some_and(|(asked, ended)| asked > ended.0.as_second());
    ChildState::of(before) == ChildState::Dropped && !since
}

/// Reason why a stacked item can't be merged yet, if there is one.
pub fn find_unmet(gateway: &WorkServices, thread: &Thread) -> Option<String> {
    let before = find_predecessor(gateway, thread)?;
    let what = describe_item(&before);
    match ChildState::of(&before) {
        ChildState::Merged => {
            let waits = !standing_of(thread).settled;
            waits.then(|| format!("is merged once its branch has what came with {what}"))
        }
        ChildState::Dropped => is_lost(&before, thread).then(|| {
            format!("is built on {what}, which was closed without a merge: say here what becomes of that part")
        }),
        _ => Some(format!("is merged after {what}, on whose branch it is built")),
    }
}

/// Name of an item with its pull request, for people.
pub(super) fn describe_item(thread: &Thread) -> String {
    let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    let item = thread.spec.item.as_deref().unwrap_or_default();
    pull.map_or_else(
        || format!("item `{item}`"),
        |pull| format!("[#{}]({}) (item `{item}`)", pull.number, pull.url),
    )
}

/// True if a host does not show yet that the gateway has put the base branch on a pull request's branch.
pub fn is_behind_merge(thread: &Thread, head: &str) -> bool {
    let merge = standing_of(thread).merge;
    let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
    let decided = closing.and_then(|closing| closing.head.as_ref());
    merge.is_some_and(|merge| merge.base && merge.from == head && decided == Some(&merge.to))
}

/// The page of the pull request on whose branch a Thread's is built.
pub fn find_needed(gateway: &WorkServices, thread: &Thread) -> Option<String> {
    let before = find_predecessor(gateway, thread)?;
    let pull = before.status.as_ref()?.pull_request.as_ref()?;
    Some(pull.url.clone())
}

/// The work that a stacked item has of the one below.
pub fn find_below(gateway: &WorkServices, thread: &Thread) -> Option<StackedBranch> {
    let before = find_predecessor(gateway, thread)?;
    let asked = || before.status.as_ref()?.closing.as_ref()?.head.clone();
    let commit = standing_of(thread).has.or_else(asked)?;
    Some(StackedBranch { item: before.spec.item.clone()?, commit })
}

/// Has the pull request of a stacked item be for the base branch once its predecessor is over; one that people have
/// pointed elsewhere stays. Done again, nothing changes.
///
/// # Errors
/// When GitHub refuses.
pub async fn settle_base(
    gateway: &WorkServices,
    github: &GitHub,
    repo: &Repo,
    thread: &Thread,
    pull: &GitHubPull,
) -> Result<Option<GitHubPull>, GitHubError> {
    let is_for = |name: &str| pull.base() == names::branch_name(name);
    let base = &repo.spec.git.branch;
    let due = stacked_on(thread).is_some_and(is_for) && pull.is_open() && pull.base() != base;
    if !due || open_branch(gateway, thread).is_some() {
        return Ok(None);
    }
    github.set_base(pull.number, base).await.map(Some)
}

/// Before the branch of a Thread goes: pull requests that are for it would be closed with it.
///
/// # Errors
/// When GitHub can't be asked now: the end is tried again.
pub async fn release_successors(
    gateway: &WorkServices,
    github: &GitHub,
    repo: &Repo,
    thread: &Thread,
) -> Result<(), ApiError> {
    if thread.spec.item.is_none() {
        return Ok(());
    }
    let (name, base) = (thread.name_any(), &repo.spec.git.branch);
    for other in gateway.context.attended.all() {
        let known = other.status.as_ref().and_then(|status| status.pull_request.as_ref());
        let same = other.namespace() == thread.namespace() && other.spec.repo == thread.spec.repo;
        let (Some(known), true) = (known, same && stacked_on(&other) == Some(&*name)) else {
            continue;
        };
        let moved = async {
            let pull = github.pull(known.number).await?;
            if pull.is_open() && pull.base() == names::branch_name(&name) {
                github.set_base(pull.number, base).await?;
            }
            Ok::<_, GitHubError>(())
        };
        match moved.await.map_err(ApiError::from) {
            Ok(()) => {}
            Err(error) if error.code == ErrorCode::Unavailable => return Err(error),
            Err(error) => {
                let thread = other.name_any();
                tracing::warn!(thread, %error, "pull_request_retarget_failed");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn thread(state: &str, status: &Value) -> Thread {
        serde_json::from_value(json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": "t"},
            "spec": {"repo": "r", "prompt": "p", "item": "1", "state": state}, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn whoever_was_asked_before_the_predecessor_ended_is_asked_once_more() {
        let ended = json!({"lastActivity": "2026-11-28T02:00:00Z"});
        let at = |seconds: i64| {
            let ts = format!("{}.000100", 1_795_831_200 + seconds);
            thread("Active", &json!({"closing": {"ts": ts, "role": "lead", "choice": "merge"}}))
        };
        let dropped = thread("Closed", &ended);
        let instant: jiff::Timestamp = "2026-11-28T02:00:00Z".parse().unwrap();
        assert_eq!(instant.as_second(), 1_795_831_200);
        assert!(is_lost(&dropped, &at(-60)) && !is_lost(&dropped, &at(60)));
        assert!(is_lost(&dropped, &thread("Active", &json!({}))), "not asked at all");
        assert!(!is_lost(&thread("Active", &ended), &at(-60)), "it is under way");
    }
}
