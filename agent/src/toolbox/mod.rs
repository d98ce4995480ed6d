//! The toolbox container: every file access, all Git and every command of a role, in an image of
//! the user's choice. It holds no token and no secret, so that a command which takes it over gains
//! nothing that it did not have.
//!
//! The agent asks over a Unix socket ([`protocol`]); [`client`] is the agent's end, the rest runs
//! in the toolbox.

mod answers;
mod attachments;
pub mod client;
mod command;
mod copy;
mod documents;
mod environment;
mod exclude;
mod file_walk;
pub mod files;
pub mod git;
mod icon;
mod image_folders;
mod images;
mod jvm;
mod kinds;
mod modes;
mod names;
pub mod oom;
mod output;
mod outside;
mod paths;
mod pixels;
mod platform;
pub(crate) mod processes;
pub mod protocol;
mod screenshots;
pub mod search;
mod server;
mod setup;
mod show;
mod terminal;
mod toolchains;

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{SignalKind, signal};
use tracing::Instrument as _;

use self::command::CommandShell;
use self::copy::WorktreeCopy;
use self::environment::CommandEnvironment;
use self::server::BaseShell;
use crate::args::{CommandAccess, ToolboxArgs};
use crate::sandbox::{SandboxMode, SandboxPlan};

/// A request was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// For the model: what is wrong and what to do instead.
    #[error("{0}")]
    Refused(String),
    /// Not the model's business: the worktree or the disk is not usable.
    #[error("{0}")]
    Failed(String),
}

impl ToolError {
    fn refused(text: impl Into<String>) -> Self {
        Self::Refused(text.into())
    }
}

/// The toolbox could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The socket can't be made.
    #[error("can't listen on {path}")]
    Listen {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The volume or HOME can't be written.
    #[error("can't make the folder {path}")]
    Folder {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The system refused something that always works.
    #[error("can't set up the process")]
    Process(#[source] io::Error),
}

impl StartError {
    /// Returns true if the pod's user lacks the right to write to a folder that it needs.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Folder { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// Waits for the one connection, serves it, and returns when it ends or on SIGTERM. No command
/// survives.
pub async fn run_toolbox(args: &ToolboxArgs) -> Result<(), StartError> {
    let span = tracing::info_span!("toolbox", role = args.role, thread = args.thread);
    serve_once(args).instrument(span).await
}

async fn serve_once(args: &ToolboxArgs) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Process)?;
    // Orphans of commands become children of this process, where they are found and killed.
    nix::sys::prctl::set_child_subreaper(true).map_err(|e| StartError::Process(e.into()))?;
    git::init_libgit();
    // Commands run as the same user, and where Landlock is left out nothing else keeps them from this memory.
    let _ = nix::sys::prctl::set_dumpable(false);
    let copy = (args.worktree == CommandAccess::ReadOnly)
        .then(|| WorktreeCopy::of(&args.work_dir, &args.role));
    let shell = Arc::new(make_shell(args, copy.as_ref())?);
    let copy = copy.map(|copy| {
        let args = args.clone();
        (copy, BaseShell::new(move || make_shell(&args, None)))
    });
    let stream = tokio::select! {
        stream = accept_one(&args.socket) => stream?,
        _ = terminate.recv() => return Ok(()),
    };
    tracing::info!("agent_connected");
    shell.begin_downloads();
    tokio::select! {
        () = server::serve_toolbox(stream, &args.work_dir, shell, copy) => tracing::info!("agent_disconnected"),
        _ = terminate.recv() => tracing::info!("shutdown_started"),
    }
    processes::kill_descendants(Vec::new).await;
    Ok(())
}

/// Builds the shell that runs the role's commands, with the folders that they may write to.
fn make_shell(args: &ToolboxArgs, copy: Option<&WorktreeCopy>) -> Result<CommandShell, StartError> {
    let tree = args.work_dir.join("tree");
    let build = copy.map_or_else(|| args.work_dir.join("build"), WorktreeCopy::build);
    let ground = copy.map_or_else(|| tree.clone(), WorktreeCopy::tree);
    // A volume that is not there after all is left out.
    let mut writable: Vec<_> = args.writable.iter().filter(|path| path.is_dir()).cloned().collect();
    writable.push(ground.clone());
    let mut environment = CommandEnvironment::inherit(&args.work_dir, &build, &writable);
    for folder in environment.folders().iter().chain([&args.work_dir, &tree, &ground]) {
        make_folder(folder)?;
    }
    environment.link_toolchains();
    if let Err(error) = environment.image().copy_settings(&build) {
        tracing::warn!(%error, "cargo_settings_copy_failed");
    }
    let hide = [Some(args.work_dir.as_path()), args.socket.parent()];
    let plan = SandboxPlan {
        write: environment.folders().into_iter().chain(writable).collect(),
        read: copy.iter().map(|_| tree.clone()).collect(),
        hide: hide.into_iter().flatten().map(Path::to_owned).collect(),
    };
    let logs = output::OutputLogs { build, role: args.role.clone() };
    let shell = CommandShell::new(environment, args.sandbox, plan, logs, &args.cgroup);
    Ok(match (copy, args.sandbox) {
        // Only Landlock would keep the commands out of the worktree.
        (Some(_), SandboxMode::Runtime) => shell.refusing(copy::NEEDS_LANDLOCK),
        _ => shell,
    })
}

fn make_folder(path: &Path) -> Result<(), StartError> {
    fs::create_dir_all(path).map_err(|source| StartError::Folder { path: path.to_owned(), source })
}

/// Accepts one connection and removes the socket before any command runs: nothing in the pod can connect a second
/// time.
async fn accept_one(path: &Path) -> Result<UnixStream, StartError> {
    let fail = |source| StartError::Listen { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    // Left by an earlier toolbox container of this pod.
    let _ = fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(fail)?;
    // The containers may run as different users; only they mount this folder.
    fs::set_permissions(path, Permissions::from_mode(0o666)).map_err(fail)?;
    let (stream, _) = listener.accept().await.map_err(fail)?;
    fs::remove_file(path).map_err(fail)?;
    Ok(stream)
}
