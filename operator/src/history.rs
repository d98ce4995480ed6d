//! Prints a history as it is kept.

use std::io::{ErrorKind, Write};

use anyhow::Context as _;
use codebutler_history::{Store as _, Volume};

use crate::args::HistoryArgs;

/// Read at once, in bytes.
const CHUNK: u64 = 1024 * 1024;

/// Prints all of it.
///
/// # Errors
/// When there is none, or it can't be read.
pub fn print(wanted: &HistoryArgs, to: &mut impl Write) -> anyhow::Result<()> {
    let volume = Volume::new(&wanted.history);
    let unread = || format!("the history of {} can't be read", wanted.thread);
    let length = volume.length(&wanted.thread).with_context(unread)?;
    if length == 0 {
        let folder = wanted.history.display();
        anyhow::bail!("{folder} has no history of {}: name another --history", wanted.thread);
    }
    let mut from = 0;
    loop {
        let text = volume.read(&wanted.thread, from, CHUNK).with_context(unread)?;
        if text.is_empty() {
            return Ok(());
        }
        from += text.len() as u64;
        match to.write_all(&text).and_then(|()| to.flush()) {
            // Who reads has seen enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}
