//! Flags that every process of the operator has.

use std::time::Duration;

use url::Url;

use crate::lease::LeaseSettings;

/// Flags of logs and traces.
#[derive(Debug, clap::Args)]
pub struct TelemetryArgs {
    /// `tracing` filter, such as `info` or `codebutler=debug,info`.
    #[arg(long, env = "CODEBUTLER_LOG", default_value = "info", global = true)]
    pub log: String,
    /// One JSON object a line instead of text.
    #[arg(long, env = "CODEBUTLER_LOG_JSON", global = true)]
    pub log_json: bool,
    /// Collector that spans are sent to over OTLP (HTTP, protobuf), such as
    /// `http://collector.monitoring:4318`; none if absent.
    #[arg(long, env = "CODEBUTLER_TRACES", global = true)]
    pub traces: Option<Url>,
}

/// Flags of the lease that one of several replicas holds.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LeaseArgs {
    /// Who this process is among its replicas: the pod's name and UID, so that a container that is
    /// started again goes on at once. A random name if absent.
    #[arg(long, env = "CODEBUTLER_IDENTITY")]
    pub identity: Option<String>,
    /// Seconds until another replica takes over from one that is not heard of.
    #[arg(long, env = "CODEBUTLER_LEASE_SECONDS", default_value_t = 15,
          value_parser = clap::value_parser!(u16).range(3..=300))]
    pub lease_seconds: u16,
}

impl LeaseArgs {
    /// The settings of one lease.
    pub fn settings(&self, namespace: &str, name: &str) -> LeaseSettings {
        let random = || format!("{:016x}", rand::random::<u64>());
        LeaseSettings {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: self.identity.clone().unwrap_or_else(random),
            duration: Duration::from_secs(self.lease_seconds.max(3).into()),
        }
    }
}
