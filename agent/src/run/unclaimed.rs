//! A pod that was made before anybody has written: it waits until a Thread takes it, with a clone of the base
//! branch. Its token opens nothing but that question and fetches, and no command runs before it is answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codebutler_wire::{ErrorCode, SeatAnswer};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::Instrument as _;

use super::RunError;
use super::turns::PREPARING;
use crate::args::RunArgs;
use crate::gateway::{GatewayClient, GatewayError};
use crate::relay::GitRelay;
use crate::toolbox::client::{ToolboxClient, ToolboxError};
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest};

/// The longest that one question waits.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Between questions that were not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout after which a pod that the gateway does not have registered gives up.
const UNKNOWN: Duration = Duration::from_mins(10);
/// Interval of fetches of the base branch; the first run of a Thread that takes the pod fetches newer commits.
const REFRESH: Duration = Duration::from_mins(5);
/// After a clone or fetch that failed.
const AGAIN: Duration = Duration::from_secs(20);

/// Returns once a Thread has taken the pod, with the toolbox, which takes one connection only.
pub(super) async fn await_thread(
    args: &RunArgs,
    gateway: &GatewayClient,
    relay: &GitRelay,
) -> Result<ToolboxClient, RunError> {
    let toolbox = ToolboxClient::connect(&args.socket).await?;
    let mut known = Instant::now();
    let mut clone: Option<CloneTask> = None;
    let mut wait = Duration::ZERO;
    loop {
        let answer = match &mut clone {
            None => gateway.seat(wait).await,
            Some(clone) => tokio::select! {
                answer = gateway.seat(wait) => answer,
                error = clone.failed() => return Err(error.into()),
            },
        };
        match answer {
            Ok(SeatAnswer { thread: Some(thread), .. }) => {
                tracing::info!(thread, "taken");
                if let Some(clone) = clone {
                    clone.settle().await?;
                }
                return Ok(toolbox);
            }
            Ok(SeatAnswer { thread: None, base_branch }) => {
                (wait, known) = (LONG_POLL, Instant::now());
                if clone.is_none() {
                    let hello = hello_for(&base_branch, &args.role, relay);
                    clone = Some(CloneTask::start(toolbox.clone(), hello));
                }
            }
            Err(error) if outlasts(&error, known) => {
                tracing::debug!(%error, "not known whether a Thread has taken the pod");
                sleep(PAUSE).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn outlasts(error: &GatewayError, known: Instant) -> bool {
    let unknown = error.code() == Some(ErrorCode::NotRegistered);
    error.may_pass() && (!unknown || known.elapsed() < UNKNOWN)
}

/// The author is a placeholder: no commit is made before a Thread takes the pod.
fn hello_for(base: &str, role: &str, relay: &GitRelay) -> ToolboxHello {
    ToolboxHello {
        relay_url: relay.url(),
        proxy: relay.proxy(),
        branch: base.to_owned(),
        base_branch: base.to_owned(),
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
    /// Held while the toolbox clones or fetches.
    busy: Arc<Mutex<()>>,
}

impl CloneTask {
    fn start(toolbox: ToolboxClient, hello: ToolboxHello) -> Self {
        let busy = Arc::<Mutex<()>>::default();
        let work = keep_clone(toolbox, hello, Arc::clone(&busy)).in_current_span();
        Self { task: tokio::spawn(work), busy }
    }

    /// Resolves when the toolbox's connection is lost: the pod has to fail then, since it can't serve a Thread.
    async fn failed(&mut self) -> ToolboxError {
        match (&mut self.task).await {
            Ok(error) => error,
            Err(_) => ToolboxError::Gone,
        }
    }

    /// Waits for the clone or fetch under way: the worktree is the toolbox's alone meanwhile.
    async fn settle(mut self) -> Result<(), ToolboxError> {
        let busy = Arc::clone(&self.busy);
        let settled = timeout(PREPARING, busy.lock_owned());
        tokio::select! {
            biased;
            held = settled => {
                // Before the lock is free again: nothing else is begun.
                self.task.abort();
                drop(held);
                Ok(())
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

/// Ends with what the toolbox failed by.
async fn keep_clone(
    toolbox: ToolboxClient,
    hello: ToolboxHello,
    busy: Arc<Mutex<()>>,
) -> ToolboxError {
    if let Err(error) = toolbox.ask(ToolboxRequest::Hello(hello)).await {
        return error;
    }
    loop {
        let held = busy.lock().await;
        let done = toolbox.ask(ToolboxRequest::PrepareBase).await;
        drop(held);
        let pause = match done {
            Ok(ToolboxReply::Text(done)) => {
                tracing::info!(done, "the clone is ready");
                REFRESH
            }
            Ok(other) => {
                tracing::warn!(?other, "no clone of the base branch yet");
                AGAIN
            }
            Err(error) => return error,
        };
        sleep(pause).await;
    }
}
