//! The shard that this replica leads for: it campaigns for all of them, and keeps the first one that it gets.
//!
//! Which Repos belong to a shard follows from how many shards there are. So nobody may lead while others go by another
//! number. The one in force is noted on the first shard's Lease. A leader reads it once it holds its own Lease, and
//! acts only if it is the one that it was started with, and as long as it stays there. It is changed by who holds the
//! Leases of all shards, by the old number and by the new one: as long as one leader is left of the old number, that one
//! stays in force.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use codebutler_gateway_core::writes;
use codebutler_runtime::lease::{self, LeadershipState, LeaseHandle, LeaseSettings};
use codebutler_runtime::shards::{GatewayShard, count_shards, lease_name, note_shards};
use futures::future::{join_all, select_all, try_join_all};
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client, ResourceExt as _};
use serde_json::Value;
use tokio::time::{sleep, timeout};

/// Interval between looks at Leases that are not campaigned for.
const LOOK: Duration = Duration::from_secs(1);
/// Longest interval between looks of a leader at the number of shards in force.
const CHECK: Duration = Duration::from_secs(5);
/// Attempts to write the number of shards, and the wait between two.
const ATTEMPTS: u32 = 5;
const AGAIN: Duration = Duration::from_millis(200);

/// A shard that this replica leads for, as long as it holds the Lease.
pub struct HeldShard {
    pub shard: GatewayShard,
    pub lease: LeaseHandle,
}

/// Campaigns for the shards of an installation.
pub struct ShardCampaign {
    client: Client,
    leases: Api<Lease>,
    settings: LeaseSettings,
    /// Number of shards that this replica was started with.
    shards: u32,
    /// Campaigns under way, by shard.
    open: BTreeMap<u32, LeaseHandle>,
}

impl ShardCampaign {
    /// `settings`: those of each Lease, whatever its name.
    pub fn new(client: Client, settings: LeaseSettings, shards: u32) -> Self {
        let leases = Api::namespaced(client.clone(), &settings.namespace);
        Self { client, leases, settings, shards, open: BTreeMap::new() }
    }

    /// Waits for a shard. Where it is dropped before, [`Self::leave`] gives up what it has begun.
    pub async fn held(&mut self) -> HeldShard {
        loop {
            let index = self.first_held().await;
            if self.may_lead(index).await {
                self.leave_others(Some(index)).await;
                if let Some(lease) = self.open.remove(&index) {
                    return HeldShard { shard: GatewayShard::new(index, self.shards), lease };
                }
            }
            self.leave().await;
            sleep(LOOK).await;
        }
    }

    /// Gives up all campaigns.
    pub async fn leave(&mut self) {
        self.leave_others(None).await;
    }

    async fn leave_others(&mut self, kept: Option<u32>) {
        let (kept, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.open).into_iter().partition(|(index, _)| Some(*index) == kept);
        self.open = kept;
        join_all(others.into_values().map(LeaseHandle::release)).await;
    }

    fn campaign_for(&mut self, shards: u32) {
        for index in 0..shards {
            self.open.entry(index).or_insert_with(|| {
                let settings = LeaseSettings { name: lease_name(index), ..self.settings.clone() };
                lease::start_campaign(self.client.clone(), settings)
            });
        }
    }

    /// Waits until a Lease is held.
    async fn first_held(&mut self) -> u32 {
        loop {
            // One that is lost never tries again.
            self.open.retain(|_, lease| !is_lost(lease));
            let wanted = self.wanted_shards().await;
            let unwanted = self.open.split_off(&wanted);
            join_all(unwanted.into_values().map(LeaseHandle::release)).await;
            self.campaign_for(wanted);
            let held = self.open.iter().map(|(index, lease)| {
                Box::pin(async move {
                    lease.held().await;
                    *index
                })
            });
            let held = select_all(held);
            if self.shards == 1 {
                return held.await.0;
            }
            // The number in force may have changed meanwhile.
            if let Ok((index, ..)) = timeout(LOOK, held).await {
                return index;
            }
        }
    }

    /// The number of shards to campaign for. By another number than that in force only the first one is of use: who
    /// holds it can change the number.
    async fn wanted_shards(&self) -> u32 {
        if self.shards == 1 {
            return 1;
        }
        let open = self.open.last_key_value().map_or(1, |(last, _)| last + 1);
        count_wanted(self.read_number().await, self.shards, open)
    }

    /// Returns true if this replica may lead for the shard whose Lease it holds.
    async fn may_lead(&mut self, index: u32) -> bool {
        let this = &*self;
        let Some(lease) = this.open.get(&index) else { return false };
        let in_force = tokio::select! {
            in_force = this.await_number() => Some(in_force),
            () = lease.lost() => None,
        };
        match in_force {
            Some(in_force) if in_force == self.shards => true,
            Some(in_force) if index == 0 => self.change_number(in_force).await,
            _ => false,
        }
    }

    /// Returns once another number is in force than that by which this replica leads. A change waits for its leaders, so
    /// this is none: the first Lease was made anew or edited, or a gateway wrote it that had been stopped for a while.
    pub async fn number_changed(&self) {
        if self.shards == 1 {
            // Who holds the first Lease leads for all, whatever is written there.
            return std::future::pending().await;
        }
        loop {
            sleep(CHECK.min(self.settings.duration / 4)).await;
            // Gone or unreadable, it says nothing.
            let Ok(Some(lease)) = self.leases.get_opt(&lease_name(0)).await else { continue };
            let in_force = count_shards(&lease);
            if in_force != self.shards {
                tracing::warn!(in_force, wanted = self.shards, "shards_not_changed");
                return;
            }
        }
    }

