//! What people do with a thread's pull request at GitHub: merged, closed, opened again, or remarked
//! on. It is noticed by asking (one asker, the holder of the lease), and told in the thread once.
//!
//! What was told stands in the Thread's status and, by key, in Slack: nothing depends on this
//! process' memory, which only spares GitHub questions.

mod news;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{PullRequest, PullState, ThreadState};
use codebutler_crds::{Repo, Thread, ThreadStatus, names};
use http::HeaderValue;
use kube::ResourceExt as _;

use self::news::{News, Remark};
use super::api::{Shared, unwritten};
use super::close::{self, Patience, REPORT};
use super::collect;
use super::context::{ApiError, ThreadKey};
use super::github::{GitHub, GitHubError, Pull};
use super::masks;
use super::overlap;
use super::slack::usage;

/// The tool whose role answers for the pull request.
const OPENS: &str = "GHCreatePR";
/// How long a Repo is left alone after its first, second, … failure.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(30);
/// Each so many looks at a merge that waits, it is tried though it does not seem ready.
const ASKS: u32 = 5;

/// Repos by namespace and name.
type RepoKey = (String, String);

/// What spares GitHub questions.
#[derive(Default)]
struct Memory {
    /// How each pull request was when all of it had been told.
    told: HashMap<ThreadKey, HeaderValue>,
    /// Repos that are left alone.
    paused: HashMap<RepoKey, Paused>,
    /// Merges that wait: how often they were looked at.
    waited: HashMap<ThreadKey, u32>,
}

impl Memory {
    /// A merge that is not ready is tried now and then: only so GitHub says what it is about.
    fn patience(&mut self, key: &ThreadKey) -> Patience {
        let looks = self.waited.entry(key.clone()).or_default();
        *looks += 1;
        if looks.is_multiple_of(ASKS) { Patience::Asks } else { Patience::Waits }
    }
}

#[derive(Clone, Copy)]
struct Paused {
    until: Instant,
    failures: u32,
}

