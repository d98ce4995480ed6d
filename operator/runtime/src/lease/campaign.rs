//! Acquire, renew, give up: the loop behind a [`LeaseHandle`](super::LeaseHandle).

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::record::{LeaseRecord, ObservedLease};
use super::settings::{GIVE_UP, LeadershipState, LeaseSettings};
use super::store::{LeaseStore, StoreError, VersionedRecord};
use super::time::LeaseTime;

/// One replica's attempt to get and keep the lease.
pub(super) struct LeaseCampaign<S, T> {
    store: S,
    time: T,
    settings: LeaseSettings,
    leadership: watch::Sender<LeadershipState>,
    resign: CancellationToken,
}

/// The lease as we wrote it, and until when we may act on that.
struct HeldLease {
    record: LeaseRecord,
    version: String,
    until: Instant,
}

impl<S: LeaseStore, T: LeaseTime> LeaseCampaign<S, T> {
    /// A campaign, a view on how it stands, and the token that makes it resign.
    pub(super) fn new(
        store: S,
        time: T,
        settings: LeaseSettings,
    ) -> (Self, watch::Receiver<LeadershipState>, CancellationToken) {
        let (leadership, view) = watch::channel(LeadershipState::Waiting);
        let resign = CancellationToken::new();
        let campaign = Self { store, time, settings, leadership, resign: resign.clone() };
        (campaign, view, resign)
    }

    /// Runs until the lease is lost or given up.
    pub(super) async fn run(self) {
        let Some(Some(mut held)) = self.resign.run_until_cancelled(self.acquire()).await else {
            return;
        };
        tracing::info!(lease = self.settings.name, "lease_acquired");
        self.leadership.send_replace(LeadershipState::Held);
        loop {
            let due = self.pause(self.settings.interval());
            if self.resign.run_until_cancelled(due).await.is_none() {
                return self.give_up(held).await;
            }
            let left = held.until.saturating_duration_since(self.time.now());
            let renewing = self.time.within(left, self.renew(&held));
            match self.resign.run_until_cancelled(renewing).await {
                None => return self.give_up(held).await,
                // A process that was stopped for a while hears of a renewal that has run out since.
                Some(Some(Some(renewed))) if renewed.until > self.time.now() => held = renewed,
                Some(_) => {
                    tracing::error!(lease = self.settings.name, "lease_lost");
                    self.leadership.send_replace(LeadershipState::Lost);
                    return;
                }
            }
        }
    }

    /// Tries until the lease is ours. Nothing means never.
    async fn acquire(&self) -> Option<HeldLease> {
        let mut seen: Option<ObservedLease> = None;
        loop {
            match self.ask(self.store.get()).await {
                Ok(found) => {
                    let now = self.time.now();
                    if let Some((record, version)) = &found {
                        seen = Some(ObservedLease::next(seen.take(), record, version, now));
                    }
                    // A lease that is gone was deleted under a holder that does not know it yet:
                    // what was seen of it counts on.
                    let me = &self.settings.identity;
                    if seen.as_ref().is_none_or(|seen| seen.is_free_for(me, now)) {
                        match self.write(found.unwrap_or_default()).await {
                            Ok(held) => return Some(held),
                            Err(StoreError::Changed) => {}
                            Err(error) => {
                                tracing::warn!(lease = self.settings.name, %error, "lease_acquire_failed");
                            }
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(lease = self.settings.name, %error, "lease_read_failed");
                }
            }
            self.pause(self.settings.retry()).await;
        }
    }

    /// Renews until it worked; nothing if the lease is somebody else's.
    async fn renew(&self, held: &HeldLease) -> Option<HeldLease> {
        let mut now = (held.record.clone(), held.version.clone());
        loop {
            match self.write(now.clone()).await {
                Ok(held) => return Some(held),
                Err(error @ (StoreError::Unknown(_) | StoreError::Missing)) => {
                    tracing::warn!(lease = self.settings.name, %error, "lease_renew_failed");
                    self.pause(self.settings.retry() / 4).await;
                }
                Err(StoreError::Changed) => {}
            }
            // An answer that was lost, a person's edit, or a new holder.
            match self.ask(self.store.get()).await {
                Ok(Some(found)) if found.0.holder == self.settings.identity => now = found,
                Ok(Some(_)) => return None,
                Ok(None) => now.1.clear(),
                Err(_) => self.pause(self.settings.retry() / 4).await,
            }
        }
    }

    async fn write(&self, (before, version): VersionedRecord) -> Result<HeldLease, StoreError> {
        let LeaseSettings { identity, duration, .. } = &self.settings;
        let until = self.time.now() + self.settings.deadline();
        let record = before.held_by(identity, *duration, Timestamp::now());
        let expected = (!version.is_empty()).then_some(&*version);
        let version = self.ask(self.store.put(&record, expected)).await?;
        Ok(HeldLease { record, version, until })
    }

    /// Others need not wait; should this fail, they wait until it has run out.
    async fn give_up(&self, held: HeldLease) {
        let giving = async {
            let mut version = held.version;
            loop {
                let record = held.record.given_up(Timestamp::now());
                match self.ask(self.store.put(&record, Some(&version))).await {
                    Ok(_) => return,
                    Err(error) => tracing::debug!(%error, "lease_release_failed"),
                }
                // A renewal may have been under way.
                match self.ask(self.store.get()).await {
                    Ok(Some((now, found))) if now.holder == self.settings.identity => {
                        version = found;
                    }
                    Ok(_) => return,
                    Err(_) => self.pause(GIVE_UP / 20).await,
                }
            }
        };
        if self.time.within(GIVE_UP, giving).await.is_none() {
            tracing::warn!(lease = self.settings.name, "lease_release_failed");
        }
    }

    /// A request that hangs must not use up the time for a second one.
    async fn ask<A: Send>(
        &self,
        request: impl Future<Output = Result<A, StoreError>> + Send,
    ) -> Result<A, StoreError> {
        let answer = self.time.within(self.settings.duration / 4, request).await;
        answer.unwrap_or_else(|| Err(StoreError::Unknown("no answer in time".into())))
    }

    /// Sleeps 80 to 120 percent of `duration`, so that replicas don't march in step.
    async fn pause(&self, duration: Duration) {
        self.time.sleep(duration.mul_f64(rand::random_range(0.8..1.2))).await;
    }
}
