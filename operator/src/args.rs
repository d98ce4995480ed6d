//! Flags and environment, parsed once. Nothing else in this crate reads the environment.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use codebutler_crds::PodSettings;
use codebutler_crds::pods::PullPolicy;
use codebutler_history::ThreadPlace;
use url::Url;

use crate::gateway::dial::DialOptions;
use crate::gateway::history::follow::HistoryRetention;
use crate::gateway::pages::options::PagesOptions;
use crate::gateway::web::SearchOptions;
use crate::lease::LeaseSettings;

/// Seconds that a gateway may be given to stop.
pub const GRACE: RangeInclusive<u64> = 30..=3600;

/// `codebutler-operator`
#[derive(Debug, Parser)]
#[command(name = "codebutler-operator", version)]
pub struct OperatorArgs {
    /// Logging.
    #[command(flatten)]
    pub telemetry: TelemetryArgs,
    /// Which process to be.
    #[command(subcommand)]
    pub command: OperatorCommand,
}

/// The two processes, and their documentation.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Turns Repos, AgentRoles and Threads into pods and volumes.
    Controller(Box<ControllerArgs>),
    /// Holds the secrets: Slack, model APIs, Git and GitHub go through it.
    Gateway(Box<GatewayCommand>),
    /// Prints the list of metrics as a Markdown page.
    Metrics,
    /// Prints what happened in a conversation, or takes somebody's words out of all that are kept.
    History(Box<HistoryArgs>),
}

/// How a history is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum HistoryForm {
    /// As it is kept: one JSON object a line.
    #[default]
    Lines,
    /// One JSON object in the Agent Trajectory Interchange Format.
    Atif,
}

impl OperatorCommand {
    /// As what its spans are known.
    pub const fn service(&self) -> &'static str {
        match self {
            Self::Controller(_) => "codebutler-controller",
            Self::Gateway(_) | Self::Metrics | Self::History(_) => "codebutler-gateway",
        }
    }
}

/// Which history to print.
#[derive(Clone, Debug, clap::Args)]
pub struct HistoryArgs {
    /// The conversation: NAMESPACE/THREAD.
    #[arg(required_unless_present = "forget")]
    pub thread: Option<ThreadPlace>,
    /// Object store of histories, as the gateway's flag has it.
    #[arg(long, env = "CODEBUTLER_HISTORY_URL")]
    pub history_url: Option<Url>,
    /// Connections to the outside.
    #[command(flatten)]
    pub dial: DialOptions,
    /// In which form.
    #[arg(long, value_enum, default_value_t)]
    pub form: HistoryForm,
    /// Takes out of all histories what this Slack user said, and what quotes it, instead.
    #[arg(long, value_name = "USER", conflicts_with = "thread", value_parser = slack_user)]
    pub forget: Option<String>,
    /// Folder of histories.
    #[arg(long, env = "CODEBUTLER_HISTORY", default_value = "/var/lib/codebutler/history")]
    pub history: PathBuf,
}

fn slack_user(value: &str) -> Result<String, String> {
    let plain = value.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if plain && (3..=21).contains(&value.len()) && value.starts_with(['U', 'W']) {
        return Ok(value.to_owned());
    }
    Err("give a Slack user id, such as U0123ABCD".to_owned())
}

