//! Runs a pod's containers as local processes in namespaces of their own.
//!
//! - `node`: towards the API server: the Node, watches, binding.
//! - `worker`, `supervisor`, `probes`: a pod and its containers over time.
//! - `status`, `env`, `container_spec`, …: what follows from what, without side effects.
//! - `sandbox`: namespaces and processes, through a helper that is this binary again.
//!
//! Containers have to have their absolute paths, which only a mount namespace can give to more than
//! one pod. So where namespaces can't be made the kubelet doesn't start, and says what is missing.

mod container_spec;
mod downward;
mod entry;
mod env;
mod forward;
mod image;
mod log;
mod node;
mod options;
mod probes;
mod projected;
mod record;
pub mod sandbox;
mod status;
mod supervisor;
pub(crate) mod volumes;
mod worker;
mod writer;

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
pub use nix::sys::signal::Signal;

use self::entry::{KubeletNode, lock};
pub use self::image::LocalImage;
pub use self::options::{InjectEnv, KubeletOptions, NetworkLeak, ServiceForward};
use self::sandbox::spec::PodSpec;
use self::sandbox::{PodSandbox, SandboxError};
pub use self::volumes::VolumeError;
pub use sandbox::helper::main as pause_main;
pub use sandbox::spec::HELPER;

/// The node's address, as pods are told.
pub const HOST_IP: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// Timeout of a command that [`ProcessKubelet::exec`] runs.
const EXEC_LIMIT: Duration = Duration::from_mins(2);

/// An error of a kubelet's start or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// This machine doesn't let an ordinary process isolate another.
    #[error("containers can't be isolated here ({problem}); {hint}")]
    NoNamespaces {
        /// Failure of the sandbox that was tried.
        problem: SandboxError,
        /// Remedy: a setting that an administrator can change.
        hint: String,
    },
    /// The pod does not exist here, or its container does not run.
    #[error("container {container} of pod {namespace}/{pod} is not running")]
    NotRunning {
        /// Namespace in which the pod was looked for.
        namespace: String,
        /// Name of the pod that was asked for.
        pod: String,
        /// Name of the container that was asked for.
        container: String,
    },
    /// The sandbox of a pod can't be made.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// A volume of a pod can't be had.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The kubelet's folder can't be used.
    #[error("kubelet folder: {0}")]
    Io(#[from] io::Error),
}

/// A running kubelet. Dropping it does not end it; [`ProcessKubelet::shutdown`] does.
pub struct ProcessKubelet {
    node: Arc<KubeletNode>,
}

impl ProcessKubelet {
    /// Registers the node and starts to run its pods, and all pods that no scheduler claims.
    pub async fn start(client: Client, options: KubeletOptions) -> Result<Self, KubeletError> {
        let pods = options.dir.join("pods");
        // Of an earlier kubelet, whose processes are gone.
        volumes::remove_folder(&pods)?;
        tokio::fs::create_dir_all(&pods).await?;
        let trial =
            PodSpec { hostname: "trial".to_owned(), addresses: Vec::new(), host_network: false };
        match PodSandbox::start(&options.self_exe, &trial).await {
            Ok(sandbox) => sandbox.stop().await,
            Err(problem) => {
                return Err(KubeletError::NoNamespaces { problem, hint: kernel_hint() });
            }
        }
        let node = Arc::new(KubeletNode::new(client, options));
        node::register_node(&node).await?;
        node.tasks.spawn(node::keep_registered(node.clone()));
        node.tasks.spawn(node::follow_sources(node.clone()));
        node.tasks.spawn(node::follow_pods(node.clone()));
        Ok(Self { node })
    }

    /// True if containers are in namespaces of their own. They always are; see the module.
    #[must_use]
    pub fn isolated(&self) -> bool {
        true
    }

    /// Reads a container's log, oldest first; of a long log the newest part. Empty if it has not been
    /// started. Logs of pods that are gone stay below `logs` in the kubelet's folder, and the newest of
    /// that name is read.
    pub async fn logs(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<String, KubeletError> {
        let path = match self.node.find(namespace, pod) {
            Some(entry) => entry.log_path(container),
            None => log::kept_logs(&self.node.options.dir.join("logs"), namespace, pod)
                .ok_or_else(|| not_running(namespace, pod, container))?
                .join(format!("{container}.log")),
        };
        Ok(log::read_log(&path).await?)
    }

    /// Runs a command in a container, with all that the container's own command has and nothing
    /// else. At most two minutes.
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        argv: &[&str],
    ) -> Result<Output, KubeletError> {
        let entry = self.entry(namespace, pod, container)?;
        let argv = argv.iter().map(ToString::to_string).collect();
        Ok(probes::exec_probe(&entry, container, argv, EXEC_LIMIT).await?)
    }

    /// Sends a signal to a container's command; `SIGKILL` ends the container.
    pub fn kill(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        signal: Signal,
    ) -> Result<(), KubeletError> {
        let entry = self.entry(namespace, pod, container)?;
        let running = lock(&entry.running).get(container).cloned();
        running
            .and_then(|running| running.signals.send(signal).ok())
            .ok_or_else(|| not_running(namespace, pod, container))
    }

    /// The host's folder of a bound claim.
    pub async fn volume_path(&self, namespace: &str, claim: &str) -> Result<PathBuf, KubeletError> {
        Ok(volumes::claimed_folder(&self.node.client, namespace, claim).await?)
    }

    /// Sets the function whose variables are added to the environment of every container that starts
    /// from now on.
    pub fn inject_env(&self, inject: Option<Arc<InjectEnv>>) {
        if let Ok(mut place) = self.node.inject_env.write() {
            *place = inject;
        }
    }

    /// Kills every container and removes the pods' files. Their objects stay as they are.
    pub async fn shutdown(&self) {
        self.node.shutdown.cancel();
        self.node.tasks.close();
        self.node.tasks.wait().await;
        if let Err(error) = volumes::remove_folder(&self.node.options.dir.join("pods")) {
            tracing::warn!(%error, "pod folders are left behind");
        }
    }

    fn entry(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
    ) -> Result<Arc<entry::PodEntry>, KubeletError> {
        self.node.find(namespace, pod).ok_or_else(|| not_running(namespace, pod, container))
    }
}

fn not_running(namespace: &str, pod: &str, container: &str) -> KubeletError {
    KubeletError::NotRunning {
        namespace: namespace.to_owned(),
        pod: pod.to_owned(),
        container: container.to_owned(),
    }
}

/// Names the kernel setting that is off, and how to switch it on.
fn kernel_hint() -> String {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/sys/{name}")).ok();
    for (name, bad, good) in [
        ("user/max_user_namespaces", "0", "10000"),
        ("kernel/unprivileged_userns_clone", "0", "1"),
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ] {
        if read(name).is_some_and(|value| value.trim() == bad) {
            return format!("set sysctl {}={good}", name.replace('/', "."));
        }
    }
    "unprivileged user namespaces and Linux 5.12 are needed; a container runtime around this \
     process may forbid them by its seccomp profile"
        .to_owned()
}
