//! The controller or the gateway, wherever it runs: as a process of this machine, or as a Deployment on
//! nodes of the cluster's own.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::AsyncReadExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::json;
use tokio_util::task::AbortOnDropHandle;

use super::process::OperatorProcess;

/// Timeout for the pods to disappear.
const LEAVING: Duration = Duration::from_mins(1);
/// Interval at which pods are listed.
const LOOK: Duration = Duration::from_millis(500);

/// The controller or the gateway; see the module.
#[derive(Debug)]
pub enum StackPart {
    /// A child process of the testbed.
    Process(Box<OperatorProcess>),
    /// A Deployment of the chart, with one replica.
    Deployed(Box<DeployedPart>),
}

/// A Deployment, with its pods' logs in a file.
#[derive(Debug)]
pub struct DeployedPart {
    deployments: Api<Deployment>,
    pods: Api<Pod>,
    name: String,
    log: PathBuf,
    _following: AbortOnDropHandle<()>,
}

impl From<OperatorProcess> for StackPart {
    fn from(process: OperatorProcess) -> Self {
        Self::Process(Box::new(process))
    }
}

impl StackPart {
    /// File with the part's output.
    pub fn log(&self) -> &Path {
        match self {
            Self::Process(process) => process.log(),
            Self::Deployed(deployed) => &deployed.log,
        }
    }

    /// Output so far; `None` where the API server keeps no logs of pods.
    pub async fn said(&self) -> Option<String> {
        match self {
            Self::Process(process) => std::fs::read_to_string(process.log()).ok(),
            Self::Deployed(deployed) => deployed.said().await,
        }
    }

    /// Exit status of a process that has ended by itself. A Deployment has none: it restarts its containers.
    pub fn exited(&mut self) -> Option<std::process::ExitStatus> {
        match self {
            Self::Process(process) => process.exited(),
            Self::Deployed(_) => None,
        }
    }

    /// Kills the part without a grace period, and waits until it is gone.
    ///
    /// # Errors
    /// When it can't be ended.
    pub async fn kill(&mut self) -> io::Result<()> {
        match self {
            Self::Process(process) => process.kill().await,
            Self::Deployed(deployed) => deployed.end(Some(0)).await.map_err(io::Error::other),
        }
    }

    /// Asks it to end, and waits until it is gone.
    ///
    /// # Errors
    /// When it can't be waited for.
    pub async fn stop(&mut self) -> io::Result<()> {
        match self {
            Self::Process(process) => process.stop().await,
            Self::Deployed(deployed) => deployed.end(None).await.map_err(io::Error::other),
        }
    }

    /// Starts it again after it ended or was killed.
    ///
    /// # Errors
    /// When it can't be started.
    pub async fn restart(&mut self) -> io::Result<()> {
        match self {
            Self::Process(process) => process.restart(),
            Self::Deployed(deployed) => deployed.scale(1).await.map_err(io::Error::other),
        }
    }
}

impl DeployedPart {
    /// The Deployment of that name; its pods write to `log` from now on.
    pub fn new(client: &Client, namespace: &str, name: &str, log: PathBuf) -> Self {
        let pods = Api::namespaced(client.clone(), namespace);
        let following = tokio::spawn(follow_pods(pods.clone(), name.to_owned(), log.clone()));
        Self {
            deployments: Api::namespaced(client.clone(), namespace),
            pods,
            name: name.to_owned(),
            log,
            _following: AbortOnDropHandle::new(following),
        }
    }

    /// Lists the Deployment's pods.
    ///
    /// # Errors
    /// When the API server says no.
    pub async fn pods(&self) -> kube::Result<Vec<Pod>> {
        own_pods(&self.pods, &self.name).await
    }

    /// True if at least one replica is available.
    ///
    /// # Errors
    /// When the API server says no.
    pub async fn is_available(&self) -> kube::Result<bool> {
        let status = self.deployments.get(&self.name).await?.status.unwrap_or_default();
        Ok(status.available_replicas.unwrap_or(0) > 0)
    }

    async fn said(&self) -> Option<String> {
        let mut all = String::new();
        for pod in self.pods().await.ok()? {
            all += &self.pods.logs(&pod.name_any(), &LogParams::default()).await.ok()?;
        }
        Some(all)
    }

    async fn scale(&self, replicas: u32) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let patched = self.deployments.patch(&self.name, &PatchParams::default(), &patch).await;
        patched.map(drop)
    }

    async fn end(&self, grace: Option<u32>) -> kube::Result<()> {
        self.scale(0).await?;
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        let deadline = tokio::time::Instant::now() + LEAVING;
        loop {
            let pods = self.pods().await?;
            if pods.is_empty() {
                return Ok(());
            }
            for pod in &pods {
                match self.pods.delete(&pod.name_any(), &params).await {
                    Err(kube::Error::Api(status)) if status.is_not_found() => {}
                    other => drop(other?),
                }
            }
            if tokio::time::Instant::now() > deadline {
                let left = format!("pods of {} do not end", self.name);
                return Err(kube::Error::Service(left.into()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }
}

async fn own_pods(pods: &Api<Pod>, name: &str) -> kube::Result<Vec<Pod>> {
    let own = ListParams::default().labels(&format!("app.kubernetes.io/name={name}"));
    Ok(pods.list(&own).await?.items)
}

/// Writes what all pods say into one file, for as long as there is somebody to keep it.
async fn follow_pods(pods: Api<Pod>, name: String, log: PathBuf) {
    let mut followed = std::collections::BTreeSet::new();
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        for pod in own_pods(&pods, &name).await.unwrap_or_default() {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if phase == Some("Running") && followed.insert(pod.uid()) {
                tasks.spawn(copy_log(pods.clone(), pod.name_any(), log.clone()));
            }
        }
        tokio::time::sleep(LOOK).await;
        while tasks.try_join_next().is_some() {}
    }
}

/// Copies until the pod ends, or at once where the API server keeps no logs.
async fn copy_log(pods: Api<Pod>, pod: String, log: PathBuf) {
    let params = LogParams { follow: true, ..LogParams::default() };
    let Ok(said) = pods.log_stream(&pod, &params).await else { return };
    let Ok(mut file) = File::options().create(true).append(true).open(log) else { return };
    let mut said = Box::pin(said);
    let mut chunk = vec![0; 1 << 14];
    while let Ok(length @ 1..) = said.read(&mut chunk).await {
        if io::Write::write_all(&mut file, &chunk[..length]).is_err() {
            return;
        }
    }
}
