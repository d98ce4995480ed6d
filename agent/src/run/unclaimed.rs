//! A pod that was made before anybody has written: it waits until a Thread takes it, with a clone of the base
//! branch. Its token opens nothing but that question and fetches, and no command runs before it is answered.

use std::time::{Duration, Instant};

use codebutler_wire::{ErrorCode, SeatAnswer};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::Instrument as _;

use super::RunError;
use crate::args::RunArgs;
use crate::gateway::{GatewayClient, GatewayError};
use crate::relay::GitRelay;
use crate::toolbox::client::ToolboxClient;
use crate::toolbox::protocol::{CommitAuthor, ToolboxHello, ToolboxReply, ToolboxRequest};

/// The longest that one question waits.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Between questions that were not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// A pod that the gateway does not know for so long is nobody's seat.
const UNKNOWN: Duration = Duration::from_mins(10);
/// Between looks at the base branch: what it has gained since is fetched by whoever takes the pod.
const REFRESH: Duration = Duration::from_mins(5);
/// After a clone or fetch that failed.
const AGAIN: Duration = Duration::from_secs(20);

/// Returns once a Thread has taken the pod, with the toolbox, which takes one connection only.
pub async fn await_thread(
    args: &RunArgs,
    gateway: &GatewayClient,
    relay: &GitRelay,
) -> Result<ToolboxClient, RunError> {
    let toolbox = ToolboxClient::connect(&args.socket).await?;
    let known = Instant::now();
    let mut clone: Option<CloneTask> = None;
    let mut wait = Duration::ZERO;
    loop {
        match gateway.seat(wait).await {
            Ok(SeatAnswer { thread: Some(thread), .. }) => {
                tracing::info!(thread, "taken");
                return Ok(toolbox);
            }
            Ok(SeatAnswer { thread: None, base_branch }) => {
                wait = LONG_POLL;
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

/// Nobody commits for a pod that nobody works in.
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

/// Keeps the clone near the base branch until it is dropped: a Thread that takes the pod waits for no more of it than
/// is under way.
struct CloneTask(AbortHandle);

impl CloneTask {
    fn start(toolbox: ToolboxClient, hello: ToolboxHello) -> Self {
        Self(tokio::spawn(keep_clone(toolbox, hello).in_current_span()).abort_handle())
    }
}

impl Drop for CloneTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn keep_clone(toolbox: ToolboxClient, hello: ToolboxHello) {
    if toolbox.ask(ToolboxRequest::Hello(hello)).await.is_err() {
        return;
    }
    loop {
        let done = toolbox.ask(ToolboxRequest::PrepareBase).await;
        let pause = match done {
            Ok(ToolboxReply::Text(done)) => {
                tracing::info!(done, "the clone is ready");
                REFRESH
            }
            Ok(other) => {
                tracing::warn!(?other, "no clone of the base branch yet");
                AGAIN
            }
            Err(_) => return,
        };
        sleep(pause).await;
    }
}
