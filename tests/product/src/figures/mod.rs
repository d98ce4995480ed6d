//! The numbers that CodeButler promises, measured: `cargo figures NAME` prints one JSON object a line
//! and exits 0 only if every value is within its limit.
//!
//! Machines are noisy: where something is compared, both sides are measured in the same run, and the
//! ratio is what counts.

mod admission;
mod agent;
mod baseline;
mod chaos;
mod edits;
mod flood;
mod handover;
mod idle;
mod ingest;
mod learnings;
mod lighthouse;
mod mcp;
mod memory;
mod operator;
mod overlap;
mod packs;
mod pages;
mod price;
mod product;
mod proxy;
mod reconcile;
mod redact;
mod search;
mod shards;
mod snapshot;
pub mod table;
mod wake;
mod worktree;

use std::time::{Duration, Instant};

use serde::Serialize;

/// A measured value and its limit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MeasuredFigure {
    /// Name of the figure, such as `proxy.added_p50`.
    pub name: String,
    /// The measurement, in `unit`; for a comparison whose limit is a ratio, that ratio.
    pub value: f64,
    /// `ms`, `MiB`, `1/s`, `x` (a ratio), `count`.
    pub unit: &'static str,
    /// The promised limit of the value.
    pub limit: f64,
    /// The side of the limit on which the value has to be.
    pub bound: LimitBound,
    /// The compared thing's measurement in the same run, in the unit that the two share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<f64>,
    /// The measurement over the baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// The side of a limit on which a value is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitBound {
    /// The value must not be above the limit.
    Max,
    /// The value must not be below the limit.
    Min,
}

impl MeasuredFigure {
    /// A value that must not be above `limit`.
    #[must_use]
    pub fn at_most(name: &str, value: f64, unit: &'static str, limit: f64) -> Self {
        let name = name.to_owned();
        Self { name, value, unit, limit, bound: LimitBound::Max, baseline: None, ratio: None }
    }

    /// A value that must not be below `limit`.
    #[must_use]
    pub fn at_least(name: &str, value: f64, unit: &'static str, limit: f64) -> Self {
        Self { bound: LimitBound::Min, ..Self::at_most(name, value, unit, limit) }
    }

    /// A measurement and what it is compared with, whose ratio must not be above `limit`.
    #[must_use]
    pub fn ratio(name: &str, measured: f64, baseline: f64, limit: f64) -> Self {
        let ratio = measured / baseline;
        Self {
            baseline: Some(baseline),
            ratio: Some(ratio),
            ..Self::at_most(name, ratio, "x", limit)
        }
    }

    /// Adds what the same run measured elsewhere, for the reader; the limit stays on the value.
    #[must_use]
    pub fn beside(self, baseline: f64) -> Self {
        Self { ratio: Some(self.value / baseline), baseline: Some(baseline), ..self }
    }

    /// Adds the baseline as [`MeasuredFigure::beside`] does, if there is one.
    #[must_use]
    pub fn perhaps_beside(self, baseline: Option<f64>) -> Self {
        match baseline {
            Some(baseline) => self.beside(baseline),
            None => self,
        }
    }

    /// True if the value is within its limit.
    #[must_use]
    pub fn holds(&self) -> bool {
        match self.bound {
            LimitBound::Max => self.value <= self.limit,
            LimitBound::Min => self.value >= self.limit,
        }
    }
}

/// The value below which `percent` of the samples lie (nearest rank). Sorts `samples`; NaN if there
/// are none.
#[must_use]
pub fn find_percentile(samples: &mut [f64], percent: usize) -> f64 {
    samples.sort_by(f64::total_cmp);
    let rank = (samples.len() * percent).div_ceil(100).max(1);
    samples.get(rank - 1).copied().unwrap_or(f64::NAN)
}

/// The names that [`measure_figure`] knows.
pub const NAMES: &[&str] = &[
    "admission",
    "agent",
    "chaos",
    "edits",
    "flood",
    "handover",
    "ingest",
    "mcp",
    "memory",
    "overlap",
    "packs",
    "pages",
    "price",
    "proxy",
    "reconcile",
    "redact",
    "search",
    "shards",
    "snapshot",
    "wake",
    "worktree",
];

/// Measures what `name` stands for.
///
/// # Errors
/// When there is no such figure, or the measurement itself failed.
pub async fn measure_figure(name: &str) -> anyhow::Result<Vec<MeasuredFigure>> {
    match name {
        "admission" => admission::measure_admission().await,
        "agent" => Box::pin(agent::measure_agent()).await,
        "chaos" => Box::pin(chaos::measure_chaos()).await,
        "edits" => Box::pin(edits::measure_edits()).await,
        "flood" => Box::pin(flood::measure_flood()).await,
        "handover" => Box::pin(handover::measure_handover()).await,
        "ingest" => ingest::measure_ingest().await,
        "mcp" => Box::pin(mcp::measure_mcp()).await,
        "memory" => learnings::measure_memory(),
        "overlap" => Box::pin(overlap::measure_overlap()).await,
        "packs" => packs::measure_packs().await,
        "pages" => Box::pin(pages::measure_pages()).await,
        "price" => Box::pin(price::measure_price()).await,
        "proxy" => proxy::measure_proxy().await,
        "reconcile" => reconcile::measure_reconcile().await,
        "redact" => redact::measure_redact(),
        "search" => search::measure_search(),
        "shards" => Box::pin(shards::measure_shards()).await,
        "snapshot" => snapshot::measure_snapshot().await,
        "wake" => Box::pin(wake::measure_wake()).await,
        "worktree" => worktree::measure_worktree().await,
        _ => anyhow::bail!("there is no figure `{name}`; the figures are: {}", NAMES.join(", ")),
    }
}

/// A debug build measures nothing worth a limit: it plays each figure in a short form, without what it is
/// compared with elsewhere, to show that it runs.
const SHORT: bool = cfg!(debug_assertions);

const fn long_or_short(long: usize, short: usize) -> usize {
    if SHORT { short } else { long }
}

/// Interval between two looks.
const AGAIN: Duration = Duration::from_millis(50);

/// Looks until there is an answer; says what was missing after `patience`.
async fn wait_until<T, F>(
    what: &str,
    patience: Duration,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<T>
where
    F: Future<Output = anyhow::Result<Option<T>>>,
{
    let deadline = Instant::now() + patience;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        anyhow::ensure!(Instant::now() < deadline, "gave up waiting for {what}");
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let pick = |p, samples: &mut [f64]| find_percentile(samples, p);
        assert!((pick(50, &mut samples) - 50.0).abs() < f64::EPSILON);
        assert!((pick(99, &mut samples) - 99.0).abs() < f64::EPSILON);
        assert!((pick(100, &mut [3.0]) - 3.0).abs() < f64::EPSILON);
        assert!(pick(50, &mut []).is_nan());
    }

    #[test]
    fn a_value_on_the_wrong_side_breaks_the_promise() {
        assert!(MeasuredFigure::at_most("a", 1.0, "ms", 1.0).holds());
        assert!(!MeasuredFigure::at_most("a", 1.1, "ms", 1.0).holds());
        assert!(!MeasuredFigure::at_least("a", 0.9, "1/s", 1.0).holds());
        assert!(!MeasuredFigure::ratio("a", 4.0, 2.0, 1.2).holds());
        assert!(!MeasuredFigure::at_most("a", f64::NAN, "ms", 1.0).holds());
    }
}
