//! The whole product on one machine: embedded outside world, the operator's two processes, and a
//! team's Repo. The demo and the integration tests start one of these.

pub mod manifests;
pub mod process;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{AgentRole, Repo};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt as _};

use crate::cluster::Cluster;
use crate::controllers::ControllerManager;
use crate::github::GitHubServer;
use crate::kubelet::{Image, Kubelet, KubeletOptions, ServiceForward};
use crate::models::ModelServer;
use crate::slack::SlackServer;

use manifests::{Outside, SYSTEM, TEAM};
use process::{Process, ProcessCommand};

/// Port of the gateway's Service.
const GATEWAY_PORT: u16 = 8443;
/// How long controller and gateway may take to become ready.
const READY: Duration = Duration::from_secs(60);

/// What a stack is made of.
#[derive(Debug)]
pub struct StackOptions {
    /// Where everything is kept. Removed by whoever made it.
    pub dir: PathBuf,
    /// The binary that is every process of the product under another name.
    pub program: PathBuf,
    /// Name of the Repo, of its channel and of the repository.
    pub name: String,
    /// People in the channel.
    pub users: Vec<String>,
    /// The repository's default branch.
    pub branch: String,
    /// The repository's first commit: a folder.
    pub files: PathBuf,
    /// Seconds a role's pod stays with nothing to do.
    pub idle_timeout_seconds: Option<u32>,
    /// Seconds to gather a burst of messages.
    pub debounce_seconds: u32,
    /// Log filter of the operator's processes.
    pub log: String,
}

/// Why a stack can't start.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A part of the outside world.
    #[error("the embedded {part} did not start")]
    Part {
        /// Which one.
        part: &'static str,
        /// Why.
        #[source]
        source: anyhow::Error,
    },
    /// A seed file is wrong.
    #[error("seeds/roles/{file}: {reason}")]
    Seed {
        /// File name.
        file: String,
        /// What the parser said.
        reason: String,
    },
    /// Kubernetes said no.
    #[error("Kubernetes: {0}")]
    Kube(#[from] kube::Error),
    /// Files or processes.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
    /// A process ended or never became ready.
    #[error("{process} did not become ready within {within:?}; its log ends:\n{log}")]
    NotReady {
        /// `controller` or `gateway`.
        process: &'static str,
        /// How long it had.
        within: Duration,
        /// Last lines.
        log: String,
    },
}

/// The running product and the outside world it works in.
pub struct Stack {
    /// Where everything is kept.
    pub dir: PathBuf,
    /// The API server.
    pub cluster: Cluster,
    /// Runs the pods.
    pub kubelet: Kubelet,
    /// The team's chat.
    pub slack: SlackServer,
    /// The team's repository.
    pub github: GitHubServer,
    /// The scripted model.
    pub models: ModelServer,
    /// Holds no secret.
    pub controller: Process,
    /// Holds all secrets.
    pub gateway: Process,
    /// Where both serve `/metrics`.
    pub metrics: Metrics,
    /// The Repo's name.
    pub repo: String,
    /// The team's channel.
    pub channel: String,
    /// User ids by name.
    pub users: BTreeMap<String, String>,
    controllers: ControllerManager,
}

/// Addresses of the operator's metrics.
#[derive(Clone, Copy, Debug)]
pub struct Metrics {
    /// The controller's.
    pub controller: SocketAddr,
    /// The gateway's.
    pub gateway: SocketAddr,
}

impl Stack {
    /// Starts everything and returns when controller and gateway are ready and the team's Repo has
    /// been applied.
    ///
    /// # Errors
    /// Names the part that did not start, with the end of its log where it has one.
    pub async fn start(options: StackOptions, models: ModelServer) -> Result<Self, StackError> {
        Builder::new(options)?.start(models).await
    }
}

