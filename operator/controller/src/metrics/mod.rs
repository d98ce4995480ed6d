//! Metrics of the controller; the catalog says what each family means. [`state`] derives metrics from objects.

mod shares;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use codebutler_runtime::metrics::catalog::controller as catalog;
use codebutler_runtime::metrics::family::{CountFamily, TimeFamily};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use state::StateMetrics;

use crate::index::ObjectKey;

pub(crate) use state::ShownState;

/// Outcome of an attempt to reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookOutcome {
    Done,
    /// The cache was behind; the next look comes by itself.
    Stale,
    /// The look failed and is retried with backoff.
    Failed,
}

impl LookOutcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::Failed => "failed",
        }
    }
}

/// Handles to the families. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ControllerMetrics {
    leader: Gauge,
    duration: TimeFamily<1>,
    reconciles: CountFamily<2>,
    pods: CountFamily<2>,
    waits: TimeFamily<1>,
    volumes_cloned: CountFamily<1>,
    seats_taken: CountFamily<2>,
    seat_seconds: CountFamily<1>,
}

impl ControllerMetrics {
    pub(crate) fn register(registry: &mut Registry, shown: ShownState) -> Self {
        let metrics = Self {
            leader: catalog::LEADER.level(registry),
            duration: catalog::RECONCILE_DURATION.times(registry),
            reconciles: catalog::RECONCILES.counts(registry),
            pods: catalog::PODS_STARTED.counts(registry),
            waits: catalog::QUEUE_WAIT.times(registry),
            volumes_cloned: catalog::VOLUMES_CLONED.counts(registry),
            seats_taken: catalog::SEATS_TAKEN.counts(registry),
            seat_seconds: catalog::SEAT_SECONDS.counts(registry),
        };
        let leader = metrics.leader.clone();
        registry.register_collector(Box::new(StateMetrics { leader, shown }));
        metrics
    }

    pub(crate) fn leads(&self) {
        self.leader.set(1);
    }

    /// Marks this replica as one that does not act.
    pub(crate) fn follows(&self) {
        self.leader.set(0);
    }

    /// Counts a look at an object of `kind` that ended.
    pub(crate) fn reconciled(&self, kind: &'static str, outcome: LookOutcome, took: Duration) {
        self.duration.observe([kind], took);
        self.reconciles.one([kind, outcome.label()]);
    }

    pub(crate) fn pod_started(&self, repo: &str, role: &str) {
        self.pods.one([repo, role]);
    }

    /// A claim for the volume of a Thread is made, be it for a clone of a prepared one or for an empty one.
    pub(crate) fn volume_made(&self, repo: &str, is_clone: bool) {
        self.volumes_cloned.add([repo], is_clone.into());
    }

    pub(crate) fn seat_taken(&self, repo: &str, role: &str) {
        self.seats_taken.one([repo, role]);
    }

    /// A pod waits as a seat no longer, having done so for so long. All replicas see that, and the one that acts counts
    /// it.
    pub(crate) fn seat_ended(&self, repo: &ObjectKey, waited: Duration) {
        if self.leader.get() != 0 {
            self.seat_seconds.add([&*repo.to_string()], waited.as_secs());
        }
    }

    /// Roles of a Thread start, after they waited for a slot.
    pub(crate) fn waited(&self, repo: &str, wait: Duration) {
        self.waits.observe([repo], wait);
    }
}
