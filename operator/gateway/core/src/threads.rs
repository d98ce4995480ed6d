//! The one writer of the fields of a Thread that belong to the gateway: marks, pending decisions,
//! usage, plan, closing, branch, pull request.
//!
//! What to change is decided by the pure functions of [`change`]; here is only the loop that reads,
//! changes and writes until nobody else wrote in between. A write carries the resourceVersion that
//! it was decided on and nothing but the gateway's own fields, so the controller, which writes the
//! same status, is never overwritten.

mod allowances;
pub mod change;
mod joint;
pub mod keyed;
mod news;
pub mod patch;
mod steps;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_crds::names;
use codebutler_crds::thread::{
    ClosingChoice, MergeWait, PendingItem, PostedPlan, PullRequest, TestReceipt, ThreadClosing,
    ThreadState,
};
use codebutler_crds::wire::{ErrorCode, RunReport};
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_runtime::metrics::repo_of;
use codebutler_runtime::recent::RecentMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::Patch;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Api, Client, ResourceExt as _};
use parking_lot::Mutex;

use self::keyed::KeyedLocks;
use self::steps::ThreadEvents;
use crate::api_error::ApiError;
use crate::metrics::GatewayMetrics;
use crate::thread_key::ThreadKey;
use crate::writes;
pub use allowances::{revoke_allowances, revoke_allowances_of};
pub use change::{CLOSED, ChangeRefusal};
pub use change::{
    add_handover, add_pending, approve_plan, decide_closing, decline_plan, done_settling,
    open_questions, pressable_questions, raise_asked, raise_inbox, raise_said, release_planner,
    set_closing, set_plan, set_plan_details, settle_open, settle_question,
};
pub use joint::{answer_joint, begin_joint};
pub use news::{note_edited, note_unmarked};

/// Attempts per write; with the jitter between them about three seconds under steady conflict.
const ATTEMPTS: u32 = 20;
/// Threads whose last written state is remembered.
const REMEMBERED: usize = 2048;
/// Longest lag of the watch cache behind a Thread that this process created.
const LAG: Duration = Duration::from_secs(10);

