//! The host's state besides Git as a value, so that a later run of the host can go on with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::GitHubServer;
use super::state::{HostedCheck, HostedIssue, HostedPull};

/// Pull requests, issues and checks by repository (`owner/name`).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct GitHubSnapshot {
    next_id: u64,
    pulls: BTreeMap<String, BTreeMap<u64, HostedPull>>,
    #[serde(default)]
    issues: BTreeMap<String, BTreeMap<u64, HostedIssue>>,
    #[serde(default)]
    checks: BTreeMap<String, Vec<HostedCheck>>,
}

impl GitHubServer {
    /// Saves the state that a later run of this host needs besides its folder.
    pub async fn snapshot(&self) -> GitHubSnapshot {
        let all = self.shared.repositories.lock().await;
        let pulls = all.values().map(|one| (one.full_name(), one.pulls.clone()));
        let issues = all.values().map(|one| (one.full_name(), one.issues.clone()));
        let checks = all.values().map(|one| (one.full_name(), one.checks.clone()));
        GitHubSnapshot {
            next_id: self.shared.next_id(),
            pulls: pulls.collect(),
            issues: issues.collect(),
            checks: checks.collect(),
        }
    }

    /// Takes up what an earlier life remembered of the repositories that exist.
    pub async fn restore(&self, mut snapshot: GitHubSnapshot) {
        let mut all = self.shared.repositories.lock().await;
        for repository in all.values_mut() {
            let name = repository.full_name();
            repository.pulls = snapshot.pulls.remove(&name).unwrap_or_default();
            repository.issues = snapshot.issues.remove(&name).unwrap_or_default();
            repository.checks = snapshot.checks.remove(&name).unwrap_or_default();
        }
        self.shared.next_id.fetch_max(snapshot.next_id, std::sync::atomic::Ordering::Relaxed);
    }
}
