//! Listens for people while the model thinks or a tool works: a user who says stop is heard at once.

use std::time::Duration;

use codebutler_crds::SlackTs;
use codebutler_crds::thread::Pending;
use tokio::time::{Instant, sleep, timeout_at};

use super::Agent;
use crate::gateway::Gateway;

/// The `kind` of a pending item that ends a run.
pub const STOP: &str = "stop";
/// How long one question for mail may wait.
const LONG_POLL: Duration = Duration::from_secs(25);
/// Between questions that are answered at once.
const PAUSE: Duration = Duration::from_millis(300);

/// Why work was cut short.
#[derive(Debug)]
pub enum Cut {
    /// The time for the run is over.
    Time,
    /// A user said stop.
    Stop(Box<Pending>),
}

impl Agent {
    /// Does `work` unless the deadline or a user ends it first. What was under way is dropped, and
    /// dropping a request to the toolbox ends its processes.
    pub(super) async fn bounded<T>(
        &self,
        deadline: Instant,
        work: impl Future<Output = T>,
    ) -> Result<T, Cut> {
        let role = self.session.role.clone();
        let newest = self.transcript.state().newest().cloned();
        let after = newest.unwrap_or_else(|| self.session.root.clone());
        tokio::select! {
            biased;
            done = timeout_at(deadline, work) => done.map_err(|_| Cut::Time),
            pending = self.stopped(role, after) => Err(Cut::Stop(Box::new(pending))),
        }
    }
}

impl Agent {
    async fn stopped(&self, role: String, after: SlackTs) -> Pending {
        match &self.seat {
            Some(seat) => seat.stopped().await,
            None => stopped(self.tools.gateway.clone(), role, after).await,
        }
    }
}

/// Waits for a stop. Other mail is left to the next turn.
async fn stopped(gateway: Gateway, role: String, mut after: SlackTs) -> Pending {
    // Most work is over before anybody could say anything.
    sleep(PAUSE).await;
    loop {
        match gateway.inbox(&after, LONG_POLL).await {
            Ok(inbox) => {
                let stop = |item: &Pending| item.kind == STOP && item.role == role;
                if let Some(item) = inbox.pending.into_iter().find(stop) {
                    return item;
                }
                if let Some(newest) = inbox.messages.into_iter().map(|message| message.ts).max() {
                    after = after.max(newest);
                }
            }
            Err(error) => tracing::debug!(%error, "can't listen for a stop"),
        }
        sleep(PAUSE).await;
    }
}
