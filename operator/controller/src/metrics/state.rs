//! Metrics derived from objects at each scrape, by the replica that acts.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use codebutler_crds::thread::{ActionApproval, PostedPlan};
use codebutler_crds::{NanoUsd, Repo, Thread, ThreadStatus, condition};
use codebutler_runtime::calendar::{self, BudgetMoment};
use codebutler_runtime::metrics::catalog::controller as catalog;
use codebutler_runtime::metrics::{repo_label, repo_of};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::runtime::reflector::{ObjectRef, Store};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::gauge::Gauge;

use super::shares;
use crate::index::{ObjectIndex, ObjectKey};
use crate::slots::RepoSlots;

/// Threads of a Repo that does not exist (any more).
const NO_REPO: &str = "(none)";

/// Collector of these metrics; it reports nothing unless the replica acts.
#[derive(Debug)]
pub(super) struct StateMetrics {
    /// 1 on the replica that acts, 0 on others.
    pub leader: Gauge,
    pub shown: ShownState,
}

/// Caches that the metrics are derived from. Closed Threads are counted and not looked at: there can be any number of
/// them.
#[derive(Debug)]
pub(crate) struct ShownState {
    pub threads: Store<Thread>,
    pub open: Arc<ObjectIndex<Thread, ()>>,
    pub closed: Arc<ObjectIndex<Thread, ()>>,
    pub repos: Store<Repo>,
    pub slots: Arc<RepoSlots>,
}

/// Samples by the values of two labels.
type LabelPairs = BTreeMap<[String; 2], f64>;

/// Counts over all Threads.
#[derive(Debug, Default)]
struct ThreadCounts {
    phases: LabelPairs,
    waiting: LabelPairs,
    decisions: LabelPairs,
    oldest: BTreeMap<String, f64>,
}

impl Collector for StateMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let acts = self.leader.get() != 0;
        let repos = if acts { self.shown.repos.state() } else { Vec::new() };
        let threads = if acts { self.shown.open_threads() } else { Vec::new() };
        let closed = if acts { self.shown.closed.counts() } else { Vec::new() };
        let now = Timestamp::now();
        encode_counts(&repos, (&threads, &closed), now, &mut encoder)?;
        self.shown.slots(&repos, &mut encoder)?;
        encode_seats(&repos, &mut encoder)?;
        encode_limits(&repos, now, &mut encoder)?;
        let conditions = repos.iter().flat_map(|repo| condition_samples(repo));
        catalog::REPO_CONDITION.write(&mut encoder, conditions)
    }
}

impl ShownState {
    /// Open Threads, which every scrape walks through.
    pub(crate) fn open_threads(&self) -> Vec<Arc<Thread>> {
        let named = self.open.groups().into_iter().flat_map(|(repo, names)| {
            names.into_iter().map(move |name| ObjectRef::new(&name).within(&repo.namespace))
        });
        named.filter_map(|thread| self.threads.get(&thread)).collect()
    }

    fn slots(&self, repos: &[Arc<Repo>], encoder: &mut DescriptorEncoder) -> fmt::Result {
        let used = self.slots.used();
        let pairs = |values: &dyn Fn(&Repo) -> [f64; 2]| {
            let of = |repo: &Arc<Repo>| {
                let ([threads, runs], label) = (values(repo), repo_label(&**repo));
                [([label.clone(), "threads".into()], threads), ([label, "runs".into()], runs)]
            };
            repos.iter().flat_map(of).collect::<Vec<_>>()
        };
        let held = pairs(&|repo| {
            let (threads, runs) = used.get(&repo_label(repo)).copied().unwrap_or_default();
            [to_number(threads), to_number(runs)]
        });
        catalog::SLOTS_USED.write(encoder, held)?;
        let allowed = pairs(&|repo| {
            let limits = &repo.spec.limits;
            [limits.concurrent_threads.into(), limits.concurrent_runs.into()]
        });
        catalog::SLOTS_ALLOWED.write(encoder, allowed)
    }
}

