//! The whole product on one machine: embedded outside world, the operator's two processes, and a
//! team's Repo. The demo and the integration tests start one of these.

pub mod build;
pub mod earlier;
pub mod kept;
mod kubeconfig;
pub mod manifests;
pub mod nodes;
mod operator_processes;
pub mod outside;
pub mod part;
pub mod process;
pub mod shards;
pub mod toolchain;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::{AgentRoleSpec, RepoSpec, Thread};
use kube::Api;

use crate::cluster::TestCluster;
use crate::controllers::ControllerManager;
use crate::github::{DrivenRepository, GitHubServer};
use crate::kubelet::{InjectEnv, ProcessKubelet};
use crate::models::{ModelScript, ModelServer};
use crate::openid::OpenIdIssuer;
use crate::place::InstallPlace;
use crate::slack::SlackServer;

use kept::{KeptError, KeptFolder};
use nodes::OwnNodes;
use outside::StackSurroundings;
use part::StackPart;
use shards::LeaderForwards;

/// Configuration of a stack: its folder, names, people, models and limits.
pub struct StackOptions {
    /// Folder for everything the stack writes. The caller removes it.
    pub dir: PathBuf,
    /// Names of the installation in the cluster.
    pub place: InstallPlace,
    /// The binary that is every process of the product under another name.
    pub program: PathBuf,
    /// Name of the Repo, of its channel and of the repository.
    pub name: String,
    /// Names of the people in the channel.
    pub users: Vec<String>,
    /// AgentRoles that work in the repository; the first one is addressed by default.
    pub roles: Vec<String>,
    /// The repository's default branch.
    pub branch: String,
    /// The repository's first commit: a folder.
    pub files: PathBuf,
    /// Script of the models' answers.
    pub script: ModelScript,
    /// Seconds a role's pod stays with nothing to do; the seeds' figure if absent.
    pub idle_timeout_seconds: Option<u32>,
    /// Seconds to gather a burst of messages.
    pub debounce_seconds: u32,
    /// Log filter of the operator's processes.
    pub log: String,
    /// Roles look back before a merge. A script without a retrospective would never get to the merge.
    pub looks_back: bool,
    /// Changes the Repo before it is applied: limits, policy, egress.
    pub edit_repo: Option<Arc<RepoEdit>>,
    /// Changes each AgentRole before it is applied: models, tools, rights.
    pub edit_role: Option<Arc<RoleEdit>>,
    /// Extra environment for containers, for tests that kill an agent at a chosen step.
    pub inject_env: Option<Arc<InjectEnv>>,
    /// Time from a pod's start during which it still gets past the gateway, to the API server's address.
    pub late_wall: Option<Duration>,
    /// Longest silence of an agent; the product's default if absent.
    pub agent_silence: Option<Duration>,
    /// Nodes that run the product; processes of this machine if absent.
    pub nodes: Option<OwnNodes>,
    /// Rule for access to the pages on threads, and whether threads link there.
    pub pages: PagesAccess,
}

/// Access to the pages on threads.
#[derive(Clone, Debug, Default)]
pub enum PagesAccess {
    /// Whoever reaches the address, which nothing links to.
    #[default]
    Unlinked,
    /// Whoever reaches the address.
    Open,
    /// Only people who have signed in with Slack and are in the thread's channel.
    Slack,
    /// Only people who have signed in at this issuer and are in the thread's channel.
    OpenId(Arc<OpenIdIssuer>),
}

/// A change of a Repo's spec before it is applied.
pub type RepoEdit = dyn Fn(&mut RepoSpec) + Send + Sync;
/// Changes an AgentRole's spec; its `role` tells which one it is.
pub type RoleEdit = dyn Fn(&mut AgentRoleSpec) + Send + Sync;

