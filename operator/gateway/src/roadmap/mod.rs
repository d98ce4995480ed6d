//! A repository's roadmap carried out unattended, by the harness and no model: each item becomes a Thread of its
//! own, and what waits for it begins when it is merged. One gateway does, the one that serves agents.
//!
//! [`decide`] says what is to be done, [`child`] how an item's Thread stands, [`messages`] what people read: all
//! pure. Here it is read and carried out. Each step has a key by which it is found again (a Thread's name, a
//! message's), so that it can be begun anew at any time.

mod act;
mod branches;
pub mod child;
pub mod decide;
mod mark;
mod messages;
mod noted;
mod origin;
mod orphan;
pub mod stack;
mod upkeep;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{RoadmapRun, ThreadState};
use codebutler_crds::wire::history::HistoryEvent;
use codebutler_crds::{NanoUsd, Repo, SlackTs, Thread};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::history::ToldEvent;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::thread_queue::{ThreadQueue, ThreadReconciler, drive_one_by_one};
use codebutler_models::budget::purse::{self, cost_of, granted_of, spent_of};
use codebutler_roadmap::RoadmapFile;
use codebutler_runtime::calendar;
use codebutler_runtime::queue::FollowUp;
use jiff::Timestamp;
use kube::ResourceExt as _;
use sha2::{Digest as _, Sha256};

use self::child::{ChildState, child_name};
use self::decide::{ItemChild, ItemFooting, RoadmapFacts, decide_steps};
pub use self::mark::find_mark;
pub use self::noted::{NotedStanding, note_item};
use self::origin::ItemOrigin;
use crate::work::WorkServices;

/// Interval between two looks at a roadmap.
const EVERY: Duration = Duration::from_millis(700);
/// Interval before a retry after a failure.
const AGAIN: Duration = Duration::from_secs(10);
/// Interval between two edits of the dashboard.
const EDIT: Duration = Duration::from_secs(4);
/// Time for which the end waits for the cost of the last calls.
const SETTLES: Duration = Duration::from_mins(2);
/// The file on a base branch.
pub const PATH: &str = ".codebutler/roadmap.md";

type RepoKey = (String, String);

/// Cache that saves requests. It may be lost.
#[derive(Default)]
struct RoadmapCache {
    files: HashMap<RepoKey, KnownFile>,
    /// Text of a conversation's dashboard, and the time of its latest edit.
    shown: HashMap<ThreadKey, (Instant, String)>,
    /// Conversations whose message says how it ended.
    over: HashSet<ThreadKey>,
    told: HashSet<(ThreadKey, String)>,
    /// The latest history events of a conversation's roadmap and its items.
    kept: HashMap<(ThreadKey, String), HistoryEvent>,
    links: HashMap<ThreadKey, String>,
    /// The latest note on each item's branch.
    noted: HashMap<ThreadKey, branches::NoteTaken>,
    /// Items whose pull request is for the base branch, as what they were stacked on is over.
    based: HashSet<ThreadKey>,
    /// Time since which all is merged, and calls are still under way.
    settling: HashMap<ThreadKey, Instant>,
    /// The newest wish of a conversation for which the file was read.
    wishes: HashMap<ThreadKey, SlackTs>,
}

/// The roadmap of a base branch.
#[derive(Clone)]
struct KnownFile {
    asked: Instant,
    commit: String,
    roadmap: Option<Arc<RoadmapFile>>,
    /// Items that were merged by then: another one means another file.
    merged: usize,
}

/// Reason why a look failed.
#[derive(Debug, thiserror::Error)]
enum LookError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error(transparent)]
    Api(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] codebutler_gateway_core::threads::WriteError),
}

/// Looks after all roadmaps until the gateway stops. `poll`: how old the file may be.
pub async fn run_roadmaps(gateway: &WorkServices, poll: Duration) {
    tokio::join!(
        run_plans(gateway, poll),
        orphan::run_orphans(gateway),
        Box::pin(upkeep::run_upkeep(gateway))
    );
}

async fn run_plans(gateway: &WorkServices, poll: Duration) {
    let queue = ThreadQueue::new(&gateway.context.attended, is_candidate, (AGAIN, AGAIN));
    let plans = PlanReconciler { gateway, poll, cache: RoadmapCache::default() };
    drive_one_by_one(queue, &gateway.shutdown, plans).await;
}

struct PlanReconciler<'a> {
    gateway: &'a WorkServices,
    poll: Duration,
    cache: RoadmapCache,
}

impl ThreadReconciler for PlanReconciler<'_> {
    const NAME: &'static str = "roadmap";
    type Error = LookError;

    async fn reconcile(&mut self, key: &ThreadKey, _: &Thread) -> Result<FollowUp, LookError> {
        self.cache.look_at(self.gateway, key, self.poll).await
    }

    fn forget(&mut self, key: &ThreadKey) {
        self.cache.forget(key);
    }
}

