//! Asks for each Repo whether its Git remote can be worked with: when it is new, when it or its Secret
//! has changed, and again as long as the answer is no. So the first conversation is not the one that
//! finds out, and what somebody has fixed is known without one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codebutler_crds::Repo;
use codebutler_crds::condition::GIT_REACHABLE;
use codebutler_gateway_core::github::{GitHub, GitHubError};
use codebutler_gateway_core::repo_key::RepoKey;
use codebutler_gateway_core::revisions::PolledRevisions;
use futures::StreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;
use tokio::time::MissedTickBehavior;

use super::GitError;
use super::confine::{GitConfinement, NO_LANDLOCK};
use super::git_warning::find_warning;
use super::host::{GitHost, HostError};
use super::mirror::MirrorError;
use crate::services::GitServices;

/// Time between two looks at the Repos: nobody is asked for it.
const LOOK: Duration = Duration::from_secs(2);
/// First and longest backoff after a failed probe.
const FIRST: Duration = Duration::from_secs(10);
const LAST: Duration = Duration::from_mins(5);
/// Time limit of asking the host.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time for which a probe waits for a copy of what was refused before. The copy goes on.
const COPIED: Duration = Duration::from_secs(30);
/// Remotes that are asked at the same time.
const AT_ONCE: usize = 8;

/// Record of the last probe of a Repo.
struct Asked {
    uid: Option<String>,
    generation: Option<i64>,
    secret: Option<String>,
    at: Instant,
    /// Number of failed probes in a row; 0 after a success.
    failures: u32,
}

impl Asked {
    fn is_about(&self, repo: &Repo) -> bool {
        (&self.uid, self.generation) == (&repo.metadata.uid, repo.metadata.generation)
    }

    /// True if the Repo, as it is now, is due for another probe.
    fn is_due(&self, repo: &Repo, secret: Option<&String>) -> bool {
        if !self.is_about(repo) || self.secret.as_ref() != secret {
            return true;
        }
        let waits = FIRST.saturating_mul(1 << self.failures.saturating_sub(1).min(5)).min(LAST);
        // A failure that others found after our success may concern something that a probe does not cover: wait the
        // longest.
        let waits = if self.failures == 0 { LAST } else { waits };
        git_condition(repo).is_none_or(|c| c.status != "True") && self.at.elapsed() >= waits
    }
}

/// Returns the Git condition that belongs to the Repo's current generation.
fn git_condition(repo: &Repo) -> Option<&Condition> {
    let conditions = repo.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.into_iter().filter(|c| c.type_ == GIT_REACHABLE);
    conditions.find(|c| c.observed_generation == repo.metadata.generation)
}

