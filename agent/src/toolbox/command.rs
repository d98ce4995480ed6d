//! Bash: a command in its sandbox, with everything it started gone when it ends, and in [`jobs`] those that
//! run in the background.

mod confined;
mod jobs;
mod reading;
mod screenshot;

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use self::jobs::BackgroundJobs;
use super::ToolError;
use super::environment::CommandEnvironment;
use super::image_folders::ImageDownloads;
use super::oom::OomWatch;
use super::output::{CommandOutput, OutputLogs};
use super::paths::WorktreeRoot;
use super::processes::{kill_descendants, signal_below};
use super::protocol::ToolboxReply;
use crate::args::ExecArgs;
use crate::sandbox::{SandboxError, SandboxLevel, SandboxMode, SandboxPlan};
use crate::tool_args as args;

const DEFAULT_TIMEOUT: u32 = 120;
const MAX_TIMEOUT: u32 = 3600;
/// Longest time that one look waits for a job, in seconds.
const MAX_WAIT: u32 = 600;
/// Longest time to read on the output that a command left in its pipe.
const DRAIN: Duration = Duration::from_secs(1);
/// Grace period after each of the two signals that ask a command to end.
const GRACE: Duration = Duration::from_millis(800);
/// Exit code of a shell that does not find a program.
const NOT_FOUND: i32 = 127;
/// Beginning of the verdict on a command that was killed at its timeout.
const KILLED: &str = "[killed after ";
/// Hint for a model that sees no output of a command that was killed.
const HELD_BACK: &str = ". It printed nothing: a program whose output is no terminal may hold it back; `stdbuf -oL \
    COMMAND`, or its own switch, makes it print each line at once";
/// Longest command line, in bytes: the kernel takes no longer argument.
const MAX_COMMAND: usize = 120_000;

