//! Decides the next step for a run's message. Pure.

use std::time::Duration;

use codebutler_crds::Thread;
use codebutler_crds::thread::{RunMessage, ThreadState};
use tokio::time::Instant;

use super::{ShownRun, is_running, record_shown};

/// Age from which a run is shown: one that is over sooner shows only its result.
const AFTER: Duration = Duration::from_secs(2);
/// Least interval between two edits of a message.
const EVERY: Duration = Duration::from_secs(3);
/// Least interval between edits that only tell that time passes.
const CLOCK: Duration = Duration::from_secs(30);
/// Silence after which a run counts as over; agents speak every ten seconds.
pub(super) const SILENT: Duration = Duration::from_secs(35);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ShownStep {
    /// Put the run on record, and post its message.
    Show(RunMessage),
    /// Bring the message up to date.
    Tell,
    /// Remove the message of this run.
    Remove(String),
    /// Forget the run: nobody has to know of it any more.
    Forget,
}

/// Decides the next step for one role. `began`: since when this process hears agents; `pace`: the least time
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

/// True if the message is behind, and may be edited.
fn is_due(run: &ShownRun, now: Instant, pace: Duration) -> bool {
    let Some((at, turns, doing)) = &run.told else { return true };
    let old = now.duration_since(*at);
    let news = *turns != run.turns || *doing != run.line();
    old >= pace.max(if news { EVERY } else { CLOCK })
}
