//! Reports the run's current activity to the gateway, for people to see. Nothing waits for a report, and a lost one
//! is repeated a little later.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use codebutler_wire::{RoleSession, RunProgress, SlackTs, show_tool_name};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::Instrument as _;

use crate::gateway::GatewayClient;
use crate::tool_args::patched_paths;
use codebutler_guides::text::clip_text;

/// Shortest and longest pause between two reports.
const PAUSE: Duration = Duration::from_secs(1);
const HEARTBEAT: Duration = Duration::from_secs(10);
/// Arguments that say best what a call is about, the best first.
const TELLING: [&str; 7] = ["command", "path", "file", "pattern", "query", "url", "title"];

/// Upper limit of one part of a run: the time limit of the whole run, and one minute.
pub(super) fn part_limit(session: &RoleSession) -> Duration {
    Duration::from_secs(session.timeout_seconds.into()) + Duration::from_mins(1)
}

/// Progress reports of a run; they end when this is dropped.
pub(super) struct ProgressTelling {
    sender: watch::Sender<RunProgress>,
    task: JoinHandle<()>,
}

impl ProgressTelling {
    /// Starts the reports of a run, of which no part takes longer than `limit`.
    pub(super) fn start(gateway: GatewayClient, run: &str, turns: u32, limit: Duration) -> Self {
        let first = RunProgress { run: run.to_owned(), turns, doing: "getting ready".to_owned() };
        let (sender, news) = watch::channel(first);
        Self { sender, task: tokio::spawn(tell_progress(gateway, news, limit).in_current_span()) }
    }

    /// Sets the run's current turn and activity.
    pub(super) fn now(&self, turns: u32, doing: &str) {
        self.sender.send_modify(|told| {
            told.turns = turns;
            doing.clone_into(&mut told.doing);
        });
    }
}

impl Drop for ProgressTelling {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Progress reports of several conversations as one run.
pub(super) struct RunBoard {
    telling: Option<ProgressTelling>,
    parts: Mutex<BTreeMap<SlackTs, (u32, String)>>,
}

impl RunBoard {
    /// Starts the reports of a run, of which no part takes longer than `limit`.
    pub(super) fn start(gateway: GatewayClient, run: &str, limit: Duration) -> Self {
        Self {
            telling: Some(ProgressTelling::start(gateway, run, 0, limit)),
            parts: Mutex::default(),
        }
    }

    /// A board that reports to nobody.
    #[cfg(test)]
    pub(super) fn silent() -> Self {
        Self { telling: None, parts: Mutex::default() }
    }

    /// Sets the current turn and activity of a conversation.
    pub(super) fn now(&self, id: &SlackTs, turns: u32, doing: &str) {
        self.with(|parts| {
            parts.insert(id.clone(), (turns, doing.to_owned()));
        });
    }

    /// Removes a conversation that has ended.
    pub(super) fn gone(&self, id: &SlackTs) {
        self.with(|parts| {
            parts.remove(id);
        });
    }

    fn with(&self, change: impl FnOnce(&mut BTreeMap<SlackTs, (u32, String)>)) {
        let mut parts = self.parts.lock();
        change(&mut parts);
        let turns = parts.values().map(|(turns, _)| turns).sum();
        let doing: Vec<_> = parts.values().map(|(_, doing)| doing.as_str()).collect();
        if let Some(telling) = self.telling.as_ref().filter(|_| !doing.is_empty()) {
            telling.now(turns, &clip_text(&doing.join("; "), 300));
        }
    }
}

async fn tell_progress(
    gateway: GatewayClient,
    mut news: watch::Receiver<RunProgress>,
    limit: Duration,
) {
    let mut since = Instant::now();
    loop {
        let progress = news.borrow_and_update().clone();
        if let Err(error) = gateway.progress(&progress).await {
            tracing::debug!(%error, notice = "progress", "notice_post_failed");
        }
        tokio::time::sleep(PAUSE).await;
        let changed = match tokio::time::timeout(HEARTBEAT, news.changed()).await {
            Ok(changed) => changed,
            Err(_) if since.elapsed() < limit => continue,
            // A step past its limit no longer counts as a sign of life: no heartbeat until something changes.
            Err(_) => news.changed().await,
        };
        if changed.is_err() {
            return;
        }
        since = Instant::now();
    }
}

/// Describes a tool call in a few words: its name, and what it is about.
pub(super) fn of_call(name: &str, arguments: &str) -> String {
    let value: Value = serde_json::from_str(arguments).unwrap_or_default();
    let about = TELLING.iter().find_map(|key| value.get(*key)?.as_str());
    let patch = || patched_paths(value.get("patch")?.as_str()?).next();
    let about = about.or_else(patch);
    let about = about.and_then(|text| text.lines().find(|line| !line.trim().is_empty()));
    let name = show_tool_name(name);
    match about {
        Some(about) => format!("{name} {}", clip_text(about.trim(), 120)),
        None => name.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_told_by_what_it_is_about() {
        for (name, arguments, expected) in [
            ("Bash", r#"{"timeout": 5, "command": "\n cargo test\ntrue"}"#, "Bash cargo test"),
            ("Read", r#"{"path": "src/lib.rs"}"#, "Read src/lib.rs"),
            ("SendMessage", r#"{"message": "secret plans"}"#, "SendMessage"),
            ("Edit", r#"{"patch": "*** Begin Patch\n*** Add File: b.rs\n+x"}"#, "Edit b.rs"),
            ("Broken", "{", "Broken"),
            ("mcp__sentry__search", r#"{"query": "crash"}"#, "sentry: search crash"),
        ] {
            assert_eq!(of_call(name, arguments), expected);
        }
    }
}
