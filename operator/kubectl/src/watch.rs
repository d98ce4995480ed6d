//! `watch`: a line for each change of a Thread that its user can see in the list.

use std::collections::HashMap;

use codebutler_crds::Thread;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::ResourceExt as _;
use kube::runtime::watcher::{self, Event, watcher};

use crate::cluster::TeamCluster;
use crate::table::plain;
use crate::threads::thread_row;
use crate::{PluginError, PluginTerminal};

/// Prints until it is interrupted.
pub(crate) async fn run_watch(
    cluster: &TeamCluster,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    // A list first: a cluster that does not answer is said once, and not tried for ever.
    cluster.threads().await?;
    let mut events = watcher(cluster.scope::<Thread>(), watcher::Config::default()).boxed();
    let mut shown: HashMap<String, String> = HashMap::new();
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = tokio::signal::ctrl_c() => return Ok(()),
        };
        let (thread, gone) = match event {
            Some(Ok(Event::Apply(thread) | Event::InitApply(thread))) => (thread, false),
            Some(Ok(Event::Delete(thread))) => (thread, true),
            // It connects again by itself.
            Some(Ok(Event::Init | Event::InitDone) | Err(_)) => continue,
            None => return Ok(()),
        };
        let line = change_line(&thread, gone);
        let name = format!("{}/{}", thread.namespace().unwrap_or_default(), thread.name_any());
        if shown.insert(name.clone(), line.clone()).as_ref() != Some(&line) {
            let time = Timestamp::now().strftime("%H:%M:%S");
            terminal.say(&format!("{time} {name}  {line}"))?;
        }
    }
}

fn change_line(thread: &Thread, gone: bool) -> String {
    if gone {
        return "deleted".to_owned();
    }
    // Without namespace, name and age, which are no change.
    let row = thread_row(thread, Timestamp::now());
    let [_, _, _, state, waits, role, pull, cost, _, reason] = row.as_slice() else {
        return String::new();
    };
    let waits = if waits.is_empty() { String::new() } else { format!("waits for {waits}") };
    let words = [state, reason, role, &waits, pull, cost].map(|word| plain(word));
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("  ")
}
