//! A child of this very program in the sandbox of commands, which answers on its standard output: what a hostile file
//! or page does to its reader ends with that child.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::{CommandShell, RunningCommand, ToolError, lock};
use crate::args::ExecArgs;

/// A child that is to be started.
pub(super) struct ConfinedChild {
    /// Name of the child in sentences to the model.
    pub name: &'static str,
    /// The command line, without the program.
    pub words: Vec<OsString>,
    /// The only folders that it may write to. It reads nothing of the worktree, nor what commands have built.
    pub write: Vec<PathBuf>,
    pub input: Stdio,
    /// Whole environment: nothing is inherited.
    pub environment: Vec<(OsString, OsString)>,
    /// Longest time that it has.
    pub limit: Duration,
    /// Most that it may answer, in bytes.
    pub most: u64,
}

/// Output and exit status of a child.
pub(super) struct ConfinedEnd {
    /// Bytes of its standard output.
    pub answer: Vec<u8>,
    /// None if it was killed at its time limit.
    pub status: Option<ExitStatus>,
}

impl CommandShell {
    /// Runs such a child to its end, or to its time-out.
    pub(super) async fn run_confined(
        &self,
        child: ConfinedChild,
    ) -> Result<ConfinedEnd, ToolError> {
        let ConfinedChild { name, words, write, input, environment, limit, most } = child;
        let fail = |e: io::Error| ToolError::refused(format!("the {name} can't be started: {e}"));
        if let Err(why) = self.level() {
            return Err(ToolError::refused(format!(
                "the {name} runs in the sandbox of commands, and {why}"
            )));
        }
        let program = std::env::current_exe().map_err(fail)?;
        let mut command = vec![program.clone().into_os_string()];
        command.extend(words);
        let exec = ExecArgs {
            sandbox: self.mode,
            write,
            read: vec![program],
            hide: self.plan.hide.iter().chain(&self.plan.write).cloned().collect(),
            command,
        };
        let child = {
            let mut supervisors = lock(&self.supervisors);
            let child = Command::new("/proc/self/exe")
                .arg0(crate::install::BINARY)
                .args(exec.words())
                .current_dir("/")
                .env_clear()
                .envs(environment)
                .stdin(input)
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .map_err(fail)?;
            supervisors.extend(child.id().and_then(|id| i32::try_from(id).ok()));
            child
        };
        let mut running = RunningCommand { shell: self, child };
        let Some(output) = running.child.stdout.take() else {
            return Err(ToolError::Failed(format!("the {name} has no output")));
        };
        let mut answer = Vec::new();
        let read = async {
            output.take(most).read_to_end(&mut answer).await?;
            running.child.wait().await
        };
        let ended = tokio::time::timeout(limit, read).await;
        let status = ended.ok().transpose().map_err(fail)?;
        Ok(ConfinedEnd { answer, status })
    }
}
