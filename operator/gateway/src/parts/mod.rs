//! A request that is built in several parts, after one yes: each is a Thread with a pull request of its own,
//! in the same Repo or in others of the namespace. The conversation shows how they stand, and merges nothing.
//! By the harness and no model; one gateway does, the one that serves agents.
//!
//! [`decide`] says what is to be done, [`messages`] what people read, both pure; [`find_unmet`] and
//! [`find_needed`] say what a part's pull request waits for, and what it depends on.

mod act;
mod decide;
mod messages;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_crds::thread::{RequestSplit, ThreadState};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::GitHubError;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_gateway_core::threads::WriteError;
use codebutler_runtime::queue::FollowUp;
use kube::ResourceExt as _;

use self::decide::{PartThread, SplitFacts, decide_parts};
pub use self::messages::parts_question;
use crate::roadmap::child::{ChildState, child_name};
use crate::roadmap::stack;
use crate::work::WorkServices;

/// Interval between two looks at a request.
const EVERY: Duration = Duration::from_millis(900);
/// Interval before a retry after a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// The key of the message that shows how it stands.
const DASHBOARD: &str = "parts-dashboard";

/// Reason why a look failed.
#[derive(Debug, thiserror::Error)]
enum PartsError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Cache that saves requests to Slack. It may be lost.
#[derive(Default)]
struct PartsCache {
    links: HashMap<ThreadKey, String>,
    shown: HashMap<ThreadKey, String>,
    /// Conversations whose message says how it ended.
    over: HashSet<ThreadKey>,
}

/// Looks after all requests in parts until the gateway stops.
pub async fn run_parts(gateway: &WorkServices) {
    let queue = ThreadQueue::new(&gateway.context.attended, is_candidate, (AGAIN, AGAIN));
    let parts = PartsReconciler { gateway, cache: PartsCache::default() };
    drive_one_by_one(queue, &gateway.shutdown, parts).await;
}

struct PartsReconciler<'a> {
    gateway: &'a WorkServices,
    cache: PartsCache,
}

impl ThreadReconciler for PartsReconciler<'_> {
    const NAME: &'static str = "parts";
    type Error = PartsError;

    async fn reconcile(&mut self, key: &ThreadKey, _: &Thread) -> Result<FollowUp, PartsError> {
        self.cache.look_at(self.gateway, key).await
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.cache.shown.remove(key);
        self.cache.over.remove(key);
    }
}

fn split_of(thread: &Thread) -> Option<&RequestSplit> {
    thread.status.as_ref().and_then(|status| status.split.as_deref())
}

fn is_candidate(thread: &Thread) -> bool {
    let open = thread.spec.state == ThreadState::Active && !thread.is_going();
    let split = split_of(thread).filter(|split| split.approved_by.is_some());
    open && split.is_some() && thread.conversation().is_some()
}

impl PartsCache {
    async fn look_at(
        &mut self,
        gateway: &WorkServices,
        key: &ThreadKey,
    ) -> Result<FollowUp, PartsError> {
        let rests = Ok(FollowUp::await_change());
        if self.over.contains(key) {
            return rests;
        }
        let cached = gateway.context.thread(key);
        let Some(parent) = gateway.threads.freshest(key, cached) else { return rests };
        let Some(split) = split_of(&parent) else { return rests };
        let repo = gateway.context.repo(&key.namespace, &parent.spec.repo);
        if repo.is_none_or(|repo| repo.spec.suspend) {
            return Ok(FollowUp::requeue(EVERY));
        }
        let threads = threads_of(gateway, &parent, split);
        let undone = act::undone_parts(gateway, &parent, split);
        let facts =
            SplitFacts { split, repo: &parent.spec.repo, threads: &threads, undone: &undone };
        // A step that fails does not hold up the others.
        let mut failed = None;
        for step in decide_parts(&facts) {
            let done = act::carry_out(gateway, &parent, &facts, step).await;
            failed = failed.or(done.err());
        }
        let linked = act::link_pulls(gateway, &parent, &facts).await;
        failed = failed.or(linked.err());
        for thread in threads.values() {
            let child = ThreadKey { namespace: key.namespace.clone(), name: thread.thread.clone() };
            if self.links.contains_key(&child) {
                continue;
            }
            let Some(known) = gateway.context.thread(&child) else { continue };
            let of = gateway.context.repo(&key.namespace, &known.spec.repo);
            if let Some(of) = of.filter(|_| known.conversation().is_some()) {
                let link = gateway.slack.permalink(&of, &known).await;
                self.links.insert(child, link.unwrap_or_default());
            }
        }
        let links = &self.links;
        let place = |name: &str| {
            let child = ThreadKey { namespace: key.namespace.clone(), name: name.to_owned() };
            links.get(&child).filter(|link| !link.is_empty()).cloned()
        };
        let text = messages::parts_dashboard(&facts, place);
        if self.shown.get(key) != Some(&text) {
            let id = format!("{DASHBOARD}:{}", split.asked);
            gateway.slack.show(key, &id, &text).await?;
            self.shown.insert(key.clone(), text);
        } else if split.ended.is_some() && failed.is_none() {
            self.over.insert(key.clone());
        }
        failed.map_or(Ok(FollowUp::requeue(EVERY)), Err)
    }
}

