//! Evidence from the testbed's own GitHub and model server.

use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::evidence::{CommandRun, ProviderAccount, RemoteState};
use super::expect::ExpectedCommand;
use super::player::WorldError;
use crate::github::DrivenRepository;
use crate::github::git::FileChange;
use crate::models::ModelServer;

/// A repository's base branch and branches, compared with the commit that it started from.
///
/// # Errors
/// When git fails, or the branch is gone.
pub async fn remote_state(
    remote: &DrivenRepository,
    branch: &str,
    start: &str,
) -> Result<RemoteState, WorldError> {
    let gone = || WorldError(format!("the remote has no branch `{branch}`"));
    let head = remote.head(branch).await.ok_or_else(gone)?;
    let mut state = RemoteState {
        commits: remote.log(&format!("{start}..{head}")).await.map_err(WorldError::new)?,
        branches: remote.branches().await.map_err(WorldError::new)?.into_keys().collect(),
        ..RemoteState::default()
    };
    let changes = remote.changes(start, &head).await.map_err(WorldError::new)?;
    let both = |change: FileChange| change.previous.into_iter().chain([change.path]);
    state.changed = changes.into_iter().flat_map(both).collect();
    for path in remote.git().files(&head).await.map_err(WorldError::new)? {
        if let Some(text) = remote.show(&head, &path).await {
            state.files.insert(path, text);
        }
    }
    Ok(state)
}

/// Reads the calls that a model server has answered and billed so far.
#[must_use]
pub fn collect_account(models: &ModelServer) -> ProviderAccount {
    ProviderAccount { bill: models.billed(), served: models.served() }
}

/// Runs a command in a fresh clone of a branch, in a folder of its own.
///
/// # Errors
/// When it can't be cloned or started. A command that fails or is killed is a result.
pub async fn run_in_checkout(
    remote: &DrivenRepository,
    branch: &str,
    command: &ExpectedCommand,
) -> Result<CommandRun, WorldError> {
    let folder = tempfile::tempdir().map_err(WorldError::new)?;
    let clone = folder.path().join("clone");
    remote.checkout(branch, &clone).await.map_err(WorldError::new)?;
    let mut process = tokio::process::Command::new("bash");
    process
        .args(["-c", &format!("{{ {}\n}} 2>&1", command.run)])
        .current_dir(&clone)
        // Build outputs go away with the folder, wherever the caller's own go.
        .env("CARGO_TARGET_DIR", folder.path().join("target"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let child = process.spawn().map_err(WorldError::new)?;
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let output = child.wait_with_output();
    let limit = Duration::from_secs(command.within);
    if let Ok(output) = tokio::time::timeout(limit, output).await {
        let output = output.map_err(WorldError::new)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        return Ok(CommandRun { exit: output.status.code(), output: text });
    }
    // The timeout kills the whole process group, so that nothing the command started outlives it.
    if let Some(group) = group {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    Ok(CommandRun { exit: None, output: format!("killed after {} s", command.within) })
}