/// Encodes numbers of warm seats, for Repos that keep any.
fn encode_seats(repos: &[Arc<Repo>], encoder: &mut DescriptorEncoder) -> fmt::Result {
    let samples = repos.iter().filter(|repo| repo.spec.warm.is_some()).flat_map(|repo| {
        let warm = repo.status.as_ref().and_then(|status| status.warm.as_ref());
        let (wanted, ready) = warm.map(|warm| (warm.wanted, warm.ready)).unwrap_or_default();
        let label = repo_label(&**repo);
        [([label.clone(), "wanted".into()], wanted.into()), ([label, "ready".into()], ready.into())]
    });
    catalog::SEATS.write(encoder, samples.collect::<Vec<([String; 2], f64)>>())
}

fn encode_counts(
    repos: &[Arc<Repo>],
    (threads, closed): (&[Arc<Thread>], &[(ObjectKey, usize)]),
    now: Timestamp,
    encoder: &mut DescriptorEncoder,
) -> fmt::Result {
    let known: HashSet<String> = repos.iter().map(|repo| repo_label(&**repo)).collect();
    let mut counted = ThreadCounts::default();
    for repo in &known {
        counted.begin(repo);
    }
    for thread in threads {
        let repo = thread.metadata.namespace.as_deref().unwrap_or_default();
        let repo = repo_of(repo, &thread.spec.repo);
        let repo = known.get(&repo).map_or(NO_REPO, String::as_str);
        counted.add(repo, thread, now);
    }
    for (repo, count) in closed.iter().filter(|(_, count)| *count > 0) {
        let repo = repo_of(&repo.namespace, &repo.name);
        let repo = known.get(&repo).map_or(NO_REPO, String::as_str);
        *counted.phases.entry([repo.to_owned(), "closed".to_owned()]).or_default() +=
            to_number(*count);
    }
    catalog::THREADS.write(encoder, counted.phases)?;
    catalog::THREADS_WAITING.write(encoder, counted.waiting)?;
    let oldest = counted.oldest.into_iter().map(|(repo, seconds)| ([repo], seconds));
    catalog::QUEUE_OLDEST_WAIT.write(encoder, oldest)?;
    catalog::DECISIONS_WAITING.write(encoder, counted.decisions)
}

impl ThreadCounts {
    /// So that a Repo where nothing waits shows zeros.
    fn begin(&mut self, repo: &str) {
        for reason in ["slot", "user", "budget"] {
            self.waiting.insert([repo.to_owned(), reason.to_owned()], 0.0);
        }
        for kind in ["plan", "merge", "action", "budget"] {
            self.decisions.insert([repo.to_owned(), kind.to_owned()], 0.0);
        }
        self.oldest.insert(repo.to_owned(), 0.0);
    }

    fn add(&mut self, repo: &str, thread: &Thread, now: Timestamp) {
        let status = thread.status.as_ref();
        let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("new");
        add_sample(&mut self.phases, repo, phase);
        let Some(status) = status else { return };
        for (type_, reason) in [
            (condition::QUEUED, "slot"),
            (condition::AWAITING_USER, "user"),
            (condition::BUDGET_EXCEEDED, "budget"),
        ] {
            if condition::is_true(&status.conditions, type_) {
                add_sample(&mut self.waiting, repo, reason);
            }
        }
        let queued = |c: &&_| is_condition(c, condition::QUEUED);
        if let Some(queued) = status.conditions.iter().find(queued) {
            let waited = now.duration_since(queued.last_transition_time.0).as_secs_f64();
            let oldest = self.oldest.entry(repo.to_owned()).or_default();
            *oldest = oldest.max(waited);
        }
        for (kind, count) in open_questions(status, now) {
            *self.decisions.entry([repo.to_owned(), kind.to_owned()]).or_default() +=
                to_number(count);
        }
    }
}

fn is_condition(c: &Condition, type_: &str) -> bool {
    c.type_ == type_ && c.status == "True"
}