/// Reason why no command can run.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoSandbox {
    #[error(transparent)]
    Unconfined(#[from] SandboxError),
    #[error("{0}")]
    Refused(&'static str),
}

/// Runs commands. One for each toolbox.
pub(super) struct CommandShell {
    environment: CommandEnvironment,
    mode: SandboxMode,
    level: Result<SandboxLevel, NoSandbox>,
    plan: SandboxPlan,
    logs: Arc<OutputLogs>,
    downloads: ImageDownloads,
    cgroup: PathBuf,
    /// Supervisors that live: what is below them is not a stray.
    supervisors: Mutex<Vec<i32>>,
    jobs: Mutex<BackgroundJobs>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

pub(super) struct CommandResult {
    pub output: String,
    /// Notes of the toolbox on the command.
    pub notes: Vec<String>,
    /// A line in brackets on how the command ended.
    pub verdict: String,
    /// Exit code; none if the command was killed.
    pub code: Option<i32>,
    pub seconds: u32,
}

impl CommandResult {
    /// Output and verdict, for the model.
    pub(super) fn text(&self) -> String {
        format!("{}{}", self.output, self.verdict)
    }
}

/// Timeout of a command, in seconds. Nobody waits for more than the longest time: such a number is meant in
/// milliseconds.
pub(super) fn command_seconds(args: &args::BashArgs) -> u32 {
    let given = args.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let seconds = if given > MAX_TIMEOUT { given.div_ceil(1000) } else { given };
    seconds.clamp(1, MAX_TIMEOUT)
}

/// Note for the model on a timeout that was taken as milliseconds.
pub(super) fn unit_note(args: &args::BashArgs) -> String {
    match args.timeout {
        Some(given) if given > MAX_TIMEOUT => {
            format!("[`timeout` {given} was taken as milliseconds: {} s]\n", command_seconds(args))
        }
        _ => String::new(),
    }
}

/// The folder in which a command runs.
pub(super) fn command_folder(
    tree: &WorktreeRoot,
    args: &args::BashArgs,
) -> Result<PathBuf, ToolError> {
    let Some(path) = &args.workdir else { return Ok(tree.root().to_owned()) };
    let at = tree.locate(path)?;
    if at.full.is_dir() {
        Ok(at.full)
    } else {
        Err(ToolError::refused(format!("`workdir`: `{}` is not a folder", at.shown)))
    }
}

impl CommandShell {
    /// Confines commands as `plan` says; long outputs go to `logs`.
    pub(super) fn new(
        environment: CommandEnvironment,
        mode: SandboxMode,
        plan: SandboxPlan,
        logs: OutputLogs,
        cgroup: &Path,
    ) -> Self {
        let level = crate::sandbox::probe_level(mode).map_err(NoSandbox::from);
        let shell = Self {
            environment,
            mode,
            level,
            plan,
            logs: Arc::new(logs),
            downloads: ImageDownloads::default(),
            cgroup: cgroup.to_owned(),
            supervisors: Mutex::default(),
            jobs: Mutex::default(),
        };
        if let Err(why) = &shell.level {
            tracing::error!(%why, "sandbox_unavailable");
        }
        shell
    }

    /// Keeps a text as a long output is kept; the file's path.
    pub(super) fn keep_output(&self, text: &str) -> Result<String, ToolError> {
        let kept = self.logs.keep(text);
        kept.map_err(|error| ToolError::refused(format!("it can't be kept: {error}")))
    }

    /// Links what the image has downloaded, where no command may write, to where commands have theirs.
    pub(super) fn begin_downloads(&self) {
        self.downloads.begin(self.environment.image(), self.environment.build());
    }

    pub(super) fn downloads(&self) -> &ImageDownloads {
        &self.downloads
    }

    /// Runs no command, and says why.
    pub(super) fn refusing(mut self, why: &'static str) -> Self {
        self.level = Err(NoSandbox::Refused(why));
        self
    }

    /// The confinement of commands, or the reason that none can run.
    pub(super) fn level(&self) -> &Result<SandboxLevel, NoSandbox> {
        &self.level
    }

    /// Environment that [`Self::new`] was given; what differs by role is added to it.
    pub(super) fn environment(&self) -> &CommandEnvironment {
        &self.environment
    }

    pub(super) async fn bash(
        self: &Arc<Self>,
        tree: &WorktreeRoot,
        env: &CommandEnvironment,
        args: &args::BashArgs,
    ) -> Result<ToolboxReply, ToolError> {
        match (&args.command, args.job) {
            (Some(command), None) if args.background.unwrap_or(false) => {
                self.begin(&command_folder(tree, args)?, env, command)
            }
            (Some(command), None) => {
                let ran = self
                    .run(&command_folder(tree, args)?, env, command, command_seconds(args))
                    .await?;
                Ok(ToolboxReply::Text(unit_note(args) + &ran.text()).noting(ran.notes))
            }
            (None, Some(job)) => {
                let wait = args.wait.unwrap_or(0).min(MAX_WAIT);
                let limit = Duration::from_secs(wait.into());
                // A request that is cancelled meanwhile takes no output with it.
                let _ = tokio::time::timeout(limit, self.job_ended(job)).await;
                self.look(job, args.kill.unwrap_or(false)).await.map(ToolboxReply::Text)
            }
            _ => Err(ToolError::refused(
                "pass either `command`, to run it, or `job`, to see a background job's new output",
            )),
        }
    }

    /// Runs a command to its end, its time-out or the drop of this future, whichever is first.
    /// Processes that it left in the background end with it.
    pub(super) async fn run(
        &self,
        tree: &Path,
        env: &CommandEnvironment,
        command: &str,
        seconds: u32,
    ) -> Result<CommandResult, ToolError> {
        let mut ran = self.run_into(tree, env, command, seconds, |_| {}).await?;
        if ran.code.is_none() && ran.verdict.starts_with(KILLED) {
            let silent = if ran.output.trim().is_empty() { HELD_BACK } else { "" };
            ran.verdict = format!(
                "{KILLED}{seconds} s, with everything it had started; pass a longer `timeout` (at most \
                 {MAX_TIMEOUT}), use `background`, or do less at once{silent}]"
            );
        }
        Ok(ran)
    }

    /// Does the same as [`Self::run`], and hands on all output as it comes.
    pub(super) async fn run_into(
        &self,
        tree: &Path,
        env: &CommandEnvironment,
        command: &str,
        seconds: u32,
        mut into: impl FnMut(&[u8]),
    ) -> Result<CommandResult, ToolError> {
        let memory = OomWatch::begin(&self.cgroup);
        let (mut output, child) = self.spawn(tree, env, command)?;
        let started = Instant::now();
        let mut running = RunningCommand { shell: self, child };
        let mut kept = CommandOutput::new(self.logs.clone());
        let ended = {
            let read = async {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(n @ 1..) = output.read(&mut buffer).await {
                    kept.push(&buffer[..n]);
                    into(&buffer[..n]);
                }
            };
            let wait = async {
                let limit = Duration::from_secs(seconds.into());
                let ended = tokio::time::timeout(limit, running.child.wait()).await;
                if ended.is_err() {
                    end_child(&mut running.child).await;
                }
                drop(running);
                // Only now does the pipe close, if something in the background still holds it.
                self.kill_strays().await;
                ended
            };
            tokio::pin!(read, wait);
            tokio::select! {
                () = &mut read => wait.await,
                ended = &mut wait => {
                    let _ = tokio::time::timeout(DRAIN, read).await;
                    ended
                }
            }
        };
        let took = started.elapsed().as_secs_f32();
        let code = ended.as_ref().ok().and_then(|ended| ended.as_ref().ok()?.code());
        let verdict = match ended {
            Ok(ended) => end_verdict(ended, took),
            Err(_) => format!("{KILLED}{seconds} s, with everything it had started]"),
        };
        let mut output = kept.take();
        if !output.is_empty() && !output.ends_with('\n') {
            output.push('\n');
        }
        let missing = missing_program(&output).filter(|_| code == Some(NOT_FOUND));
        let missing = missing.map(|program| {
            format!(
                "`{program}` is not in this role's workspace image: do without it, or tell the \
                 people that the AgentRole's `spec.workspace.image` needs it."
            )
        });
        let notes = missing.into_iter().chain(memory.note()).collect();
        let seconds = u32::try_from(started.elapsed().as_secs()).unwrap_or(u32::MAX);
        Ok(CommandResult { output, notes, verdict, code, seconds })
    }

    /// Kills what ended commands have left, if their supervisors could not.
    pub(super) async fn kill_strays(&self) {
        kill_descendants(|| lock(&self.supervisors).clone()).await;
    }

    fn spawn(
        &self,
        tree: &Path,
        env: &CommandEnvironment,
        command: &str,
    ) -> Result<(pipe::Receiver, Child), ToolError> {
        let fail = |e: io::Error| ToolError::refused(format!("the command can't be started: {e}"));
        if let Err(why) = &self.level {
            return Err(ToolError::refused(why.to_string()));
        }
        if command.contains('\0') || command.len() > MAX_COMMAND {
            return Err(ToolError::refused(
                "the command is too long, or holds a zero byte: Write it to a script and run that",
            ));
        }
        let shell = ["bash", "sh"].into_iter().find_map(|name| env.program(name));
        let shell = shell.ok_or_else(|| {
            ToolError::refused(
                "this role's workspace image has neither bash nor sh: commands can't run here",
            )
        })?;
        let (output, input) = io::pipe().map_err(fail)?;
        let output = pipe::Receiver::from_owned_fd(OwnedFd::from(output)).map_err(fail)?;
        let exec = ExecArgs {
            sandbox: self.mode,
            write: self.plan.write.clone(),
            read: self.plan.read.clone(),
            hide: self.plan.hide.clone(),
            command: vec![shell.into(), "-c".into(), command.into()],
        };
        // Held over the start, so that no sweep takes it for a stray before it is listed.
        let mut supervisors = lock(&self.supervisors);
        let child = Command::new("/proc/self/exe")
            .arg0(crate::install::BINARY)
            .args(exec.words())
            .current_dir(tree)
            .env_clear()
            .envs(env.variables())
            .stdin(Stdio::null())
            .stdout(input.try_clone().map_err(fail)?)
            .stderr(input)
            .kill_on_drop(true)
            .spawn()
            .map_err(fail)?;
        supervisors.extend(child.id().and_then(|id| i32::try_from(id).ok()));
        Ok((output, child))
    }

    fn forget(&self, child: &Child) {
        // An ended child has no id any more; whoever is gone needs no place in the list either.
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        lock(&self.supervisors).retain(|pid| Some(*pid) != id && is_alive(*pid));
    }
}

/// Ends a supervisor and what it started: first asked to, so that what is held back is written, then killed.
async fn end_child(child: &mut Child) {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let Some(pid) = child.id().and_then(|id| i32::try_from(id).ok()) else { break };
        signal_below(pid, signal);
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
    }
    let _ = child.kill().await;
}

fn is_alive(pid: i32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

/// The program that a shell did not find, if it says so.
fn missing_program(output: &str) -> Option<&str> {
    let said = output.lines().rev().find_map(|line| {
        let line = line.trim_end();
        line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"))
    });
    let name = said?.rsplit(": ").next()?;
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"._+-".contains(&b);
    (!name.is_empty() && name.len() <= 60 && name.bytes().all(plain)).then_some(name)
}

fn end_verdict(ended: io::Result<ExitStatus>, took: f32) -> String {
    match ended {
        Ok(status) => match status.code() {
            Some(code) => format!("[exit code {code}, {took:.1} s]"),
            None => format!("[ended by a signal: {status}, {took:.1} s]"),
        },
        Err(error) => format!("[lost track of the command: {error}]"),
    }
}

/// Ends the supervisor if the request is cancelled; the server then looks for the rest.
struct RunningCommand<'a> {
    shell: &'a CommandShell,
    child: Child,
}

impl Drop for RunningCommand<'_> {
    fn drop(&mut self) {
        let _ = self.child.start_kill();
        self.shell.forget(&self.child);
    }
}