/// An error of a stack's start or of its orderly end.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A part of the outside world.
    #[error("the embedded {part} failed")]
    Part {
        /// Name of the part, for people.
        part: &'static str,
        /// Underlying error of the part.
        #[source]
        source: anyhow::Error,
    },
    /// A seed file can't be parsed.
    #[error("seeds/roles/{file}: {reason}")]
    Seed {
        /// Name of the seed file below `seeds/roles`.
        file: String,
        /// Message of the YAML parser.
        reason: String,
    },
    /// The folder for the kept state can't be used.
    #[error(transparent)]
    Kept(#[from] KeptError),
    /// A request to Kubernetes failed.
    #[error("Kubernetes: {0}")]
    Kube(#[from] kube::Error),
    /// A file could not be used or a process not be run.
    #[error("{what}")]
    Io {
        /// Action that was tried, for people.
        what: String,
        /// Underlying error of the system.
        #[source]
        source: std::io::Error,
    },
    /// A process ended or never became ready.
    #[error("{process} did not become ready within {within:?}; its log ends:\n{log}")]
    NotReady {
        /// `controller` or `gateway`.
        process: &'static str,
        /// Timeout that the process exceeded.
        within: Duration,
        /// Last lines of the process's log.
        log: String,
    },
}

/// The running product and the outside world it works in.
pub struct RunningStack {
    /// Folder for everything the stack writes.
    pub dir: PathBuf,
    /// Names of the installation in the cluster.
    pub place: InstallPlace,
    /// Cluster that the stack runs in.
    pub cluster: TestCluster,
    /// Runs the pods, unless nodes of the cluster's own do.
    pub kubelet: Option<ProcessKubelet>,
    /// Slack server with the team's channel.
    pub slack: SlackServer,
    /// Git host with the team's repository.
    pub github: GitHubServer,
    /// The team's repository on it.
    pub remote: DrivenRepository,
    /// Server of the scripted models.
    pub models: ModelServer,
    /// The controller, which holds no secret.
    pub controller: StackPart,
    /// The gateway, which holds all secrets.
    pub gateway: StackPart,
    /// The other gateways, where several lead.
    pub further_gateways: Vec<StackPart>,
    /// Addresses at which both serve `/metrics`.
    pub metrics: MetricsAddresses,
    /// Name of the team's Repo resource.
    pub repo: String,
    /// Id of the team's Slack channel.
    pub channel: String,
    /// Slack ids of the users by name.
    pub users: BTreeMap<String, String>,
    /// The repository's default branch.
    pub branch: String,
    /// Head of the default branch before anything happened.
    pub first_commit: String,
    controllers: Option<ControllerManager>,
    _leaders: Option<LeaderForwards>,
}

/// Addresses of the operator's metrics.
#[derive(Clone, Copy, Debug)]
pub struct MetricsAddresses {
    /// Address of the controller's metrics.
    pub controller: SocketAddr,
    /// Address of the gateway's metrics.
    pub gateway: SocketAddr,
    /// Address of the gateway's pages, if it is a process of this machine.
    pub pages: Option<SocketAddr>,
    /// Address at which the gateway takes webhook deliveries, if it is a process of this machine.
    pub deliveries: Option<SocketAddr>,
}

impl RunningStack {
    /// Starts everything and returns when controller and gateway are ready and the team's Repo has
    /// been applied.
    ///
    /// # Errors
    /// Names the part that did not start, with the end of its log where it has one.
    pub async fn start(options: StackOptions) -> Result<Self, StackError> {
        Self::start_in(options, StackSurroundings::default()).await
    }

    /// Starts a stack as [`RunningStack::start`] does, with surroundings that the caller chooses.
    ///
    /// # Errors
    /// As [`RunningStack::start`].
    pub async fn start_in(
        options: StackOptions,
        surroundings: StackSurroundings,
    ) -> Result<Self, StackError> {
        Box::pin(build::start_stack(options, surroundings)).await
    }

    /// API client for the team's Threads.
    pub fn threads(&self) -> Api<Thread> {
        Api::namespaced(self.cluster.client(), &self.place.team)
    }

    /// Stops every process of the product; the outside world can still be looked at. Call it once at most.
    ///
    /// # Errors
    /// When a process can't be waited for.
    pub async fn stop_product(&mut self) -> Result<(), StackError> {
        let io = |what: &str| {
            let what = format!("stopping the {what}");
            move |source| StackError::Io { what, source }
        };
        self.controller.stop().await.map_err(io("controller"))?;
        if let Some(kubelet) = &self.kubelet {
            kubelet.shutdown().await;
        }
        for gateway in self.further_gateways.iter_mut().chain([&mut self.gateway]) {
            gateway.stop().await.map_err(io("gateway"))?;
        }
        Ok(())
    }

    /// Stops every process of the product and of the outside world.
    ///
    /// # Errors
    /// When a process can't be waited for.
    pub async fn stop(self) -> Result<(), StackError> {
        self.stop_and_keep(None).await
    }

    /// Stops everything as [`RunningStack::stop`] does, and saves the outside world's state before that.
    ///
    /// # Errors
    /// When a process can't be waited for, or nothing be saved.
    pub async fn stop_and_keep(mut self, kept: Option<&mut KeptFolder>) -> Result<(), StackError> {
        self.stop_product().await?;
        let saved = match kept {
            Some(kept) => kept.save(&self).await,
            None => Ok(()),
        };
        if let Some(controllers) = self.controllers {
            controllers.shutdown().await;
        }
        self.slack.shutdown().await;
        self.cluster.shutdown().await;
        Ok(saved?)
    }
}
