//! Pictures of a page: a child of its own takes them, in the sandbox of commands, and may write to one folder.

use std::io;
use std::process::Stdio;
use std::time::Duration;

use codebutler_browser::PageReport;
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::{CommandShell, Running, ToolError, lock};
use crate::args::{ExecArgs, ScreenshotArgs};
use crate::screenshot::{ScreenshotAnswer, read_answer};
use crate::toolbox::environment::CommandEnvironment;

/// Longest time that the child has. It bounds itself below that.
const LIMIT: Duration = Duration::from_mins(3);
/// Most that it may answer, in bytes.
const MAX_ANSWER: u64 = 96 * 1024 * 1024;

impl CommandShell {
    /// Takes pictures of a page of a server that runs here.
    pub async fn take_screenshots(
        &self,
        env: &CommandEnvironment,
        wanted: &ScreenshotArgs,
    ) -> Result<PageReport, ToolError> {
        let fail = |e: io::Error| ToolError::refused(format!("the browser can't be started: {e}"));
        if let Err(why) = self.level() {
            return Err(ToolError::refused(format!(
                "a browser is run like a command is, and {why}"
            )));
        }
        let program = std::env::current_exe().map_err(fail)?;
        let [_, tmp, _] = env.folders();
        let folder = tempfile::Builder::new().prefix("browser-").tempdir_in(tmp).map_err(fail)?;
        let wanted = ScreenshotArgs { folder: folder.path().to_owned(), ..wanted.clone() };
        let mut command = vec![program.clone().into_os_string()];
        command.extend(wanted.words());
        // The page's scripts are a stranger's: they see neither the worktree nor what commands have built.
        let exec = ExecArgs {
            sandbox: self.mode,
            write: vec![folder.path().to_owned()],
            read: vec![program],
            hide: self.plan.hide.iter().chain(&self.plan.write).cloned().collect(),
            command,
        };
        let child = {
            let mut supervisors = lock(&self.supervisors);
            let path = env.variables().filter(|(name, _)| *name == "PATH");
            let child = Command::new("/proc/self/exe")
                .arg0(crate::install::BINARY)
                .args(exec.words())
                .current_dir("/")
                .env_clear()
                .envs(path)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true)
                .spawn()
                .map_err(fail)?;
            supervisors.extend(child.id().and_then(|id| i32::try_from(id).ok()));
            child
        };
        let mut running = Running { shell: self, child };
        let Some(output) = running.child.stdout.take() else {
            return Err(ToolError::Failed("a browser has no output".to_owned()));
        };
        let mut answer = Vec::new();
        let read = async {
            output.take(MAX_ANSWER).read_to_end(&mut answer).await?;
            running.child.wait().await
        };
        let ended = tokio::time::timeout(LIMIT, read).await;
        match ended {
            Err(_) => Err(ToolError::refused(format!(
                "the pictures took longer than {} seconds",
                LIMIT.as_secs()
            ))),
            Ok(Err(error)) => Err(fail(error)),
            Ok(Ok(ended)) => match read_answer(&answer) {
                Some(ScreenshotAnswer::Taken(report)) => Ok(report),
                Some(ScreenshotAnswer::Failed(why)) => Err(ToolError::refused(why)),
                None => Err(ToolError::refused(format!(
                    "the browser gave no answer ({ended}): the pod may have too little memory for it"
                ))),
            },
        }
    }
}
