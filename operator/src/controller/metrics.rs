//! The controller's own metric families.

use std::collections::HashMap;
use std::time::Duration;

use codebutler_crds::Thread;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// How an attempt to reconcile ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// The cache was behind; the next look comes by itself.
    Stale,
    /// It failed and is tried again with backoff.
    Failed,
}

impl Outcome {
    const fn label(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Stale => "stale",
            Self::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OutcomeLabels {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PodLabels {
    repo: String,
    role: String,
}

/// Handles to the families. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Metrics {
    duration: Family<KindLabels, Histogram>,
    reconciles: Family<OutcomeLabels, Counter>,
    pods: Family<PodLabels, Counter>,
}

impl Metrics {
    /// Registers all families; `threads` is counted when somebody reads the metrics.
    pub fn register(registry: &mut Registry, threads: Store<Thread>) -> Self {
        let metrics = Self {
            duration: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.000_5, 2.0, 14))
            }),
            reconciles: Family::default(),
            pods: Family::default(),
        };
        registry.register_with_unit(
            "reconcile_duration",
            "How long one look at an object took",
            Unit::Seconds,
            metrics.duration.clone(),
        );
        let help = "Looks at objects by how they ended";
        registry.register("reconciles", help, metrics.reconciles.clone());
        registry.register("pods_started", "Agent pods that were created", metrics.pods.clone());
        registry.register_collector(Box::new(ThreadsByPhase(threads)));
        metrics
    }

    /// One look at an object of `kind` ended.
    pub fn reconciled(&self, kind: &'static str, outcome: Outcome, took: Duration) {
        self.duration.get_or_create(&KindLabels { kind }).observe(took.as_secs_f64());
        let labels = OutcomeLabels { kind, outcome: outcome.label() };
        self.reconciles.get_or_create(&labels).inc();
    }

    /// A pod was created.
    pub fn pod_started(&self, repo: &str, role: &str) {
        let labels = PodLabels { repo: repo.to_owned(), role: role.to_owned() };
        self.pods.get_or_create(&labels).inc();
    }
}

#[derive(Debug)]
struct ThreadsByPhase(Store<Thread>);

impl Collector for ThreadsByPhase {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let mut counts = HashMap::<String, i64>::new();
        for thread in self.0.state() {
            let phase = thread.status.as_ref().and_then(|status| status.phase.clone());
            *counts.entry(phase.unwrap_or_else(|| "new".to_owned())).or_default() += 1;
        }
        let help = "Threads by phase";
        let mut family = encoder.encode_descriptor("threads", help, None, MetricType::Gauge)?;
        for (phase, count) in counts {
            ConstGauge::new(count).encode(family.encode_family(&[("phase", phase)])?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::testing;
    use kube::runtime::reflector::store::Writer;
    use kube::runtime::watcher::Event;

    #[test]
    fn families_have_the_promised_names_and_no_thread_in_their_labels() {
        let mut threads = Writer::default();
        let thread = testing::thread(&serde_json::json!({"phase": "coder"}));
        threads.apply_watcher_event(&Event::Apply(thread));
        let mut registry = crate::metrics::registry();
        let metrics = Metrics::register(&mut registry, threads.as_reader());
        metrics.reconciled("Thread", Outcome::Done, Duration::from_millis(2));
        metrics.pod_started("shop", "pm");

        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            "codebutler_threads{phase=\"coder\"} 1\n",
            "codebutler_reconciles_total{kind=\"Thread\",outcome=\"done\"} 1\n",
            "codebutler_reconcile_duration_seconds_count{kind=\"Thread\"} 1\n",
            "codebutler_pods_started_total{repo=\"shop\",role=\"pm\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
        assert!(!text.contains("shop-"), "{text}");
    }
}
