//! The gateway's flags and environment, parsed once. Nothing else in this crate reads the environment.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use codebutler_gateway_core::dial::DialOptions;
use codebutler_gateway_core::drain::GRACE;
use codebutler_gateway_core::history_follow::HistoryRetention;
use codebutler_runtime::quantity;
use url::Url;

use crate::pages::options::PagesOptions;
use crate::web::SearchOptions;

/// The gateway's configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewayArgs {
    /// The operator's own namespace.
    #[arg(long, env = "CODEBUTLER_NAMESPACE", default_value = "codebutler-system")]
    pub namespace: String,
    /// Namespaces whose Repos and Threads are looked after, separated by commas; all if absent. The
    /// AgentRoles of the operator's own namespace serve them too.
    #[arg(long, env = "CODEBUTLER_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Name of the gateway's Service: its certificate is made for `<service>.<namespace>.svc`.
    #[arg(long, env = "CODEBUTLER_GATEWAY_SERVICE", default_value = "codebutler-gateway")]
    pub service: String,
    /// Address on which agent pods connect (TLS).
    #[arg(long, env = "CODEBUTLER_LISTEN", default_value = "[::]:8443")]
    pub listen: SocketAddr,
    /// Address on which `/metrics`, `/healthz` and `/readyz` are served.
    #[arg(long, env = "CODEBUTLER_METRICS_ADDRESS", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,
    /// Name of the gateway's own pod: its identity among replicas.
    #[arg(long, env = "POD_NAME")]
    pub pod: Option<String>,
    /// The pod's address, to which the holder of the lease has the Service lead.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,
    /// Lease duration in seconds: a replica that is not heard of keeps the agents to itself for so long.
    #[arg(long, env = "CODEBUTLER_LEASE_SECONDS", default_value_t = 15,
          value_parser = clap::value_parser!(u64).range(3..=300))]
    pub lease_seconds: u64,
    /// Number of shards among which Repos are shared, each with a leader. A replica leads for one at most.
    #[arg(long, env = "CODEBUTLER_GATEWAY_SHARDS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub shards: u32,
    /// Seconds between being told to stop and being ended, as the pod has them: what is under way gets
    /// most of them.
    #[arg(long, env = "CODEBUTLER_GRACE_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(GRACE))]
    pub grace_seconds: u64,
    /// Number of the step point at which the process ends itself, for crash tests.
    #[arg(long, env = "CODEBUTLER_DIE_AT_STEP", hide = true)]
    pub die_at_step: Option<u64>,
    /// Work for one caller, such as git and looking through histories, gets only the processor time that nothing else
    /// in the container wants. For a gateway that has a container of its own.
    #[arg(long, env = "CODEBUTLER_IDLE_BACKGROUND_WORK")]
    pub idle_background_work: bool,
    /// Base URL of Slack's Web API.
    #[arg(long, env = "CODEBUTLER_SLACK_API", default_value = "https://slack.com/api")]
    pub slack_api: String,
    /// Connections to the outside.
    #[command(flatten)]
    pub dial: DialOptions,
    /// Folder for copies of the Repos' repositories. What is lost of it is fetched again.
    #[arg(long, env = "CODEBUTLER_GIT_CACHE", default_value = "/var/cache/codebutler")]
    pub git_cache: PathBuf,
    /// Room for these copies, such as 20Gi: those that nobody has asked for in the longest time go before
    /// it is full. Without it, they take what there is.
    #[arg(long, env = "CODEBUTLER_GIT_CACHE_LIMIT", value_parser = quantity::parse_flag)]
    pub git_cache_limit: Option<u64>,
    /// Folder for histories: what happened in each conversation. Nothing is kept without it.
    #[arg(long, env = "CODEBUTLER_HISTORY")]
    pub history: Option<PathBuf>,
    /// Object store for histories, such as `s3://bucket/folder`, `gs://…` or `az://…`, with what the variables
    /// `AWS_…`, `GOOGLE_…` or `AZURE_…` say. The folder holds what was read of it.
    #[arg(long, env = "CODEBUTLER_HISTORY_URL", requires = "history")]
    pub history_url: Option<Url>,
    /// Options of the pages on threads.
    #[command(flatten)]
    pub pages: PagesOptions,
    /// Address on which signed deliveries that begin Threads are taken (plain HTTP, for an ingress); nowhere if
    /// absent.
    #[arg(long, env = "CODEBUTLER_DELIVERIES_LISTEN")]
    pub deliveries_listen: Option<SocketAddr>,
    /// Days after its last event that a history is kept; an open Thread's always is.
    #[arg(long, env = "CODEBUTLER_HISTORY_DAYS", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub history_days: u32,
    /// Room for histories, such as 10Gi: the oldest go before it is full.
    #[arg(long, env = "CODEBUTLER_HISTORY_LIMIT", value_parser = quantity::parse_flag)]
    pub history_limit: Option<u64>,
    /// Options of the web search.
    #[command(flatten)]
    pub search: SearchOptions,
    /// Seconds between two polls of open pull requests for what people do with them.
    #[arg(long, env = "CODEBUTLER_GITHUB_POLL_SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub github_poll_seconds: u64,
    /// Seconds after which an agent is replaced that has something to do and says nothing.
    #[arg(long, env = "CODEBUTLER_AGENT_SILENCE_SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u32).range(15..=86_400))]
    pub agent_silence_seconds: u32,
}

impl GatewayArgs {
    /// The time between two looks at GitHub.
    pub const fn github_poll(&self) -> Duration {
        Duration::from_secs(self.github_poll_seconds)
    }

    /// Retention of histories, by age and size. The size leaves room for what is written until the next look.
    pub fn retention(&self) -> HistoryRetention {
        let age = Duration::from_hours(24) * self.history_days;
        HistoryRetention { age, size: self.history_limit.map(|bytes| bytes / 10 * 9) }
    }

    /// Quota of all histories together, below the limit: a volume that is full takes the gateway with it.
    pub fn history_space(&self) -> Option<u64> {
        self.history_limit.map(|bytes| bytes / 20 * 19)
    }

    /// Time for which an agent may be silent.
    pub const fn agent_silence(&self) -> Duration {
        Duration::from_secs(self.agent_silence_seconds as u64)
    }
}
