//! What kube-controller-manager does, as far as `CodeButler` needs it: default service accounts,
//! volumes for claims, garbage collection by owner, and emptying namespaces.
//!
//! Works on any API server that has no controller manager of its own.

mod accounts;
mod claims;
mod garbage;
mod graph;
mod kinds;
mod namespaces;

use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// What a controller manager is started with.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Where the folders of provisioned volumes are made.
    pub pv_dir: PathBuf,
    /// PEM bundle to publish as the `kube-root-ca.crt` `ConfigMap` of every namespace. Pods that get
    /// a token mounted by default wait for it.
    pub root_ca: Option<String>,
}

/// Why the controllers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// The API server.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The volumes' folder.
    #[error("volumes' folder: {0}")]
    Io(#[from] std::io::Error),
}

/// Running controllers. Dropping them does not end them; [`ControllerManager::shutdown`] does.
#[derive(Debug)]
pub struct ControllerManager {
    tasks: TaskTracker,
    shutdown: CancellationToken,
}

impl ControllerManager {
    /// Starts all controllers. The default `StorageClass` exists when this returns.
    pub async fn start(
        client: Client,
        options: ControllerOptions,
    ) -> Result<Self, ControllerError> {
        tokio::fs::create_dir_all(&options.pv_dir).await?;
        claims::ensure_storage_class(&client).await?;
        let (tasks, shutdown) = (TaskTracker::new(), CancellationToken::new());
        let started = Self { tasks, shutdown };
        started.spawn(accounts::run(client.clone(), options.root_ca));
        started.spawn(claims::run(client.clone(), options.pv_dir, started.shutdown.clone()));
        started.spawn(namespaces::run(client.clone()));
        started.spawn(garbage::run(client));
        Ok(started)
    }

    /// Ends all controllers.
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
async fn insist<F>(what: &str, mut attempt: impl FnMut() -> F)
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

/// Whether an attempt to delete or change an object found it already gone or already another.
fn is_over(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if codebutler_operator::apply::is_another(status))
}
