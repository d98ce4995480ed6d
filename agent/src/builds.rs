//! The pod's build slot: how many commands of a Repo may build at once is counted by the gateway.
//!
//! A pod has one slot at most, which a build in the foreground and jobs in the background share, so
//! that a role never waits for itself. It is renewed for as long as anything holds it, and given
//! back with the last holder; whatever ends without a word loses it after
//! [`BUILD_SLOT_SECONDS`](codebutler_wire::BUILD_SLOT_SECONDS).

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use codebutler_wire::{
    BUILD_SLOT_SECONDS, BuildClaim, BuildTurn, BuildWant, ErrorCode, PostMessage,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::task::AbortHandle;

use crate::gateway::{GatewayClient, GatewayError};

/// Timeout of one long poll for a slot.
const LONG_POLL: Duration = Duration::from_secs(20);
/// Interval between renewals of the slot's lease.
const RENEWAL: Duration = Duration::from_secs(BUILD_SLOT_SECONDS / 3);
/// Least time between two messages to people that a pod waits.
const TOLD_EVERY: Duration = Duration::from_mins(10);

/// Hands out the pod's slot. Cheap to clone.
#[derive(Clone)]
pub struct PodBuilds {
    gateway: GatewayClient,
    current: Arc<Mutex<Weak<HeldSlot>>>,
    told: Arc<Mutex<Option<Instant>>>,
    tell_after: Duration,
    /// Time that runs spent waiting for slots and models.
    pub waits: PodWaits,
}

/// Total time that the pod has waited for slots and models: it is no part of a run's own time.
/// Cheap to clone; clones share it.
#[derive(Clone, Default)]
pub struct PodWaits(Arc<Mutex<WaitTotal>>);

#[derive(Default)]
struct WaitTotal {
    over: Duration,
    /// Number of waits that are open, and since when there has been one.
    waiting: u32,
    since: Option<Instant>,
}

/// Waits, until it is dropped.
pub struct OpenWait(PodWaits);

impl PodWaits {
    /// Time waited until now; time in which several wait counts once.
    pub fn total(&self) -> Duration {
        let waited = lock(&self.0);
        waited.over + waited.since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Counts a further wait, until the result is dropped.
    pub fn begin(&self) -> OpenWait {
        let mut waited = lock(&self.0);
        waited.waiting += 1;
        waited.since.get_or_insert_with(Instant::now);
        drop(waited);
        OpenWait(self.clone())
    }
}

impl Drop for OpenWait {
    fn drop(&mut self) {
        let mut waited = lock(&self.0.0);
        waited.waiting = waited.waiting.saturating_sub(1);
        if waited.waiting == 0
            && let Some(since) = waited.since.take()
        {
            waited.over += since.elapsed();
        }
    }
}

/// The right to build, until it is dropped.
pub struct BuildSlot {
    _held: Arc<HeldSlot>,
    /// A line about how long it was waited for, if it was.
    pub waited: Option<String>,
}

/// A place at the gateway, waiting or granted.
struct HeldSlot {
    gateway: GatewayClient,
    id: String,
    renewal: Mutex<Option<AbortHandle>>,
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if let Some(renewal) = lock(&self.renewal).take() {
            renewal.abort();
        }
        let (gateway, id) = (self.gateway.clone(), std::mem::take(&mut self.id));
        // Without a runtime the process ends, and the gateway notices.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let claim = BuildClaim { id, want: BuildWant::Release };
            if let Err(error) = gateway.build(&claim, Duration::ZERO).await {
                tracing::debug!(%error, "build_slot_release_failed");
            }
        });
    }
}

impl PodBuilds {
    /// `tell_after`: when people are told that a role waits.
    pub fn new(gateway: GatewayClient, tell_after: Duration) -> Self {
        let (current, told) = (Arc::default(), Arc::default());
        Self { gateway, current, told, tell_after, waits: PodWaits::default() }
    }

    /// Waits for the slot. Dropping the future leaves the queue.
    ///
    /// # Errors
    /// When the gateway can't be asked. One that knows no build slots is no error.
    pub async fn slot(&self) -> Result<BuildSlot, GatewayError> {
        if let Some(held) = lock(&self.current).upgrade() {
            return Ok(BuildSlot { _held: held, waited: None });
        }
        let id = format!("{:016x}", rand::random::<u64>());
        let claim = BuildClaim { id: id.clone(), want: BuildWant::Slot };
        let held =
            Arc::new(HeldSlot { gateway: self.gateway.clone(), id, renewal: Mutex::default() });
        let started = Instant::now();
        let waiting = self.waits.begin();
        let mut waited = None;
        let mut wait = Duration::ZERO;
        loop {
            match self.gateway.build(&claim, wait).await {
                Ok(turn) if turn.granted => break,
                Ok(turn) => {
                    waited = Some(turn);
                    wait = LONG_POLL;
                    if started.elapsed() < self.tell_after {
                        wait = wait.min(self.tell_after.max(Duration::from_secs(1)));
                    } else {
                        self.tell(&claim.id, turn).await;
                    }
                }
                // A gateway of an earlier version, during an upgrade.
                Err(GatewayError::Refused { code: ErrorCode::InvalidRequest, message }) => {
                    tracing::warn!(detail = message, "build_slots_unsupported");
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        drop(waiting);
        let renewal = tokio::spawn(renew_slot(self.gateway.clone(), claim.id)).abort_handle();
        *lock(&held.renewal) = Some(renewal);
        *lock(&self.current) = Arc::downgrade(&held);
        let seconds = started.elapsed().as_secs();
        let waited = waited.map(|turn| format!("[waited {seconds} s {}]\n", in_words(turn)));
        Ok(BuildSlot { _held: held, waited })
    }

    async fn tell(&self, id: &str, turn: BuildTurn) {
        {
            let mut told = lock(&self.told);
            if told.is_some_and(|at| at.elapsed() < TOLD_EVERY) {
                return;
            }
            *told = Some(Instant::now());
        }
        let text = format!(
            "Waiting {}. I go on by myself; `worktree.maxConcurrentBuilds` of the Repo says how many there are.",
            in_words(turn)
        );
        let message = PostMessage { key: format!("builds.{id}"), text, ..PostMessage::default() };
        if let Err(error) = self.gateway.post(&message).await {
            tracing::debug!(%error, notice = "build_wait", "notice_post_failed");
        }
    }
}

fn in_words(BuildTurn { used, limit, .. }: BuildTurn) -> String {
    format!("for a build slot ({used} of {limit} in use)")
}

async fn renew_slot(gateway: GatewayClient, id: String) {
    let claim = BuildClaim { id, want: BuildWant::Keep };
    loop {
        tokio::time::sleep(RENEWAL).await;
        // A failed renewal does not stop the build: that would lose more than one build too many costs.
        if let Err(error) = gateway.build(&claim, Duration::ZERO).await {
            tracing::warn!(%error, "build_slot_renewal_failed");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_wait_for_at_once_counts_once_and_has_an_end() {
        let waits = PodWaits::default();
        assert_eq!(waits.total(), Duration::ZERO);
        let (began, first) = (Instant::now(), waits.begin());
        let second = waits.begin();
        std::thread::sleep(Duration::from_millis(20));
        drop(first);
        assert!(waits.total() >= Duration::from_millis(20));
        drop(second);
        let total = waits.total();
        assert!(total <= began.elapsed());
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(waits.total(), total);
    }
}
