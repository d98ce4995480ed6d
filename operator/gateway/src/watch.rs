//! Watches what people do with a thread's pull request at GitHub: merged, closed, opened again, or remarked on. It is
//! noticed by polling (by one replica, the holder of the lease), and told in the thread once.
//!
//! One question a round and Repo says which pull requests changed; only those are looked at. What was
//! told stands in the Thread's status and, by key, in Slack: nothing depends on this process' memory,
//! which only spares GitHub questions.

mod budget;
pub mod checks;
mod merged;
mod news;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::thread::{PullRequest, PullState, ThreadState};
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::attended::CandidateThreads;
use codebutler_gateway_core::github::{ChangedPulls, GitHub, GitHubError, GitHubPull};
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::explain_unwritten;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use self::budget::{PollBudget, is_scarce};
use self::checks::{CheckPoll, tell_checks};
use self::merged::close_merged;
use self::news::{PullNews, PullRemark};
use crate::close::{self, MergePatience};
use crate::collect;
use crate::work::WorkServices;

/// The tool whose role answers for the pull request.
const OPENS: &str = "GHCreatePR";
/// Backoff of a Repo after its first, second, … failure: its beginning, and its maximum.
const PAUSE: Duration = Duration::from_mins(1);
const LONGEST_PAUSE: Duration = Duration::from_mins(30);
/// Number of looks at a waiting merge after which it is tried though it does not seem ready.
const ASKS: u32 = 5;
/// GitHub's times are whole seconds, and its lists may be late: what changed so shortly before a look
/// is looked at once more.
const SETTLED: SignedDuration = SignedDuration::from_secs(5);
/// Requests of a look: the pull request, its conversation, its reviews, and at times their lines or who somebody is.
const LOOK: u64 = 4;
/// Requests for a merge that waits.
const WAIT: u64 = 2;
/// Requests for the state of checks.
const CHECKS: u64 = 2;

/// Repos by namespace and name.
type PolledRepo = (String, String);

/// Looks after the pull requests of all Repos.
#[derive(Default)]
pub struct PullWatch {
    watched: Option<CandidateThreads>,
    repos: HashMap<PolledRepo, PollMemory>,
}

/// Cache that saves requests to GitHub about one Repo.
#[derive(Default)]
struct PollMemory {
    budget: PollBudget,
    /// Time before which every change was seen.
    mark: Option<Timestamp>,
    /// Stamp of each pull request when all of it had been told.
    told: HashMap<ThreadKey, PullStamp>,
    /// Threads to look at, and threads to look at once more from a time on.
    due: HashSet<ThreadKey>,
    again: HashMap<ThreadKey, Instant>,
    /// Number of looks at each merge that waits.
    waited: HashMap<ThreadKey, u32>,
    /// Last look at the checks of each pull request.
    checked: HashMap<ThreadKey, CheckPoll>,
    /// Time until which the Repo is left alone, and the failures in a row.
    paused: Option<Instant>,
    failures: u32,
}

/// Fingerprint by which an unchanged pull request is known. The time alone is not enough: it is in seconds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct PullStamp {
    updated: Option<String>,
    head: String,
    standing: PullState,
}

impl PullStamp {
    fn of(pull: &GitHubPull) -> Self {
        Self {
            updated: pull.updated_at().map(str::to_owned),
            head: pull.head().to_owned(),
            standing: pull.standing(),
        }
    }
}

impl PollMemory {
    /// A merge that is not ready is tried now and then: only so GitHub says what it is about.
    fn patience(&mut self, key: &ThreadKey) -> MergePatience {
        let looks = self.waited.entry(key.clone()).or_default();
        *looks += 1;
        if looks.is_multiple_of(ASKS) { MergePatience::Asks } else { MergePatience::Waits }
    }

    fn retain(&mut self, threads: &[Arc<Thread>]) {
        let keys: HashSet<ThreadKey> = threads.iter().map(|t| ThreadKey::from(&**t)).collect();
        self.told.retain(|key, _| keys.contains(key));
        self.due.retain(|key| keys.contains(key));
        self.again.retain(|key, _| keys.contains(key));
        self.waited.retain(|key, _| keys.contains(key));
        self.checked.retain(|key, _| keys.contains(key));
    }

