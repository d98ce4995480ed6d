//! The product on nodes of the cluster's own: installed by its chart, with images that those nodes pull,
//! in a world at an address that pods reach. No kubelet, no controllers and no process of the product
//! run here.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, Parser};
use codebutler_crds::names;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::part::DeployedPart;
use super::{MetricsAddresses, StackOptions};
use crate::cluster::TestCluster;
use crate::pytools::{PyToolsError, ensure_venv};

/// The Helm engine that people have, and what it needs.
pub const HELM: &[&str] = &["helm-python-sdk==0.2.2", "kubernetes==37.0.2"];
/// Timeout for both Deployments to become available; it includes the pulls of their images.
const READY: Duration = Duration::from_mins(5);
const METRICS_PORT: u16 = 8080;

/// How to run on nodes of the cluster's own.
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "On the nodes of the cluster that KUBECONFIG names")]
pub struct NodeArgs {
    /// Let the cluster's own nodes run the product, which its chart installs. Slack, models and the Git
    /// host listen at this address of this machine, which pods have to reach.
    #[arg(long, env = "CODEBUTLER_OUTSIDE", value_name = "ADDRESS", requires = "images")]
    pub outside: Option<IpAddr>,
    /// What the names of the images begin with that `.ci/images` has built, such as
    /// `127.0.0.1:5000/team/`: the nodes pull them from there.
    #[arg(long, env = "CODEBUTLER_IMAGES", value_name = "PREFIX")]
    pub images: Option<String>,
    /// Where commands run, if not in `PREFIXcodebutler-workspace`.
    #[arg(long, env = "CODEBUTLER_WORKSPACE", value_name = "IMAGE")]
    pub workspace: Option<String>,
}

/// The settled form of [`NodeArgs`], with all values known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNodes {
    /// Address of this machine at which the outside world listens.
    pub address: IpAddr,
    /// Prefix of the images' names, such as `127.0.0.1:5000/team/`.
    pub images: String,
    /// Image in which commands run.
    pub workspace: String,
}

/// The version of images and chart.
pub const TAG: &str = env!("CARGO_PKG_VERSION");

#[derive(Parser)]
struct NodeEnvironment {
    #[command(flatten)]
    nodes: NodeArgs,
}

impl NodeArgs {
    /// Reads the settings from the environment alone.
    ///
    /// # Errors
    /// When it is wrong, or lacks something.
    pub fn from_env() -> anyhow::Result<Option<OwnNodes>> {
        NodeEnvironment::try_parse_from(["testbed"])?.nodes.settle()
    }

    /// Completes and checks the settings; `None` if pods are to run on this machine.
    ///
    /// # Errors
    /// When something is missing.
    pub fn settle(&self) -> anyhow::Result<Option<OwnNodes>> {
        let Some((address, images)) = self.outside.zip(self.images.clone()) else {
            return Ok(None);
        };
        ensure!(
            std::env::var_os("KUBECONFIG").is_some_and(|path| !path.is_empty()),
            "--outside is for the nodes of a cluster: set KUBECONFIG to name that"
        );
        ensure!(
            !address.is_unspecified(),
            "--outside needs an address that pods can connect to, not {address}"
        );
        let own = || format!("{images}codebutler-workspace:{TAG}");
        let workspace = self.workspace.clone().unwrap_or_else(own);
        Ok(Some(OwnNodes { address, images, workspace }))
    }
}

impl OwnNodes {
    /// Values for the product's Helm chart.
    fn values(&self, options: &StackOptions, slack_api: &str, watched: &[String]) -> Value {
        let bits = if self.address.is_ipv4() { 32 } else { 128 };
        let image = |name: &str| json!({"repository": format!("{}{name}", self.images)});
        json!({
            "images": {
                "operator": image("codebutler-operator"),
                "agent": image("codebutler-agent"),
                "workspace": self.workspace,
            },
            "namespaces": watched,
            "gateway": {
                "slackApi": slack_api,
                "egressAllow": [format!("{}/{bits}", self.address)],
                "replicas": 1,
                "log": options.log,
                "logJson": false,
            },
            // The testbed's nodes come without a provisioner for the operator's namespace.
            "history": {"persistence": {"enabled": false}},
            "controller": {"replicas": 1, "log": options.log, "logJson": false},
            // They are applied with the scenario's models.
            "roles": {"install": false},
        })
    }

