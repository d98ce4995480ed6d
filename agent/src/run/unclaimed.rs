//! A pod that was made before anybody has written: it waits until a Thread takes it, with a clone of the base
//! branch. Its token opens nothing but that question, fetches and the Repo's hosts. No command runs before it is
//! answered but the set-up of that clone.

use std::fs::{self, File};
use std::io;
use std::mem::{Discriminant, discriminant};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_wire::{ErrorCode, SeatAnswer, SeatSetUp, SeatSetUpEnd};
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use super::RunError;
use super::turns::PREPARING;
use super::wall::EgressWall;
use crate::alive;
use crate::args::RunArgs;
use crate::gateway::{GatewayClient, GatewayError};
use crate::relay::GitRelay;
use crate::toolbox::client::{ToolboxClient, ToolboxError};
use crate::toolbox::protocol::{
    CommitAuthor, SetUp, SetUpEnd, ToolboxHello, ToolboxReply, ToolboxRequest,
};

/// The longest that one question waits.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Between questions that were not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout after which a pod that the gateway does not have registered gives up.
const UNKNOWN: Duration = Duration::from_mins(10);
/// Interval of fetches of the base branch; the first run of a Thread that takes the pod fetches newer commits.
const REFRESH: Duration = Duration::from_mins(5);
/// After a clone or fetch that failed: a clone begins from nothing, so each that follows waits twice as long.
const AGAIN: Duration = Duration::from_secs(20);
const MOST_AGAIN: Duration = Duration::from_mins(10);
/// Time limit for the pod's confinement to come up before a set-up. Later ones are tried after each fetch.
const WALL: Duration = Duration::from_mins(1);
/// Attempts at a clone of a volume that others are to be made from, after the first one.
const CLONES: u32 = 5;
/// Time by which a set-up may end later than its command has to.
const SLACK: Duration = Duration::from_mins(1);

