//! One family: its entry in the catalog, and handles to count with. A handle takes the labels'
//! values in the order in which the catalog names them.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// A value that only grows, until the process ends.
    Counter,
    Gauge,
    /// A distribution: sum, count and buckets with these upper bounds.
    Histogram(&'static [f64]),
}

impl MetricKind {
    /// Returns the name as `OpenMetrics` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// A family with `N` labels.
#[derive(Debug)]
pub struct FamilySpec<const N: usize> {
    /// Name without prefix, unit and `_total`.
    pub name: &'static str,
    pub kind: MetricKind,
    /// Unit, which is part of its full name.
    pub unit: Option<&'static str>,
    pub labels: [&'static str; N],
    /// Meaning of the family, in a sentence without a full stop.
    pub help: &'static str,
}

/// Labels with their values.
type MetricLabels<const N: usize> = [(&'static str, String); N];

impl<const N: usize> FamilySpec<N> {
    /// Describes a family without a unit.
    pub const fn new(
        name: &'static str,
        kind: MetricKind,
        labels: [&'static str; N],
        help: &'static str,
    ) -> Self {
        Self { name, kind, unit: None, labels, help }
    }

    #[must_use]
    pub const fn unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    /// The labels with these values.
    fn with(&self, values: [&str; N]) -> MetricLabels<N> {
        std::array::from_fn(|i| (self.labels[i], values[i].to_owned()))
    }

    fn add_to(&self, registry: &mut Registry, family: impl Metric) {
        match self.unit {
            Some(unit) => {
                let unit = Unit::Other(unit.to_owned());
                registry.register_with_unit(self.name, self.help, unit, family);
            }
            None => registry.register(self.name, self.help, family),
        }
    }

    /// Registers it to be counted in whole steps.
    pub fn counts(&'static self, registry: &mut Registry) -> CountFamily<N> {
        let family = Family::default();
        self.add_to(registry, family.clone());
        CountFamily { spec: self, family }
    }

    /// Registers it to be counted in fractions.
    pub fn amounts(&'static self, registry: &mut Registry) -> AmountFamily<N> {
        let family = Family::default();
        self.add_to(registry, family.clone());
        AmountFamily { spec: self, family }
    }

    /// Registers it to be observed.
    pub fn times(&'static self, registry: &mut Registry) -> TimeFamily<N> {
        let buckets = match self.kind {
            MetricKind::Histogram(buckets) => buckets,
            MetricKind::Counter | MetricKind::Gauge => &[],
        };
        let family = Family::new_with_constructor(HistogramBuckets(buckets));
        self.add_to(registry, family.clone());
        TimeFamily { spec: self, family }
    }

    /// Writes samples that are gathered only when somebody reads the metrics.
    ///
    /// # Errors
    /// When the encoder can't write.
    pub fn write(
        &self,
        encoder: &mut DescriptorEncoder,
        samples: impl IntoIterator<Item = ([String; N], f64)>,
    ) -> fmt::Result {
        let unit = self.unit.map(|unit| Unit::Other(unit.to_owned()));
        let help = format!("{}.", self.help);
        let kind = MetricType::Gauge;
        let mut family = encoder.encode_descriptor(self.name, &help, unit.as_ref(), kind)?;
        for (values, sample) in samples {
            let labels = self.with(values.each_ref().map(String::as_str));
            ConstGauge::new(sample).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl FamilySpec<0> {
    /// Registers it as one number, 0 for now.
    pub fn level(&'static self, registry: &mut Registry) -> Gauge {
        let gauge = Gauge::default();
        self.add_to(registry, gauge.clone());
        gauge
    }
}

/// A counter of whole steps. Clones count together.
#[derive(Clone, Debug)]
pub struct CountFamily<const N: usize> {
    spec: &'static FamilySpec<N>,
    family: Family<MetricLabels<N>, Counter>,
}

impl<const N: usize> CountFamily<N> {
    pub fn one(&self, labels: [&str; N]) {
        self.add(labels, 1);
    }

    pub fn add(&self, labels: [&str; N], count: u64) {
        self.family.get_or_create(&self.spec.with(labels)).inc_by(count);
    }
}

/// A counter of fractions. Clones count together.
#[derive(Clone, Debug)]
pub struct AmountFamily<const N: usize> {
    spec: &'static FamilySpec<N>,
    family: Family<MetricLabels<N>, Counter<f64, AtomicU64>>,
}

impl<const N: usize> AmountFamily<N> {
    pub fn add(&self, labels: [&str; N], amount: f64) {
        self.family.get_or_create(&self.spec.with(labels)).inc_by(amount);
    }
}

/// A distribution of durations. Clones observe together.
#[derive(Clone, Debug)]
pub struct TimeFamily<const N: usize> {
    spec: &'static FamilySpec<N>,
    family: Family<MetricLabels<N>, Histogram, HistogramBuckets>,
}

impl<const N: usize> TimeFamily<N> {
    pub fn observe(&self, labels: [&str; N], took: Duration) {
        self.family.get_or_create(&self.spec.with(labels)).observe(took.as_secs_f64());
    }
}

#[derive(Clone, Debug)]
struct HistogramBuckets(&'static [f64]);

impl MetricConstructor<Histogram> for HistogramBuckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}