    /// Installs the chart, without waiting for what it makes. Namespaces and definitions are there.
    pub(super) async fn install(
        &self,
        cluster: &TestCluster,
        options: &StackOptions,
        slack_api: &str,
    ) -> anyhow::Result<()> {
        let values = self.values(options, slack_api, &options.place.watched(cluster));
        let venv = match tokio::task::spawn_blocking(|| ensure_venv(HELM)).await? {
            Err(PyToolsError::NoPython) => {
                bail!(
                    "the chart is installed by Helm's engine for Python: {}",
                    PyToolsError::NoPython
                )
            }
            other => other?,
        };
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let output = tokio::process::Command::new(venv.join("bin/python"))
            .arg(root.join("clients/helm_cli.py"))
            .args(["install", "codebutler"])
            .arg(root.join("../charts/codebutler"))
            .args(["--namespace", &options.place.system])
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("HELM_VALUES", values.to_string())
            .env("HOME", &options.dir)
            .kill_on_drop(true)
            .output()
            .await?;
        let Output { status, stderr, .. } = output;
        ensure!(status.success(), "helm: {}", String::from_utf8_lossy(&stderr).trim_end());
        Ok(())
    }
}

/// Gateway and controller, once both serve, and where their metrics are.
pub(super) async fn deploy_product(
    cluster: &TestCluster,
    options: &StackOptions,
) -> anyhow::Result<(DeployedPart, DeployedPart, MetricsAddresses)> {
    let (client, system) = (cluster.client(), &options.place.system);
    let part = |name: &str| {
        let log: PathBuf = options.dir.join("logs").join(format!("{name}.log"));
        DeployedPart::new(&client, system, &format!("codebutler-{name}"), log)
    };
    let (gateway, controller) = (part("gateway"), part("controller"));
    let metrics = MetricsAddresses {
        gateway: await_available(&gateway, names::GATEWAY).await?,
        controller: await_available(&controller, "codebutler-controller").await?,
        pages: None,
        deliveries: None,
    };
    Ok((gateway, controller, metrics))
}

/// Waits until a replica serves; where its metrics are.
async fn await_available(deployed: &DeployedPart, name: &str) -> anyhow::Result<SocketAddr> {
    let deadline = Instant::now() + READY;
    while !deployed.is_available().await? {
        if Instant::now() > deadline {
            let trouble: Vec<String> = deployed.pods().await?.iter().map(pod_trouble).collect();
            bail!("{name} is not available after {READY:?}: {}", trouble.join("; "));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let pods = deployed.pods().await?;
    let ip = pods.iter().find_map(|pod| pod.status.as_ref()?.pod_ip.clone());
    let ip = ip.with_context(|| format!("{name} has no pod with an address"))?;
    Ok(SocketAddr::new(ip.parse()?, METRICS_PORT))
}

/// Describes why a pod is not running, in the cluster's words.
fn pod_trouble(pod: &Pod) -> String {
    let name = pod.metadata.name.clone().unwrap_or_default();
    let status = pod.status.clone().unwrap_or_default();
    let unscheduled = status.conditions.into_iter().flatten().find(|c| c.status == "False");
    let waiting = |status: ContainerStatus| status.state?.waiting;
    let said = status.container_statuses.into_iter().flatten().find_map(waiting);
    let said = said.map(|w| (w.reason, w.message));
    let (reason, message) = said.or(unscheduled.map(|c| (c.reason, c.message))).unwrap_or_default();
    format!("{name}: {} {}", reason.unwrap_or_default(), message.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<NodeArgs, String> {
        let all = ["testbed"].iter().chain(args);
        NodeEnvironment::try_parse_from(all)
            .map(|found| found.nodes)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn an_address_needs_images() {
        assert!(parse(&["--outside", "10.0.0.1"]).unwrap_err().contains("--images"));
        assert!(parse(&["--outside", "here", "--images", "x/"]).unwrap_err().contains("--outside"));
        assert_eq!(parse(&[]).unwrap().settle().unwrap(), None);
    }
}