/// Returns once a Thread has taken the pod, with the toolbox, which takes one connection only.
pub(super) async fn await_thread(
    args: &RunArgs,
    gateway: &GatewayClient,
    relay: &GitRelay,
    wall: &EgressWall,
) -> Result<ToolboxClient, RunError> {
    let toolbox = ToolboxClient::connect(&args.socket).await?;
    let set_ups = Arc::<SeatSetUps>::default();
    let mut known = Instant::now();
    let mut logged = LoggedCauses::default();
    let mut clone: Option<CloneTask> = None;
    let mut wait = Duration::ZERO;
    loop {
        let ended = *set_ups.ended.lock();
        let answer = match &mut clone {
            None => gateway.seat(wait, ended).await,
            Some(clone) => tokio::select! {
                answer = gateway.seat(wait, ended) => answer,
                error = clone.failed() => return Err(error.into()),
                // The next question reports it.
                () = set_ups.news.notified() => continue,
            },
        };
        match answer {
            Ok(SeatAnswer { thread: Some(thread), .. }) => {
                tracing::info!(thread, "pod_claimed");
                if let Some(clone) = clone {
                    clone.settle().await?;
                }
                return Ok(toolbox);
            }
            Ok(answer @ SeatAnswer { thread: None, .. }) => {
                (wait, known) = (LONG_POLL, Instant::now());
                logged = LoggedCauses::default();
                set_ups.wanted.lock().clone_from(&answer.set_up);
                set_ups.acknowledge(ended);
                if clone.is_none() {
                    clone = Some(CloneTask::start(CloneKeeper {
                        toolbox: toolbox.clone(),
                        hello: hello_for(&answer, &args.role, relay),
                        busy: Arc::default(),
                        share: args.share.clone(),
                        set_ups: Arc::clone(&set_ups),
                        wall: wall.clone(),
                        relay: relay.clone(),
                        seconds: args.setup_limit,
                        known: None,
                    }));
                }
            }
            Err(error) if outlasts(&error, known) => {
                if logged.is_new(&error) {
                    tracing::warn!(%error, "pod_claim_unknown");
                }
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Clones the base branch and sets the clone up, once, for volumes that are made from this one.
pub(super) async fn prepare_volume(args: &RunArgs) -> Result<(), RunError> {
    let gateway =
        GatewayClient::new(&args.gateway, args.gateway_address, &args.ca_file, &args.token_file)?;
    let relay = GitRelay::start(args.relay, gateway.clone()).await.map_err(RunError::Relay)?;
    let wall = EgressWall::new(gateway.clone(), args);
    tokio::select! {
        done = prepare_once(args, &gateway, &relay, &wall) => done?,
        never = wall.look_ahead() => match never {},
    }
    let folder = args.state_dir.clone();
    let written = tokio::task::spawn_blocking(move || sync_volume(&folder)).await;
    written
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|error| RunError::Unprepared(format!("it can't be written to: {error}")))
}

/// Writes all of the volume that has this folder to its storage. The pod's end tells that it can be cloned, and a driver
/// clones what is stored, maybe before the node has unmounted it.
fn sync_volume(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    Ok(nix::unistd::syncfs(File::open(folder)?)?)
}

async fn prepare_once(
    args: &RunArgs,
    gateway: &GatewayClient,
    relay: &GitRelay,
    wall: &EgressWall,
) -> Result<(), RunError> {
    let toolbox = ToolboxClient::connect(&args.socket).await?;
    let known = Instant::now();
    let answer = loop {
        match gateway.seat(Duration::ZERO, None).await {
            Ok(answer) => break answer,
            Err(error) if outlasts(&error, known) => sleep(PAUSE).await,
            Err(error) => return Err(error.into()),
        }
    };
    if answer.set_up.is_none() {
        // A volume without a set-up would count as prepared until the lock files change.
        let why = "no role's commands run in the worktree any more";
        return Err(RunError::Unprepared(why.to_owned()));
    }
    let set_ups = Arc::<SeatSetUps>::default();
    set_ups.wanted.lock().clone_from(&answer.set_up);
    let keeper = CloneKeeper {
        toolbox,
        hello: hello_for(&answer, &args.role, relay),
        busy: Arc::default(),
        share: None,
        set_ups,
        wall: wall.clone(),
        relay: relay.clone(),
        seconds: args.setup_limit,
        known: None,
    };
    keeper.prepare().await
}

/// Causes that the log has of questions without an answer, since the last answer: the pod may wait for hours.
#[derive(Debug, Default)]
struct LoggedCauses(Vec<(Discriminant<GatewayError>, Option<ErrorCode>)>);

impl LoggedCauses {
    fn is_new(&mut self, error: &GatewayError) -> bool {
        let cause = (discriminant(error), error.code());
        let new = !self.0.contains(&cause);
        if new {
            self.0.push(cause);
        }
        new
    }
}

fn outlasts(error: &GatewayError, known: Instant) -> bool {
    let unknown = error.code() == Some(ErrorCode::NotRegistered);
    error.may_pass() && (!unknown || known.elapsed() < UNKNOWN)
}

/// The author is a placeholder: no commit is made before a Thread takes the pod.
fn hello_for(answer: &SeatAnswer, role: &str, relay: &GitRelay) -> ToolboxHello {
    ToolboxHello {
        relay_url: relay.url(),
        proxy: relay.proxy(),
        branch: answer.base_branch.clone(),
        base_branch: answer.base_branch.clone(),
        sparse: answer.sparse.clone(),
        author: CommitAuthor {
            name: "CodeButler".to_owned(),
            email: "nobody@codebutler.invalid".to_owned(),
        },
        role: role.to_owned(),
    }
}

/// Keeps the clone near the base branch until it is dropped: a Thread that takes the pod waits for what is under way.
struct CloneTask {
    task: JoinHandle<ToolboxError>,
    toolbox: ToolboxClient,
    /// Held while the toolbox clones or fetches.
    busy: Arc<Mutex<()>>,
}

impl CloneTask {
    fn start(keeper: CloneKeeper) -> Self {
        let (toolbox, busy) = (keeper.toolbox.clone(), Arc::clone(&keeper.busy));
        Self { task: tokio::spawn(keeper.keep().in_current_span()), toolbox, busy }
    }

    /// Resolves when the toolbox's connection is lost: the pod has to fail then, since it can't serve a Thread.
    async fn failed(&mut self) -> ToolboxError {
        match (&mut self.task).await {
            Ok(error) => error,
            Err(_) => ToolboxError::Gone,
        }
    }

    /// Waits for the clone or fetch under way: the worktree is the toolbox's alone meanwhile. A set-up is cut off
    /// instead: the Thread does it, once it needs it.
    async fn settle(mut self) -> Result<(), ToolboxError> {
        let busy = Arc::clone(&self.busy);
        let settled = timeout(PREPARING, busy.lock_owned());
        tokio::select! {
            biased;
            held = settled => {
                // Before the lock is free again: nothing else is begun. A task may ask for something once more before
                // it notices.
                self.task.abort();
                let _ = (&mut self.task).await;
                drop(held);
                self.toolbox.ask(ToolboxRequest::EndSetUp).await.map(drop)
            }
            error = self.failed() => Err(error),
        }
    }
}

impl Drop for CloneTask {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Set-ups of the clone, as the gateway knows them.
#[derive(Default)]
struct SeatSetUps {
    /// The one that is wanted, by the gateway's last answer.
    wanted: parking_lot::Mutex<Option<SeatSetUp>>,
    /// The end of the last one, until the gateway has acknowledged it.
    ended: parking_lot::Mutex<Option<SeatSetUpEnd>>,
    /// Signal that one has ended.
    news: Notify,
}

impl SeatSetUps {
    fn ends(&self, end: SeatSetUpEnd) {
        *self.ended.lock() = Some(end);
        self.news.notify_one();
    }

    /// Drops an end that the gateway has acknowledged.
    fn acknowledge(&self, end: Option<SeatSetUpEnd>) {
        let mut ended = self.ended.lock();
        if *ended == end {
            *ended = None;
        }
    }
}

/// Everything that a clone is kept with.
struct CloneKeeper {
    toolbox: ToolboxClient,
    hello: ToolboxHello,
    busy: Arc<Mutex<()>>,
    /// Folder in which the kubelet finds that there is a clone.
    share: Option<PathBuf>,
    set_ups: Arc<SeatSetUps>,
    wall: EgressWall,
    relay: GitRelay,
    /// Timeout of a set-up.
    seconds: u32,
    /// Fingerprint of the last set-up that the log has; empty where none was needed.
    known: Option<String>,
}

impl CloneKeeper {
    /// Ends with what the toolbox failed by.
    async fn keep(mut self) -> ToolboxError {
        if let Err(error) = self.toolbox.ask(ToolboxRequest::Hello(self.hello.clone())).await {
            return error;
        }
        let mut failures = 0;
        loop {
            let held = self.busy.lock().await;
            let done = self.toolbox.ask(ToolboxRequest::PrepareBase).await;
            drop(held);
            match done {
                Ok(ToolboxReply::Text(done)) => {
                    tracing::info!(done, "clone_ready");
                    failures = 0;
                    if let Some(Err(error)) = self.share.as_deref().map(alive::note_clone) {
                        tracing::warn!(%error, "clone_mark_failed");
                    }
                    if let Err(error) = self.set_up().await {
                        return error;
                    }
                }
                Ok(other) => {
                    failures += 1;
                    tracing::warn!(
                        ?other,
                        failures,
                        request = "prepare_base",
                        "toolbox_request_failed"
                    );
                }
                Err(error) => return error,
            }
            sleep(pause_after(failures)).await;
        }
    }

    /// Makes one clone and sets it up.
    async fn prepare(mut self) -> Result<(), RunError> {
        self.toolbox.ask(ToolboxRequest::Hello(self.hello.clone())).await?;
        let mut failures = 0;
        loop {
            match self.toolbox.ask(ToolboxRequest::PrepareBase).await? {
                ToolboxReply::Text(done) => {
                    tracing::info!(done, "clone_ready");
                    break;
                }
                other if failures < CLONES => {
                    failures += 1;
                    tracing::warn!(?other, request = "prepare_base", "toolbox_request_failed");
                    sleep(pause_after(failures)).await;
                }
                other => return Err(RunError::Unprepared(format!("{other:?}"))),
            }
        }
        if self.set_up().await? {
            return Ok(());
        }
        Err(RunError::Unprepared("the set-up failed, as the lines before say".to_owned()))
    }

    /// Sets the clone up where that is wanted, unless it is; true if it is then as wanted. The pod counts as ready
    /// meanwhile.
    async fn set_up(&mut self) -> Result<bool, ToolboxError> {
        let Some(wanted) = self.set_ups.wanted.lock().clone() else { return Ok(true) };
        if wanted.requires_enforcement && timeout(WALL, self.wall.stands_ahead()).await.is_err() {
            tracing::warn!("setup_unconfined");
            return Ok(false);
        }
        self.relay.take_turned_away();
        let request = ToolboxRequest::SetUpBase { command: wanted.command, seconds: self.seconds };
        let limit = Duration::from_secs(self.seconds.into()) + SLACK;
        match timeout(limit, self.toolbox.ask(request)).await {
            Ok(Ok(ToolboxReply::SetUp(None))) => {
                self.note_unneeded();
                Ok(true)
            }
            Ok(Ok(ToolboxReply::SetUp(Some(done)))) => Ok(self.note_end(done)),
            Ok(Ok(other)) => {
                tracing::warn!(?other, request = "set_up_base", "toolbox_request_failed");
                Ok(false)
            }
            Ok(Err(error)) => Err(error),
            Err(_) => {
                tracing::warn!(why = "it took too long", "worktree_setup_failed");
                Ok(false)
            }
        }
    }

    /// Nothing has to be set up. The gateway may still have the failure of another seat, with a set-up that was
    /// taken away since.
    fn note_unneeded(&mut self) {
        let known = self.known.replace(String::new());
        if known.is_none_or(|known| !known.is_empty()) {
            self.set_ups.ends(SeatSetUpEnd::Done);
        }
    }

    /// True if it succeeded. A failure is no reason to give a seat up: a Thread that takes it tries again, and tells
    /// people.
    fn note_end(&mut self, done: SetUp) -> bool {
        let succeeded = done.ended.as_ref().is_some_and(SetUpEnd::is_success);
        if self.known.as_ref() == Some(&done.fingerprint) {
            return succeeded;
        }
        let refused = self.relay.take_turned_away().join("; ");
        let end = if succeeded { SeatSetUpEnd::Done } else { SeatSetUpEnd::Failed };
        self.set_ups.ends(end);
        match (&done.missing, &done.ended) {
            (Some(program), _) => {
                tracing::warn!(why = "a program is missing", program, "worktree_setup_failed");
            }
            (None, Some(ended)) if succeeded => {
                tracing::info!(seconds = ended.seconds, "clone_set_up");
            }
            (None, ended) => {
                let why = ended.as_ref().map(|SetUpEnd { verdict, .. }| verdict.as_str());
                tracing::warn!(why, refused, "worktree_setup_failed");
            }
        }
        self.known = Some(done.fingerprint);
        succeeded
    }
}

/// Until the next clone or fetch, after so many that failed in a row.
fn pause_after(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => REFRESH,
        Some(before) => AGAIN.saturating_mul(2_u32.saturating_pow(before)).min(MOST_AGAIN),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_clone_that_fails_is_followed_later_by_the_next_one() {
        let pauses = (0..8).map(|failures| pause_after(failures).as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [300, 20, 40, 80, 160, 320, 600, 600]);
        assert_eq!(pause_after(u32::MAX), MOST_AGAIN);
    }

    #[test]
    fn a_gateway_that_does_not_answer_is_logged_once_for_each_cause() {
        let refused =
            |code| GatewayError::Refused { code, message: format!("{:?}", Instant::now()) };
        let mut logged = LoggedCauses::default();
        assert!(logged.is_new(&GatewayError::Away("git".to_owned())));
        assert!(!logged.is_new(&GatewayError::Away("git again".to_owned())));
        assert!(logged.is_new(&refused(ErrorCode::Unavailable)));
        assert!(logged.is_new(&refused(ErrorCode::NotRegistered)));
        assert!(!logged.is_new(&refused(ErrorCode::Unavailable)));
    }
}