fn is_candidate(thread: &Thread) -> bool {
    let active = thread.spec.state == ThreadState::Active && !thread.is_going();
    active && run_of(thread).is_some() && thread.conversation().is_some()
}

impl RoadmapCache {
    fn forget(&mut self, key: &ThreadKey) {
        self.shown.remove(key);
        self.over.remove(key);
        self.settling.remove(key);
        self.wishes.remove(key);
        self.noted.remove(key);
        self.based.remove(key);
        self.told.retain(|(of, _)| of != key);
        self.kept.retain(|(of, _), _| of != key);
    }

    async fn look_at(
        &mut self,
        gateway: &WorkServices,
        key: &ThreadKey,
        poll: Duration,
    ) -> Result<FollowUp, LookError> {
        let rests = Ok(FollowUp::await_change());
        let Some(parent) = gateway.threads.freshest(key, gateway.context.thread(key)) else {
            return rests;
        };
        let Some(run) = run_of(&parent) else { return rests };
        if run.ended.is_none() {
            self.over.remove(key);
        }
        if self.over.contains(key) || (run.ended.is_some() && run.items.is_empty()) {
            return rests;
        }
        let repo = gateway.context.repo(&key.namespace, &parent.spec.repo);
        let Some(repo) = repo.filter(|repo| !repo.spec.suspend) else {
            return Ok(FollowUp::requeue(EVERY));
        };
        let merged = merged_of(gateway, &parent, run);
        // A new wish is about the file as it is at that time, so the file is read anew.
        let is_new = self.wishes.get(key) != Some(&run.wanted);
        let age = if is_new { Duration::ZERO } else { poll };
        let file = match self.file(gateway, &repo, age, merged).await {
            Ok(file) => file,
            Err(error) if error.is_about_repo() => {
                let text =
                    format!(":warning: The roadmap can't be read: {error}. It is tried again.");
                let id = format!("roadmap-unread:{}", run.wanted);
                gateway.slack.notice(key, &id, &text).await?;
                return Err(error.into());
            }
            Err(error) => return Err(error.into()),
        };
        self.wishes.insert(key.clone(), run.wanted.clone());
        let threads = item_threads(gateway, &parent, run, file.roadmap.as_deref());
        let origin = ItemOrigin { parent: &parent, repo: &repo, file: file.roadmap.as_deref() };
        for thread in threads.values() {
            act::note_origin(gateway, &origin, thread).await?;
        }
        let describe = |(id, thread): (&String, &Arc<Thread>)| {
            let on = stack::stacked_on(thread).map(|name| ItemFooting {
                thread: name.to_owned(),
                lost: stack::has_lost_base(gateway, thread),
            });
            (id.clone(), ItemChild { on, ..origin.describe(id, thread) })
        };
        let children = threads.iter().map(describe);
        let children: BTreeMap<String, ItemChild> = children.collect();
        let own = threads.iter().filter(|(id, _)| !children[*id].elsewhere).map(|(_, own)| own);
        let sum = |of: fn(&Thread) -> NanoUsd| {
            own.clone().map(|thread| of(thread)).fold(NanoUsd::ZERO, |all, one| all + one)
        };
        let (cost, spent) = (sum(cost_of), sum(spent_of));
        let all_merged = children.values().all(|child| child.state == ChildState::Merged);
        let is_settling = self.is_settling(key, all_merged && sum(granted_of) > NanoUsd::ZERO);
        let other = other_run(gateway, &parent, run);
        let facts = RoadmapFacts {
            run,
            file: file.roadmap.as_deref(),
            children: &children,
            places: repo.spec.limits.concurrent_threads as usize,
            budget: purse::find_cap(run, &repo, threads.values().map(|thread| &**thread))
                .or(purse::agreed_budget(run, &repo)),
            cost,
            spent,
            is_settling,
            elsewhere: other.as_deref(),
        };
        // A step that fails does not hold up the others.
        let mut failed = None;
        for step in decide_steps(&facts) {
            let done = act::carry_out(gateway, &repo, &parent, &facts, step).await;
            failed = failed.or(done.err());
        }
        if run.approved_by.is_some() {
            self.keep_branches(gateway, &repo, &facts, &threads).await;
            self.tell(gateway, &repo, key, &facts, &threads).await?;
        }
        failed.map_or(Ok(FollowUp::requeue(EVERY)), Err)
    }

    /// True while the end waits for the cost of calls under way. A cost that a provider never tells is waited for
    /// only so long.
    fn is_settling(&mut self, key: &ThreadKey, waits: bool) -> bool {
        if !waits {
            self.settling.remove(key);
            return false;
        }
        let since = *self.settling.entry(key.clone()).or_insert_with(Instant::now);
        since.elapsed() < SETTLES
    }