/// How to log.
#[derive(Debug, clap::Args)]
pub struct TelemetryArgs {
    /// `tracing` filter, such as `info` or `codebutler_operator=debug,info`.
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

/// Which of several replicas acts.
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

/// The controller's configuration.
#[derive(Clone, Debug, clap::Args)]
pub struct ControllerArgs {
    /// The operator's own namespace: AgentRoles that a Repo's namespace lacks, and the gateway's
    /// Service and CA, are looked up here.
    #[arg(long, env = "CODEBUTLER_NAMESPACE", default_value = "codebutler-system")]
    pub namespace: String,
    /// Namespaces whose Repos and Threads are looked after, separated by commas; all if absent. The
    /// AgentRoles of the operator's own namespace serve them too.
    #[arg(long, env = "CODEBUTLER_NAMESPACES", value_delimiter = ',')]
    pub namespaces: Vec<String>,
    /// Name of the gateway's Service in that namespace.
    #[arg(long, env = "CODEBUTLER_GATEWAY_SERVICE", default_value = "codebutler-gateway")]
    pub gateway_service: String,
    /// The agents' port of that Service.
    #[arg(long, env = "CODEBUTLER_GATEWAY_PORT", default_value_t = 8443)]
    pub gateway_port: u16,
    /// Image with the agent binary.
    #[arg(long, env = "CODEBUTLER_AGENT_IMAGE", default_value = "codebutler-agent:0.1.0")]
    pub agent_image: String,
    /// Image for commands where an AgentRole names none.
    #[arg(long, env = "CODEBUTLER_WORKSPACE_IMAGE", default_value = "debian:12")]
    pub workspace_image: String,
    /// Secrets with which nodes pull the images of agent pods, beside those of an AgentRole; in the
    /// namespace of the Threads.
    #[arg(long, env = "CODEBUTLER_AGENT_PULL_SECRETS", value_delimiter = ',')]
    pub agent_pull_secrets: Vec<String>,
    /// The cluster's DNS servers, which agent pods must not reach and try to; those of the
    /// controller's own `/etc/resolv.conf` if absent.
    #[arg(long, env = "CODEBUTLER_CLUSTER_DNS", value_delimiter = ',')]
    pub cluster_dns: Vec<IpAddr>,
    /// When nodes pull the images that the installation brings into agent pods; as the cluster has it
    /// if absent.
    #[arg(long, env = "CODEBUTLER_AGENT_PULL_POLICY", value_parser = pull_policy)]
    pub agent_pull_policy: Option<PullPolicy>,
    /// What is added to all agent pods, under what Repos and AgentRoles add: JSON, as a Repo's
    /// `spec.pods` has it.
    #[arg(long, env = "CODEBUTLER_AGENT_PODS", default_value = "{}", value_parser = pod_settings)]
    pub agent_pods: Box<PodSettings>,
    /// Which replica acts.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    #[arg(long, env = "CODEBUTLER_METRICS_ADDRESS", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,
}

fn pull_policy(value: &str) -> Result<PullPolicy, String> {
    serde_json::from_value(value.into())
        .map_err(|_| "choose one of Always, IfNotPresent and Never".to_owned())
}

fn pod_settings(value: &str) -> Result<Box<PodSettings>, String> {
    serde_json::from_str(value).map(Box::new).map_err(|error| error.to_string())
}

/// The gateway, and what its node is trusted with.
#[derive(Clone, Debug, clap::Args)]
pub struct GatewayCommand {
    /// Its configuration.
    #[command(flatten)]
    pub gateway: GatewayArgs,
    /// Runs git also where the kernel has no Landlock: a mistake in it reaches what the container holds.
    #[arg(long, env = "CODEBUTLER_GIT_WITHOUT_LANDLOCK")]
    pub git_without_landlock: bool,
}

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
    /// Where agent pods connect (TLS).
    #[arg(long, env = "CODEBUTLER_LISTEN", default_value = "[::]:8443")]
    pub listen: SocketAddr,
    /// Where `/metrics`, `/healthz` and `/readyz` are served.
    #[arg(long, env = "CODEBUTLER_METRICS_ADDRESS", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,
    /// Name of the gateway's own pod: its identity among replicas.
    #[arg(long, env = "POD_NAME")]
    pub pod: Option<String>,
    /// The pod's address, to which the holder of the lease has the Service lead.
    #[arg(long, env = "POD_IP")]
    pub pod_ip: Option<IpAddr>,
    /// How long a replica that is not heard of keeps the agents to itself, in seconds.
    #[arg(long, env = "CODEBUTLER_LEASE_SECONDS", default_value_t = 15,
          value_parser = clap::value_parser!(u64).range(3..=300))]
    pub lease_seconds: u64,
    /// Seconds between being told to stop and being ended, as the pod has them: what is under way gets
    /// most of them.
    #[arg(long, env = "CODEBUTLER_GRACE_SECONDS", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(GRACE))]
    pub grace_seconds: u64,
    /// For crash tests: the process ends itself at the n-th of its step points.
    #[arg(long, env = "CODEBUTLER_DIE_AT_STEP", hide = true)]
    pub die_at_step: Option<u64>,
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
    #[arg(long, env = "CODEBUTLER_GIT_CACHE_LIMIT", value_parser = crate::quantity::parse_flag)]
    pub git_cache_limit: Option<u64>,
    /// Folder for histories: what happened in each conversation. Nothing is kept without it.
    #[arg(long, env = "CODEBUTLER_HISTORY")]
    pub history: Option<PathBuf>,
    /// Object store for histories, such as `s3://bucket/folder`, `gs://…` or `az://…`, with what the variables
    /// `AWS_…`, `GOOGLE_…` or `AZURE_…` say. The folder holds what was read of it.
    #[arg(long, env = "CODEBUTLER_HISTORY_URL", requires = "history")]
    pub history_url: Option<Url>,
    /// Pages on threads.
    #[command(flatten)]
    pub pages: PagesOptions,
    /// Where signed deliveries that begin Threads are taken (plain HTTP, for an ingress); nowhere if absent.
    #[arg(long, env = "CODEBUTLER_DELIVERIES_LISTEN")]
    pub deliveries_listen: Option<SocketAddr>,
    /// Days after its last event that a history is kept; an open Thread's always is.
    #[arg(long, env = "CODEBUTLER_HISTORY_DAYS", default_value_t = 365,
          value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub history_days: u32,
    /// Room for histories, such as 10Gi: the oldest go before it is full.
    #[arg(long, env = "CODEBUTLER_HISTORY_LIMIT", value_parser = crate::quantity::parse_flag)]
    pub history_limit: Option<u64>,
    /// Web search.
    #[command(flatten)]
    pub search: SearchOptions,
    /// How often open pull requests are looked at for what people do with them, in seconds.
    #[arg(long, env = "CODEBUTLER_GITHUB_POLL_SECONDS", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub github_poll_seconds: u64,
    /// An agent that has something to do and says nothing for so long is replaced, in seconds.
    #[arg(long, env = "CODEBUTLER_AGENT_SILENCE_SECONDS", default_value_t = 600,
          value_parser = clap::value_parser!(u32).range(15..=86_400))]
    pub agent_silence_seconds: u32,
}

impl GatewayArgs {
    /// The time between two looks at GitHub.
    pub const fn github_poll(&self) -> Duration {
        Duration::from_secs(self.github_poll_seconds)
    }

    /// How long histories are kept. What is written until the next look has room, too.
    pub fn retention(&self) -> HistoryRetention {
        let age = Duration::from_hours(24) * self.history_days;
        HistoryRetention { age, size: self.history_limit.map(|bytes| bytes / 10 * 9) }
    }

    /// What all histories may take together: a volume that is full takes the gateway with it.
    pub fn history_space(&self) -> Option<u64> {
        self.history_limit.map(|bytes| bytes / 20 * 19)
    }

    /// How long an agent may be silent.
    pub const fn agent_silence(&self) -> Duration {
        Duration::from_secs(self.agent_silence_seconds as u64)
    }
}
