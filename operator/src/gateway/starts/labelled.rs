//! Issues at GitHub that have the label of their Repo.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::ThreadState;
use codebutler_crds::wire::Issue;
use codebutler_crds::{Repo, Thread, names};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::runtime::events::{Recorder, Reporter};
use parking_lot::Mutex;

use super::record::{self, BegunWork};
use super::{Origin, Shared, StartError, ensure, issue, thread_of, warn};
use crate::gateway::budget::repos::RepoKey;
use crate::gateway::github::GitHub;
use crate::step;

/// Between two looks at which Repos are to be asked about.
const EVERY: Duration = Duration::from_secs(1);
/// Repos that are asked about at the same time.
const AT_ONCE: usize = 8;
/// How long GitHub may take for one.
const PATIENCE: Duration = Duration::from_mins(1);
/// Failures in a row after which one is told that may pass by itself.
const LASTING: u32 = 3;

/// What spares questions about one Repo. Nothing depends on it.
#[derive(Clone, Default)]
struct PolledIssues {
    generation: Option<i64>,
    at: Option<Instant>,
    failures: u32,
    told: bool,
}

/// `poll`: between two questions for a Repo's issues.
pub async fn run(gateway: &Shared, poll: Duration) {
    let recorder = Recorder::new(gateway.context.client.clone(), Reporter::from(names::GATEWAY));
    let asked = Mutex::new(HashMap::new());
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let repos = gateway.context.repos.state().into_iter();
        let wanted = repos.filter(|repo| {
            repo.spec.issues.is_some()
                && !repo.spec.suspend
                && repo.metadata.deletion_timestamp.is_none()
        });
        let wanted: Vec<_> = wanted.collect();
        let known = |key: &RepoKey| wanted.iter().any(|repo| RepoKey::from(&**repo) == *key);
        asked.lock().retain(|key, _| known(key));
        let round = futures::stream::iter(wanted)
            .for_each_concurrent(AT_ONCE, |repo| look(gateway, &recorder, repo, &asked, poll));
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn look(
    gateway: &Shared,
    recorder: &Recorder,
    repo: Arc<Repo>,
    asked: &Mutex<HashMap<RepoKey, PolledIssues>>,
    poll: Duration,
) {
    let (key, generation) = (RepoKey::from(&*repo), repo.metadata.generation);
    let known = asked.lock().get(&key).filter(|own| own.generation == generation).cloned();
    let mut own = known.unwrap_or(PolledIssues { generation, ..PolledIssues::default() });
    if own.at.is_some_and(|at| at.elapsed() < poll) {
        return;
    }
    match look_at(gateway, &repo).await {
        Ok(()) => (own.failures, own.told) = (0, false),
        Err(error) => {
            tracing::warn!(repo = repo.name_any(), %error, "work on issues has to wait");
            own.failures = own.failures.saturating_add(1);
            let lasts = own.failures >= LASTING;
            let is_final = !matches!(&error, StartError::GitHub(error) if !error.is_about_repo());
            if !own.told && (lasts || is_final) {
                let (reason, note) = told(&error);
                warn(gateway, recorder, &repo, reason, &note).await;
                own.told = true;
            }
        }
    }
    own.at = Some(Instant::now());
    asked.lock().insert(key, own);
}

fn told(error: &StartError) -> (&'static str, String) {
    match error {
        StartError::GitHub(_) | StartError::Slow => {
            let note = format!(
                "spec.issues: issues can't be read, for which the credentials need read access to issues: {error}. It is tried again"
            );
            ("IssuesNotRead", note)
        }
        _ => ("StartRefused", format!("spec.issues: {error}. It is tried again")),
    }
}

async fn look_at(gateway: &Shared, repo: &Repo) -> Result<(), StartError> {
    let Some(spec) = &repo.spec.issues else { return Ok(()) };
    let found = async {
        GitHub::of(&gateway.context, repo).await?.labelled(&spec.label, issue::BODY).await
    };
    let found = tokio::time::timeout(PATIENCE, found).await.map_err(|_| StartError::Slow)??;
    begin(gateway, repo, &found).await
}

/// Begins what has none yet, the oldest first, as far as there is room.
async fn begin(gateway: &Shared, repo: &Repo, found: &[Issue]) -> Result<(), StartError> {
    let known = repo.status.as_ref().map(|status| status.begun_issues.as_slice());
    let known = known.unwrap_or_default();
    let origin = Some(Origin::Issue.label());
    let open = gateway.context.attended.all().into_iter().filter(|thread| {
        let here = thread.namespace() == repo.namespace() && thread.spec.repo == repo.name_any();
        here && is_open(thread) && thread.labels().get(names::LABEL_ORIGIN).map(|l| &**l) == origin
    });
    let places = repo.spec.limits.concurrent_threads as usize;
    let mut free = places.saturating_sub(open.count());
    let (mut begun, mut failed) = (Vec::new(), None);
    for issue in found.iter().filter(|issue| !known.contains(&issue.number)) {
        if free == 0 {
            break;
        }
        let (id, by) = (issue.number.to_string(), format!("issue #{}", issue.number));
        let shown = format!("issue-{id}");
        let own = thread_of(repo, Origin::Issue, (&id, &shown), &by, issue::prompt_of(issue));
        match ensure(gateway, repo, own).await {
            Ok(thread) => {
                step::point("an issue has its thread");
                let (name, issue) = (thread.name_any(), issue.number);
                tracing::info!(thread = name, issue, "work on an issue begins");
                free -= usize::from(is_open(&thread));
                begun.push(issue);
            }
            // Of this one alone: the others go on.
            Err(StartError::Going) => {}
            Err(error) => {
                failed = Some(error);
                break;
            }
        }
    }
    if !begun.is_empty() {
        let waiting: Vec<u64> = found.iter().map(|issue| issue.number).collect();
        let change = |work: &mut BegunWork| work.put_issues(&begun, &waiting);
        record::update(&gateway.context.client, repo, change).await?;
    }
    failed.map_or(Ok(()), Err)
}

fn is_open(thread: &Thread) -> bool {
    thread.spec.state == ThreadState::Active && !thread.is_going()
}
