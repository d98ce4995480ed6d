//! Throughput of the scan for secrets on ordinary text, and a check that it misses none of the corpus.

use std::time::{Duration, Instant};

use codebutler_gateway_core::redact::SecretRedactor;
use codebutler_testbed::corpus;

use super::{MeasuredFigure, SHORT, long_or_short};

/// Duration of the measurement.
const MEASURE: Duration = Duration::from_millis(if SHORT { 100 } else { 3000 });
/// Ordinary text for the measurement: the project's own words and code.
const ORDINARY: [&str; 5] = [
    include_str!("../../../../README.md"),
    include_str!("../../../../seeds/global.md"),
    include_str!("../../../../seeds/workflows.md"),
    include_str!("../../../src/slack/delivery.rs"),
    include_str!("../../../src/apiserver/store.rs"),
];

/// Throughput on ordinary text; misses and false alarms on the corpus.
pub(super) fn measure_redact() -> anyhow::Result<Vec<MeasuredFigure>> {
    let (redactor, _) = SecretRedactor::new(&[]);
    let text = ORDINARY.join("\n").repeat(long_or_short(20, 1));
    let mut best = 0.0_f64;
    let started = Instant::now();
    while started.elapsed() < MEASURE {
        let once = Instant::now();
        std::hint::black_box(redactor.find(std::hint::black_box(&text)));
        #[allow(clippy::cast_precision_loss)] // megabytes
        let megabytes = text.len() as f64 / 1e6;
        best = best.max(megabytes / once.elapsed().as_secs_f64());
    }
    let entries = corpus::redaction_corpus()?;
    let wrong = |secret: bool| {
        let of_kind = entries.iter().filter(|entry| entry.is_secret() == secret);
        let wrong = of_kind.filter(|entry| redactor.mask(&entry.text) != entry.masked).count();
        f64::from(u32::try_from(wrong).unwrap_or(u32::MAX))
    };
    Ok(vec![
        MeasuredFigure::at_least("redact.throughput", best, "MB/s", 200.0),
        MeasuredFigure::at_most("redact.misses", wrong(true), "count", 0.0),
        MeasuredFigure::at_most("redact.false_alarms", wrong(false), "count", 0.0),
        MeasuredFigure::at_least(
            "redact.corpus",
            f64::from(u32::try_from(entries.len()).unwrap_or(u32::MAX)),
            "count",
            300.0,
        ),
    ])
}