/// Probes remotes until the gateway stops.
pub async fn run_probe(gateway: &Arc<GitServices>) {
    let (asked, secrets) = (Mutex::new(HashMap::new()), PolledRevisions::default());
    let mut ticks = tokio::time::interval(LOOK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
        let repos = gateway.context.own_repos().into_iter();
        let repos: Vec<_> = repos.filter(|r| r.metadata.deletion_timestamp.is_none()).collect();
        lock(&asked).retain(|key, _| repos.iter().any(|repo| RepoKey::from(&**repo) == *key));
        let round = futures::stream::iter(repos)
            .for_each_concurrent(AT_ONCE, |repo| probe_repo(gateway, repo, &asked, &secrets));
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn probe_repo(
    gateway: &Arc<GitServices>,
    repo: Arc<Repo>,
    asked: &Mutex<HashMap<RepoKey, Asked>>,
    secrets: &PolledRevisions,
) {
    let (key, namespace) = (RepoKey::from(&*repo), repo.namespace().unwrap_or_default());
    let secret = &repo.spec.git.credentials.name;
    let secret = secrets.of(&gateway.context, &namespace, secret).await;
    let before = {
        let asked = lock(asked);
        let last = asked.get(&key);
        if last.is_some_and(|last| !last.is_due(&repo, secret.as_ref())) {
            return;
        }
        last.filter(|last| last.is_about(&repo)).map_or(0, |last| last.failures)
    };
    let answer = match tokio::time::timeout(PATIENCE, ask_host(gateway, &repo)).await {
        Ok(Ok(())) => copy_again(gateway, &repo).await,
        Ok(no) => no,
        Err(_) => Err("the Git host does not answer".to_owned().into()),
    };
    let works = answer.is_ok();
    let is_told = tell_answer(gateway, &repo, answer).await;
    // Counts as a failure, so that the probe is repeated, if the answer could not be written to the Repo.
    let failures = if works && is_told { 0 } else { before.saturating_add(1) };
    let (uid, generation, at) = (repo.uid(), repo.metadata.generation, Instant::now());
    lock(asked).insert(key, Asked { uid, generation, secret, at, failures });
}

async fn tell_answer(gateway: &GitServices, repo: &Repo, answer: Result<(), No>) -> bool {
    match answer {
        Ok(()) => {
            let remark = find_warning(&gateway.context, repo);
            gateway.conditions.git_works(repo, remark).await
        }
        // A hiccup is no news about what was right.
        Err(no) if no.passes && git_condition(repo).is_some_and(|c| c.status == "True") => {
            tracing::info!(repo = repo.name_any(), why = no.why, "git_unreachable");
            true
        }
        Err(no) => gateway.conditions.git_fails(repo, &no.why).await,
    }
}

/// Reason why a remote can't be worked with.
#[derive(Debug)]
struct No {
    why: String,
    passes: bool,
}

impl From<String> for No {
    fn from(why: String) -> Self {
        Self { why, passes: true }
    }
}

impl From<HostError> for No {
    fn from(error: HostError) -> Self {
        Self { passes: error.is_passing(), why: error.to_string() }
    }
}

impl From<GitHubError> for No {
    fn from(error: GitHubError) -> Self {
        Self { passes: !error.is_about_repo(), why: error.to_string() }
    }
}

/// Git's own protocol, which copies are made with, and the API, which branches are made with.
async fn ask_host(gateway: &Arc<GitServices>, repo: &Arc<Repo>) -> Result<(), No> {
    if GitConfinement::current() == GitConfinement::Refused {
        return Err(No { why: NO_LANDLOCK.to_owned(), passes: false });
    }
    let refs = match GitHost::of(&gateway.context, repo).await?.refs().await {
        Err(HostError::Moved(_)) if GitHub::look_for_move(&gateway.context, repo).await? => {
            GitHost::of(&gateway.context, repo).await?.refs().await?
        }
        refs => refs?,
    };
    let base = &repo.spec.git.branch;
    let github = GitHub::of(&gateway.context, repo).await?;
    let has_base = refs.contains_key(&format!("refs/heads/{base}"));
    if !has_base || github.tip(base).await?.is_none() {
        return Err(github.no_base(base).await.into());
    }
    Ok(())
}

/// Makes a copy again that was refused: refs alone don't show whether the reason is gone.
async fn copy_again(gateway: &Arc<GitServices>, repo: &Arc<Repo>) -> Result<(), No> {
    let mirror = gateway.mirrors.of(repo);
    let Some(refusal) = mirror.refusal() else { return Ok(()) };
    // An earlier probe's copy goes on, or somebody else's: a second one would begin when it ends.
    if mirror.is_copying() {
        return Err(No { why: refusal, passes: false });
    }
    await_copy(super::read_copy(gateway, repo), refusal, COPIED).await
}

/// Until the copy is there, the remote is refused for what it was refused for.
async fn await_copy(
    copying: impl Future<Output = Result<(), GitError>>,
    refusal: String,
    patience: Duration,
) -> Result<(), No> {
    let Ok(copied) = tokio::time::timeout(patience, copying).await else {
        return Err(No { why: refusal, passes: false });
    };
    copied.map_err(|error| {
        let passes =
            !matches!(&error, GitError::Mirror(MirrorError::Host(no)) if no.is_about_repo());
        No { why: error.to_string(), passes }
    })
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use serde_json::json;

    fn repo(status: &str, generation: i64) -> Repo {
        let conditions = json!({"conditions": [{"type": "GitReachable", "status": status, "reason": "R",
            "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
        let mut repo = testing::repo("shop");
        repo.metadata.generation = Some(2);
        repo.status = Some(serde_json::from_value(conditions).unwrap());
        repo
    }

    #[tokio::test]
    async fn a_copy_that_takes_long_leaves_the_refusal_in_gits_words() {
        let refusal = HostError::Shallow("git.example".to_owned()).to_string();
        let copying = std::future::pending();
        let no = await_copy(copying, refusal.clone(), Duration::ZERO).await.unwrap_err();
        assert_eq!((no.why, no.passes), (refusal.clone(), false));
        let again = HostError::Repo("the token has expired".to_owned());
        let copying = async { Err(GitError::from(MirrorError::Host(again))) };
        let no = await_copy(copying, refusal.clone(), COPIED).await.unwrap_err();
        assert_eq!((&*no.why, no.passes), ("the token has expired", false));
        let away = HostError::Unreachable("git.example".to_owned());
        let copying = async { Err(GitError::from(MirrorError::Host(away))) };
        let no = await_copy(copying, refusal.clone(), COPIED).await.unwrap_err();
        assert!(no.passes, "{}", no.why);
        assert!(await_copy(async { Ok(()) }, refusal, COPIED).await.is_ok());
    }

    #[test]
    fn a_yes_lasts_until_something_changes_and_a_no_does_not() {
        let asked = |seconds, failures| Asked {
            uid: None,
            generation: Some(2),
            secret: Some("1".to_owned()),
            at: Instant::now().checked_sub(Duration::from_secs(seconds)).unwrap(),
            failures,
        };
        let due =
            |asked: Asked, repo: &Repo, secret: &str| asked.is_due(repo, Some(&secret.to_owned()));
        assert!(!due(asked(99_999, 0), &repo("True", 2), "1"));
        assert!(due(asked(0, 0), &repo("True", 2), "2"), "another Secret");
        assert!(!due(asked(9, 1), &repo("False", 2), "1"));
        assert!(due(asked(10, 1), &repo("False", 2), "1"));
        assert!(!due(asked(100, 9), &repo("False", 2), "1"));
        assert!(due(asked(300, 9), &repo("False", 2), "1"), "five minutes at most");
        assert!(!due(asked(100, 0), &repo("False", 2), "1"), "somebody else's no");
        assert!(due(asked(300, 0), &repo("True", 1), "1"), "what was said of another generation");
        let other = Asked { generation: Some(1), ..asked(0, 0) };
        assert!(due(other, &repo("True", 1), "1"));
        let of_its_name = Asked { uid: Some("1".to_owned()), ..asked(0, 0) };
        assert!(due(of_its_name, &repo("True", 1), "1"), "it was made anew");
    }
}
