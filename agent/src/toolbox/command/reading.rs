//! A document's reader: a child of its own, in the sandbox of commands, which reads one open file and nothing else.

use std::fs::File;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use codebutler_documents::{DocumentContent, DocumentError};

use super::confined::{ConfinedChild, ConfinedEnd};
use super::{CommandShell, ToolError};
use crate::args::ReadDocumentArgs;
use crate::reading::{ReadAnswer, read_answer};

/// Longest time that a reader has. Its processor time is limited in itself.
const LIMIT: Duration = Duration::from_secs(90);
/// Exit code of `exec` when it can't confine a command.
const NOT_CONFINED: i32 = 125;
/// Most that a reader may answer, in bytes.
const MAX_ANSWER: u64 = 40 * 1024 * 1024;

impl CommandShell {
    /// Reads a document in a child. `Err` in the inner result: a sentence about the file.
    pub(crate) async fn read_document(
        &self,
        file: File,
        name: &str,
        part: Option<&str>,
    ) -> Result<Result<DocumentContent, DocumentError>, ToolError> {
        let reader = ReadDocumentArgs { name: name.to_owned(), part: part.map(str::to_owned) };
        let child = ConfinedChild {
            name: "reader of documents",
            words: reader.words(),
            write: Vec::new(),
            input: Stdio::from(file),
            environment: Vec::new(),
            limit: LIMIT,
            most: MAX_ANSWER,
        };
        let ConfinedEnd { answer, status } = self.run_confined(child).await?;
        match status {
            Some(status) => judge_end(&answer, status),
            None => Ok(Err(DocumentError::TooLarge(format!(
                "it took longer than {} seconds",
                LIMIT.as_secs()
            )))),
        }
    }
}

/// The output of a reader, or the reason that there is none.
fn judge_end(
    answer: &[u8],
    ended: ExitStatus,
) -> Result<Result<DocumentContent, DocumentError>, ToolError> {
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
        _ => return Ok(Err(DocumentError::Damaged("its reader gave up on it".to_owned()))),
    };
    Ok(Err(DocumentError::TooLarge(why.to_owned())))
}

/// Signals by which readers end.
mod libc_signal {
    use nix::sys::signal::Signal;

    pub(super) const ABRT: i32 = Signal::SIGABRT as i32;
    pub(super) const KILL: i32 = Signal::SIGKILL as i32;
    pub(super) const XCPU: i32 = Signal::SIGXCPU as i32;
}
