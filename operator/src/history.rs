//! Prints a history, and takes somebody's words out of all.

use std::io::{ErrorKind, Write};

use anyhow::Context as _;
use codebutler_crds::wire::history::HistoryLine;
use codebutler_gateway_core::dial::OutsideDialer;
use codebutler_gateway_core::history::open_store;
use codebutler_history::{AnyStore, HistoryStore as _, RunTrajectory, ThreadPlace, forget_person};

use crate::args::{HistoryArgs, HistoryForm};

/// Bytes that are read at once.
const CHUNK: u64 = 1024 * 1024;

/// Does what is wanted.
///
/// # Errors
/// When there is none, or it can't be read.
pub(crate) fn run_history(wanted: &HistoryArgs, to: &mut impl Write) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let dialer = OutsideDialer::new(&wanted.dial)?;
    let url = wanted.history_url.as_ref();
    let mut store = open_store(&wanted.history, url, &dialer, runtime.handle().clone())?;
    match (&wanted.thread, &wanted.forget) {
        (_, Some(user)) => remove_words(&mut store, user, to),
        (Some(thread), None) => {
            let unread = || format!("the history of {thread} can't be read");
            if store.length(thread).with_context(unread)? == 0 {
                let folder = wanted.history.display();
                anyhow::bail!("{folder} has no history of {thread}: name another --history");
            }
            let printed = match wanted.form {
                HistoryForm::Lines => print_history(&store, thread, to),
                HistoryForm::Atif => print_trajectory(&store, thread, to),
            };
            printed.with_context(unread)
        }
        (None, None) => anyhow::bail!("name a thread: NAMESPACE/THREAD"),
    }
}

fn remove_words(store: &mut AnyStore, user: &str, to: &mut impl Write) -> anyhow::Result<()> {
    let (mut lines, mut threads, mut failed) = (0, 0, Vec::new());
    for kept in store.list().context("the histories can't be read")? {
        match forget_person(store, &kept.place, user) {
            Ok(found) => {
                lines += found;
                threads += usize::from(found > 0);
            }
            // One that can't be changed does not stop the removal from the others.
            Err(error) => failed.push(format!("{}: {error}", kept.place)),
        }
    }
    writeln!(to, "{lines} lines of {threads} threads had words of {user}: they are removed")?;
    let left = failed.join("\n");
    anyhow::ensure!(failed.is_empty(), "words of {user} may be left in these histories:\n{left}");
    Ok(())
}

fn print_history(
    store: &AnyStore,
    thread: &ThreadPlace,
    to: &mut impl Write,
) -> std::io::Result<()> {
    let mut from = 0;
    loop {
        let text = store.read(thread, from, CHUNK)?;
        if text.is_empty() {
            return Ok(());
        }
        from += text.len() as u64;
        match to.write_all(&text).and_then(|()| to.flush()) {
            // The reader of the pipe has seen enough, such as `head`: that is no error.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            written => written?,
        }
    }
}

fn print_trajectory(
    store: &AnyStore,
    thread: &ThreadPlace,
    to: &mut impl Write,
) -> std::io::Result<()> {
    let mut trajectory = RunTrajectory::new(&thread.to_string());
    let (mut from, mut rest) = (0, Vec::new());
    loop {
        let text = store.read(thread, from, CHUNK)?;
        if text.is_empty() {
            break;
        }
        from += text.len() as u64;
        rest.extend(text);
        let end = rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines = rest[..end].split(|byte| *byte == b'\n');
        let lines = lines.filter_map(|line| serde_json::from_slice::<HistoryLine>(line).ok());
        lines.for_each(|line| trajectory.add(&line));
        rest.drain(..end);
    }
    match serde_json::to_writer_pretty(&mut *to, &trajectory.finish()) {
        Err(error) if error.io_error_kind() == Some(ErrorKind::BrokenPipe) => Ok(()),
        written => {
            written?;
            writeln!(to)
        }
    }
}
