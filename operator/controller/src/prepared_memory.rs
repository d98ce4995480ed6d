//! In-memory state of prepared volumes: the claim of which clones were not made in time, and since when clones are made.
//! The Repo's status has the first, too, once that has happened too often.

use std::collections::HashMap;

use codebutler_crds::Repo;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use crate::index::ObjectKey;

/// Time for which a clone that is being made is remembered. Each is given up long before.
const KEPT: SignedDuration = SignedDuration::from_hours(1);
/// Clones in a row that are too late before no more are tried: one alone can be a busy storage.
const MOST_LATE: usize = 3;

/// Clones of one claim that were not made in time, with none in between that was.
#[derive(Debug)]
struct LateClones {
    claim: String,
    /// Generation of the Repo: with another spec it may go otherwise.
    generation: Option<i64>,
    /// UIDs of the claims that waited: each counts once, however often it is found to be late.
    waited: Vec<String>,
}

#[derive(Debug, Default)]
pub(crate) struct PreparedVolumeMemory {
    /// Late clones of current claims, by their Repo.
    late: Mutex<HashMap<ObjectKey, LateClones>>,
    /// Start times of clones, by the UID of their claim.
    cloning: Mutex<HashMap<String, Timestamp>>,
}

impl PreparedVolumeMemory {
    /// The clone of this claim that another one (`waited`, a UID) waits for was not made in time. One of a claim that was
    /// replaced meanwhile says nothing about the current one.
    pub(crate) fn fail(&self, repo: &Repo, claim: &str, waited: &str) {
        let prepared = repo.status.as_ref().and_then(|status| status.prepared.as_ref());
        if prepared.is_some_and(|prepared| prepared.claim.as_deref() == Some(claim)) {
            let (mut all, generation) = (self.late.lock(), repo.metadata.generation);
            let none = || LateClones { claim: claim.to_owned(), generation, waited: Vec::new() };
            let late = all.entry(ObjectKey::of(repo)).or_insert_with(none);
            if late.claim != claim || late.generation != generation {
                *late = none();
            }
            if !late.waited.iter().any(|known| known == waited) {
                late.waited.push(waited.to_owned());
            }
        }
    }

    /// True once so many clones of this claim were late that no more are to be tried.
    pub(crate) fn has_failed(&self, repo: &Repo, claim: &str) -> bool {
        self.late.lock().get(&ObjectKey::of(repo)).is_some_and(|late| {
            late.claim == claim
                && late.generation == repo.metadata.generation
                && late.waited.len() >= MOST_LATE
        })
    }

    /// A claim of one of the Repo's Threads has its volume. If that is a clone that was waited for, clones work.
    pub(crate) fn note_made(&self, repo: &Repo, claim: &PersistentVolumeClaim) {
        if self.cloning.lock().remove(&claim.uid().unwrap_or_default()).is_some() {
            self.forget(repo);
        }
    }

    /// The Repo has another volume by now. It can have the same name: that is made from what the volume is made from.
    pub(crate) fn forget(&self, repo: &Repo) {
        self.late.lock().remove(&ObjectKey::of(repo));
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
    fn clones_that_are_late_in_a_row_count_for_the_current_volume_until_that_is_made_anew() {
        let memory = PreparedVolumeMemory::default();
        let mut repo = testing::repo();
        let claim = Some("shop-prep-1".to_owned());
        let prepared = PreparedStatus { claim, ..PreparedStatus::default() };
        repo.status.get_or_insert_default().prepared = Some(Box::new(prepared));
        let mut threads = 0;
        let mut fail = |repo: &Repo, claim: &str, times: u32| {
            for _ in 0..times {
                threads += 1;
                memory.fail(repo, claim, &format!("claim-of-{threads}"));
            }
            memory.has_failed(repo, claim)
        };
        assert!(!fail(&repo, "shop-prep-0", 3), "it was replaced meanwhile");
        for _ in 0..3 {
            memory.fail(&repo, "shop-prep-1", "waits");
        }
        assert!(
            !memory.has_failed(&repo, "shop-prep-1"),
            "one clone that is found late three times"
        );
        memory.forget(&repo);
        assert!(!fail(&repo, "shop-prep-1", 2), "the storage may be busy");
        // A clone is made after all: the driver can do it.
        let mut claim = PersistentVolumeClaim::default();
        claim.metadata.uid = Some("claim-1".to_owned());
        memory.note_made(&repo, &claim);
        assert!(fail(&repo, "shop-prep-1", 1), "that volume was no clone");
        memory.forget(&repo);
        assert!(!fail(&repo, "shop-prep-1", 2));
        memory.cloning_since(&claim, testing::now());
        memory.note_made(&repo, &claim);
        assert!(!fail(&repo, "shop-prep-1", 2));
        assert!(fail(&repo, "shop-prep-1", 1));
        repo.metadata.generation = Some(2);
        assert!(!memory.has_failed(&repo, "shop-prep-1"), "it may have more time now");
        assert!(!fail(&repo, "shop-prep-1", 2) && fail(&repo, "shop-prep-1", 1));
        memory.forget(&repo);
        assert!(!memory.has_failed(&repo, "shop-prep-1"));
    }
}
