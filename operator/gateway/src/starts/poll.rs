//! Asks GitHub for each Repo, now and then, whether there is anything to begin.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::{Repo, names};
use codebutler_gateway_core::repo_key::RepoKey;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::runtime::events::{Recorder, Reporter};
use parking_lot::Mutex;

use super::{StartError, WorkServices, commented, labelled, warn_repo};

/// Interval at which Repos are chosen that are due for a poll.
const EVERY: Duration = Duration::from_secs(1);
/// Repos that are asked about at the same time.
const AT_ONCE: usize = 8;
/// Failures in a row after which one is told that may pass by itself.
const LASTING: u32 = 3;

/// Kind of thing that is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PolledSource {
    Issues,
    Comments,
}

impl PolledSource {
    fn wants(self, repo: &Repo) -> bool {
        let status = repo.status.as_ref();
        match self {
            Self::Issues => repo.spec.issues.is_some(),
            // Without the setting there is still a record to remove.
            Self::Comments => {
                repo.spec.comments.is_some() || status.is_some_and(|known| known.comments.is_some())
            }
        }
    }

    async fn look_at(self, gateway: &WorkServices, repo: &Repo) -> Result<(), StartError> {
        match self {
            Self::Issues => labelled::look_at(gateway, repo).await,
            Self::Comments => commented::look_at(gateway, repo).await,
        }
    }

    fn told(self, error: &StartError) -> (&'static str, String) {
        let (field, what, reason) = match self {
            Self::Issues => ("spec.issues", "issues", "IssuesNotRead"),
            Self::Comments => ("spec.comments", "comments", "CommentsNotRead"),
        };
        match error {
            StartError::GitHub(_) | StartError::Slow => {
                let needs = match self {
                    Self::Issues => "issues",
                    Self::Comments => "issues and pull requests",
                };
                let note = format!(
                    "{field}: {what} can't be read, for which the credentials need read access to {needs}: {error}. It is tried again"
                );
                (reason, note)
            }
            _ => ("StartRefused", format!("{field}: {error}. It is tried again")),
        }
    }
}

/// Cache that saves requests about one Repo. It may be lost.
#[derive(Clone, Default)]
struct PolledRepoState {
    generation: Option<i64>,
    at: Option<Instant>,
    failures: u32,
    told: bool,
}

/// `every`: between two questions for a Repo.
pub(super) async fn run_polling(gateway: &WorkServices, source: PolledSource, every: Duration) {
    let recorder = Recorder::new(gateway.context.client.clone(), Reporter::from(names::GATEWAY));
    let asked = Mutex::new(HashMap::new());
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let repos = gateway.context.own_repos().into_iter();
        let wanted = repos.filter(|repo| {
            source.wants(repo) && !repo.spec.suspend && repo.metadata.deletion_timestamp.is_none()
        });
        let wanted: Vec<_> = wanted.collect();
        let known = |key: &RepoKey| wanted.iter().any(|repo| RepoKey::from(&**repo) == *key);
        asked.lock().retain(|key, _| known(key));
        let round = futures::stream::iter(wanted).for_each_concurrent(AT_ONCE, |repo| {
            let asked = &asked;
            let recorder = &recorder;
            async move { poll_repo(gateway, source, (recorder, repo), asked, every).await }
        });
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn poll_repo(
    gateway: &WorkServices,
    source: PolledSource,
    (recorder, repo): (&Recorder, Arc<Repo>),
    asked: &Mutex<HashMap<RepoKey, PolledRepoState>>,
    every: Duration,
) {
    let (key, generation) = (RepoKey::from(&*repo), repo.metadata.generation);
    let known = asked.lock().get(&key).filter(|own| own.generation == generation).cloned();
    let mut own = known.unwrap_or(PolledRepoState { generation, ..PolledRepoState::default() });
    if own.at.is_some_and(|at| at.elapsed() < every) {
        return;
    }
    match source.look_at(gateway, &repo).await {
        Ok(()) => (own.failures, own.told) = (0, false),
        Err(error) => {
            tracing::warn!(repo = repo.name_any(), ?source, %error, "source_poll_failed");
            own.failures = own.failures.saturating_add(1);
            let lasts = own.failures >= LASTING;
            let is_final = !matches!(&error, StartError::GitHub(error) if !error.is_about_repo());
            if !own.told && (lasts || is_final) {
                let (reason, note) = source.told(&error);
                warn_repo(gateway, recorder, &repo, reason, &note).await;
                own.told = true;
            }
        }
    }
    own.at = Some(Instant::now());
    asked.lock().insert(key, own);
}
