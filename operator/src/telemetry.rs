//! Logging set-up.

use tracing_subscriber::EnvFilter;

use crate::args::TelemetryArgs;

/// Starts logging to stderr. A filter that can't be parsed is reported and replaced by `info`.
pub fn init(args: &TelemetryArgs) {
    let (filter, problem) = match EnvFilter::try_new(&args.log) {
        Ok(filter) => (filter, None),
        Err(error) => (EnvFilter::new("info"), Some(error)),
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second call (tests) keeps the first subscriber.
    let _ = if args.log_json {
        builder.json().flatten_event(true).try_init()
    } else {
        builder.with_ansi(false).try_init()
    };
    if let Some(error) = problem {
        tracing::warn!(%error, filter = args.log, "unusable log filter, logging at `info`");
    }
}
