//! Logging set-up, and the filter that can be changed while the process runs.

use std::sync::OnceLock;

use codebutler_crds::redact::log::{MaskedLog, OneLine};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use crate::args::TelemetryArgs;
use crate::log_targets::translate_filter;
use crate::traces::TraceExporter;

/// The filter of this process's log, which is one for all of it.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Spans are sent whatever is logged.
const SPANS: &str = "codebutler=info";

/// Starts logging to stderr, credentials masked, and sending spans where a collector is named, until what is
/// answered is dropped. A filter that can't be parsed is reported and replaced by `info`.
pub fn init_telemetry(args: &TelemetryArgs, service: &'static str) -> Option<TraceExporter> {
    let (filter, problem) = match EnvFilter::try_new(translate_filter(&args.log)) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = if args.log_json {
        let lines = fmt::layer().with_writer(|| MaskedLog(std::io::stderr()));
        lines.json().flatten_event(true).boxed()
    } else {
        let lines = fmt::layer().with_writer(|| OneLine(MaskedLog(std::io::stderr())));
        lines.with_ansi(false).boxed()
    };
    let traces =
        args.traces.as_ref().map(|endpoint| TraceExporter::start(endpoint, service)).transpose();
    let (traces, untraced) = match traces {
        Ok(traces) => (traces, None),
        Err(error) => (None, Some(error)),
    };
    let spans = traces.as_ref().map(|traces| traces.layer().with_filter(EnvFilter::new(SPANS)));
    let lines = lines.with_filter(filter.and(filter_fn(may_log)));
    // A second call (tests) keeps the first subscriber.
    if tracing_subscriber::registry().with(lines).with(spans).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    if let Some(error) = untraced {
        tracing::error!(error = format!("{error:#}"), "trace_export_disabled");
    }
    if let Some(error) = problem {
        tracing::warn!(%error, filter = args.log, "log_filter_invalid");
    }
    traces
}

/// Reason why the filter was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The text is no filter.
    #[error("`{0}` is no filter: say `debug`, or `codebutler_gateway=debug,info`")]
    Unparsed(String),
    /// Somebody else set logging up.
    #[error("this process does not log by a filter of its own")]
    Absent(#[from] reload::Error),
}

pub fn read_filter() -> Option<String> {
    FILTER.get()?.with_current(ToString::to_string).ok()
}

/// The SDK of the Model Context Protocol logs each session at `info` with the words of its server, who is a stranger.
fn may_log(about: &Metadata<'_>) -> bool {
    *about.level() <= Level::WARN || !about.target().starts_with("rmcp")
}

/// Changes what is logged from now on, until the process ends.
///
/// # Errors
/// When it is no filter, or nothing is logged by one.
pub fn set_filter(filter: &str) -> Result<(), FilterError> {
    let text = filter.trim();
    let unparsed = || FilterError::Unparsed(text.chars().take(200).collect());
    let parsed = EnvFilter::try_new(translate_filter(text)).ok().filter(|_| !text.is_empty());
    let parsed = parsed.ok_or_else(unparsed)?;
    if let Some(handle) = FILTER.get() {
        handle.reload(parsed)?;
        tracing::info!(filter = text, "log_filter_changed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn words_of_servers_are_in_no_line() {
        let kept = Kept::default();
        let lines = fmt::layer().with_ansi(false).with_writer({
            let kept = kept.clone();
            move || kept.clone()
        });
        let lines = lines.with_filter(EnvFilter::new("debug").and(filter_fn(may_log)));
        tracing::subscriber::with_default(Registry::default().with(lines), || {
            tracing::info!(target: "rmcp::service", name = "obey", "initialized");
            tracing::warn!(target: "rmcp::service", "a stream ended");
            tracing::info!("serving");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("serving") && text.contains("a stream ended"), "{text}");
        assert!(!text.contains("obey"), "{text}");
    }
}
