//! Record of a Lease, and the rule by which it is free. Pure.

use std::time::{Duration, Instant};

use jiff::Timestamp;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LeaseRecord {
    /// Identity of the holder; empty when it was given up.
    pub holder: String,
    /// Time that others wait for the holder.
    pub duration: Duration,
    /// Time since which the holder has it.
    pub acquired: Timestamp,
    /// Time of the last renewal. For people: nobody here compares it with a clock.
    pub renewed: Timestamp,
    /// Number of times that the holder changed.
    pub transitions: i32,
}

impl LeaseRecord {
    /// Builds the record that `identity` writes at `now` to take the lease, or to go on holding it.
    pub(super) fn held_by(&self, identity: &str, duration: Duration, now: Timestamp) -> Self {
        let same = self.holder == identity;
        Self {
            holder: identity.to_owned(),
            duration,
            acquired: if same { self.acquired } else { now },
            renewed: now,
            transitions: self.transitions.saturating_add(i32::from(!same)),
        }
    }

    /// Builds the record that its holder writes to give it up.
    pub(super) fn given_up(&self, now: Timestamp) -> Self {
        let duration = Duration::from_secs(1);
        Self { holder: String::new(), duration, renewed: now, ..self.clone() }
    }
}

/// A candidate's observation of the lease, with the time of its last change by the candidate's own
/// clock.
#[derive(Clone, Debug)]
pub(super) struct ObservedLease {
    holder: String,
    version: String,
    duration: Duration,
    since: Instant,
}

impl ObservedLease {
    /// Takes in what was read at `now`; `before` is what was known.
    pub(super) fn next(
        before: Option<Self>,
        record: &LeaseRecord,
        version: &str,
        now: Instant,
    ) -> Self {
        match before {
            Some(before) if before.version == version => before,
            _ => Self {
                holder: record.holder.clone(),
                version: version.to_owned(),
                duration: record.duration,
                since: now,
            },
        }
    }

    /// Returns true if `identity` may take it at `now`.
    pub(super) fn is_free_for(&self, identity: &str, now: Instant) -> bool {
        self.holder.is_empty()
            || self.holder == identity
            || now.duration_since(self.since) > self.duration
    }
}
