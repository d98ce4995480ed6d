//! What the host remembers besides Git, as a value, so that another life of it can go on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GitHubServer;
use super::state::Pull;

/// Pull requests by repository (`owner/name`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    next_id: u64,
    pulls: BTreeMap<String, BTreeMap<u64, Pull>>,
}

impl GitHubServer {
    /// What another life of this host needs besides its folder.
    pub async fn snapshot(&self) -> Snapshot {
        let all = self.shared.repositories.lock().await;
        let pulls = all.values().map(|one| (one.full_name(), one.pulls.clone()));
        Snapshot { pulls: pulls.collect(), next_id: self.shared.next_id() }
    }

    /// Takes up what an earlier life remembered of the repositories that exist.
    pub async fn restore(&self, mut snapshot: Snapshot) {
        let mut all = self.shared.repositories.lock().await;
        for repository in all.values_mut() {
            repository.pulls = snapshot.pulls.remove(&repository.full_name()).unwrap_or_default();
        }
        self.shared.next_id.fetch_max(snapshot.next_id, std::sync::atomic::Ordering::Relaxed);
    }
}
