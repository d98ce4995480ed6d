//! One of the product's own processes, as a child of the testbed.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// Grace period of a process after SIGTERM, before it is killed.
const GRACE: Duration = Duration::from_secs(10);

/// A running `codebutler-operator controller` or `gateway`, with its log in a file.
#[derive(Debug)]
pub struct OperatorProcess {
    child: Child,
    command: ProcessCommand,
}

/// Command line of a process, kept so that it can be restarted.
#[derive(Clone, Debug)]
pub struct ProcessCommand {
    /// The program; its file name decides what it is.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// The whole environment of the process; nothing is inherited.
    pub env: Vec<(String, OsString)>,
    /// File to which stdout and stderr are appended.
    pub log: PathBuf,
}

impl ProcessCommand {
    /// Spawns the process; it is killed when it is dropped.
    pub fn spawn(&self) -> io::Result<OperatorProcess> {
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()?;
        Ok(OperatorProcess { child, command: self.clone() })
    }
}

impl OperatorProcess {
    /// Process id, while the process runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// File with the process's output.
    pub fn log(&self) -> &Path {
        &self.command.log
    }

    /// Exit status of the process if it has ended by itself.
    pub fn exited(&mut self) -> Option<std::process::ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// SIGKILL, and wait until it is gone.
    pub async fn kill(&mut self) -> io::Result<()> {
        self.child.kill().await
    }

    /// Sends SIGTERM and does not wait.
    pub fn tell_to_stop(&self) {
        if let Some(pid) = self.child.id().and_then(|pid| i32::try_from(pid).ok()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
    }

    /// SIGTERM, and SIGKILL if it doesn't stop in time.
    pub async fn stop(&mut self) -> io::Result<()> {
        self.tell_to_stop();
        match tokio::time::timeout(GRACE, self.child.wait()).await {
            Ok(status) => status.map(drop),
            Err(_) => self.child.kill().await,
        }
    }

    /// Sets a variable of the environment for the next start.
    pub fn set_env(&mut self, name: &str, value: &str) {
        self.command.env.retain(|(known, _)| known != name);
        self.command.env.push((name.to_owned(), value.into()));
    }

    /// Starts it again after it ended or was killed.
    pub fn restart(&mut self) -> io::Result<()> {
        *self = self.command.spawn()?;
        Ok(())
    }
}
