//! Logging set-up, and the filter that can be changed while the process runs.

use std::sync::OnceLock;

use codebutler_crds::redact::log::{MaskedLog, OneLine};
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

use crate::args::TelemetryArgs;
use crate::traces::TraceExporter;

/// The filter of this process's log, which is one for all of it.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Spans are sent whatever is logged.
const SPANS: &str = "codebutler_operator=info";

/// Starts logging to stderr, credentials masked, and sending spans where a collector is named, until what is
/// answered is dropped. A filter that can't be parsed is reported and replaced by `info`.
pub fn init_telemetry(args: &TelemetryArgs, service: &'static str) -> Option<TraceExporter> {
    let (filter, problem) = match parse_filter(&args.log) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new(quiet_sessions("info")), Some(error)),
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
    let lines = lines.with_filter(filter);
    // A second call (tests) keeps the first subscriber.
    if tracing_subscriber::registry().with(lines).with(spans).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    if let Some(error) = untraced {
        tracing::error!(error = format!("{error:#}"), "no spans are sent");
    }
    if let Some(error) = problem {
        tracing::warn!(%error, filter = args.log, "unusable log filter, logging at `info`");
    }
    traces
}

/// Why the filter was not changed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// It is no filter.
    #[error("`{0}` is no filter: say `debug`, or `codebutler_operator::gateway=debug,info`")]
    Unparsed(String),
    /// Somebody else set logging up.
    #[error("this process does not log by a filter of its own")]
    Absent(#[from] reload::Error),
}

pub fn read_filter() -> Option<String> {
    FILTER.get()?.with_current(ToString::to_string).ok()
}

fn parse_filter(text: &str) -> Result<EnvFilter, ParseError> {
    EnvFilter::try_new(quiet_sessions(text))
}

/// The SDK of the Model Context Protocol logs each session at `info` with the words of its server, who is a stranger.
fn quiet_sessions(filter: &str) -> String {
    if filter.contains("rmcp") { filter.to_owned() } else { format!("{filter},rmcp=warn") }
}

/// Changes what is logged from now on, until the process ends.
///
/// # Errors
/// When it is no filter, or nothing is logged by one.
pub fn set_filter(filter: &str) -> Result<(), FilterError> {
    let text = filter.trim();
    let unparsed = || FilterError::Unparsed(text.chars().take(200).collect());
    let parsed = parse_filter(text).ok().filter(|_| !text.is_empty());
    let parsed = parsed.ok_or_else(unparsed)?;
    if let Some(handle) = FILTER.get() {
        handle.reload(parsed)?;
        tracing::info!(filter = text, "logging by another filter");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers_are_logged_for_those_who_ask_for_them_alone() {
        for (filter, whole) in [
            ("info", "info,rmcp=warn"),
            ("warn,codebutler_operator=debug", "warn,codebutler_operator=debug,rmcp=warn"),
            ("info,rmcp=debug", "info,rmcp=debug"),
        ] {
            assert_eq!(quiet_sessions(filter), whole);
            assert!(parse_filter(filter).is_ok(), "{filter}");
        }
    }
}