/// Number of questions to people that are open in a Thread, by kind.
fn open_questions(status: &ThreadStatus, now: Timestamp) -> [(&'static str, usize); 4] {
    let undecided = |plan: &PostedPlan| plan.approved_by.is_none() && plan.declined_by.is_none();
    let plan = status.plan.as_deref().is_some_and(undecided);
    let merge = status.closing.as_ref().is_some_and(|closing| closing.choice.is_none());
    let asked = |approval: &&ActionApproval| approval.answer.is_none() && approval.expires.0 > now;
    let actions = status.approvals.iter().filter(asked).count();
    let budget = status.budget.as_ref().is_some_and(|budget| budget.ask.is_some());
    [("plan", plan.into()), ("merge", merge.into()), ("action", actions), ("budget", budget.into())]
}

fn encode_limits(
    repos: &[Arc<Repo>],
    now: Timestamp,
    encoder: &mut DescriptorEncoder,
) -> fmt::Result {
    let moments: Vec<(&Arc<Repo>, BudgetMoment)> = repos
        .iter()
        .map(|repo| (repo, calendar::find_moment(now, &repo.spec.limits.time_zone)))
        .collect();
    let used = moments.iter().flat_map(|(repo, moment)| budget_used(repo, moment));
    catalog::BUDGET_USED.write(encoder, used)?;
    let cap =
        |repo: &Arc<Repo>| Some(([repo_label(&**repo)], repo.spec.limits.budget.per_day?.as_f64()));
    catalog::BUDGET_ALLOWED.write(encoder, repos.iter().filter_map(cap))?;
    shares::encode_shares(&moments, encoder)?;
    let calls =
        moments.iter().map(|(repo, moment)| ([repo_label(&***repo)], calls_left(repo, moment)));
    catalog::CALLS_USED.write(encoder, calls)?;
    let allowed =
        repos.iter().map(|repo| ([repo_label(&**repo)], repo.spec.limits.calls_per_hour.into()));
    catalog::CALLS_ALLOWED.write(encoder, allowed)
}

/// Today's spend on record; a day without a call has cost nothing.
fn budget_used(repo: &Repo, moment: &BudgetMoment) -> [([String; 2], f64); 3] {
    let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
    let spend = spend.filter(|spend| spend.day == moment.day);
    let sample = |state: &str, amount: Option<NanoUsd>| {
        ([repo_label(repo), state.to_owned()], amount.map_or(0.0, NanoUsd::as_f64))
    };
    [
        sample("settled", spend.map(|spend| spend.settled)),
        sample("granted", spend.map(|spend| spend.granted)),
        sample("flagged", spend.map(|spend| spend.flagged)),
    ]
}

fn calls_left(repo: &Repo, moment: &BudgetMoment) -> f64 {
    let spend = repo.status.as_ref().and_then(|status| status.spend.as_ref());
    let hour = spend.and_then(|spend| spend.hour.as_ref());
    hour.filter(|hour| hour.hour == moment.hour).map_or(0.0, |hour| hour.calls.into())
}

fn condition_samples(repo: &Repo) -> Vec<([String; 2], f64)> {
    let label = repo_label(repo);
    let conditions = repo.status.as_ref().map(|status| status.conditions.as_slice());
    let known = [
        condition::READY,
        condition::SLACK_REACHABLE,
        condition::GIT_REACHABLE,
        condition::EGRESS_ENFORCED,
        condition::MODELS_KNOWN,
        condition::MODEL_REACHABLE,
        condition::MCP_SERVERS_READY,
        condition::SEARCH_REACHABLE,
    ];
    let listed = conditions.unwrap_or_default().iter();
    listed
        .filter(|c| known.contains(&c.type_.as_str()) && c.status != "Unknown")
        .map(|c| ([label.clone(), c.type_.clone()], f64::from(u8::from(c.status == "True"))))
        .collect()
}

fn add_sample(samples: &mut LabelPairs, repo: &str, value: &str) {
    *samples.entry([repo.to_owned(), value.to_owned()]).or_default() += 1.0;
}

fn to_number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
