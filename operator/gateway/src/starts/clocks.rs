//! Schedules: what is due begins, and what did not begin is told.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::starts::{ScheduleSpec, ScheduleStatus};
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_runtime::schedule::{ScheduleClock, cron_of};
use codebutler_runtime::step;
use jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Api, ResourceExt as _};

use super::record::{self, BegunWork};
use super::schedule::{self, LateRuns, ScheduleFacts, ScheduleStep};
use super::{
    StartError, ThreadKey, ThreadOrigin, WorkServices, ensure_thread, name_of, thread_of, warn_repo,
};
use crate::roadmap::child::ChildState;

/// Interval between two looks at the schedules.
const EVERY: Duration = Duration::from_secs(1);
/// Backoff of a Repo after a failure.
const AGAIN: Duration = Duration::from_secs(30);
/// Runs whose Threads are looked for before another one begins.
const RECENT: usize = 64;

/// Begins what schedules say. Its caches save work, and may be lost.
struct ScheduleRunner {
    recorder: Recorder,
    /// Time until which a Repo is left alone after a failure.
    later: HashMap<RepoKey, Instant>,
    /// The next time of a Repo's schedules, as this version of it has them.
    quiet: HashMap<RepoKey, (Option<String>, Timestamp)>,
}

pub(super) async fn run_schedules(gateway: &WorkServices) {
    let recorder = Recorder::new(gateway.context.client.clone(), Reporter::from(names::GATEWAY));
    let mut clock = ScheduleRunner { recorder, later: HashMap::new(), quiet: HashMap::new() };
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let look = Box::pin(clock.look(gateway));
        if gateway.shutdown.run_until_cancelled(look).await.is_none() {
            return;
        }
    }
}

impl ScheduleRunner {
    async fn look(&mut self, gateway: &WorkServices) {
        let repos = gateway.context.own_repos().into_iter();
        let wanted = repos.filter(|repo| {
            let known = repo.status.as_ref().is_some_and(|status| !status.schedules.is_empty());
            let begins = known || !repo.spec.schedules.is_empty();
            begins && repo.metadata.deletion_timestamp.is_none()
        });
        let wanted: Vec<_> = wanted.collect();
        self.quiet.retain(|key, _| wanted.iter().any(|repo| RepoKey::from(&**repo) == *key));
        self.later.retain(|_, later| *later > Instant::now());
        for repo in wanted {
            let key = RepoKey::from(&*repo);
            if self.later.contains_key(&key) {
                continue;
            }
            if let Err(error) = self.look_at(gateway, &repo, &key).await {
                tracing::warn!(repo = repo.name_any(), %error, "schedule_delayed");
                self.later.insert(key, Instant::now() + AGAIN);
            }
        }
    }