/// Reason why a Thread was not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no such Thread (any more).
    #[error("the Thread `{0}` does not exist")]
    Missing(String),
    /// The change itself is not possible in the Thread's present state.
    #[error(transparent)]
    Refused(#[from] ChangeRefusal),
    /// Others kept writing in between.
    #[error("the Thread `{0}` is written too often by others: try again")]
    Contended(String),
    /// The API server refused or failed.
    #[error("the Thread can't be written")]
    Api(#[source] Box<kube::Error>),
}

/// Explains to an agent that its Thread could not be written.
pub fn explain_unwritten(error: &WriteError) -> ApiError {
    tracing::warn!(%error, "thread_write_failed");
    match error {
        WriteError::Missing(_) => {
            ApiError::new(ErrorCode::ThreadClosed, "the Thread does not exist any more")
        }
        WriteError::Refused(why) => ApiError::new(ErrorCode::InvalidRequest, why.to_string()),
        WriteError::Contended(_) | WriteError::Api(_) => ApiError::new(
            ErrorCode::Unavailable,
            "the Thread can't be written right now: try again",
        ),
    }
}

/// Time of a write, and the Thread that the API server returned.
type WrittenThread = (Instant, Arc<Thread>);

/// Writes Threads. Cheap to clone; clones share what they know.
#[derive(Clone)]
pub struct ThreadWriter {
    client: Client,
    events: ThreadEvents,
    metrics: GatewayMetrics,
    /// One write at a time per Thread in this process: conflicts come from other processes only.
    writing: KeyedLocks<ThreadKey>,
    /// Threads as their last writes returned them: newer than the watch cache for some moments.
    latest: Arc<Mutex<RecentMap<ThreadKey, WrittenThread>>>,
}

impl ThreadWriter {
    /// A writer with the gateway's own identity.
    pub fn new(client: Client, metrics: GatewayMetrics) -> Self {
        let reporter = Reporter::from(names::GATEWAY);
        let events = ThreadEvents(Recorder::new(client.clone(), reporter));
        let latest = Arc::new(Mutex::new(RecentMap::new(REMEMBERED)));
        Self { client, events, metrics, writing: KeyedLocks::default(), latest }
    }

    /// The newest state known here: the cached one, or what this process itself wrote since.
    pub fn freshest(&self, key: &ThreadKey, cached: Option<Arc<Thread>>) -> Option<Arc<Thread>> {
        let mut latest = self.latest.lock();
        let Some((written, own)) = latest.get(key) else { return cached };
        let newer = match &cached {
            Some(seen) => own.uid() == seen.uid() && read_revision(own) > read_revision(seen),
            // Created by ourselves a moment ago, or deleted.
            None => written.elapsed() < LAG,
        };
        if newer {
            return Some(own.clone());
        }
        latest.remove(key);
        cached
    }

    /// Creates a Thread, or returns the one that has its name.
    pub async fn ensure(&self, thread: Thread) -> Result<Thread, WriteError> {
        Box::pin(self.begin(thread)).await.map(|(thread, _)| thread)
    }

    /// Creates a Thread, and tells whether it was created now. If the first answer was lost, that
    /// is not known any more.
    pub async fn begin(&self, thread: Thread) -> Result<(Thread, bool), WriteError> {
        let key = ThreadKey::from(&thread);
        let api = self.api(&key);
        for attempt in 0..ATTEMPTS {
            let result = match api.create(&writes::create_params(), &thread).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => {
                    api.get(&key.name).await.map(|there| (there, false))
                }
                other => other.map(|thread| (thread, true)),
            };
            match result {
                Ok((thread, created)) => {
                    self.remember(&key, Arc::new(thread.clone()));
                    return Ok((thread, created));
                }
                Err(error) if is_transient(&error) && attempt + 1 < ATTEMPTS => {
                    pause_jittered(attempt).await;
                }
                Err(error) => return Err(WriteError::Api(Box::new(error))),
            }
        }
        Err(WriteError::Contended(key.name))
    }

    /// The Thread as the API server has it now.
    pub async fn read(&self, key: &ThreadKey) -> Result<Arc<Thread>, WriteError> {
        let thread = self.api(key).get(&key.name).await;
        let thread = Arc::new(thread.map_err(|error| self.failed(key, error))?);
        Ok(thread)
    }

    /// Takes in what a role says of its run.
    pub async fn report(
        &self,
        key: &ThreadKey,
        role: &str,
        report: &RunReport,
    ) -> Result<(), WriteError> {
        let now = time_now();
        self.update(key, |status| change::take_report(status, role, report, &now)).await.map(drop)
    }

    /// Records that the thread's branch is on the remote.
    pub async fn set_branch(&self, key: &ThreadKey, branch: &str) -> Result<(), WriteError> {
        self.update(key, |status| status.branch = Some(branch.to_owned())).await.map(drop)
    }

    /// Records the pull request. A merge commit once known is kept.
    pub async fn set_pull_request(
        &self,
        key: &ThreadKey,
        pull_request: &PullRequest,
    ) -> Result<(), WriteError> {
        let change = |status: &mut ThreadStatus| {
            let before = status.pull_request.clone();
            change::set_pull_request(status, pull_request);
            Ok(before)
        };
        let (thread, before) = self.try_update(key, change).await?;
        let repo = repo_of(&key.namespace, &thread.spec.repo);
        self.metrics.pull_request(&repo, before.as_deref(), pull_request);
        Ok(())
    }

    /// Records what proves that a commit was tested.
    pub async fn set_receipt(
        &self,
        key: &ThreadKey,
        receipt: &TestReceipt,
    ) -> Result<(), WriteError> {
        self.update(key, |status| status.receipt = Some(Box::new(receipt.clone()))).await.map(drop)
    }

    /// Marks for some roles that there is a message. Marks only grow.
    pub async fn raise_inbox(
        &self,
        key: &ThreadKey,
        roles: &[String],
        ts: &SlackTs,
    ) -> Result<(), WriteError> {
        let now = time_now();
        self.update(key, |status| raise_inbox(status, roles, ts, &now)).await.map(drop)
    }

    /// Marks for the roles that are in a run that there is a message.
    pub async fn raise_running(&self, key: &ThreadKey, ts: &SlackTs) -> Result<(), WriteError> {
        let now = time_now();
        let raise = |status: &mut ThreadStatus| {
            let roles = status.roles.keys().filter(|role| status.is_running(role));
            let roles: Vec<String> = roles.cloned().collect();
            raise_inbox(status, &roles, ts, &now);
        };
        self.update(key, raise).await.map(drop)
    }

    /// Keeps something for a role that Slack's history does not hold. One with the same id is
    /// there already; when there is no room the Thread gets an event and the caller an error.
    pub async fn add_pending(
        &self,
        key: &ThreadKey,
        pending: &PendingItem,
    ) -> Result<(), WriteError> {
        self.try_update(key, |status| add_pending(status, pending)).await.map(drop)
    }

    /// Records a plan as it was posted, unless a newer one is known.
    pub async fn set_plan(&self, key: &ThreadKey, plan: &PostedPlan) -> Result<(), WriteError> {
        self.update(key, |status| set_plan(status, plan)).await.map(drop)
    }

    /// Records a user's approval of exactly the plan at `ts`. Answers whether that is the open plan,
    /// or was approved by the same user before.
    pub async fn approve_plan(
        &self,
        key: &ThreadKey,
        ts: &SlackTs,
        user: &str,
    ) -> Result<bool, WriteError> {
        let thread = self
            .update(key, |status| {
                approve_plan(status, ts, user);
            })
            .await?;
        let plan = thread.status.as_ref().and_then(|status| status.plan.as_ref());
        Ok(plan.is_some_and(|p| p.ts == *ts && p.approved_by.as_deref() == Some(user)))
    }

    /// Records the question how to end the thread, unless a newer one is known.
    pub async fn set_closing(
        &self,
        key: &ThreadKey,
        closing: &ThreadClosing,
    ) -> Result<(), WriteError> {
        self.update(key, |status| set_closing(status, closing)).await.map(drop)
    }

    /// Records a user's answer to exactly the question at `ts`. Answers whether it counts.
    pub async fn decide_closing(
        &self,
        key: &ThreadKey,
        ts: &SlackTs,
        choice: ClosingChoice,
        user: &str,
    ) -> Result<bool, WriteError> {
        let thread = self
            .update(key, |status| {
                decide_closing(status, ts, choice, user);
            })
            .await?;
        let closing = thread.status.as_ref().and_then(|status| status.closing.as_ref());
        Ok(closing.is_some_and(|c| {
            c.ts == *ts && c.choice == Some(choice) && c.decided_by.as_deref() == Some(user)
        }))
    }

    /// Records what the merge that was decided at `ts` waits for.
    pub async fn set_wait(
        &self,
        key: &ThreadKey,
        ts: &SlackTs,
        waits: Option<MergeWait>,
    ) -> Result<(), WriteError> {
        self.try_update(key, |status| change::set_wait(status, ts, waits)).await.map(drop)
    }

    /// Closes the Thread: nothing happens in it any more.
    pub async fn close(&self, key: &ThreadKey) -> Result<(), WriteError> {
        let _guard = self.writing.lock(key).await;
        let patch = serde_json::json!({"spec": {"state": ThreadState::Closed}});
        for attempt in 0..ATTEMPTS {
            let params = writes::patch_params();
            match self.api(key).patch(&key.name, &params, &Patch::Merge(&patch)).await {
                Ok(thread) => {
                    self.remember(key, Arc::new(thread));
                    return Ok(());
                }
                Err(error) if is_transient(&error) && attempt + 1 < ATTEMPTS => {
                    pause_jittered(attempt).await;
                }
                Err(error) => return Err(self.failed(key, error)),
            }
        }
        Err(WriteError::Contended(key.name.clone()))
    }

    /// Has the Thread wait with going until it was told, or no longer.
    pub async fn hold(&self, key: &ThreadKey, wanted: bool) -> Result<(), WriteError> {
        let _guard = self.writing.lock(key).await;
        let ours = |finalizer: &String| finalizer == names::FINALIZER;
        for attempt in 0..ATTEMPTS {
            let thread = match self.api(key).get(&key.name).await {
                Ok(thread) => thread,
                Err(error) if is_transient(&error) => {
                    pause_jittered(attempt).await;
                    continue;
                }
                Err(error) => return Err(self.failed(key, error)),
            };
            let mut finalizers = thread.finalizers().to_vec();
            // Nothing can be added to what is going.
            if finalizers.iter().any(ours) == wanted || (wanted && thread.is_going()) {
                return Ok(());
            }
            finalizers.retain(|finalizer| !ours(finalizer));
            finalizers.extend(wanted.then(|| names::FINALIZER.to_owned()));
            let version = thread.resource_version();
            let metadata = serde_json::json!({
                "resourceVersion": version, "finalizers": finalizers,
            });
            let patch = Patch::Merge(serde_json::json!({"metadata": metadata}));
            match self.api(key).patch(&key.name, &writes::patch_params(), &patch).await {
                Ok(thread) => {
                    self.remember(key, Arc::new(thread));
                    return Ok(());
                }
                Err(error) if is_conflict(&error) || is_transient(&error) => {
                    pause_jittered(attempt).await;
                }
                Err(error) => return Err(self.failed(key, error)),
            }
        }
        Err(WriteError::Contended(key.name.clone()))
    }

    /// Changes the status by a function that always succeeds.
    pub async fn update(
        &self,
        key: &ThreadKey,
        change: impl Fn(&mut ThreadStatus) + Send + Sync,
    ) -> Result<Arc<Thread>, WriteError> {
        self.try_update(key, |status| {
            change(status);
            Ok(())
        })
        .await
        .map(|(thread, ())| thread)
    }

    /// Changes the status; the function may run several times and is always given the newest
    /// state that its result can be written on. Returns the Thread with the change in it, and what
    /// the function said of it.
    pub async fn try_update<T: Send>(
        &self,
        key: &ThreadKey,
        change: impl Fn(&mut ThreadStatus) -> Result<T, ChangeRefusal> + Send + Sync,
    ) -> Result<(Arc<Thread>, T), WriteError> {
        let _guard = self.writing.lock(key).await;
        let api = self.api(key);
        let mut tried: Option<(ThreadStatus, T)> = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                pause_jittered(attempt).await;
            }
            let known = if attempt == 0 { self.remembered(key) } else { None };
            let thread = match known {
                Some(thread) => thread,
                None => match api.get(&key.name).await {
                    Ok(thread) => Arc::new(thread),
                    Err(error) if is_transient(&error) => continue,
                    Err(error) => return Err(self.failed(key, error)),
                },
            };
            let before = thread.status.clone().unwrap_or_default();
            if let Some((expected, result)) = tried.take()
                && patch::own_fields(&before, &expected, &thread).is_none()
            {
                // The answer was lost, not the write: sums must not be added twice.
                self.remember(key, thread.clone());
                return Ok((thread, result));
            }
            let mut after = before.clone();
            let result = match change(&mut after) {
                Ok(result) => result,
                Err(_) if attempt == 0 => {
                    // Possibly decided on what was remembered: look again.
                    self.forget(key);
                    continue;
                }
                Err(refusal) => {
                    self.events.tell_refusal(&thread, &refusal).await;
                    return Err(refusal.into());
                }
            };
            let Some(patch) = patch::own_fields(&before, &after, &thread) else {
                self.remember(key, thread.clone());
                return Ok((thread, result));
            };
            let params = writes::patch_params();
            match api.patch_status(&key.name, &params, &Patch::Merge(&patch)).await {
                Ok(thread) => {
                    let thread = Arc::new(thread);
                    self.remember(key, thread.clone());
                    self.events.tell_steps(&thread, &before, &after).await;
                    return Ok((thread, result));
                }
                Err(error) if is_conflict(&error) => self.forget(key),
                Err(error) if is_transient(&error) => {
                    self.forget(key);
                    tried = Some((after, result));
                }
                Err(error) => return Err(self.failed(key, error)),
            }
        }
        Err(WriteError::Contended(key.name.clone()))
    }

    fn api(&self, key: &ThreadKey) -> Api<Thread> {
        Api::namespaced(self.client.clone(), &key.namespace)
    }

    fn remembered(&self, key: &ThreadKey) -> Option<Arc<Thread>> {
        self.latest.lock().get(key).map(|l| l.1.clone())
    }

    fn remember(&self, key: &ThreadKey, thread: Arc<Thread>) {
        let mut latest = self.latest.lock();
        latest.insert(key.clone(), (Instant::now(), thread));
    }

    /// Has the next change begin with what the API server knows.
    pub fn forget(&self, key: &ThreadKey) {
        self.latest.lock().remove(key);
    }

    fn failed(&self, key: &ThreadKey, error: kube::Error) -> WriteError {
        self.forget(key);
        match error {
            kube::Error::Api(status) if status.is_not_found() => {
                WriteError::Missing(key.name.clone())
            }
            error => WriteError::Api(Box::new(error)),
        }
    }
}

fn read_revision(thread: &Thread) -> u64 {
    thread.resource_version().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn time_now() -> Time {
    Time(jiff::Timestamp::now())
}

fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 409)
}

/// Returns true if the same request may succeed a moment later.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => status.code == 429 || status.code >= 500,
        kube::Error::Service(_) | kube::Error::HyperError(_) => true,
        _ => false,
    }
}

/// Waits a little longer each time, by a random part, so that writers don't meet again.
async fn pause_jittered(attempt: u32) {
    let most = 10 * u64::from(attempt + 1).min(30);
    let millis = rand::random_range(1..=most);
    tokio::time::sleep(Duration::from_millis(millis)).await;
}
