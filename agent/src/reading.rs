//! `read-document`: one document from standard input as text, or a part of it, on standard output. The toolbox starts
//! one for each, in the sandbox of commands: what a hostile file does to its reader ends with this process.

use std::io::{self, Read as _, Write as _};
use std::process::ExitCode;

use codebutler_documents::{DocumentContent, DocumentError, DocumentText, read_document};
use nix::sys::resource::{Resource, setrlimit};
use serde::{Deserialize, Serialize};

/// Largest document, in bytes.
pub const MAX_DOCUMENT: u64 = 64 * 1024 * 1024;
/// Memory of a reader, in bytes.
const MAX_MEMORY: u64 = 1024 * 1024 * 1024;
/// Seconds of processor time.
const MAX_SECONDS: u64 = 60;

/// The first line of an answer. The bytes of a part follow it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerHead {
    Text(DocumentText),
    Part { name: String, length: usize },
    Unreadable(DocumentError),
}

/// Parsed output of a reader's process.
#[derive(Debug)]
pub enum ReadAnswer {
    /// The whole document, as text.
    Text(DocumentText),
    /// One part of the document.
    Part {
        /// Name of the part inside the document.
        name: String,
        bytes: Vec<u8>,
    },
    /// The document can't be read; says why.
    Unreadable(DocumentError),
}

/// Reads the document on standard input.
pub fn run_reader(name: &str, part: Option<&str>) -> ExitCode {
    // Both fail only where the limits are lower already.
    let _ = setrlimit(Resource::RLIMIT_AS, MAX_MEMORY, MAX_MEMORY);
    let _ = setrlimit(Resource::RLIMIT_CPU, MAX_SECONDS, MAX_SECONDS);
    match write_answer(name, part) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn write_answer(name: &str, part: Option<&str>) -> io::Result<()> {
    let mut bytes = Vec::new();
    io::stdin().lock().take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)?;
    let read = if bytes.len() as u64 > MAX_DOCUMENT {
        Err(DocumentError::TooLarge(format!("it has more than {} MiB", MAX_DOCUMENT >> 20)))
    } else {
        read_document(bytes, name, part)
    };
    let mut out = io::stdout().lock();
    let (head, rest) = match read {
        Ok(DocumentContent::Text(text)) => (AnswerHead::Text(text), Vec::new()),
        Ok(DocumentContent::Part { name, bytes }) => {
            (AnswerHead::Part { name, length: bytes.len() }, bytes)
        }
        Err(why) => (AnswerHead::Unreadable(why), Vec::new()),
    };
    serde_json::to_writer(&mut out, &head)?;
    out.write_all(b"\n")?;
    out.write_all(&rest)?;
    out.flush()
}

/// The output of a reader, if it is whole.
pub fn read_answer(bytes: &[u8]) -> Option<ReadAnswer> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let rest = &bytes[end + 1..];
    Some(match serde_json::from_slice(&bytes[..end]).ok()? {
        AnswerHead::Text(text) => ReadAnswer::Text(text),
        AnswerHead::Unreadable(why) => ReadAnswer::Unreadable(why),
        AnswerHead::Part { name, length } if length == rest.len() => {
            ReadAnswer::Part { name, bytes: rest.to_vec() }
        }
        AnswerHead::Part { .. } => return None,
    })
}
