//! What is counted about Slack. Labels are bounded: never a thread, user or message id.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// Outcome of one envelope.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct EnvelopeLabels {
    /// What became of it: `message`, `click`, `ignored`, `unknown`, `failed`.
    pub outcome: &'static str,
}

/// Outcome of one Web API call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CallLabels {
    /// Slack's method.
    pub method: &'static str,
    /// `ok`, `refused`, `limited` or `failed`.
    pub outcome: &'static str,
}

/// Slack's metrics. Clones count together.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Envelopes by outcome.
    pub envelopes: Family<EnvelopeLabels, Counter>,
    /// Web API calls by method and outcome.
    pub calls: Family<CallLabels, Counter>,
    /// Seconds from an envelope's arrival to its acknowledgement.
    pub ack_seconds: Histogram,
    /// Open sockets.
    pub sockets: Gauge,
}

impl Metrics {
    /// Creates and registers them.
    pub fn new(registry: &mut Registry) -> Self {
        let buckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5];
        let metrics = Self {
            envelopes: Family::default(),
            calls: Family::default(),
            ack_seconds: Histogram::new(buckets),
            sockets: Gauge::default(),
        };
        registry.register(
            "slack_envelopes",
            "Socket Mode envelopes by what became of them",
            metrics.envelopes.clone(),
        );
        registry.register(
            "slack_calls",
            "Slack Web API calls by method and outcome",
            metrics.calls.clone(),
        );
        registry.register(
            "slack_ack_seconds",
            "Seconds from an envelope's arrival to its acknowledgement, after its effect was stored",
            metrics.ack_seconds.clone(),
        );
        registry.register(
            "slack_sockets",
            "Open Socket Mode connections",
            metrics.sockets.clone(),
        );
        metrics
    }
}
