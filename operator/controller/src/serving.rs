//! Decides from the Leases of the shards' leaders if the gateways serve: by the holder of each, and by how lately it
//! was renewed by the clock of this process. How many shards there are is on the first one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use codebutler_runtime::shards::{GatewayShard, count_shards};
use k8s_openapi::api::coordination::v1::Lease;
use parking_lot::{Mutex, MutexGuard};

use super::queues::ControllerQueues;

/// Grace period for a hand-over from one gateway to the next, before anybody is told.
const GRACE: Duration = Duration::from_secs(10);
/// Time between two looks at a Lease that nobody writes any more.
const LOOK: Duration = Duration::from_secs(1);

/// No gateway serves; the text says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GatewayAway {
    #[error(
        "no gateway serves: `{last}` was the last one; see the pods of Deployment `codebutler-gateway`"
    )]
    Gone { last: String },
    #[error("no gateway has served yet: see the pods of Deployment `codebutler-gateway`")]
    Never,
}

/// The gateways, by the shard that each leads for.
#[derive(Debug)]
pub(crate) struct ServingGateways {
    leaders: Vec<ServingGateway>,
    /// Number of shards in force.
    shards: AtomicU32,
}

impl ServingGateways {
    /// Nothing is known yet of the leaders of so many shards.
    pub(crate) fn new(watched: u32) -> Self {
        let leaders = (0..watched.max(1)).map(|_| ServingGateway::default());
        Self { leaders: leaders.collect(), shards: AtomicU32::new(1) }
    }

    /// Number of shards in force.
    pub(crate) fn shards(&self) -> u32 {
        self.shards.load(Ordering::Acquire)
    }

    /// Takes in the Lease of a shard as it is now, if there is one. Answers whether that changes anything.
    pub(crate) fn note(&self, shard: u32, lease: Option<&Lease>, now: Instant) -> bool {
        let counted = lease.filter(|_| shard == 0).map(count_shards);
        let before = counted.map(|counted| self.shards.swap(counted, Ordering::AcqRel));
        self.leader(shard).note(lease, now) || before != counted
    }

    /// Checks that a gateway leads for a shard.
    ///
    /// # Errors
    /// When none does.
    pub(crate) fn serves(&self, shard: GatewayShard, now: Instant) -> Result<(), GatewayAway> {
        self.leader(shard.index()).serves(now)
    }

    /// Queues all objects when the last sign of a gateway gets too old.
    pub(crate) async fn watch(self: Arc<Self>, queues: ControllerQueues) {
        loop {
            tokio::time::sleep(LOOK).await;
            // Each is asked: one that has turned is told once.
            let turned = self.leaders.iter().filter(|leader| leader.lock().turned(Instant::now()));
            if turned.count() > 0 {
                queues.all();
            }
        }
    }

    /// While the number of shards changes, gateways may have more of them than this controller was started with: the
    /// first one's Lease has to do for those.
    fn leader(&self, shard: u32) -> &ServingGateway {
        let own = usize::try_from(shard).ok().and_then(|shard| self.leaders.get(shard));
        own.unwrap_or(&self.leaders[0])
    }
}

#[derive(Debug, Default)]
struct ServingGateway(Mutex<ServingState>);

#[derive(Debug, Default)]
struct ServingState {
    holder: String,
    version: Option<String>,
    /// Time until which the last sign of a gateway counts; None if none was ever seen.
    until: Option<Instant>,
    /// Verdict that was reported last.
    said: bool,
}

impl ServingGateway {
    /// Takes in the Lease as it is now, if there is one. Answers whether that changes anything.
    fn note(&self, lease: Option<&Lease>, now: Instant) -> bool {
        let mut state = self.lock();
        let spec = lease.and_then(|lease| lease.spec.as_ref());
        let holder = spec.and_then(|spec| spec.holder_identity.clone()).unwrap_or_default();
        let version = lease.and_then(|lease| lease.metadata.resource_version.clone());
        if holder.is_empty() {
            state.until = state.until.map(|until| until.min(now + GRACE));
        } else if version.is_none() || version != state.version {
            let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
            let life = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            state.until = Some(now + life + GRACE);
            state.holder = holder;
        }
        state.version = version;
        state.turned(now)
    }

    /// Checks that a gateway serves.
    ///
    /// # Errors
    /// When none does.
    fn serves(&self, now: Instant) -> Result<(), GatewayAway> {
        let state = self.lock();
        match state.until {
            Some(until) if now < until => Ok(()),
            Some(_) => Err(GatewayAway::Gone { last: state.holder.clone() }),
            None => Err(GatewayAway::Never),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ServingState> {
        self.0.lock()
    }
}

impl ServingState {
    fn turned(&mut self, now: Instant) -> bool {
        let serves = self.until.is_some_and(|until| now < until);
        std::mem::replace(&mut self.said, serves) != serves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lease(version: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"name": "codebutler-gateway", "resourceVersion": version},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 8},
        }))
        .unwrap()
    }

    #[test]
    fn a_gateway_serves_as_long_as_its_lease_is_renewed() {
        let (serving, start) = (ServingGateway::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(
            serving.serves(at(0)).unwrap_err().to_string().contains("no gateway has served yet")
        );
        assert!(serving.note(Some(&lease("1", "a")), at(0)));
        assert!(!serving.note(Some(&lease("2", "a")), at(2)), "a renewal is no news");
        assert!(serving.serves(at(19)).is_ok());
        // The same Lease again, as after a new list, is no renewal.
        assert!(!serving.note(Some(&lease("2", "a")), at(15)));
        assert!(serving.serves(at(21)).unwrap_err().to_string().contains("`a` was the last one"));
        assert!(serving.lock().turned(at(21)));
    }

    #[test]
    fn each_shard_is_served_by_the_holder_of_its_own_lease() {
        let (gateways, start) = (ServingGateways::new(2), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let shard = |index| GatewayShard::new(index, 3);
        assert!(gateways.note(0, Some(&lease("1", "a")), at(0)));
        assert_eq!(gateways.shards(), 1, "no number is on it");
        let mut three = lease("2", "a");
        let said = [("codebutler.dev/shards".to_owned(), "3".to_owned())];
        three.metadata.annotations = Some(said.into());
        assert!(gateways.note(0, Some(&three), at(1)), "Repos belong to other shards now");
        assert!(!gateways.note(0, Some(&three), at(1)));
        assert_eq!(gateways.shards(), 3);
        assert!(gateways.serves(shard(0), at(1)).is_ok());
        assert_eq!(gateways.serves(shard(1), at(1)), Err(GatewayAway::Never));
        assert!(gateways.note(1, Some(&lease("7", "b")), at(2)));
        assert!(gateways.serves(shard(1), at(2)).is_ok());
        assert_eq!(gateways.shards(), 3, "only the first one's Lease says how many there are");
        // One that is not watched.
        assert!(gateways.serves(shard(2), at(2)).is_ok());
        // Deleted, it says nothing of the number.
        gateways.note(0, None, at(3));
        assert_eq!(gateways.shards(), 3);
    }

    #[test]
    fn a_hand_over_is_not_told_and_an_end_is() {
        let (serving, start) = (ServingGateway::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        serving.note(Some(&lease("1", "a")), at(0));
        assert!(!serving.note(Some(&lease("2", "")), at(1)), "given up");
        assert!(serving.serves(at(9)).is_ok());
        assert!(!serving.note(Some(&lease("3", "b")), at(9)));
        assert!(serving.serves(at(26)).is_ok());
        assert!(!serving.note(None, at(10)), "somebody deleted it");
        assert!(serving.serves(at(20)).is_err());
    }
}