    /// Marks the Threads whose pull requests are to be looked at.
    fn take_in(&mut self, threads: &[Arc<Thread>], changed: &ChangedPulls) {
        let listed: HashMap<u64, &GitHubPull> =
            changed.pulls.iter().map(|p| (p.number, p)).collect();
        for thread in threads {
            let key = ThreadKey::from(&**thread);
            let Some(known) = thread.status.as_ref().and_then(|s| s.pull_request.as_ref()) else {
                continue;
            };
            let is_due = match (listed.get(&known.number), self.told.get(&key)) {
                (Some(pull), Some(told)) => PullStamp::of(pull) != *told,
                // After a restart: the Thread's status says what the last process told.
                (Some(pull), None) if is_as_told(known, pull) => {
                    self.told(&key, pull, changed.at);
                    known.updated.is_none()
                }
                (_, None) => true,
                (None, Some(_)) => false,
            };
            if is_due {
                self.due.insert(key);
            }
        }
        let now = Instant::now();
        let again = self.again.extract_if(|_, at| *at <= now).map(|(key, _)| key);
        self.due.extend(again);
        let newest = changed.pulls.first().and_then(GitHubPull::updated);
        self.mark = newest.map(|newest| newest - SETTLED).max(self.mark);
    }

    /// Records that all of a pull request is told.
    fn told(&mut self, key: &ThreadKey, pull: &GitHubPull, asked: Option<Timestamp>) {
        self.due.remove(key);
        self.told.insert(key.clone(), PullStamp::of(pull));
        let (Some(updated), asked) = (pull.updated(), asked.unwrap_or_else(Timestamp::now)) else {
            return;
        };
        let settled = updated + SETTLED;
        if asked < settled {
            let left = asked.duration_until(settled).unsigned_abs() + Duration::from_secs(1);
            self.again.insert(key.clone(), Instant::now() + left);
        }
    }

    /// The commit of a pull request whose checks may say something else by now.
    fn unchecked(&self, key: &ThreadKey, now: Instant) -> Option<String> {
        let told = self.told.get(key).filter(|told| told.standing == PullState::Open)?;
        let known = self.checked.get(key).filter(|known| known.head == told.head);
        known.is_none_or(|known| known.is_due(now)).then(|| told.head.clone())
    }

