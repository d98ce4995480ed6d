//! In-memory state of prepared volumes: the claim of which no clone was made in time, and since when clones are made. The
//! Repo's status has the first, too, after its next look.

use std::collections::HashMap;

use codebutler_crds::Repo;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::index::ObjectKey;

/// Time for which a clone that is being made is remembered. Each is given up long before.
const KEPT: SignedDuration = SignedDuration::from_hours(1);

#[derive(Debug, Default)]
pub(crate) struct PreparedVolumeMemory {
    /// Claims that can't be cloned, by their Repo.
    failed: Mutex<HashMap<ObjectKey, String>>,
    /// Start times of clones, by the UID of their claim.
    cloning: Mutex<HashMap<String, Timestamp>>,
}

impl PreparedVolumeMemory {
    /// No clone of this claim was made in time. One that was replaced meanwhile says nothing about the current one.
    pub(crate) fn fail(&self, repo: &Repo, claim: &str) {
        let prepared = repo.status.as_ref().and_then(|status| status.prepared.as_ref());
        if prepared.is_some_and(|prepared| prepared.claim.as_deref() == Some(claim)) {
            self.failed.lock().insert(ObjectKey::of(repo), claim.to_owned());
        }
    }

    pub(crate) fn has_failed(&self, repo: &Repo, claim: &str) -> bool {
        self.failed.lock().get(&ObjectKey::of(repo)).is_some_and(|failed| failed == claim)
    }

    /// The Repo has another volume by now. It can have the same name: that is made from what the volume is made from.
    pub(crate) fn forget(&self, repo: &Repo) {
        self.failed.lock().remove(&ObjectKey::of(repo));
    }

    /// Time since which the driver makes this claim's volume, as far as this process knows.
    pub(crate) fn cloning_since(&self, claim: &PersistentVolumeClaim, now: Timestamp) -> Timestamp {
        let mut cloning = self.cloning.lock();
        cloning.retain(|_, since| now.duration_since(*since) < KEPT);
        *cloning.entry(claim.uid().unwrap_or_default()).or_insert(now)
    }
}

#[cfg(test)]
mod tests {
    use codebutler_crds::prepared::PreparedStatus;

    use super::*;
    use crate::testing;

    #[test]
    fn a_clone_that_failed_counts_for_the_current_volume_until_that_is_made_anew() {
        let memory = PreparedVolumeMemory::default();
        let mut repo = testing::repo();
        let claim = Some("shop-prep-1".to_owned());
        let prepared = PreparedStatus { claim, ..PreparedStatus::default() };
        repo.status.get_or_insert_default().prepared = Some(Box::new(prepared));
        memory.fail(&repo, "shop-prep-0");
        assert!(
            !memory.has_failed(&repo, "shop-prep-0") && !memory.has_failed(&repo, "shop-prep-1")
        );
        memory.fail(&repo, "shop-prep-1");
        assert!(memory.has_failed(&repo, "shop-prep-1"));
        memory.forget(&repo);
        assert!(!memory.has_failed(&repo, "shop-prep-1"));
    }
}
