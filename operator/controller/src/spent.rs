//! Seats that somebody has taken already, whatever the caches still show.

use std::collections::HashMap;

use codebutler_crds::Repo;
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
    /// The last time of that, by Repo, and when the newest of them was made.
    last: Mutex<HashMap<ObjectKey, (Timestamp, Timestamp)>>,
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
        let mut last = self.last.lock();
        let newest = last.get(&ObjectKey::of(repo)).map_or(made, |(_, newest)| made.max(*newest));
        last.insert(ObjectKey::of(repo), (now, newest));
    }

    /// Time since which a Thread has the seat, or tries to take it.
    pub(crate) fn since(&self, pod: &Pod) -> Option<Timestamp> {
        self.pods.lock().get(&pod.uid()?).copied()
    }

    pub(crate) fn last(&self, repo: &ObjectKey) -> Option<Timestamp> {
        self.last.lock().get(repo).map(|(last, _)| *last)
    }

    /// The time at which the newest of the Repo's taken seats was made.
    pub(crate) fn newest_made(&self, repo: &ObjectKey) -> Option<Timestamp> {
        self.last.lock().get(repo).map(|(_, made)| *made)
    }
}