    async fn look_at(
        &mut self,
        gateway: &WorkServices,
        repo: &Arc<Repo>,
        key: &RepoKey,
    ) -> Result<(), StartError> {
        let (now, version) = (Timestamp::now(), repo.resource_version());
        let quiet = self.quiet.get(key).filter(|(known, _)| *known == version);
        if quiet.is_some_and(|(_, next)| now < *next) {
            return Ok(());
        }
        let due = |spec: &ScheduleSpec| step_of(gateway, repo, spec, now).is_some();
        if !repo.spec.schedules.iter().any(due) && !has_gone(repo, now) {
            self.quiet.insert(key.clone(), (version, next_time(repo, now)));
            return Ok(());
        }
        // The cache may be behind what was just done.
        let api: Api<Repo> =
            Api::namespaced(gateway.context.client.clone(), &repo.namespace().unwrap_or_default());
        let Some(repo) = api.get_opt(&repo.name_any()).await? else { return Ok(()) };
        if has_gone(&repo, now) {
            let keep =
                |work: &mut BegunWork| work.keep_schedules(|name| is_there(&repo, name, now));
            record::update_record(&gateway.context.client, &repo, keep).await?;
        }
        // A schedule that fails does not hold up the others.
        let mut failed = None;
        for spec in &repo.spec.schedules {
            let Some(step) = step_of(gateway, &repo, spec, now) else { continue };
            if let Err(error) = self.carry_out(gateway, &repo, spec, &step, now).await {
                let note = format!("spec.schedules `{}`: {error}. It is tried again", spec.name);
                warn_repo(gateway, &self.recorder, &repo, "StartRefused", &note).await;
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn carry_out(
        &self,
        gateway: &WorkServices,
        repo: &Repo,
        spec: &ScheduleSpec,
        step: &ScheduleStep,
        now: Timestamp,
    ) -> Result<(), StartError> {
        let known = status_of(repo, &spec.name);
        let mut thread = None;
        match step {
            ScheduleStep::Begin(late) => {
                let by = format!("schedule {}", spec.name);
                let prompt = schedule::prompt_of(spec, known, *late);
                let id = run_id(spec, late.due.newest);
                let own = thread_of(repo, ThreadOrigin::Schedule, (&id, &spec.name), &by, prompt);
                let begun = ensure_thread(gateway, repo, own).await?.name_any();
                step::point("a run has its thread");
                tracing::info!(thread = begun, schedule = spec.name, "schedule_thread_started");
                thread = Some(begun);
            }
            ScheduleStep::Adopt(late) => thread = Some(run_name(repo, spec, late.due.newest)),
            ScheduleStep::Miss(_)
            | ScheduleStep::Skip(_)
            | ScheduleStep::Watch
            | ScheduleStep::Pass(_) => {}
        }
        if let Some(note) = schedule::describe_unbegun(spec, step) {
            warn_repo(gateway, &self.recorder, repo, "ScheduleMissed", &note).await;
        }
        let cron = cron_of(repo, spec);
        let change = |work: &mut BegunWork| {
            let before = work.schedules.iter().find(|own| own.name == spec.name);
            if before.is_some_and(|before| schedule::is_settled(before, &cron, step)) {
                return;
            }
            let facts = (spec.name.as_str(), cron.as_str());
            let record = schedule::record_step(before, facts, step, thread.as_deref(), now);
            work.put_schedule(&record);
        };
        record::update_record(&gateway.context.client, repo, change).await?;
        if let (ScheduleStep::Skip(late), Some(open)) = (step, last_thread(gateway, repo, known)) {
            let LateRuns { due, .. } = late;
            let runs = match late.in_time() {
                1 => "A later run".to_owned(),
                count => format!("{count} later runs"),
            };
            let text = format!(
                "{runs} of the schedule `{}` did not begin: first this conversation has to come to its end.",
                spec.name
            );
            let (key, day) = (ThreadKey::from(&*open), due.newest.strftime("%Y-%m-%d"));
            let id = format!("schedule-skipped:{day}");
            // It is on record and not tried again: whoever looks at the Repo has to be told instead.
            if let Err(error) = gateway.slack.notice(&key, &id, &text).await {
                let (name, thread) = (&spec.name, &key.name);
                let note = format!(
                    "spec.schedules `{name}`: the run of {} did not begin, as Thread `{thread}` of an earlier one is at work, \
                     which could not be said there: {error}",
                    due.newest
                );
                warn_repo(gateway, &self.recorder, repo, "StartRefused", &note).await;
            }
        }
        Ok(())
    }
}

fn run_id(spec: &ScheduleSpec, at: Timestamp) -> String {
    format!("{}\n{}", spec.name, at.as_second())
}

/// Name of the Thread of a run.
fn run_name(repo: &Repo, spec: &ScheduleSpec, at: Timestamp) -> String {
    name_of(repo, ThreadOrigin::Schedule, &run_id(spec, at), &spec.name)
}

/// The step that is due for a schedule. One that can't be read is the controller's to tell.
fn step_of(
    gateway: &WorkServices,
    repo: &Repo,
    spec: &ScheduleSpec,
    now: Timestamp,
) -> Option<ScheduleStep> {
    let cron = cron_of(repo, spec);
    let clock = ScheduleClock::read(&cron, now).ok()?;
    let status = status_of(repo, &spec.name);
    let known = status.filter(|status| status.cron == cron);
    let settled = known.and_then(|status| status.settled.as_ref());
    let recent = settled.map(|settled| clock.newest(settled.0, now, RECENT)).unwrap_or_default();
    let begun = recent.into_iter().find(|at| {
        let thread = scheduled_thread(gateway, repo, run_name(repo, spec, *at));
        thread.is_some_and(|thread| !thread.is_going())
    });
    let open = last_thread(gateway, repo, status).is_some_and(|thread| is_at_work(&thread));
    let (clock, cron, suspended) = (&clock, cron.as_str(), repo.spec.suspend);
    schedule::decide_schedule(
        &ScheduleFacts { spec, clock, cron, status, suspended, open, begun },
        now,
    )
}

/// The first time at which a schedule of a Repo is due after a moment.
fn next_time(repo: &Repo, now: Timestamp) -> Timestamp {
    let next = repo.spec.schedules.iter().filter_map(|spec| {
        let clock = ScheduleClock::read(&cron_of(repo, spec), now).ok()?;
        clock.next(now)
    });
    next.min().unwrap_or(Timestamp::MAX)
}

/// True if something is on record of a schedule that is not there any more, or can't be read: one that comes back
/// under its name is another one, and what was due meanwhile was not missed.
fn has_gone(repo: &Repo, now: Timestamp) -> bool {
    let mut known = repo.status.iter().flat_map(|status| &status.schedules);
    known.any(|known| !is_there(repo, &known.name, now))
}

fn is_there(repo: &Repo, name: &str, now: Timestamp) -> bool {
    let mut own = repo.spec.schedules.iter().filter(|own| own.name == name);
    own.any(|own| ScheduleClock::read(&cron_of(repo, own), now).is_ok())
}

fn status_of<'a>(repo: &'a Repo, name: &str) -> Option<&'a ScheduleStatus> {
    repo.status.as_ref()?.schedules.iter().find(|own| own.name == name)
}

fn scheduled_thread(gateway: &WorkServices, repo: &Repo, name: String) -> Option<Arc<Thread>> {
    let key = ThreadKey { namespace: repo.namespace()?, name };
    gateway.threads.freshest(&key, gateway.context.thread(&key))
}

/// The Thread of the run before.
fn last_thread(
    gateway: &WorkServices,
    repo: &Repo,
    status: Option<&ScheduleStatus>,
) -> Option<Arc<Thread>> {
    scheduled_thread(gateway, repo, status?.last_thread.clone()?)
}

/// True if roles work there, or people are asked. One that has said what there was to say holds up nobody, unless it
/// has a pull request.
fn is_at_work(thread: &Thread) -> bool {
    let open = thread.spec.state == ThreadState::Active && !thread.is_going();
    let rests = matches!(ChildState::of(thread), ChildState::Rests(_) | ChildState::Merged);
    let pull = thread.status.as_ref().is_some_and(|status| status.pull_request.is_some());
    open && (pull || !rests)
}
