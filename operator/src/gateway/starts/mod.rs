//! Work that nobody asks for in Slack: by the clock, by a labelled issue, by a signed delivery. Each begins a
//! Thread whose name is derived from what began it, so that it begins once, however often it is come to.
//!
//! One gateway looks at clocks and issues, the one that serves agents; deliveries come to whichever is asked.

pub mod deliveries;
mod issue;
mod record;
mod schedule;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::starts::{ScheduleSpec, ScheduleStatus};
use codebutler_crds::thread::ThreadState;
use codebutler_crds::wire::Issue;
use codebutler_crds::{Repo, Thread, ThreadSpec, names};
use jiff::Timestamp;
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Resource as _, ResourceExt as _};
use sha2::{Digest as _, Sha256};

use self::record::BegunWork;
use self::schedule::{ScheduleFacts, ScheduleStep};
use super::api::Shared;
use super::budget::repos::RepoKey;
use super::context::{ApiError, ThreadKey};
use super::github::{GitHub, GitHubError};
use super::threads::WriteError;
use crate::apply::shortened;
use crate::schedule::{ScheduleClock, cron_of};
use crate::step;

/// Longest part of a Repo's name in that of a Thread.
const REPO: usize = 20;
/// Longest part that says to people what began it.
const SHOWN: usize = 18;

/// What begins a Thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    Schedule,
    Issue,
    Delivery,
}

impl Origin {
    /// As the Thread's label has it.
    const fn label(self) -> &'static str {
        match self {
            Self::Schedule => "schedule",
            Self::Issue => "issue",
            Self::Delivery => "delivery",
        }
    }
}

/// The Thread that begins, the same for the same `id` of the same Repo. `shown` is for people who read its
/// name, `by` for those who read who began it.
pub fn thread_of(
    repo: &Repo,
    origin: Origin,
    (id, shown): (&str, &str),
    by: &str,
    prompt: String,
) -> Thread {
    let name = name_of(repo, origin, id, shown);
    let spec = ThreadSpec {
        repo: repo.name_any(),
        prompt: Some(prompt),
        requested_by: Some(by.chars().take(64).collect()),
        ..ThreadSpec::default()
    };
    let mut thread = Thread::new(&name, spec);
    thread.metadata.namespace = repo.namespace();
    let labels = thread.labels_mut();
    labels.insert(names::LABEL_REPO.to_owned(), repo.name_any());
    labels.insert(names::LABEL_ORIGIN.to_owned(), origin.label().to_owned());
    thread.metadata.owner_references = repo.owner_ref(&()).map(|owner| vec![owner]);
    thread
}

/// Its name: what is cut off of the Repo's is in the hash.
pub fn name_of(repo: &Repo, origin: Origin, id: &str, shown: &str) -> String {
    let whole = repo.name_any();
    let hash = Sha256::digest(format!("{whole}\n{}\n{id}", origin.label()));
    let (repo, shown): (String, String) =
        (whole.chars().take(REPO).collect(), shown.chars().take(SHOWN).collect());
    let (repo, shown) = (repo.trim_end_matches('-'), shown.trim_end_matches('-'));
    format!("{repo}-{shown}-{}", hex::encode(&hash[..5]))
}

/// Between two looks at the clocks.
const EVERY: Duration = Duration::from_secs(1);
/// How long a Repo is left alone after a failure.
const AGAIN: Duration = Duration::from_secs(30);
/// Bytes of an event's note; the API takes 1,024.
const NOTE: usize = 1000;

/// What spares questions. Nothing depends on it.
struct StartDesk {
    recorder: Recorder,
    /// When a Repo's issues were asked for, and of which generation.
    asked: HashMap<RepoKey, (Option<i64>, Instant)>,
    /// Until when a Repo's clocks are left alone after a failure.
    later: HashMap<RepoKey, Instant>,
    /// The next time of a Repo's schedules, as this version of it has them.
    quiet: HashMap<RepoKey, (Option<String>, Timestamp)>,
    /// What was last said of a Repo's issues.
    told: HashMap<RepoKey, String>,
}

/// Why a look came to nothing.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    GitHub(#[from] GitHubError),
    #[error(transparent)]
    Slack(#[from] ApiError),
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("the Repo can't be written")]
    Repo(#[from] kube::Error),
}

/// Begins what is due until the gateway stops. `poll`: between two questions for a Repo's issues.
pub async fn run(gateway: &Shared, poll: Duration) {
    let recorder = Recorder::new(gateway.context.client.clone(), Reporter::from(names::GATEWAY));
    let (asked, later, quiet, told) = Default::default();
    let mut desk = StartDesk { recorder, asked, later, quiet, told };
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let look = Box::pin(desk.look(gateway, poll));
        if gateway.shutdown.run_until_cancelled(look).await.is_none() {
            return;
        }
    }
}

