//! The controller's flags and environment, parsed once. Nothing else in this crate reads the environment.

use std::net::{IpAddr, SocketAddr};

use codebutler_crds::PodSettings;
use codebutler_crds::pods::PullPolicy;
use codebutler_runtime::args::LeaseArgs;

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
    /// Number of shards that the gateways are started with: the Leases of so many leaders are watched. How many are in
    /// force is on the first one's.
    #[arg(long, env = "CODEBUTLER_GATEWAY_SHARDS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=16))]
    pub gateway_shards: u32,
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
    /// Pull policy of nodes for the images that the installation brings into agent pods; as the cluster has it if
    /// absent.
    #[arg(long, env = "CODEBUTLER_AGENT_PULL_POLICY", value_parser = pull_policy)]
    pub agent_pull_policy: Option<PullPolicy>,
    /// Settings added to all agent pods, with a lower priority than those of Repos and AgentRoles: JSON, as a Repo's
    /// `spec.pods` has it.
    #[arg(long, env = "CODEBUTLER_AGENT_PODS", default_value = "{}", value_parser = pod_settings)]
    pub agent_pods: Box<PodSettings>,
    /// Settings of the Lease that elects the replica that acts.
    #[command(flatten)]
    pub lease: LeaseArgs,
    /// Address that serves `/metrics`, `/healthz` and `/readyz`.
    #[arg(long, env = "CODEBUTLER_METRICS_ADDRESS", default_value = "[::]:8080")]
    pub metrics_address: SocketAddr,
}

/// A text names no pull policy.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("choose one of Always, IfNotPresent and Never")]
struct PullPolicyError;

fn pull_policy(value: &str) -> Result<PullPolicy, PullPolicyError> {
    serde_json::from_value(value.into()).map_err(|_| PullPolicyError)
}

fn pod_settings(value: &str) -> Result<Box<PodSettings>, serde_json::Error> {
    serde_json::from_str(value).map(Box::new)
}
