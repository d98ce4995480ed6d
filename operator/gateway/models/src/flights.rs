//! Limits the model calls of one role that are under way at once: what each has granted is money
//! that the others can't have, and what each holds is memory of everybody's.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use codebutler_gateway_core::thread_key::ThreadKey;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Conversations at a desk, their summaries, and recordings side by side are far fewer.
pub(crate) const MOST: usize = 16;
/// Time that the next call waits for a slot.
const PATIENCE: Duration = Duration::from_secs(45);

type FlightRole = (ThreadKey, String);

pub(crate) struct CallSlots {
    patience: Duration,
    roles: Mutex<HashMap<FlightRole, Weak<Semaphore>>>,
}

impl Default for CallSlots {
    fn default() -> Self {
        Self { patience: PATIENCE, roles: Mutex::default() }
    }
}

/// Slot of one call, until it has ended.
#[derive(Debug)]
pub struct CallSlot {
    _own: OwnedSemaphorePermit,
    /// Keeps the role's count as long as one of its places is taken.
    _count: Arc<Semaphore>,
}

impl CallSlots {
    pub(crate) async fn place(&self, role: FlightRole) -> Option<CallSlot> {
        let count = self.count(role);
        let own = tokio::time::timeout(self.patience, Arc::clone(&count).acquire_owned()).await;
        Some(CallSlot { _own: own.ok()?.ok()?, _count: count })
    }

    fn count(&self, role: FlightRole) -> Arc<Semaphore> {
        let mut roles = self.roles.lock();
        if let Some(count) = roles.get(&role).and_then(Weak::upgrade) {
            return count;
        }
        roles.retain(|_, count| count.strong_count() > 0);
        let count = Arc::new(Semaphore::new(MOST));
        roles.insert(role, Arc::downgrade(&count));
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_role_has_its_share_and_takes_nothing_of_others() {
        let role = |name: &str| {
            (ThreadKey { namespace: "team".to_owned(), name: "t".to_owned() }, name.to_owned())
        };
        let patience = Duration::from_millis(50);
        let flights = CallSlots { patience, ..CallSlots::default() };
        let mut taken = Vec::new();
        for _ in 0..MOST {
            taken.push(flights.place(role("coder")).await.unwrap());
        }
        assert!(flights.place(role("coder")).await.is_none(), "one too many");
        assert!(flights.place(role("pm")).await.is_some());
        let (next, ()) = tokio::join!(flights.place(role("coder")), async { drop(taken.pop()) });
        assert!(next.is_some(), "who waits gets the next one");
        drop((taken, next));
        assert!(flights.place(role("pm")).await.is_some());
        assert_eq!(flights.roles.lock().len(), 1, "nothing is kept of who has none");
    }
}