/// The name of a part's Thread: by it the part is begun once.
fn part_name(split: &RequestSplit, parent: &Thread, number: u32) -> String {
    let part = split.part(number).and_then(|part| part.repo.as_deref());
    let repo = part.unwrap_or(&parent.spec.repo);
    child_name(repo, &format!("{} {}", parent.name_any(), split.asked), &format!("part-{number}"))
}

fn freshest_thread(gateway: &WorkServices, parent: &Thread, name: String) -> Option<Arc<Thread>> {
    let key = ThreadKey { namespace: parent.namespace().unwrap_or_default(), name };
    gateway.threads.freshest(&key, gateway.context.thread(&key))
}

/// The Threads of the parts that were begun.
fn threads_of(
    gateway: &WorkServices,
    parent: &Thread,
    split: &RequestSplit,
) -> BTreeMap<u32, PartThread> {
    let of = |(number, _): (u32, _)| {
        let thread = freshest_thread(gateway, parent, part_name(split, parent, number))?;
        let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
        let known = PartThread {
            thread: thread.name_any(),
            state: ChildState::of(&thread),
            pull: pull.map(|pull| (pull.number, pull.url.clone())),
            merged: pull.and_then(|pull| pull.merge_commit.clone()),
        };
        Some((number, known))
    };
    split.numbered().filter_map(of).collect()
}

/// Asks about one part, by its Thread: finds the split of the parent and the part's number there.
fn asked_of_part<T>(
    gateway: &WorkServices,
    thread: &Thread,
    ask: impl FnOnce(&SplitFacts<'_>, u32) -> T,
) -> Option<T> {
    let name = thread.spec.parent.clone()?;
    let parent = freshest_thread(gateway, thread, name)?;
    let split = split_of(&parent).filter(|split| split.approved_by.is_some())?;
    let own = thread.name_any();
    let (number, _) =
        split.numbered().find(|(number, _)| part_name(split, &parent, *number) == own)?;
    let threads = threads_of(gateway, &parent, split);
    let facts = SplitFacts { split, repo: &parent.spec.repo, threads: &threads, undone: &[] };
    Some(ask(&facts, number))
}

/// Reason why a Thread's pull request can't be merged yet: parts that come before it are not, or the item on whose
/// branch it is built.
pub fn find_unmet(gateway: &WorkServices, thread: &Thread) -> Option<String> {
    let unmet = |facts: &SplitFacts<'_>, number: u32| {
        let awaited = facts.split.part(number).map(|part| facts.unmet(part)).unwrap_or_default();
        let name = |number: u32| {
            let pull = facts.threads.get(&number).and_then(|thread| thread.pull.as_ref());
            let title = facts.split.part(number).map(|part| part.title.as_str());
            let title: String =
                title.unwrap_or_default().chars().filter(|c| !"*_`<>~".contains(*c)).collect();
            match pull {
                Some((n, url)) => format!("[#{n}]({url}) ({title})"),
                None => format!("part {number} ({title})"),
            }
        };
        awaited.into_iter().map(name).collect::<Vec<_>>()
    };
    let Some(names) = asked_of_part(gateway, thread, unmet) else {
        return stack::find_unmet(gateway, thread);
    };
    let all = names.join(", ");
    (!names.is_empty()).then(|| format!("is merged after {all}, on which it depends"))
}

/// The pages of pull requests on which a Thread's depends.
pub fn find_needed(gateway: &WorkServices, thread: &Thread) -> Vec<String> {
    let needed = |facts: &SplitFacts<'_>, number: u32| act::needed_pulls(facts, number);
    let needed = asked_of_part(gateway, thread, needed);
    needed.unwrap_or_else(|| stack::find_needed(gateway, thread).into_iter().collect())
}
