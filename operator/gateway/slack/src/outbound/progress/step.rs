//! What is to be done about a run's message. Pure.

use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_crds::thread::{RunMessage, ThreadState};
use tokio::time::Instant;

use super::{ShownRun, is_running, record_shown};

/// A run that is over sooner shows only its result.
const AFTER: Duration = Duration::from_secs(2);
/// Between two edits of a message.
const EVERY: Duration = Duration::from_secs(3);
/// An edit that only tells that time passes.
const CLOCK: Duration = Duration::from_secs(30);
/// A run that is silent for longer is not going on; agents speak every ten seconds.
pub(super) const SILENT: Duration = Duration::from_secs(35);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownStep {
    /// It goes on record, and the message is posted.
    Show(RunMessage),
    /// The message is brought up to date.
    Tell,
    /// The message of this run goes.
    Remove(String),
    /// Nobody has to know of the run any more.
    Forget,
}

/// Decides for one role. `began`: since when this process hears agents; `pace`: the least time
/// between two edits of a message, for all there are.
pub(super) fn next_step(
    thread: &Thread,
    role: &str,
    run: Option<&ShownRun>,
    now: Instant,
    began: Instant,
    pace: Duration,
) -> Option<ShownStep> {
    let entry = thread.status.as_ref()?.roles.get(role)?;
    let going = thread.spec.state == ThreadState::Active && !thread.is_going();
    let works = going && is_running(entry) && entry.pod_uid.is_some();
    let heard = run.map_or(began, |run| run.heard);
    let works = works && now.duration_since(heard) < SILENT;
    if run.is_some_and(|run| run.not_before.is_some_and(|at| at > now)) {
        return None;
    }
    match (&entry.shown, run) {
        (Some(shown), _) if !works => Some(ShownStep::Remove(shown.run.clone())),
        (None, Some(_)) if !works => Some(ShownStep::Forget),
        (Some(shown), Some(run)) if shown.run != run.id => {
            Some(ShownStep::Remove(shown.run.clone()))
        }
        (Some(_), Some(run)) => is_due(run, now, pace).then_some(ShownStep::Tell),
        (None, Some(run)) if now.duration_since(run.since.0) >= AFTER => {
            Some(ShownStep::Show(record_shown(run, entry.usage.cost)))
        }
        (_, Some(_) | None) => None,
    }
}

/// Whether the message is behind, and may be edited.
fn is_due(run: &ShownRun, now: Instant, pace: Duration) -> bool {
    let Some((at, turns, doing)) = &run.told else { return true };
    let old = now.duration_since(*at);
    let news = *turns != run.turns || *doing != run.line();
    old >= pace.max(if news { EVERY } else { CLOCK })
}
