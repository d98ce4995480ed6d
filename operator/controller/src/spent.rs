//! Seats that somebody has taken already, whatever the caches still show.

use std::collections::{BTreeMap, HashMap};

use codebutler_crds::{Repo, names};
use codebutler_runtime::recent::RecentMap;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use parking_lot::Mutex;

use super::index::ObjectKey;

/// Seats whose taking is remembered, until no watch shows them as waiting any more.
const REMEMBERED: usize = 1024;

/// Seats that some Thread has taken, or tried to, by their pod's UID: nobody tries them again.
#[derive(Debug)]
pub(crate) struct SpentSeats {
    /// Time of taking, by the UID of the pod.
    pods: Mutex<RecentMap<String, Timestamp>>,
    last: Mutex<HashMap<ObjectKey, SpentTimes>>,
}

/// Times of a Repo's taken seats.
#[derive(Debug)]
struct SpentTimes {
    /// The last time that one was taken.
    last: Timestamp,
    /// The time at which the newest of them was made, by role.
    made: BTreeMap<String, Timestamp>,
}

impl Default for SpentSeats {
    fn default() -> Self {
        Self { pods: Mutex::new(RecentMap::new(REMEMBERED)), last: Mutex::default() }
    }
}

impl SpentSeats {
    /// A Thread tries to take this one.
    pub(crate) fn spend(&self, repo: &Repo, pod: &Pod, now: Timestamp) {
        let Some(uid) = pod.uid() else { return };
        self.pods.lock().insert(uid, now);
        let made = pod.metadata.creation_timestamp.as_ref().map_or(now, |made| made.0);
        let name = pod.name_any();
        let Some((_, role)) = names::seat_of_pod(&repo.name_any(), &name) else { return };
        let mut last = self.last.lock();
        let times = last
            .entry(ObjectKey::of(repo))
            .or_insert_with(|| SpentTimes { last: now, made: BTreeMap::new() });
        times.last = now;
        let newest = times.made.entry(role.to_owned()).or_insert(made);
        *newest = made.max(*newest);
    }

    /// Time since which a Thread has the seat, or tries to take it.
    pub(crate) fn since(&self, pod: &Pod) -> Option<Timestamp> {
        self.pods.lock().get(&pod.uid()?).copied()
    }

    pub(crate) fn last(&self, repo: &ObjectKey) -> Option<Timestamp> {
        self.last.lock().get(repo).map(|times| times.last)
    }

    /// The time at which the newest of a role's taken seats was made.
    pub(crate) fn newest_made(&self, repo: &ObjectKey, role: &str) -> Option<Timestamp> {
        self.last.lock().get(repo)?.made.get(role).copied()
    }
}