    /// The file as the base branch has it, or had it not long ago.
    async fn file(
        &mut self,
        gateway: &WorkServices,
        repo: &Repo,
        poll: Duration,
        merged: usize,
    ) -> Result<KnownFile, GitHubError> {
        let key = (repo.namespace().unwrap_or_default(), repo.name_any());
        let known = self.files.get(&key);
        if let Some(known) = known.filter(|k| k.asked.elapsed() < poll && k.merged == merged) {
            return Ok(known.clone());
        }
        let asked = Instant::now();
        let github = GitHub::of(&gateway.context, repo).await?;
        let base = &repo.spec.git.branch;
        let tip = github.tip(base).await?;
        let commit = tip.map(|tip| tip.commit).unwrap_or_default();
        let roadmap = match known {
            Some(known) if known.commit == commit => known.roadmap.clone(),
            _ if commit.is_empty() => None,
            _ => {
                let bytes = github.file(PATH, &commit).await?;
                bytes.map(|bytes| Arc::new(RoadmapFile::read(&String::from_utf8_lossy(&bytes))))
            }
        };
        let fresh = KnownFile { asked, commit, roadmap, merged };
        self.files.insert(key, fresh.clone());
        Ok(fresh)
    }

    /// Brings what people see up to date.
    async fn tell(
        &mut self,
        gateway: &WorkServices,
        repo: &Repo,
        key: &ThreadKey,
        facts: &RoadmapFacts<'_>,
        threads: &BTreeMap<String, Arc<Thread>>,
    ) -> Result<(), LookError> {
        let shows = |thread: &&Arc<Thread>| ChildState::of(thread) != ChildState::Merged;
        for thread in threads.values().filter(shows) {
            let child = ThreadKey::from(&**thread);
            if thread.conversation().is_some() && !self.links.contains_key(&child) {
                let link = gateway.slack.permalink(repo, thread).await;
                self.links.insert(child, link.unwrap_or_default());
            }
        }
        self.keep(gateway, repo, key, facts, threads).await;
        let namespace = key.namespace.clone();
        let links = &self.links;
        let link = |name: &str| {
            let child = ThreadKey { namespace: namespace.clone(), name: name.to_owned() };
            links.get(&child).filter(|link| !link.is_empty()).cloned()
        };
        let page = gateway.context.pages.as_ref();
        let page = page.map(|pages| format!("{pages}/{}/{}/roadmap", key.namespace, key.name));
        let text = messages::roadmap_dashboard(facts, page.as_deref(), link);
        let known = self.shown.get(key);
        if known.is_none_or(|(at, old)| *old != text && at.elapsed() > EDIT) {
            gateway.slack.show(key, act::DASHBOARD, &text).await?;
            self.shown.insert(key.clone(), (Instant::now(), text.clone()));
        }
        if facts.run.ended.is_some() {
            if self.shown.get(key).is_some_and(|(_, said)| *said == text) {
                self.over.insert(key.clone());
            }
            return Ok(());
        }
        for item in &facts.run.items {
            let Some((id, words)) = messages::describe_blocked(facts, item, link) else { continue };
            let told = (key.clone(), id);
            if !self.told.contains(&told) {
                gateway.slack.alert(key, &told.1, &words).await?;
                self.told.insert(told);
            }
        }
        for item in &facts.run.items {
            act::tell_lost_base(gateway, key, facts, item).await?;
        }
        act::tell_ready(gateway, key, facts, link).await?;
        act::tell_digest(gateway, repo, key, facts, &text).await
    }
}

impl RoadmapCache {
    /// Tells the history what has changed, which pages show.
    async fn keep(
        &mut self,
        gateway: &WorkServices,
        repo: &Repo,
        key: &ThreadKey,
        facts: &RoadmapFacts<'_>,
        threads: &BTreeMap<String, Arc<Thread>>,
    ) {
        let run = facts.run;
        let all = (String::new(), messages::run_event(run, facts.budget));
        let items = run.items.iter().zip(0..).map(|(item, place)| {
            let shown = messages::item_event(facts, place, item);
            (item.id.clone(), HistoryEvent::RoadmapItem(shown))
        });
        let changed = |(id, event): &(String, HistoryEvent)| {
            self.kept.get(&(key.clone(), id.clone())) != Some(event)
        };
        let changed: Vec<_> = std::iter::once(all).chain(items).filter(changed).collect();
        if changed.is_empty() {
            return;
        }
        let redactor = masks::as_known(&gateway.context, repo).await;
        for (id, event) in changed {
            // The key has the time of activity, so that the same state is told again when it comes back, and not by
            // two gateways.
            let activity = threads.get(&id).and_then(|thread| {
                thread.status.as_ref()?.last_activity.as_ref().map(|at| at.0.to_string())
            });
            let text = serde_json::to_vec(&event).unwrap_or_default();
            let digest = hex::encode(&Sha256::digest(text)[..8]);
            let of = activity.unwrap_or_else(|| run.wanted.to_string());
            let (key, name) = (key.clone(), format!("roadmap:{id}:{digest}:{of}"));
            let told =
                ToldEvent { key: name, at: None, role: None, run: None, event: event.clone() };
            gateway.context.history.tell(&key, &redactor, told);
            self.kept.insert((key, id), event);
        }
    }
}

