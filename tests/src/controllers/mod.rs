//! The parts of kube-controller-manager that `CodeButler` needs: default service accounts, volumes for
//! claims, garbage collection by owner, emptying namespaces and, where asked, pods for Deployments.
//!
//! Works on any API server that has no controller manager of its own.

mod accounts;
mod claims;
mod deployments;
mod folders;
mod garbage;
mod graph;
mod kinds;
mod namespaces;
mod overlooked;
mod snapshots;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
pub(crate) use namespaces::end_namespace;
pub use snapshots::FolderSnapshots;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Configuration of a [`ControllerManager`].
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Folder in which the folders of provisioned volumes are made.
    pub pv_dir: PathBuf,
    /// PEM bundle to publish as the `kube-root-ca.crt` `ConfigMap` of every namespace. Pods that get
    /// a token mounted by default wait for it.
    pub root_ca: Option<String>,
}

/// An error that keeps the controllers from starting.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The folder for the volumes could not be made.
    #[error("volumes' folder: {0}")]
    Io(#[from] std::io::Error),
}

/// Running controllers. Dropping them does not end them; [`ControllerManager::shutdown`] does.
#[derive(Debug)]
pub struct ControllerManager {
    tasks: TaskTracker,
    shutdown: CancellationToken,
    storage_class: String,
}

impl ControllerManager {
    /// Starts all controllers. The default `StorageClass` exists when this returns.
    pub async fn start(
        client: Client,
        options: ControllerOptions,
    ) -> Result<Self, ControllerError> {
        Self::start_in(client, options, Vec::new()).await
    }

    /// Starts the controllers with volumes for the claims of these namespaces only; of all if the list
    /// is empty.
    pub async fn start_in(
        client: Client,
        options: ControllerOptions,
        namespaces: Vec<String>,
    ) -> Result<Self, ControllerError> {
        tokio::fs::create_dir_all(&options.pv_dir).await?;
        let storage_class = claims::ensure_storage_class(&client).await?.to_owned();
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let started = Self { tasks, shutdown, storage_class };
        started.spawn(accounts::run_accounts(client.clone(), options.root_ca));
        let context = claims::ClaimContext {
            client: client.clone(),
            dir: options.pv_dir,
            class: started.storage_class.clone(),
            namespaces,
        };
        let context = Arc::new(context);
        started.spawn(overlooked::serve_overlooked(Arc::clone(&context), overlooked::INTERVAL));
        started.spawn(claims::run_claims(context, started.shutdown.clone()));
        started.spawn(namespaces::run_namespaces(client.clone()));
        started.spawn(garbage::run_garbage(client));
        Ok(started)
    }

    /// Makes pods for Deployments from now on.
    pub fn deploy(&self, client: Client) {
        self.spawn(deployments::run_deployments(client));
    }

    /// The class whose claims get folders. It is the default one, unless the cluster has another.
    pub fn storage_class(&self) -> &str {
        &self.storage_class
    }

    /// Cancels all controllers and waits until they have ended.
    pub async fn shutdown(self) {
        self.shutdown.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let shutdown = self.shutdown.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = task => {}
            }
        });
    }
}

/// Runs `attempt` until it succeeds, more and more slowly.
async fn insist_on<F>(what: &str, mut attempt: impl FnMut() -> F)
where
    F: Future<Output = kube::Result<()>>,
{
    let mut pause = Duration::from_millis(50);
    while let Err(error) = attempt().await {
        tracing::debug!(what, %error, "will be tried again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

/// True if an attempt to delete or change an object found it already gone or replaced by another.
fn is_over(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if crate::cluster::is_replaced(status))
}
