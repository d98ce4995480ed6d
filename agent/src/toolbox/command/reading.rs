//! A document's reader: a child of its own, in the sandbox of commands, which reads one open file and nothing else.

use std::fs::File;
use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use codebutler_documents::{DocumentContent, Unreadable};
use tokio::io::AsyncReadExt as _;
use tokio::process::Command;

use super::{CommandShell, Running, ToolError, lock};
use crate::args::{ExecArgs, ReadDocumentArgs};
use crate::reading::{ReadAnswer, read_answer};

/// Longest time that a reader has. Its processor time is limited in itself.
const LIMIT: Duration = Duration::from_secs(90);
/// Exit code of `exec` when it can't confine a command.
const NOT_CONFINED: i32 = 125;
/// Most that a reader may answer, in bytes.
const MAX_ANSWER: u64 = 40 * 1024 * 1024;

impl CommandShell {
    /// Reads a document in a child. `Err` in the inner result: a sentence about the file.
    pub async fn read_document(
        &self,
        file: File,
        name: &str,
        part: Option<&str>,
    ) -> Result<Result<DocumentContent, Unreadable>, ToolError> {
        let fail = |e: io::Error| {
            ToolError::refused(format!("the reader of documents can't be started: {e}"))
        };
        if let Err(why) = self.level() {
            return Err(ToolError::refused(format!(
                "documents are read like a command is run, and {why}"
            )));
        }
        let program = std::env::current_exe().map_err(fail)?;
        let reader = ReadDocumentArgs { name: name.to_owned(), part: part.map(str::to_owned) };
        let mut command = vec![program.clone().into_os_string()];
        command.extend(reader.words());
        // It writes nothing, and reads nothing but itself and what it gets: not even the worktree.
        let exec = ExecArgs {
            sandbox: self.mode,
            write: Vec::new(),
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
                .stdin(Stdio::from(file))
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
            return Err(ToolError::Failed("a reader has no output".to_owned()));
        };
        let mut answer = Vec::new();
        let read = async {
            output.take(MAX_ANSWER).read_to_end(&mut answer).await?;
            running.child.wait().await
        };
        let Ok(ended) = tokio::time::timeout(LIMIT, read).await else {
            return Ok(Err(Unreadable::TooLarge(format!(
                "it took longer than {} seconds",
                LIMIT.as_secs()
            ))));
        };
        judge_end(&answer, ended.map_err(fail)?)
    }
}

/// The output of a reader, or the reason that there is none.
fn judge_end(
    answer: &[u8],
    ended: ExitStatus,
) -> Result<Result<DocumentContent, Unreadable>, ToolError> {
    use std::os::unix::process::ExitStatusExt as _;
    if ended.success()
        && let Some(answer) = read_answer(answer)
    {
        return Ok(match answer {
            ReadAnswer::Text(text) => Ok(DocumentContent::Text(text)),
            ReadAnswer::Part { name, bytes } => Ok(DocumentContent::Part { name, bytes }),
            ReadAnswer::Unreadable(why) => Err(why),
        });
    }
    if ended.code() == Some(NOT_CONFINED) {
        return Err(ToolError::refused(
            "the reader of documents can't be confined here, so it is not run",
        ));
    }
    let why = match ended.signal() {
        Some(libc_signal::XCPU | libc_signal::KILL) => {
            "it takes more time or memory than a document may"
        }
        Some(libc_signal::ABRT) => "it takes more memory than a document may",
        _ => return Ok(Err(Unreadable::Damaged("its reader gave up on it".to_owned()))),
    };
    Ok(Err(Unreadable::TooLarge(why.to_owned())))
}

/// Signals by which readers end.
mod libc_signal {
    use nix::sys::signal::Signal;

    pub const ABRT: i32 = Signal::SIGABRT as i32;
    pub const KILL: i32 = Signal::SIGKILL as i32;
    pub const XCPU: i32 = Signal::SIGXCPU as i32;
}