impl StartDesk {
    async fn look(&mut self, gateway: &Shared, poll: Duration) {
        let repos = gateway.context.repos.state().into_iter();
        let wanted = repos.filter(|repo| {
            let known = repo.status.as_ref().is_some_and(|status| !status.schedules.is_empty());
            let begins = known || !repo.spec.schedules.is_empty() || repo.spec.issues.is_some();
            begins && repo.metadata.deletion_timestamp.is_none()
        });
        for repo in wanted.collect::<Vec<_>>() {
            let key = RepoKey::from(&*repo);
            let waits = self.later.get(&key).is_some_and(|later| *later > Instant::now());
            if !waits && let Err(error) = self.look_at_clocks(gateway, &repo, &key).await {
                tracing::warn!(repo = repo.name_any(), %error, "a schedule has to wait");
                self.later.insert(key.clone(), Instant::now() + AGAIN);
            }
            // Asked no more often than the poll, also after a failure.
            if let Err(error) = self.look_at_issues(gateway, &repo, &key, poll).await {
                tracing::warn!(repo = repo.name_any(), %error, "work on issues has to wait");
            }
        }
        self.later.retain(|_, later| *later > Instant::now());
    }

    async fn look_at_clocks(
        &mut self,
        gateway: &Shared,
        repo: &Arc<Repo>,
        key: &RepoKey,
    ) -> Result<(), StartError> {
        let (now, version) = (Timestamp::now(), repo.resource_version());
        let quiet = self.quiet.get(key).filter(|(known, _)| *known == version);
        if quiet.is_some_and(|(_, next)| now < *next) {
            return Ok(());
        }
        let due = |spec: &ScheduleSpec| step_of(gateway, repo, spec, now).is_some();
        if !repo.spec.schedules.iter().any(due) && !has_gone(repo) {
            self.quiet.insert(key.clone(), (version, next_time(repo, now)));
            return Ok(());
        }
        // The cache may be behind what was just done.
        let api: Api<Repo> =
            Api::namespaced(gateway.context.client.clone(), &repo.namespace().unwrap_or_default());
        let Some(repo) = api.get_opt(&repo.name_any()).await? else { return Ok(()) };
        if has_gone(&repo) {
            let forget = |work: &mut BegunWork| work.forget_schedules(&repo);
            record::update(&gateway.context.client, &repo, forget).await?;
        }
        // One that fails keeps no other.
        let mut failed = None;
        for spec in &repo.spec.schedules {
            if let Some(step) = step_of(gateway, &repo, spec, now) {
                let done = self.carry_out(gateway, &repo, spec, &step, now).await;
                failed = failed.or(done.err());
            }
        }
        failed.map_or(Ok(()), Err)
    }

    async fn carry_out(
        &self,
        gateway: &Shared,
        repo: &Repo,
        spec: &ScheduleSpec,
        step: &ScheduleStep,
        now: Timestamp,
    ) -> Result<(), StartError> {
        let known = status_of(repo, &spec.name);
        let mut thread = None;
        match step {
            ScheduleStep::Begin(due) => {
                let id = format!("{}\n{}", spec.name, due.newest.as_second());
                let by = format!("schedule {}", spec.name);
                let prompt = schedule::prompt_of(spec, known, *due);
                let own = thread_of(repo, Origin::Schedule, (&id, &spec.name), &by, prompt);
                let begun = gateway.threads.ensure(own).await?;
                step::point("a run has its thread");
                tracing::info!(thread = begun.name_any(), schedule = spec.name, "a run begins");
                thread = Some(begun.name_any());
            }
            ScheduleStep::Skip(_) => {
                if let Some(open) = open_thread(gateway, repo, known) {
                    let text = format!(
                        "A later run of the schedule `{}` did not begin, as this conversation is open. Once it is closed, the next \
                         one does.",
                        spec.name
                    );
                    let key = ThreadKey::from(&*open);
                    gateway.slack.notice(&key, "schedule-skipped", &text).await?;
                }
            }
            ScheduleStep::Miss(due) => {
                let note = format!(
                    "spec.schedules `{}`: {} until {} did not begin, as no gateway served for more than {} seconds",
                    spec.name,
                    if due.count == 1 { "a run".to_owned() } else { format!("{} runs", due.count) },
                    due.newest,
                    spec.starting_deadline_seconds
                );
                self.warn(repo, "ScheduleMissed", &note).await;
            }
            ScheduleStep::Watch | ScheduleStep::Pass(_) => {}
        }
        let cron = cron_of(repo, spec);
        let change = |work: &mut BegunWork| {
            let before = work.schedules.iter().find(|own| own.name == spec.name);
            if before.is_some_and(|before| schedule::is_settled(before, &cron, step)) {
                return;
            }
            let facts = (spec.name.as_str(), cron.as_str());
            let record = schedule::recorded(before, facts, step, thread.as_deref(), now);
            work.put_schedule(&record);
        };
        record::update(&gateway.context.client, repo, change).await?;
        Ok(())
    }

