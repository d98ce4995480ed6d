//! One message per run that says what it does, edited in place and gone when the run is over. Nothing
//! is left that says "working" when nobody works: what is shown is on record before it is posted, so
//! whoever comes next finds the message by its run and takes it away.
//!
//! Its calls give way to answers and questions, for which people wait.
//!
//! What agents say of themselves is kept in memory by the replica that serves them; [`step`] decides,
//! [`run_progress`] acts. Where the app is an agent, the message is a stream with a task for each step
//! ([`stream`]), else a line.

mod message;
mod refused;
mod render;
mod session;
mod step;
mod stream;
mod tasks;
mod waiting;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{RoleState, RunMessage};
use codebutler_crds::wire::RunProgress;
use codebutler_crds::{SlackTs, Thread, ThreadStatus};
use codebutler_gateway_core::attended::AttendedThreads;
use codebutler_gateway_core::masks;
use codebutler_gateway_core::thread_key::ThreadKey;
use codebutler_gateway_core::threads::ChangeRefusal;
use codebutler_runtime::recent::RecentKeys;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::refused::AppRefusals;
use self::step::{ShownStep, next_step};
use self::stream::{StreamRights, StreamStage};
use self::tasks::TaskList;
use self::waiting::WaitingLook;
use crate::Inner;
use crate::api::account::SlackAccount;
use crate::api::deferral::LaterError;
use crate::outbound::post;

/// `kind` in the message's metadata: no role reads it.
pub(crate) const KIND: &str = post::PROGRESS;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Edits of all messages together: Slack takes 50 a minute.
const EDIT: Duration = Duration::from_millis(1500);

type RunKey = (ThreadKey, String);

/// Progress of runs, as their agents reported it.
#[derive(Default)]
pub(crate) struct ProgressBoard {
    runs: Mutex<HashMap<RunKey, ShownRun>>,
    busy: Mutex<HashSet<RunKey>>,
    streams: StreamRights,
    /// Apps for which Slack shows no sessions, with a sentence about it.
    sessions: AppRefusals,
    /// Conversations whose title and beginner Slack has heard from this process.
    introduced: RecentKeys<ThreadKey>,
    changed: Notify,
}

/// A run, as its agent told it last.
#[derive(Clone, Debug)]
pub(crate) struct ShownRun {
    id: String,
    turns: u32,
    doing: String,
    /// Progress of the call that it waits for.
    note: String,
    /// Time of the first report, by both clocks.
    since: (Instant, Timestamp),
    /// Time of the latest report.
    heard: Instant,
    ts: Option<SlackTs>,
    stream: StreamStage,
    tasks: TaskList,
    /// True once it has taken the place of one that Slack let nobody edit.
    is_second: bool,
    /// Since when it says what: turns and what is done.
    told: Option<(Instant, u32, String)>,
    /// Not tried again before.
    not_before: Option<Instant>,
}

impl ProgressBoard {
    /// Takes in what an agent says.
    pub(crate) fn hear(&self, thread: ThreadKey, role: &str, progress: &RunProgress) {
        let now = Instant::now();
        let mut runs = lock(&self.runs);
        let run =
            runs.entry((thread, role.to_owned())).or_insert_with(|| ShownRun::new(progress, now));
        if run.id != progress.run {
            *run = ShownRun::new(progress, now);
        }
        run.turns = progress.turns;
        run.doing.clone_from(&progress.doing);
        run.heard = now;
    }

    /// Progress of a call that a role waits for; an empty line ends it.
    pub(crate) fn note(&self, thread: &ThreadKey, role: &str, line: &str) {
        self.with(&(thread.clone(), role.to_owned()), |run| line.clone_into(&mut run.note));
    }

    /// Progress of the calls that a Thread's roles wait for, by role.
    fn notes(&self, thread: &ThreadKey) -> BTreeMap<String, String> {
        let runs = lock(&self.runs);
        let own = runs.iter().filter(|((key, _), run)| key == thread && !run.note.is_empty());
        own.map(|((_, role), run)| (role.clone(), run.note.clone())).collect()
    }

