//! `threads`: which there are, what they wait for and cost.

use codebutler_crds::condition::READY;
use codebutler_crds::thread::ThreadState;
use codebutler_crds::{Thread, ThreadStatus};
use jiff::Timestamp;
use kube::ResourceExt as _;

use crate::cluster::TeamCluster;
use crate::table::{format_age, format_table, format_usd};
use crate::{PluginError, PluginTerminal};

const HEAD: [&str; 8] = ["NAMESPACE", "NAME", "REPO", "STATE", "WAITS", "ROLE", "PR", "COST"];

/// Lists Threads: those that wait for a person first.
pub(crate) async fn run_threads(
    cluster: &TeamCluster,
    all: bool,
    terminal: &mut PluginTerminal<'_>,
) -> Result<(), PluginError> {
    let mut threads = cluster.threads().await?;
    threads.retain(|thread| all || thread.spec.state == ThreadState::Active);
    threads.sort_by_key(|thread| !waits_for_person(thread));
    if threads.is_empty() {
        let place = if cluster.is_wide() { "any namespace" } else { cluster.namespace() };
        return terminal.say(&format!(
            "No open Threads in {place}. One begins with a message in a Repo's Slack channel."
        ));
    }
    let now = Timestamp::now();
    let head: Vec<&str> = HEAD.into_iter().chain(["AGE", "REASON"]).collect();
    let rows: Vec<Vec<String>> = threads.iter().map(|thread| thread_row(thread, now)).collect();
    for line in format_table(&head, &rows) {
        terminal.say(&line)?;
    }
    let waiting = threads.iter().filter(|thread| waits_for_person(thread)).count();
    if waiting > 0 {
        let (verb, name) = if waiting == 1 { ("waits", "it") } else { ("wait", "them") };
        terminal.say(&format!(
            "\n{waiting} {verb} for a person: `kubectl codebutler approve NAME` says where to answer {name}."
        ))?;
    }
    Ok(())
}

/// True if a question to people is open.
pub(crate) fn waits_for_person(thread: &Thread) -> bool {
    thread.status.as_ref().is_some_and(|status| {
        thread.spec.state == ThreadState::Active
            && (status.waits_for_people() || status.asks_for_money())
    })
}

/// Row of a Thread in the table.
pub(crate) fn thread_row(thread: &Thread, now: Timestamp) -> Vec<String> {
    let empty = ThreadStatus::default();
    let status = thread.status.as_ref().unwrap_or(&empty);
    let pull = status.pull_request.as_ref().map(|pull| format!("#{}", pull.number));
    let ready = status.conditions.iter().find(|condition| condition.type_ == READY);
    let created = thread.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    vec![
        thread.namespace().unwrap_or_default(),
        thread.name_any(),
        thread.spec.repo.clone(),
        format!("{:?}", thread.spec.state),
        status.waits.clone().unwrap_or_default(),
        status.active_role.clone().unwrap_or_default(),
        pull.unwrap_or_default(),
        status.cost.map(format_usd).unwrap_or_default(),
        format_age(created, now),
        ready.map(|condition| condition.reason.clone()).unwrap_or_default(),
    ]
}
