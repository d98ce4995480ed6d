//! Listens for people while the model thinks or a tool works: a user's stop takes effect at once.

use std::time::Duration;

use codebutler_wire::{PendingDecision, PendingItem, SlackTs, VersionedInbox};
use tokio::time::{Instant, sleep, timeout_at};

use super::Agent;
use crate::builds::PodWaits;
use crate::gateway::GatewayClient;

/// Long-poll timeout of one inbox request.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Pause between inbox requests that are answered at once.
const PAUSE: Duration = Duration::from_millis(300);

/// Least time between two looks at a deadline that has moved.
const LOOK: Duration = Duration::from_millis(100);

/// Deadline of a run or of a part of it. Time spent waiting for a build slot or a provider does not count.
#[derive(Clone)]
pub(super) struct RunDeadline {
    at: Instant,
    total: Duration,
    waits: PodWaits,
    before: Duration,
}

impl RunDeadline {
    /// Sets a deadline after `limit`, not counting waits for others from now on.
    pub(super) fn after(limit: Duration, waits: &PodWaits) -> Self {
        Self {
            at: Instant::now() + limit,
            total: limit,
            waits: waits.clone(),
            before: waits.total(),
        }
    }

    fn now(&self) -> Instant {
        self.at + self.waits.total().saturating_sub(self.before)
    }

    /// Time limit that the deadline began with.
    pub(super) fn total(&self) -> Duration {
        self.total
    }

    pub(super) fn left(&self) -> Duration {
        self.now().saturating_duration_since(Instant::now())
    }

    /// True once the deadline has passed.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.now()
    }

    /// Does `work`, unless the deadline passes first.
    async fn bound<T>(&self, work: impl Future<Output = T>) -> Result<T, CutReason> {
        let mut work = std::pin::pin!(work);
        let mut until = self.now();
        loop {
            match timeout_at(until, &mut work).await {
                Ok(done) => return Ok(done),
                Err(_) if self.is_over() => return Err(CutReason::Time),
                // The deadline keeps moving while the pod waits.
                Err(_) => until = self.now().max(Instant::now() + LOOK),
            }
        }
    }
}

#[derive(Debug)]
pub(super) enum CutReason {
    /// The deadline of the run has passed.
    Time,
    Stop(Box<PendingItem>),
}

impl Agent {
    /// Does `work` unless the deadline or a user ends it first. What was under way is dropped, and
    /// dropping a request to the toolbox ends its processes.
    pub(super) async fn bounded<T>(
        &self,
        deadline: &RunDeadline,
        work: impl Future<Output = T>,
    ) -> Result<T, CutReason> {
        let role = self.session.role.clone();
        let newest = self.transcript.state().newest().cloned();
        let after = newest.unwrap_or_else(|| self.session.root.clone());
        tokio::select! {
            biased;
            done = deadline.bound(work) => done,
            pending = self.stopped(role, after) => Err(CutReason::Stop(Box::new(pending))),
        }
    }

    async fn stopped(&self, role: String, after: SlackTs) -> PendingItem {
        match &self.seat {
            Some(seat) => seat.stopped().await,
            None => await_stop(self.tools.gateway.clone(), role, after).await,
        }
    }
}

/// Waits for a stop request. Other mail is left to the next turn.
async fn await_stop(gateway: GatewayClient, role: String, mut after: SlackTs) -> PendingItem {
    // Most work ends before anybody could react.
    sleep(PAUSE).await;
    let mut seen: Option<String> = None;
    loop {
        match gateway.inbox(&after, seen.as_deref(), LONG_POLL).await {
            Ok(VersionedInbox { inbox, version }) => {
                seen = version.or(seen);
                let stop = |item: &PendingItem| {
                    item.decision() == Some(PendingDecision::Stop) && item.role == role
                };
                if let Some(item) = inbox.pending.into_iter().find(stop) {
                    return item;
                }
                if let Some(newest) = inbox.messages.into_iter().map(|message| message.ts).max() {
                    after = after.max(newest);
                }
            }
            Err(error) => tracing::debug!(%error, "stop_stream_failed"),
        }
        sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_cut_when_its_time_is_over() {
        let deadline = RunDeadline::after(Duration::from_millis(30), &PodWaits::default());
        assert!(matches!(deadline.bound(std::future::ready(1)).await, Ok(1)));
        assert!(matches!(deadline.bound(std::future::pending::<()>()).await, Err(CutReason::Time)));
        assert!(deadline.is_over());
    }
}