/// The roadmap's run that somebody wants in a Thread.
fn run_of(thread: &Thread) -> Option<&RoadmapRun> {
    thread.status.as_ref().and_then(|status| status.roadmap.as_deref())
}

fn freshest_thread(gateway: &WorkServices, namespace: &str, name: &str) -> Option<Arc<Thread>> {
    let key = ThreadKey { namespace: namespace.to_owned(), name: name.to_owned() };
    gateway.threads.freshest(&key, gateway.context.thread(&key))
}

fn merged_of(gateway: &WorkServices, parent: &Thread, run: &RoadmapRun) -> usize {
    let (repo, namespace) = (&parent.spec.repo, parent.namespace().unwrap_or_default());
    let name = parent.name_any();
    let threads = run.items.iter().filter_map(|item| {
        freshest_thread(gateway, &namespace, &child_name(repo, &name, &item.id))
    });
    threads.filter(|thread| ChildState::of(thread) == ChildState::Merged).count()
}

/// The Threads that work on items, by item: this conversation's own, else another one's that is open.
fn item_threads(
    gateway: &WorkServices,
    parent: &Thread,
    run: &RoadmapRun,
    file: Option<&RoadmapFile>,
) -> BTreeMap<String, Arc<Thread>> {
    let (repo, namespace) = (&parent.spec.repo, parent.namespace().unwrap_or_default());
    let mut found = BTreeMap::new();
    for thread in gateway.context.attended.all() {
        let Some(item) = thread.spec.item.clone() else { continue };
        let open = thread.spec.state == ThreadState::Active && !thread.is_going();
        let here = thread.namespace().as_deref() == Some(&*namespace) && thread.spec.repo == *repo;
        if open && here {
            found.insert(item, thread);
        }
    }
    let listed = file.into_iter().flat_map(|file| file.items.iter().map(|item| &item.id));
    for id in run.items.iter().map(|item| &item.id).chain(listed) {
        if let Some(thread) =
            freshest_thread(gateway, &namespace, &child_name(repo, &parent.name_any(), id))
        {
            found.insert(id.clone(), thread);
        }
    }
    found
}

/// The conversation from which this Repo's roadmap is developed, if it is another one.
fn other_run(gateway: &WorkServices, parent: &Thread, run: &RoadmapRun) -> Option<String> {
    let own = (run.approved_at.as_ref().map(|at| at.0), parent.name_any());
    let others = gateway.context.attended.all().into_iter().filter(|thread| {
        let same = thread.namespace() == parent.namespace() && thread.spec.repo == parent.spec.repo;
        let active = thread.spec.state == ThreadState::Active && !thread.is_going();
        same && active
            && thread.name_any() != own.1
            && run_of(thread).is_some_and(RoadmapRun::is_approved)
    });
    let rank = |thread: &Thread| {
        let at = run_of(thread).and_then(|run| run.approved_at.as_ref());
        (at.map(|at| at.0), thread.name_any())
    };
    let first = others.min_by_key(|thread| rank(thread))?;
    // Of two runs that are approved at the same time, the one that was approved earlier goes on.
    let own_first = run.is_approved() && own < rank(&first);
    (!own_first).then(|| first.name_any())
}

/// The day whose digest is due, if its time of day has come. Pure.
fn digest_day(at: &str, zone: &str, told: Option<&str>, now: Timestamp) -> Option<String> {
    let day = calendar::find_moment(now, zone).day;
    let zone = jiff::tz::TimeZone::get(zone).unwrap_or(jiff::tz::TimeZone::UTC);
    let time = now.to_zoned(zone).strftime("%H:%M").to_string();
    (time.as_str() >= at && told != Some(day.as_str())).then_some(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_comes_once_a_day_from_its_time_on() {
        let now: Timestamp = "2026-11-22T07:30:00Z".parse().unwrap();
        let day = |at: &str, zone: &str, told| digest_day(at, zone, told, now);
        assert_eq!(day("08:00", "UTC", None), None);
        assert_eq!(day("08:00", "Europe/Berlin", None).as_deref(), Some("2026-11-22"));
        assert_eq!(day("08:00", "Europe/Berlin", Some("2026-11-22")), None);
        assert_eq!(
            day("08:00", "Europe/Berlin", Some("2026-11-21")).as_deref(),
            Some("2026-11-22")
        );
    }
}