/// Looks at all open pull requests each `every`, until the gateway stops.
pub async fn run(gateway: &Shared, every: Duration) {
    let mut memory = Memory::default();
    let mut due = tokio::time::interval(every.max(Duration::from_millis(50)));
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let round = Box::pin(round(gateway, &mut memory));
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

async fn round(gateway: &Shared, memory: &mut Memory) {
    let mut by_repo: HashMap<RepoKey, Vec<Arc<Thread>>> = HashMap::new();
    for thread in gateway.context.threads.state().into_iter().filter(|thread| is_watched(thread)) {
        let repo = (thread.namespace().unwrap_or_default(), thread.spec.repo.clone());
        by_repo.entry(repo).or_default().push(thread);
    }
    let watched = |key: &ThreadKey| {
        let mut all = by_repo.values().flatten();
        all.any(|thread| ThreadKey::from(&**thread) == *key)
    };
    memory.told.retain(|key, _| watched(key));
    memory.waited.retain(|key, _| watched(key));
    memory.paused.retain(|key, _| by_repo.contains_key(key));
    for (key, threads) in by_repo {
        if memory.paused.get(&key).is_some_and(|paused| paused.until > Instant::now()) {
            continue;
        }
        let Some(repo) = gateway.context.repo(&key.0, &key.1) else { continue };
        let looked = of_repo(gateway, memory, &repo, &threads).await;
        gateway.metrics.pull_request_round(&repo, looked.is_ok());
        match looked {
            Ok(()) => drop(memory.paused.remove(&key)),
            Err(error) => {
                if error.is_about_repo() {
                    gateway.conditions.git_fails(&repo, &error.to_string()).await;
                }
                tracing::warn!(repo = key.1, %error, "pull requests can't be watched");
                let failures = memory.paused.get(&key).map_or(0, |paused| paused.failures) + 1;
                let pause = (PAUSE * 2_u32.pow(failures.min(6) - 1)).min(LONGEST_PAUSE);
                let until = Instant::now() + pause;
                memory.paused.insert(key, Paused { until, failures });
            }
        }
    }
}

/// Whether people can still do something with the Thread's pull request.
fn is_watched(thread: &Thread) -> bool {
    let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    thread.spec.state == ThreadState::Active
        && !thread.is_going()
        && !collect::is_due(thread)
        && (pull.is_some_and(|pull| pull.merge_commit.is_none()) || close::waits(thread).is_some())
}

async fn of_repo(
    gateway: &Shared,
    memory: &mut Memory,
    repo: &Arc<Repo>,
    threads: &[Arc<Thread>],
) -> Result<(), GitHubError> {
    let github = GitHub::of(&gateway.context, repo).await?;
    // What people wrote there is told, masked with what is known.
    masks::of(&gateway.context, repo).await?;
    for thread in threads {
        let key = ThreadKey::from(&**thread);
        let status = thread.status.clone().unwrap_or_default();
        let Some(known) = status.pull_request.as_ref() else { continue };
        if close::waits(thread).is_some() {
            let patience = memory.patience(&key);
            if let Err(error) = close::resume(gateway, repo, &github, &key, patience).await {
                tracing::warn!(thread = key.name, %error, "a merge was not taken up again");
            }
            continue;
        }
        let changed = github.pull_unless(known.number, memory.told.get(&key)).await?;
        let Some((pull, tag)) = changed else { continue };
        let talk = github.talk(pull.number).await?;
        let all = news::of(known, &pull, &talk);
        let told = tell(gateway, repo, &github, thread, (&pull, &all)).await;
        match told {
            Ok(()) => {
                if let Some(tag) = tag {
                    memory.told.insert(key, tag);
                }
            }
            // Slack or the API server: the next round tries again.
            Err(error) => tracing::warn!(thread = key.name, %error, "a thread was not told"),
        }
    }
    Ok(())
}

async fn tell(
    gateway: &Shared,
    repo: &Repo,
    github: &GitHub,
    thread: &Thread,
    (pull, all): (&Pull, &[News]),
) -> Result<(), ApiError> {
    let key = ThreadKey::from(thread);
    let now = |state, seen| PullRequest {
        number: pull.number,
        url: pull.html_url.clone(),
        merge_commit: None,
        state: Some(state),
        seen,
    };
    for news in all {
        let record = match news {
            News::Merged { .. } | News::Closed { .. } | News::Reopened { .. }
                if is_own_doing(gateway, &key).await? =>
            {
                continue;
            }
            News::Merged { by, commit } => {
                return merged(gateway, github, thread, pull, (by, commit)).await;
            }
            News::Closed { key: id, text } => {
                gateway.slack.notice(&key, id, text).await?;
                now(PullState::Closed, None)
            }
            News::Reopened { key: id, text } => {
                gateway.slack.notice(&key, id, text).await?;
                now(PullState::Open, None)
            }
            News::Remark(Remark { key: id, text, at }) => {
                match owner(gateway, repo) {
                    Some(role) => gateway.slack.remark(&key, id, text, &role).await?,
                    None => gateway.slack.notice(&key, id, text).await.map(drop)?,
                }
                now(pull.standing(), Some(at.clone()))
            }
        };
        let written = gateway.threads.set_pull_request(&key, &record).await;
        written.map_err(|error| unwritten(&error))?;
    }
    Ok(())
}

/// Whether the thread ends the way a user decided in Slack: the role at it tells that.
async fn is_own_doing(gateway: &Shared, key: &ThreadKey) -> Result<bool, ApiError> {
    let thread = gateway.threads.read(key).await.map_err(|error| unwritten(&error))?;
    let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
    Ok(!is_watched(&thread) || closing.is_some_and(|closing| closing.choice.is_some()))
}

/// The role that answers for pull requests: the first that may open one.
fn owner(gateway: &Shared, repo: &Repo) -> Option<String> {
    let roles = gateway.context.roles_of(repo);
    let opens = |role: &&Arc<codebutler_crds::AgentRole>| {
        role.spec.tools.offered().any(|tool| tool == OPENS)
    };
    roles.iter().find(opens).map(|role| role.spec.role.clone())
}

/// Merged by a person: that is the end, as if it had been decided in the thread.
async fn merged(
    gateway: &Shared,
    github: &GitHub,
    thread: &Thread,
    pull: &Pull,
    (by, commit): (&str, &str),
) -> Result<(), ApiError> {
    let key = ThreadKey::from(thread);
    gateway.ledger.flush(&key).await;
    if let Some(repo) = gateway.context.repo(&key.namespace, &thread.spec.repo) {
        overlap::tell_of_merge(gateway, github, &repo, &key, (pull.number, commit)).await;
    }
    github.delete_branch(&names::branch(&key.name)).await?;
    let record = PullRequest {
        number: pull.number,
        url: pull.html_url.clone(),
        merge_commit: Some(commit.to_owned()),
        state: Some(PullState::Merged),
        seen: None,
    };
    let status = report_status(gateway, &key, thread).await;
    let short: String = commit.chars().take(10).collect();
    let text = format!(
        "{by} merged pull request [#{}]({}) at GitHub as `{short}`: this thread is closed.\n{}",
        pull.number,
        pull.html_url,
        usage::table(&status)
    );
    gateway.slack.notice(&key, REPORT, &text).await?;
    let written = gateway.threads.set_pull_request(&key, &record).await;
    written.map_err(|error| unwritten(&error))?;
    gateway.threads.close(&key).await.map_err(|error| unwritten(&error))?;
    tracing::info!(thread = key.name, "closed a thread whose pull request a person merged");
    Ok(())
}

/// What the thread has cost up to now.
async fn report_status(gateway: &Shared, key: &ThreadKey, thread: &Thread) -> ThreadStatus {
    let fresh = gateway.threads.read(key).await.ok();
    let status = fresh.as_ref().and_then(|thread| thread.status.clone());
    status.or_else(|| thread.status.clone()).unwrap_or_default()
}