    /// Slack's code for streams that it refuses this app.
    pub(crate) fn refused_stream(&self, account: &SlackAccount) -> Option<String> {
        self.streams.refusal(account)
    }

    /// A sentence about sessions that Slack refuses this app.
    pub(crate) fn refused_session(&self, account: &SlackAccount) -> Option<String> {
        self.sessions.current(account)
    }

    /// Takes note that Slack has heard what a conversation is about, unless it is told of no sessions now.
    fn note_introduced(&self, account: &SlackAccount, key: ThreadKey) {
        if self.sessions.current(account).is_none() {
            self.introduced.first_time(key);
        }
    }

    /// A run has begun or ended: looked at without delay.
    pub(crate) fn changed(&self) {
        self.changed.notify_one();
    }

    fn with(&self, key: &RunKey, change: impl FnOnce(&mut ShownRun)) {
        if let Some(run) = lock(&self.runs).get_mut(key) {
            change(run);
        }
    }
}

impl ShownRun {
    /// Line with the run's activity and its progress.
    fn line(&self) -> String {
        if self.note.is_empty() {
            self.doing.clone()
        } else {
            format!("{}: {}", self.doing, self.note)
        }
    }

    fn new(progress: &RunProgress, now: Instant) -> Self {
        Self {
            id: progress.run.clone(),
            turns: progress.turns,
            doing: progress.doing.clone(),
            note: String::new(),
            since: (now, Timestamp::now()),
            heard: now,
            ts: None,
            stream: StreamStage::None,
            tasks: TaskList::default(),
            is_second: false,
            told: None,
            not_before: None,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

/// Progress of the calls that a Thread's roles wait for, by role, as people may see it. Known to the replica that
/// serves agents.
pub(crate) async fn call_progress(inner: &Inner, thread: &ThreadKey) -> BTreeMap<String, String> {
    let mut notes = inner.progress.notes(thread);
    if !notes.is_empty()
        && let Some((_, repo)) = inner.known(thread)
    {
        let redactor = masks::as_known(&inner.context, &repo).await;
        for note in notes.values_mut() {
            *note = redactor.mask(note).into_owned();
        }
    }
    notes
}

/// Shows runs of these Threads until told to stop. One replica does: the one that their agents speak to.
pub(crate) async fn run_progress(
    inner: Arc<Inner>,
    attended: &AttendedThreads,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    let began = Instant::now();
    let mut shown = attended.candidates(shows_run);
    let mut waiting = WaitingLook::new(&inner, attended);
    loop {
        let look = async {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = inner.progress.changed.notified() => {}
            }
        };
        if stop.run_until_cancelled(look).await.is_none() {
            break;
        }
        waiting.look(&tasks, &stop);
        for (thread, role, step) in due_steps(&inner, attended, &shown.list(), began) {
            let key = (ThreadKey::from(&*thread), role);
            if !lock(&inner.progress.busy).insert(key.clone()) {
                continue;
            }
            let (inner, stop) = (Arc::clone(&inner), stop.clone());
            tasks.spawn(async move {
                let work = Box::pin(perform_step(&inner, &thread, &key, step));
                let done = stop.run_until_cancelled(work).await;
                if let Some(Err(error)) = done {
                    tracing::warn!(thread = key.0.name, role = key.1, %error, "progress_update_failed");
                    let later = Some(Instant::now() + AGAIN);
                    inner.progress.with(&key, |run| run.not_before = later);
                }
                lock(&inner.progress.busy).remove(&key);
            });
        }
    }
    tasks.close();
    let _ = tokio::time::timeout(Duration::from_secs(2), tasks.wait()).await;
}

/// True if a message of the Thread shows a run.
fn shows_run(thread: &Thread) -> bool {
    let mut roles = thread.status.iter().flat_map(|status| status.roles.values());
    roles.any(|role| role.shown.is_some())
}

/// Finds the steps that are due now, by Thread and role.
fn due_steps(
    inner: &Inner,
    attended: &AttendedThreads,
    shown: &[Arc<Thread>],
    began: Instant,
) -> Vec<(Arc<Thread>, String, ShownStep)> {
    let runs = lock(&inner.progress.runs).clone();
    let now = Instant::now();
    let pace = EDIT * u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let mut found = Vec::new();
    let working = runs.keys().map(|(thread, _)| thread).filter(|key| attended.get(key).is_some());
    let keys = shown.iter().map(|thread| ThreadKey::from(&**thread));
    let keys: BTreeSet<_> = keys.chain(working.cloned()).collect();
    for key in keys {
        let Some(thread) = inner.thread(&key) else { continue };
        let mut roles: Vec<String> =
            thread.status.iter().flat_map(|status| status.roles.keys().cloned()).collect();
        roles.sort();
        for role in roles {
            let run = runs.get(&(key.clone(), role.clone()));
            if let Some(step) = next_step(&thread, &role, run, now, began, pace) {
                found.push((Arc::clone(&thread), role, step));
            }
        }
    }
    let known = |key: &ThreadKey| inner.context.thread(key).is_some();
    lock(&inner.progress.runs).retain(|(thread, _), _| known(thread));
    found
}

async fn perform_step(
    inner: &Arc<Inner>,
    thread: &Thread,
    key: &RunKey,
    step: ShownStep,
) -> Result<(), LaterError> {
    match step {
        ShownStep::Show(shown) => {
            let record = |status: &mut ThreadStatus| {
                let entry = status.roles.get_mut(&key.1);
                let Some(entry) = entry.filter(|entry| is_running(entry)) else { return Ok(false) };
                entry.shown = Some(shown.clone());
                Ok::<_, ChangeRefusal>(true)
            };
            let (thread, recorded) = inner.threads.try_update(&key.0, record).await?;
            if recorded {
                message::show_run(inner, &thread, key).await?;
            }
            Ok(())
        }
        ShownStep::Tell => message::show_run(inner, thread, key).await,
        ShownStep::Remove(run) => message::remove_run(inner, thread, key, &run).await,
        ShownStep::Forget => {
            lock(&inner.progress.runs).remove(key);
            Ok(())
        }
    }
}

fn is_running(role: &codebutler_crds::thread::RoleStatus) -> bool {
    role.state == Some(RoleState::Running)
}

/// Takes the messages of all runs of a Thread away: it goes.
pub(crate) async fn clear_lines(inner: &Arc<Inner>, thread: &Thread) -> Result<(), LaterError> {
    let roles = thread.status.iter().flat_map(|status| &status.roles);
    for (role, entry) in roles {
        if let Some(shown) = &entry.shown {
            message::remove_run(
                inner,
                thread,
                &(ThreadKey::from(thread), role.clone()),
                &shown.run,
            )
            .await?;
        }
    }
    Ok(())
}

/// A run as it goes on record.
fn record_shown(run: &ShownRun, spent: codebutler_crds::NanoUsd) -> RunMessage {
    RunMessage { run: run.id.clone(), since: Time(run.since.1), cost: spent, stream: None }
}

/// True if the id of a report's run is well-formed, and its words are short enough.
pub(crate) fn is_valid(progress: &RunProgress) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=32).contains(&progress.run.len())
        && progress.run.bytes().all(plain)
        && progress.doing.len() <= 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_of_which_slack_was_told_nothing_is_told_of_later() {
        let (board, account) = (ProgressBoard::default(), SlackAccount::test("U0BOT", "B0"));
        let key = |name: &str| ThreadKey { namespace: "team".into(), name: name.into() };
        board.note_introduced(&account, key("heard"));
        assert!(board.sessions.note(&account, "no session"));
        board.note_introduced(&account, key("refused"));
        let is_known = |name: &str| board.introduced.contains(&key(name));
        assert!(is_known("heard") && !is_known("refused"));
    }
}