    /// Changes the number in force, once nobody can lead any more by that one.
    async fn change_number(&mut self, in_force: u32) -> bool {
        let all = in_force.max(self.shards);
        self.campaign_for(all);
        let this = &*self;
        let Some(first) = this.open.get(&0) else { return false };
        let changing = async {
            let free = (1..all).map(|index| async move {
                if this.is_free(index).await { Ok(()) } else { Err(()) }
            });
            try_join_all(free).await.is_ok() && this.write_number().await
        };
        let changed = tokio::select! {
            changed = changing => changed,
            () = first.lost() => false,
        };
        if changed {
            tracing::info!(from = in_force, to = this.shards, "shards_changed");
        } else {
            tracing::warn!(in_force, wanted = this.shards, "shards_not_changed");
            // Replicas that lead by the other number need the first Lease in the meantime.
            self.leave().await;
            sleep(self.settings.duration).await;
        }
        changed
    }

    /// Waits until nobody but this replica can lead for a shard. Returns false if somebody does.
    async fn is_free(&self, index: u32) -> bool {
        let held = async {
            match self.open.get(&index) {
                Some(lease) => lease.held().await,
                None => std::future::pending().await,
            }
        };
        let name = lease_name(index);
        tokio::select! {
            () = held => true,
            free = self.watch_other(&name) => free,
        }
    }

    /// Returns false once somebody else renews the Lease, and true once nobody can have renewed it for so long that its
    /// holder has stopped: it is gone, or the installation has taken the right to it from all gateways.
    async fn watch_other(&self, name: &str) -> bool {
        let (mut seen, mut barred): (Option<String>, Option<Instant>) = (None, None);
        loop {
            let found = self.leases.get_opt(name).await;
            let is_barred = match &found {
                Ok(found) => found.is_none(),
                Err(kube::Error::Api(refused)) => refused.code == 403,
                Err(_) => false,
            };
            barred = is_barred.then(|| barred.unwrap_or_else(Instant::now));
            if barred.is_some_and(|since| since.elapsed() > self.settings.duration) {
                return true;
            }
            if let Ok(Some(lease)) = found
                && self.is_foreign(holder_of(&lease))
            {
                let version = lease.resource_version().unwrap_or_default();
                if seen.as_ref().is_some_and(|seen| *seen != version) {
                    return false;
                }
                seen = Some(version);
            }
            sleep(LOOK).await;
        }
    }

    /// True if somebody holds a Lease, and it is not this replica.
    fn is_foreign(&self, holder: Option<&str>) -> bool {
        holder.is_some_and(|holder| !holder.is_empty() && holder != self.settings.identity)
    }

    /// Writes the number that this replica was started with.
    async fn write_number(&self) -> bool {
        let name = lease_name(0);
        // Untyped, so that it keeps fields that a newer API server has.
        let kind = ApiResource::erase::<Lease>(&());
        let leases = Api::<DynamicObject>::namespaced_with(
            self.client.clone(),
            &self.settings.namespace,
            &kind,
        );
        for _ in 0..ATTEMPTS {
            if self.open.values().any(is_lost) {
                return false;
            }
            let written = async {
                let mut lease = leases.get(&name).await?;
                let holder = lease.data.pointer("/spec/holderIdentity").and_then(Value::as_str);
                if self.is_foreign(holder) {
                    return Ok(false);
                }
                note_shards(lease.annotations_mut(), self.shards);
                lease.managed_fields_mut().clear();
                leases.replace(&name, &writes::create_params(), &lease).await.map(|_| true)
            };
            match written.await {
                Ok(written) => return written,
                // A conflict, most often: the campaign renews the Lease meanwhile.
                Err(error) => tracing::debug!(%error, "shards_not_written"),
            }
            sleep(AGAIN).await;
        }
        false
    }

    async fn await_number(&self) -> u32 {
        loop {
            if let Some(in_force) = self.read_number().await {
                return in_force;
            }
            sleep(AGAIN).await;
        }
    }

    /// The number of shards in force; none if it can't be read now.
    async fn read_number(&self) -> Option<u32> {
        let lease = lease_name(0);
        match self.leases.get_opt(&lease).await {
            Ok(found) => Some(found.as_ref().map_or(1, count_shards)),
            Err(error) => {
                tracing::warn!(lease, %error, "lease_read_failed");
                None
            }
        }
    }
}

fn holder_of(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref())
}

fn is_lost(lease: &LeaseHandle) -> bool {
    *lease.leadership().borrow() == LeadershipState::Lost
}

/// The number of shards to campaign for, where `in_force` is what could be read, and `open` campaigns are under way.
fn count_wanted(in_force: Option<u32>, own: u32, open: u32) -> u32 {
    match in_force {
        Some(in_force) if in_force == own => own,
        Some(_) => 1,
        // A campaign that ended here would begin to wait anew for a leader that is gone.
        None => open,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_that_fails_ends_no_campaign() {
        assert_eq!(count_wanted(Some(3), 3, 1), 3);
        assert_eq!(count_wanted(Some(2), 3, 3), 1, "only the first one can change the number");
        assert_eq!([count_wanted(None, 3, 3), count_wanted(None, 3, 1)], [3, 1]);
    }
}