    async fn look_at_issues(
        &mut self,
        gateway: &Shared,
        repo: &Arc<Repo>,
        key: &RepoKey,
        poll: Duration,
    ) -> Result<(), StartError> {
        let Some(issues) = repo.spec.issues.as_ref().filter(|_| !repo.spec.suspend) else {
            return Ok(());
        };
        let generation = repo.metadata.generation;
        let known = self.asked.get(key).filter(|(about, _)| *about == generation);
        if known.is_some_and(|(_, asked)| asked.elapsed() < poll) {
            return Ok(());
        }
        self.asked.insert(key.clone(), (generation, Instant::now()));
        let found = async {
            GitHub::of(&gateway.context, repo).await?.labelled(&issues.label, issue::BODY).await
        };
        match found.await {
            Ok(found) => {
                self.told.remove(key);
                begin_issues(gateway, repo, found).await
            }
            Err(error) => {
                let note = format!("spec.issues: issues can't be read: {error}. It is tried again");
                if error.is_about_repo() && self.told.get(key) != Some(&note) {
                    self.warn(repo, "IssuesNotRead", &note).await;
                    self.told.insert(key.clone(), note);
                }
                Err(error.into())
            }
        }
    }

    async fn warn(&self, repo: &Repo, reason: &str, note: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: reason.to_owned(),
            note: Some(shortened(note, NOTE)),
            action: "Begin".to_owned(),
            secondary: None,
        };
        if let Err(error) = self.recorder.publish(&event, &repo.object_ref(&())).await {
            tracing::warn!(repo = repo.name_any(), %error, "event not written");
        }
    }
}

/// What is to be done about a schedule. What can't be read the controller tells.
fn step_of(
    gateway: &Shared,
    repo: &Repo,
    spec: &ScheduleSpec,
    now: Timestamp,
) -> Option<ScheduleStep> {
    let cron = cron_of(repo, spec);
    let clock = ScheduleClock::read(&cron, now).ok()?;
    let status = status_of(repo, &spec.name);
    let open = open_thread(gateway, repo, status).is_some();
    let (clock, cron, suspended) = (&clock, cron.as_str(), repo.spec.suspend);
    schedule::decide(&ScheduleFacts { spec, clock, cron, status, suspended, open }, now)
}

/// The first time at which a schedule of a Repo is due after a moment.
fn next_time(repo: &Repo, now: Timestamp) -> Timestamp {
    let next = repo.spec.schedules.iter().filter_map(|spec| {
        let clock = ScheduleClock::read(&cron_of(repo, spec), now).ok()?;
        clock.next(now)
    });
    next.min().unwrap_or(Timestamp::MAX)
}

/// Whether something is on record of a schedule that is not there any more: one that comes back under its
/// name is another one.
fn has_gone(repo: &Repo) -> bool {
    let mut known = repo.status.iter().flat_map(|status| &status.schedules);
    known.any(|known| !repo.spec.schedules.iter().any(|own| own.name == known.name))
}

fn status_of<'a>(repo: &'a Repo, name: &str) -> Option<&'a ScheduleStatus> {
    repo.status.as_ref()?.schedules.iter().find(|own| own.name == name)
}

/// The Thread of the run before, while it is open.
fn open_thread(
    gateway: &Shared,
    repo: &Repo,
    status: Option<&ScheduleStatus>,
) -> Option<Arc<Thread>> {
    let name = status?.last_thread.clone()?;
    let key = ThreadKey { namespace: repo.namespace()?, name };
    let thread = gateway.threads.freshest(&key, gateway.context.thread(&key))?;
    is_open(&thread).then_some(thread)
}

fn is_open(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active && !thread.is_going()
}

/// Begins what has none yet, the oldest first, as far as there is room.
async fn begin_issues(gateway: &Shared, repo: &Repo, found: Vec<Issue>) -> Result<(), StartError> {
    let known = repo.status.as_ref().map(|status| status.begun_issues.as_slice());
    let known = known.unwrap_or_default();
    let origin = Some(Origin::Issue.label());
    let open = gateway.context.attended.all().into_iter().filter(|thread| {
        let here = thread.namespace() == repo.namespace() && thread.spec.repo == repo.name_any();
        here && is_open(thread) && thread.labels().get(names::LABEL_ORIGIN).map(|l| &**l) == origin
    });
    let places = repo.spec.limits.concurrent_threads as usize;
    let free = places.saturating_sub(open.count());
    let (mut begun, mut failed) = (Vec::new(), None);
    let waiting = found.iter().filter(|issue| !known.contains(&issue.number));
    for issue in waiting {
        if begun.len() >= free {
            break;
        }
        let (id, by) = (issue.number.to_string(), format!("issue #{}", issue.number));
        let shown = format!("issue-{id}");
        let own = thread_of(repo, Origin::Issue, (&id, &shown), &by, issue::prompt_of(issue));
        // One that fails keeps no other.
        match gateway.threads.ensure(own).await {
            Ok(thread) => {
                step::point("an issue has its thread");
                let thread = thread.name_any();
                tracing::info!(thread, issue = issue.number, "work on an issue begins");
                begun.push(issue.number);
            }
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    if !begun.is_empty() {
        let change = |work: &mut BegunWork| work.put_issues(&begun);
        record::update(&gateway.context.client, repo, change).await?;
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}
