//! Decides from its Lease if a gateway serves: by the holder, and by how lately it was renewed by the clock of this
//! process.

use std::sync::Arc;
use std::time::{Duration, Instant};

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

#[derive(Debug, Default)]
pub(crate) struct ServingGateway(Mutex<ServingState>);

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
    pub(crate) fn note(&self, lease: Option<&Lease>, now: Instant) -> bool {
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
    pub(crate) fn serves(&self, now: Instant) -> Result<(), GatewayAway> {
        let state = self.lock();
        match state.until {
            Some(until) if now < until => Ok(()),
            Some(_) => Err(GatewayAway::Gone { last: state.holder.clone() }),
            None => Err(GatewayAway::Never),
        }
    }

    /// Queues all objects when the last sign of a gateway gets too old.
    pub(crate) async fn watch(self: Arc<Self>, queues: ControllerQueues) {
        loop {
            tokio::time::sleep(LOOK).await;
            if self.lock().turned(Instant::now()) {
                queues.all();
            }
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
