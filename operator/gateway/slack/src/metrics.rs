//! Metrics of Slack; the catalog says what each family means.

use std::sync::Arc;
use std::time::Duration;

use codebutler_runtime::metrics::catalog::gateway as catalog;
use codebutler_runtime::metrics::family::{CountFamily, TimeFamily};
use codebutler_runtime::recent::RecentKeys;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Slack's metrics. Clones count together.
#[derive(Clone, Debug)]
pub struct SlackMetrics {
    envelopes: CountFamily<1>,
    calls: CountFamily<2>,
    unread: CountFamily<1>,
    feedback: CountFamily<3>,
    /// Paths that were logged already.
    logged: Arc<RecentKeys<String>>,
    acks: TimeFamily<0>,
    sockets: Gauge,
    sends: Gauge,
}

impl SlackMetrics {
    /// Creates and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        Self {
            envelopes: catalog::SLACK_ENVELOPES.counts(registry),
            calls: catalog::SLACK_CALLS.counts(registry),
            unread: catalog::SLACK_UNREAD.counts(registry),
            feedback: catalog::SLACK_FEEDBACK.counts(registry),
            logged: Arc::default(),
            acks: catalog::SLACK_ACK.times(registry),
            sockets: catalog::SLACK_SOCKETS.level(registry),
            sends: catalog::SLACK_SENDS_WAITING.level(registry),
        }
    }

    /// Counts an envelope by outcome: `message`, `click`, `reaction`, `ignored`, `unreadable`, `unknown`,
    /// `failed`.
    pub fn envelope(&self, outcome: &'static str) {
        self.envelopes.one([outcome]);
    }

    /// Counts fields that could not be read, given as paths, and logs each path once, without its value.
    pub fn unread<'a>(&self, paths: impl IntoIterator<Item = &'a str>) {
        for path in paths {
            self.unread.one([path]);
            if self.logged.first_time(path.to_owned()) {
                tracing::warn!(path, "slack_field_unreadable");
            }
        }
    }

    /// Counts a Web API call by outcome: `ok`, `refused`, `limited` or `failed`.
    pub fn call(&self, method: &'static str, outcome: &'static str) {
        self.calls.one([method, outcome]);
    }

    /// Creates a role's feedback counters at zero, once it has posted an answer that people are asked about: a
    /// rate needs the value before the first word on it.
    pub fn rated(&self, repo: &str, role: &str) {
        for answer in ["yes", "no"] {
            self.feedback.add([repo, role, answer], 0);
        }
    }

    /// Counts a rating of an answer, new or changed.
    pub fn feedback(&self, repo: &str, role: &str, helps: bool) {
        self.feedback.one([repo, role, if helps { "yes" } else { "no" }]);
    }

    /// Records the time until an envelope was acknowledged.
    pub fn acknowledged(&self, took: Duration) {
        self.acks.observe([], took);
    }

    /// Counts an open socket until the returned value is dropped.
    pub fn socket(&self) -> HeldGauge {
        HeldGauge::new(&self.sockets)
    }

    /// Counts a message that waits to be sent until the returned value is dropped.
    pub fn send_waits(&self) -> HeldGauge {
        HeldGauge::new(&self.sends)
    }
}

/// Adds one to a gauge until dropped.
#[derive(Debug)]
pub struct HeldGauge(Gauge);

impl HeldGauge {
    fn new(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for HeldGauge {
    fn drop(&mut self) {
        self.0.dec();
    }
}