    /// Places of the pull requests whose checks may say something else by now, with their commits. Those that were not
    /// looked at for longest come first: where the budget is not enough for all, each has its turn.
    fn by_last_look(&self, keys: &[ThreadKey], now: Instant) -> Vec<(usize, String)> {
        let due = keys.iter().enumerate().filter_map(|(at, key)| {
            let head = self.unchecked(key, now)?;
            let known = self.checked.get(key).filter(|known| known.head == head);
            Some((known.map(|known| known.looked), at, head))
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.into_iter().map(|(_, at, head)| (at, head)).collect()
    }

    /// Leaves the Repo alone for a while after an error.
    fn pause(&mut self, error: &GitHubError) {
        self.failures += 1;
        let pause = (PAUSE * 2_u32.pow(self.failures.min(6) - 1)).min(LONGEST_PAUSE);
        self.paused = Some(Instant::now() + error.wait().unwrap_or(pause));
    }
}

/// True if a pull request is in the state that the Thread's status says was told.
fn is_as_told(known: &PullRequest, pull: &GitHubPull) -> bool {
    known.merge_commit.is_none()
        && known.updated.as_deref() == pull.updated_at()
        && known.state.unwrap_or(PullState::Open) == pull.standing()
}

/// Looks at all open pull requests each `every`, until the gateway stops.
pub async fn run_watch(gateway: &WorkServices, every: Duration) {
    let mut watch = PullWatch::default();
    let mut due = tokio::time::interval(every.max(Duration::from_millis(50)));
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while gateway.shutdown.run_until_cancelled(due.tick()).await.is_some() {
        let round = watch.round(gateway);
        if gateway.shutdown.run_until_cancelled(round).await.is_none() {
            return;
        }
    }
}

impl PullWatch {
    /// Looks once at each Repo.
    pub async fn round(&mut self, gateway: &WorkServices) {
        let attended = &gateway.context.attended;
        let watched = self.watched.get_or_insert_with(|| attended.candidates(is_watched));
        let mut by_repo: HashMap<PolledRepo, Vec<Arc<Thread>>> = HashMap::new();
        for thread in watched.list() {
            let repo = (thread.namespace().unwrap_or_default(), thread.spec.repo.clone());
            by_repo.entry(repo).or_default().push(thread);
        }
        self.repos.retain(|key, _| by_repo.contains_key(key));
        for (key, threads) in by_repo {
            let memory = self.repos.entry(key.clone()).or_default();
            if memory.paused.is_some_and(|until| until > Instant::now()) {
                continue;
            }
            let Some(repo) = gateway.context.repo(&key.0, &key.1) else { continue };
            let looked = Box::pin(of_repo(gateway, memory, &repo, &threads)).await;
            gateway.metrics.pull_request_round(&repo, looked.is_ok());
            match looked {
                Ok(()) => (memory.paused, memory.failures) = (None, 0),
                Err(error) => {
                    if error.is_about_repo() {
                        gateway.conditions.git_fails(&repo, &error.to_string()).await;
                    }
                    tracing::warn!(repo = key.1, %error, "pull_request_poll_failed");
                    memory.pause(&error);
                }
            }
        }
    }
}

/// True if people can still do something with the Thread's pull request, or if its merge has not ended the Thread yet.
fn is_watched(thread: &Thread) -> bool {
    let pull = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
    thread.spec.state == ThreadState::Active
        && !thread.is_going()
        && !collect::is_due(thread)
        && (pull.is_some() || close::find_wait(thread).is_some())
}

async fn of_repo(
    gateway: &WorkServices,
    memory: &mut PollMemory,
    repo: &Arc<Repo>,
    threads: &[Arc<Thread>],
) -> Result<(), GitHubError> {
    memory.retain(threads);
    let github = GitHub::of(&gateway.context, repo).await?;
    if github.quota().is_some_and(is_scarce) {
        return Ok(());
    }
    // People's words there are told, masked with the Repo's current patterns.
    masks::current_redactor(&gateway.context, repo).await?;
    let changed = github.changed(memory.mark).await?;
    memory.budget.begin(github.quota());
    memory.budget.spend(changed.requests);
    let (waiting, open): (Vec<_>, Vec<_>) =
        threads.iter().cloned().partition(|thread| close::find_wait(thread).is_some());
    for thread in waiting {
        let key = ThreadKey::from(&*thread);
        let patience = memory.patience(&key);
        memory.budget.spend(WAIT);
        if let Err(error) = close::resume_merge(gateway, repo, &github, &key, patience).await {
            tracing::warn!(thread = key.name, %error, "merge_resume_failed");
        }
    }
    memory.take_in(&open, &changed);
    for thread in by_urgency(&open, &changed) {
        let key = ThreadKey::from(&*thread);
        if !memory.due.contains(&key) {
            continue;
        }
        if !memory.budget.has_any() {
            break;
        }
        memory.budget.spend(LOOK);
        if let Some(pull) = look_at_pull(gateway, repo, &github, &thread).await? {
            if memory.told.get(&key).is_some_and(|told| told.head != pull.head()) {
                // Somebody may have pushed past the gateway.
                gateway.branches.touch(repo);
            }
            memory.told(&key, &pull, changed.at);
        }
    }
    look_at_checks(gateway, memory, repo, (&github, &open)).await
}

/// Asks how checks stand that are not over, as far as there are questions left.
async fn look_at_checks(
    gateway: &WorkServices,
    memory: &mut PollMemory,
    repo: &Repo,
    (github, threads): (&GitHub, &[Arc<Thread>]),
) -> Result<(), GitHubError> {
    if gateway.context.history.store().is_none() {
        return Ok(());
    }
    let keys: Vec<ThreadKey> = threads.iter().map(|thread| ThreadKey::from(&**thread)).collect();
    for (at, head) in memory.by_last_look(&keys, Instant::now()) {
        if !memory.budget.has_any() {
            break;
        }
        memory.budget.spend(CHECKS);
        let (thread, key) = (&threads[at], keys[at].clone());
        let checks = match github.checks(&head).await {
            Ok(checks) => checks,
            Err(error) if error.wait().is_some() => return Err(error),
            // A failure here does not keep the rest of the pull request from being looked at.
            Err(error) => {
                tracing::warn!(thread = key.name, head, %error, "check_status_unknown");
                Vec::new()
            }
        };
        tell_checks(gateway, repo, thread, (&head, &checks)).await;
        let before = memory.checked.remove(&key);
        memory.checked.insert(key, CheckPoll::of(before, head, &checks, Instant::now()));
    }
    Ok(())
}

/// Threads in order of urgency: those whose pull request has changed its state first, then by their last change.
fn by_urgency(threads: &[Arc<Thread>], changed: &ChangedPulls) -> Vec<Arc<Thread>> {
    let at: HashMap<u64, (usize, &GitHubPull)> =
        changed.pulls.iter().enumerate().map(|(at, pull)| (pull.number, (at, pull))).collect();
    let mut all = threads.to_vec();
    all.sort_by_cached_key(|thread| {
        let known = thread.status.as_ref().and_then(|status| status.pull_request.as_ref());
        let listed = known.and_then(|known| at.get(&known.number));
        let before = known.and_then(|known| known.state).unwrap_or(PullState::Open);
        let differs = listed.is_some_and(|(_, pull)| pull.standing() != before);
        (Reverse(differs), listed.map_or(usize::MAX, |(at, _)| *at))
    });
    all
}

/// Looks at one pull request and tells what is new. Nothing if it could not all be told.
async fn look_at_pull(
    gateway: &WorkServices,
    repo: &Repo,
    github: &GitHub,
    thread: &Thread,
) -> Result<Option<GitHubPull>, GitHubError> {
    let status = thread.status.clone().unwrap_or_default();
    let Some(known) = status.pull_request.as_ref() else { return Ok(None) };
    let pull = github.pull(known.number).await?;
    let since = news::news_since(known);
    let talk = github.talk_since(pull.number, since).await?;
    let members = github.members(news::news_speakers(known, &talk)).await?;
    let all = news::news_of(known, &pull, &talk, &members);
    let told = async {
        tell_news(gateway, repo, github, thread, (&pull, &all)).await?;
        if pull.is_merged() {
            return Ok(());
        }
        let record = PullRequest { updated: pull.updated_at().map(str::to_owned), ..pull.record() };
        let written = gateway.threads.set_pull_request(&ThreadKey::from(thread), &record).await;
        written.map_err(|error| explain_unwritten(&error))
    };
    match told.await {
        Ok(()) => Ok(Some(pull)),
        // Slack or the API server: the next round tries again.
        Err(error) => {
            tracing::warn!(thread = thread.name_any(), %error, notice = "pull_request", "notice_post_failed");
            Ok(None)
        }
    }
}

async fn tell_news(
    gateway: &WorkServices,
    repo: &Repo,
    github: &GitHub,
    thread: &Thread,
    (pull, all): (&GitHubPull, &[PullNews]),
) -> Result<(), ApiError> {
    let key = ThreadKey::from(thread);
    for news in all {
        match news {
            PullNews::Merged { .. } | PullNews::Closed { .. } | PullNews::Reopened { .. }
                if is_own_doing(gateway, &key).await? =>
            {
                continue;
            }
            PullNews::Merged { by, commit } => {
                return close_merged(gateway, github, thread, pull, (by, commit)).await;
            }
            PullNews::Closed { key: id, text } => {
                let text = format!("{text}{}", describe_gone(github, &key).await);
                gateway.slack.notice(&key, id, &text).await?;
            }
            PullNews::Reopened { key: id, text } => {
                gateway.slack.notice(&key, id, text).await?;
            }
            PullNews::Remark(PullRemark { key: id, text, .. }) => match pull_owner(gateway, repo) {
                Some(role) => gateway.slack.remark(&key, id, text, &role).await?,
                None => gateway.slack.notice(&key, id, text).await.map(drop)?,
            },
        }
        let written = gateway.threads.set_pull_request(&key, &news.record(pull)).await;
        written.map_err(|error| explain_unwritten(&error))?;
    }
    Ok(())
}

/// A pull request whose branch is deleted or renamed is closed by GitHub itself: that is the news then.
async fn describe_gone(github: &GitHub, key: &ThreadKey) -> String {
    let branch = names::branch_name(&key.name);
    match github.tip(&branch).await {
        Ok(None) => format!(
            "\nIts branch `{branch}` is not there any more: somebody deleted or renamed it. Restore it at GitHub to go on \
             with what was on it."
        ),
        // The rest is news all the same.
        Ok(Some(_)) | Err(_) => String::new(),
    }
}

/// True if the thread ends the way a user decided in Slack: the role at it tells that.
async fn is_own_doing(gateway: &WorkServices, key: &ThreadKey) -> Result<bool, ApiError> {
    let thread = gateway.threads.read(key).await.map_err(|error| explain_unwritten(&error))?;
    let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
    Ok(!is_watched(&thread) || closing.is_some_and(|closing| closing.choice.is_some()))
}

/// The role that answers for pull requests: the first that may open one.
fn pull_owner(gateway: &WorkServices, repo: &Repo) -> Option<String> {
    let roles = gateway.context.roles_of(repo);
    let opens = |role: &&Arc<codebutler_crds::AgentRole>| {
        role.spec.tools.offered().any(|tool| tool == OPENS)
    };
    roles.iter().find(opens).map(|role| role.spec.role.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::wire::HeadCheck;

    #[test]
    fn checks_are_asked_about_where_a_look_is_due_or_another_commit_is_there() {
        let key = ThreadKey { namespace: "team".into(), name: "shop-1".into() };
        let now = Instant::now();
        let mut memory = PollMemory::default();
        assert_eq!(memory.unchecked(&key, now), None, "it was not looked at yet");
        let at =
            |head: &str| PullStamp { updated: None, head: head.into(), standing: PullState::Open };
        memory.told.insert(key.clone(), at("a"));
        assert_eq!(memory.unchecked(&key, now).as_deref(), Some("a"));
        let failed = HeadCheck {
            name: "lint".into(),
            state: "failure".into(),
            summary: None,
            attempt: Some("1".into()),
        };
        memory.checked.insert(key.clone(), CheckPoll::of(None, "a".into(), &[failed], now));
        assert_eq!(memory.unchecked(&key, now), None);
        // Somebody may have run it again.
        let later = now + Duration::from_mins(5);
        assert_eq!(memory.unchecked(&key, later).as_deref(), Some("a"));
        memory.told.insert(key.clone(), at("b"));
        assert_eq!(memory.unchecked(&key, now).as_deref(), Some("b"), "another push");
    }

    #[test]
    fn checks_that_were_not_looked_at_for_longest_come_first() {
        let key = |name: &str| ThreadKey { namespace: "team".into(), name: name.into() };
        let keys = ["a", "b", "new", "pushed"].map(key);
        let mut memory = PollMemory::default();
        let at =
            |head: &str| PullStamp { updated: None, head: head.into(), standing: PullState::Open };
        let begun = Instant::now();
        for (key, seconds) in keys.iter().zip([20, 10, 0, 30]) {
            memory.told.insert(key.clone(), at("1"));
            let looked = begun + Duration::from_secs(seconds);
            let known = CheckPoll::of(None, "1".into(), &[], looked);
            memory.checked.insert(key.clone(), known);
        }
        memory.checked.remove(&keys[2]);
        memory.told.insert(keys[3].clone(), at("2"));
        let due = memory.by_last_look(&keys, begun + Duration::from_mins(1));
        let places: Vec<usize> = due.iter().map(|(at, _)| *at).collect();
        assert_eq!(places, [2, 3, 1, 0]);
    }
}
