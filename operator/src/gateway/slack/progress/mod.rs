//! One message per run that says what it does, edited in place and gone when the run is over. Nothing
//! is left that says "working" when nobody works: what is shown is on record before it is posted, so
//! whoever comes next finds the message by its run and takes it away.
//!
//! Its calls give way to answers and questions, for which people wait.
//!
//! What agents say of themselves is kept in memory by the replica that serves them; [`step`] decides,
//! [`run_progress`] acts.

mod session;
mod shown;
mod step;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::thread::{RoleState, RunMessage, SlackThread, ThreadState};
use codebutler_crds::wire::RunProgress;
use codebutler_crds::{AgentRole, Repo, SlackTs, Thread, ThreadStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::session::ConversationSession;
use self::step::{ShownStep, next_step};
use super::Inner;
use super::account::{AccessError, SlackAccount};
use super::later::LaterError;
use super::post::{self, FileHanding, OutgoingText, TextAsks};
use crate::gateway::masks;
use crate::gateway::thread_key::ThreadKey;
use crate::gateway::threads::ChangeRefusal;

/// `kind` in the message's metadata: no role reads it.
pub const KIND: &str = post::PROGRESS;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(500);
/// After a failure.
const AGAIN: Duration = Duration::from_secs(5);
/// Edits of all messages together: Slack takes 50 a minute.
const EDIT: Duration = Duration::from_millis(1500);

type RunKey = (ThreadKey, String);

/// What agents said of their runs.
#[derive(Default)]
pub struct ProgressBoard {
    runs: Mutex<HashMap<RunKey, ShownRun>>,
    busy: Mutex<HashSet<RunKey>>,
    changed: Notify,
}

/// A run, as its agent told it last.
#[derive(Clone, Debug)]
pub(super) struct ShownRun {
    id: String,
    turns: u32,
    doing: String,
    /// Progress of the call that it waits for.
    note: String,
    /// When it was first heard of, and last.
    since: (Instant, Timestamp),
    heard: Instant,
    ts: Option<SlackTs>,
    /// Since when it says what: turns and what is done.
    told: Option<(Instant, u32, String)>,
    /// Not tried again before.
    not_before: Option<Instant>,
}

impl ProgressBoard {
    /// Takes in what an agent says.
    pub fn hear(&self, thread: ThreadKey, role: &str, progress: &RunProgress) {
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
    pub fn note(&self, thread: &ThreadKey, role: &str, line: &str) {
        self.with(&(thread.clone(), role.to_owned()), |run| line.clone_into(&mut run.note));
    }

    /// Progress of the calls that a Thread's roles wait for, by role.
    fn notes(&self, thread: &ThreadKey) -> BTreeMap<String, String> {
        let runs = lock(&self.runs);
        let own = runs.iter().filter(|((key, _), run)| key == thread && !run.note.is_empty());
        own.map(|((_, role), run)| (role.clone(), run.note.clone())).collect()
    }

    /// A run has begun or ended: looked at without delay.
    pub fn changed(&self) {
        self.changed.notify_one();
    }

    fn with(&self, key: &RunKey, change: impl FnOnce(&mut ShownRun)) {
        if let Some(run) = lock(&self.runs).get_mut(key) {
            change(run);
        }
    }
}

impl ShownRun {
    /// What it does, and how far it is.
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
pub(super) async fn call_progress(inner: &Inner, thread: &ThreadKey) -> BTreeMap<String, String> {
    let mut notes = inner.progress.notes(thread);
    if !notes.is_empty()
        && let Some((_, repo)) = inner.known(thread)
    {
        let redactor = masks::as_known(&inner.context, &repo).await;
        notes.values_mut().for_each(|note| *note = redactor.mask(note).into_owned());
    }
    notes
}

/// Shows runs until told to stop. One replica does: the one that agents speak to.
pub async fn run_progress(inner: Arc<Inner>, stop: CancellationToken) {
    let tasks = TaskTracker::new();
    let began = Instant::now();
    let mut shown = inner.context.attended.candidates(shows_run);
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
        for (thread, role, step) in due_steps(&inner, &shown.list(), began) {
            let key = (ThreadKey::from(&*thread), role);
            if !lock(&inner.progress.busy).insert(key.clone()) {
                continue;
            }
            let (inner, stop) = (Arc::clone(&inner), stop.clone());
            tasks.spawn(async move {
                let work = Box::pin(perform_step(&inner, &thread, &key, step));
                let done = stop.run_until_cancelled(work).await;
                if let Some(Err(error)) = done {
                    tracing::warn!(thread = key.0.name, role = key.1, %error, "a run is not shown");
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

/// Whether a message says what one of its roles does.
fn shows_run(thread: &Thread) -> bool {
    let mut roles = thread.status.iter().flat_map(|status| status.roles.values());
    roles.any(|role| role.shown.is_some())
}

/// What is to be done now, by Thread and role.
fn due_steps(
    inner: &Inner,
    shown: &[Arc<Thread>],
    began: Instant,
) -> Vec<(Arc<Thread>, String, ShownStep)> {
    let runs = lock(&inner.progress.runs).clone();
    let now = Instant::now();
    let pace = EDIT * u32::try_from(runs.len()).unwrap_or(u32::MAX);
    let mut found = Vec::new();
    let attended = &inner.context.attended;
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
                show_run(inner, &thread, key).await?;
            }
            Ok(())
        }
        ShownStep::Tell => show_run(inner, thread, key).await,
        ShownStep::Remove(run) => remove_line(inner, thread, key, &run).await,
        ShownStep::Forget => {
            lock(&inner.progress.runs).remove(key);
            Ok(())
        }
    }
}

fn is_running(role: &codebutler_crds::thread::RoleStatus) -> bool {
    role.state == Some(RoleState::Running)
}

/// Posts the message, or edits it.
async fn show_run(inner: &Arc<Inner>, thread: &Thread, key: &RunKey) -> Result<(), LaterError> {
    let Some((_, repo)) = inner.known(&key.0) else { return Ok(()) };
    let Some(slack) = thread.conversation() else { return Ok(()) };
    let run = lock(&inner.progress.runs).get(key).cloned();
    let entry = thread.status.as_ref().and_then(|status| status.roles.get(&key.1));
    let (Some(run), Some(entry)) = (run, entry) else { return Ok(()) };
    let Some(shown) = &entry.shown else { return Ok(()) };
    let roles = inner.context.roles_of(&repo);
    let Some(role) = roles.iter().find(|role| role.spec.role == key.1) else { return Ok(()) };
    let account = inner.account(&repo).await?;
    let redactor = masks::as_known(&inner.context, &repo).await;
    let text = shown::progress_text(&shown::ProgressWords {
        doing: &redactor.mask(&run.line()),
        name: (!account.customizes()).then_some(role.spec.display.name.as_str()),
        turns: run.turns,
        cost: entry.usage.cost.less(shown.cost),
        elapsed: Timestamp::now().duration_since(shown.since.0),
    });
    let blocks = shown::progress_blocks(&text);
    let known = match run.ts.clone() {
        Some(ts) => Some(ts),
        None => {
            post::lookup_sent(inner, &repo, thread, slack, &run_identity(&key.1, &shown.run))
                .await?
        }
    };
    let is_new = known.is_none();
    let ts = if let Some(ts) = known {
        ts
    } else {
        let message = ProgressMessage { repo: &repo, thread, slack, role };
        message.post(inner, key, &shown.run, &text, &blocks).await?
    };
    inner.progress.with(key, |run| run.ts = Some(ts.clone()));
    if is_new {
        if let Err(error) =
            session::show_session(inner, &account, slack, ConversationSession::Processing).await
        {
            tracing::info!(%error, "Slack does not show the session yet");
        }
    } else {
        edit_line(inner, &account, thread, key, (slack, &ts, &shown.run), (&text, &blocks)).await?;
    }
    let now = Instant::now();
    inner.progress.with(key, |known| known.told = Some((now, run.turns, run.line())));
    Ok(())
}

struct ProgressMessage<'a> {
    repo: &'a Repo,
    thread: &'a Thread,
    slack: &'a SlackThread,
    role: &'a AgentRole,
}

impl ProgressMessage<'_> {
    async fn post(
        &self,
        inner: &Inner,
        key: &RunKey,
        run: &str,
        text: &str,
        blocks: &Value,
    ) -> Result<SlackTs, LaterError> {
        let outgoing = OutgoingText {
            repo: self.repo,
            thread: self.thread,
            slack: self.slack,
            key: &format!("{KIND}.{run}"),
            role: Some(self.role),
            by: None,
            kind: KIND,
            asks: TextAsks::Blocks(blocks),
            digest: None,
            parts: vec![text.to_owned()],
            note: None,
            handing: FileHanding::default(),
        };
        let _turn = inner.posting.lock(&key.0).await;
        let sent = post::post_once(inner, &outgoing).await?;
        sent.into_iter().next().ok_or(LaterError::Slow)
    }
}

async fn edit_line(
    inner: &Inner,
    account: &SlackAccount,
    thread: &Thread,
    key: &RunKey,
    (slack, ts, run): (&SlackThread, &SlackTs, &str),
    (text, blocks): (&str, &Value),
) -> Result<(), AccessError> {
    let metadata = post::build_metadata(thread, &key.1, &format!("{KIND}.{run}"), KIND, 1);
    let body = json!({
        "channel": slack.channel, "ts": ts, "text": text, "blocks": blocks, "metadata": metadata,
    });
    match inner.web.upkeep().post::<Value>(&account.bot, "chat.update", &body).await {
        // Somebody took it away: it is posted no second time.
        Err(error) if error.code() == Some("message_not_found") => Ok(()),
        other => Ok(other.map(drop)?),
    }
}

/// By which a run's message is found.
fn run_identity(role: &str, run: &str) -> post::MessageIdentity {
    post::MessageIdentity::of(role, KIND, &format!("{KIND}.{run}"))
}

/// Takes a run's message away.
async fn remove_line(
    inner: &Arc<Inner>,
    thread: &Thread,
    key: &RunKey,
    run: &str,
) -> Result<(), LaterError> {
    if let (Some((_, repo)), Some(slack)) = (inner.known(&key.0), thread.conversation()) {
        let account = inner.account(&repo).await?;
        let id = run_identity(&key.1, run);
        let found = post::lookup_sent(inner, &repo, thread, slack, &id).await;
        let found = match found {
            // The conversation is gone, or nobody may read it any more.
            Err(AccessError::Call(error)) if error.code().is_some() => None,
            other => other?,
        };
        if let Some(ts) = found {
            let body = json!({"channel": slack.channel, "ts": ts});
            match inner.web.post::<Value>(&account.bot, "chat.delete", &body).await {
                Err(error) if error.code().is_some() => {
                    tracing::info!(%error, "a run's message can't be taken away");
                }
                other => drop(other?),
            }
            inner.sent.remove(&key.0, &id);
        }
        let roles = thread.status.iter().flat_map(|status| &status.roles);
        let alone = !roles.into_iter().any(|(role, own)| *role != key.1 && own.shown.is_some());
        if alone {
            let over = thread.spec.state == ThreadState::Closed || thread.is_going();
            let session =
                if over { ConversationSession::Closed } else { ConversationSession::Active };
            session::show_session(inner, &account, slack, session)
                .await
                .map_err(AccessError::from)?;
        }
    }
    inner.progress.with(key, |known| {
        if known.id == run {
            (known.ts, known.told) = (None, None);
        }
    });
    let cleared = |status: &mut ThreadStatus| {
        if let Some(entry) = status.roles.get_mut(&key.1)
            && entry.shown.as_ref().is_some_and(|shown| shown.run == run)
        {
            entry.shown = None;
        }
    };
    inner.threads.update(&key.0, cleared).await?;
    Ok(())
}

/// Takes the messages of all runs of a Thread away: it goes.
pub async fn clear_lines(inner: &Arc<Inner>, thread: &Thread) -> Result<(), LaterError> {
    let roles = thread.status.iter().flat_map(|status| &status.roles);
    for (role, entry) in roles {
        if let Some(shown) = &entry.shown {
            remove_line(inner, thread, &(ThreadKey::from(thread), role.clone()), &shown.run)
                .await?;
        }
    }
    Ok(())
}

/// A run as it goes on record.
fn record_shown(run: &ShownRun, spent: codebutler_crds::NanoUsd) -> RunMessage {
    RunMessage { run: run.id.clone(), since: Time(run.since.1), cost: spent }
}

/// Whether a Thread's name and role make a run that may be shown.
pub fn is_valid(progress: &RunProgress) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    (1..=32).contains(&progress.run.len())
        && progress.run.bytes().all(plain)
        && progress.doing.len() <= 1000
}
