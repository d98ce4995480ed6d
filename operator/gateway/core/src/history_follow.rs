//! Records in the histories what became of open Threads, and removes histories whose retention is over.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use codebutler_crds::Thread;
use codebutler_history::{HistoryStore as _, StoredHistory};
use codebutler_runtime::shards::GatewayShard;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::context::GatewayContext;
use crate::history::{HistoryKeeper, ToldEvent, facts};
use crate::masks;
use crate::thread_key::ThreadKey;

/// Interval between looks at Threads.
const EVERY: Duration = Duration::from_millis(500);
/// Interval between looks at histories.
const TIDY: Duration = Duration::from_hours(1);

/// Limits on kept histories.
#[derive(Clone, Copy, Debug)]
pub struct HistoryRetention {
    /// Age after the last event.
    pub age: Duration,
    /// Bytes of all histories together: the oldest go first.
    pub size: Option<u64>,
}

/// Records facts about Threads until the gateway stops.
pub async fn run_following(
    context: &GatewayContext,
    shutdown: &CancellationToken,
    retention: HistoryRetention,
) {
    if context.history.store().is_none() {
        return;
    }
    tokio::join!(follow_threads(context, shutdown), tidy_histories(context, shutdown, retention));
}

async fn follow_threads(context: &GatewayContext, shutdown: &CancellationToken) {
    let changed = context.attended.follow();
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while shutdown.run_until_cancelled(due.tick()).await.is_some() {
        // A Thread that is not attended any more has ended, and its object says how.
        for key in changed.take() {
            let known = context.attended.get(&key).or_else(|| context.thread(&key));
            if let Some(thread) = known.filter(|thread| context.shard.has_thread(thread)) {
                tell_facts(context, &thread).await;
            }
        }
    }
}

async fn tell_facts(context: &GatewayContext, thread: &Arc<Thread>) {
    let key = ThreadKey::from(&**thread);
    let Some(repo) = context.repo(&key.namespace, &thread.spec.repo) else { return };
    let facts = facts::thread_facts(thread);
    if facts.is_empty() {
        return;
    }
    let redactor = masks::as_known(context, &repo).await;
    for (name, role, event) in facts {
        let told = ToldEvent { key: name, at: None, role, run: None, event };
        context.history.tell(&key, &redactor, told);
    }
}

async fn tidy_histories(
    context: &GatewayContext,
    shutdown: &CancellationToken,
    retention: HistoryRetention,
) {
    let mut due = tokio::time::interval(TIDY);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let history = &context.history;
    loop {
        let waiting = async {
            tokio::select! {
                _ = due.tick() => {}
                () = history.full() => {}
            }
        };
        if shutdown.run_until_cancelled(waiting).await.is_none() {
            return;
        }
        // The store may be one for all shards.
        let open: Vec<_> = context.attended.of_shard(GatewayShard::default()).all();
        let open: Vec<_> = open.iter().map(|thread| ThreadKey::from(&**thread)).collect();
        let history = context.history.clone();
        let removing = move || remove_due(&history, retention, &open);
        match tokio::task::spawn_blocking(removing).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "history_retention_failed"),
            Err(error) => tracing::warn!(%error, "history_retention_failed"),
        }
    }
}

fn remove_due(
    history: &HistoryKeeper,
    retention: HistoryRetention,
    open: &[ThreadKey],
) -> std::io::Result<()> {
    let Some(mut store) = history.store().cloned() else { return Ok(()) };
    for kept in due_histories(store.list()?, retention, SystemTime::now(), open) {
        match store.remove(&kept.place) {
            Ok(()) => tracing::info!(thread = %kept.place, "history_removed"),
            // By the leader of another shard.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the histories to remove. Those of open Threads stay.
fn due_histories(
    mut all: Vec<StoredHistory>,
    retention: HistoryRetention,
    now: SystemTime,
    open: &[ThreadKey],
) -> Vec<StoredHistory> {
    all.sort_by_key(|kept| kept.changed);
    let mut total: u64 = all.iter().map(|kept| kept.bytes).sum();
    let is_open = |kept: &StoredHistory| {
        let of = |key: &ThreadKey| {
            key.namespace == kept.place.namespace() && key.name == kept.place.name()
        };
        open.iter().any(of)
    };
    all.retain(|kept| {
        let age = now.duration_since(kept.changed).unwrap_or_default();
        let goes = age > retention.age || retention.size.is_some_and(|most| total > most);
        let goes = goes && !is_open(kept);
        if goes {
            total -= kept.bytes;
        }
        goes
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_history::ThreadPlace;

    #[test]
    fn the_oldest_go_first_and_open_ones_stay() {
        let now = SystemTime::now();
        let kept = |name: &str, days: u32, bytes| StoredHistory {
            place: ThreadPlace::new("team", name).unwrap(),
            bytes,
            changed: now - Duration::from_hours(24) * days,
        };
        let all =
            vec![kept("new", 1, 50), kept("old", 40, 50), kept("older", 50, 5), kept("mid", 9, 50)];
        let open = [ThreadKey { namespace: "team".into(), name: "older".into() }];
        let names = |retention| {
            let due = due_histories(all.clone(), retention, now, &open);
            due.iter().map(|kept| kept.place.name().to_owned()).collect::<Vec<_>>()
        };
        let days = |days: u32| Duration::from_hours(24) * days;
        assert_eq!(names(HistoryRetention { age: days(30), size: None }), ["old"]);
        assert_eq!(names(HistoryRetention { age: days(90), size: Some(100) }), ["old", "mid"]);
        assert_eq!(names(HistoryRetention { age: days(90), size: Some(200) }), [""; 0]);
    }
}
