//! The whole product on one machine: embedded outside world, the operator's two processes, and a
//! team's Repo. The demo and the integration tests start one of these.

pub mod build;
pub mod kept;
pub mod manifests;
pub mod nodes;
pub mod outside;
pub mod part;
pub mod process;
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

/// What a stack is made of.
pub struct StackOptions {
    /// Where everything is kept. Removed by whoever made it.
    pub dir: PathBuf,
    /// Its names in the cluster.
    pub place: InstallPlace,
    /// The binary that is every process of the product under another name.
    pub program: PathBuf,
    /// Name of the Repo, of its channel and of the repository.
    pub name: String,
    /// People in the channel.
    pub users: Vec<String>,
    /// AgentRoles that work in the repository; the first one is addressed by default.
    pub roles: Vec<String>,
    /// The repository's default branch.
    pub branch: String,
    /// The repository's first commit: a folder.
    pub files: PathBuf,
    /// What the models say.
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
    /// How long after its start a pod still gets past the gateway, to the API server's address.
    pub late_wall: Option<Duration>,
    /// How long an agent may say nothing; the product's own figure if absent.
    pub agent_silence: Option<Duration>,
    /// Whose nodes run the product; processes of this machine if absent.
    pub nodes: Option<OwnNodes>,
    /// Who may look at pages on threads, and whether threads link there.
    pub pages: PagesAccess,
}

/// Who may look at pages on threads.
#[derive(Clone, Debug, Default)]
pub enum PagesAccess {
    /// Whoever reaches the address, which nothing links to.
    #[default]
    Unlinked,
    /// Whoever reaches the address.
    Open,
    /// Who has signed in with Slack, and is in the thread's channel.
    Slack,
    /// Who has signed in at this issuer, and is in the thread's channel.
    OpenId(Arc<OpenIdIssuer>),
}

/// Changes a Repo's spec.
pub type RepoEdit = dyn Fn(&mut RepoSpec) + Send + Sync;
/// Changes an AgentRole's spec; its `role` tells which one it is.
pub type RoleEdit = dyn Fn(&mut AgentRoleSpec) + Send + Sync;

/// Why a stack can't start or be stopped cleanly.
#[derive(Debug, thiserror::Error)]
pub enum StackError {
    /// A part of the outside world.
    #[error("the embedded {part} failed")]
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
    /// Nothing can be saved.
    #[error(transparent)]
    Kept(#[from] KeptError),
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
pub struct RunningStack {
    /// Where everything is kept.
    pub dir: PathBuf,
    /// Its names in the cluster.
    pub place: InstallPlace,
    /// The API server.
    pub cluster: TestCluster,
    /// Runs the pods, unless nodes of the cluster's own do.
    pub kubelet: Option<ProcessKubelet>,
    /// The team's chat.
    pub slack: SlackServer,
    /// The team's Git host.
    pub github: GitHubServer,
    /// The team's repository on it.
    pub remote: DrivenRepository,
    /// The scripted model.
    pub models: ModelServer,
    /// Holds no secret.
    pub controller: StackPart,
    /// Holds all secrets.
    pub gateway: StackPart,
    /// Where both serve `/metrics`.
    pub metrics: MetricsAddresses,
    /// The Repo's name.
    pub repo: String,
    /// Channel id.
    pub channel: String,
    /// User ids by name.
    pub users: BTreeMap<String, String>,
    /// The repository's default branch.
    pub branch: String,
    /// Head of the default branch before anything happened.
    pub first_commit: String,
    controllers: Option<ControllerManager>,
}

/// Addresses of the operator's metrics.
#[derive(Clone, Copy, Debug)]
pub struct MetricsAddresses {
    /// The controller's.
    pub controller: SocketAddr,
    /// The gateway's.
    pub gateway: SocketAddr,
    /// Where the gateway serves pages, if it is a process of this machine.
    pub pages: Option<SocketAddr>,
    /// Where it takes deliveries, if it is a process of this machine.
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

    /// The same, in a world that is not just new and scripted.
    ///
    /// # Errors
    /// As [`RunningStack::start`].
    pub async fn start_in(
        options: StackOptions,
        surroundings: StackSurroundings,
    ) -> Result<Self, StackError> {
        Box::pin(build::start_stack(options, surroundings)).await
    }

    /// The team's Threads.
    pub fn threads(&self) -> Api<Thread> {
        Api::namespaced(self.cluster.client(), &self.place.team)
    }

    /// Ends every process of the product; the outside world can still be looked at. Once is enough.
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
        self.gateway.stop().await.map_err(io("gateway"))
    }

    /// Ends every process of the product and of the outside world.
    ///
    /// # Errors
    /// When a process can't be waited for.
    pub async fn stop(self) -> Result<(), StackError> {
        self.stop_and_keep(None).await
    }

    /// The same, saving in between what the outside world knows.
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
