//! Configuration of a kubelet: its node, images and network.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

use super::image::LocalImage;

/// Adds variables to a container as it starts. It is told the pod and the container's name.
pub type InjectEnv = dyn Fn(&Pod, &str) -> Vec<(String, String)> + Send + Sync;

/// A Service that pods can reach, and the only kind of address beyond their loopback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceForward {
    /// Namespace of the Service.
    pub namespace: String,
    /// Name of the Service. Its `spec.clusterIP` is read when a pod starts.
    pub service: String,
    /// Port that pods connect to.
    pub port: u16,
    /// Address on the host to which connections are forwarded.
    pub target: SocketAddr,
}

/// An address that pods can reach although no policy allows it, as with a network plugin that enforces
/// policies a while after a pod's start, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLeak {
    /// Address that pods connect to.
    pub address: SocketAddr,
    /// Address on the host to which connections are forwarded.
    pub target: SocketAddr,
    /// Time from a pod's start until the leak closes; never if absent.
    pub lasts: Option<Duration>,
}

/// Configuration of a [`ProcessKubelet`](super::ProcessKubelet).
#[derive(Clone)]
pub struct KubeletOptions {
    /// Name of the kubelet's Node.
    pub node_name: String,
    /// Folder for the pods' files. Made if missing.
    pub dir: PathBuf,
    /// The binary that becomes the helper when run as `codebutler-pause`.
    pub self_exe: PathBuf,
    /// Images by the name that pods use. Others can't be pulled.
    pub images: BTreeMap<String, LocalImage>,
    /// Namespaces whose pods the kubelet takes; all if empty.
    pub namespaces: Vec<String>,
    /// Services that pods can reach.
    pub services: Vec<ServiceForward>,
    /// Services of this name, in any namespace, that pods can reach at their ready endpoints.
    pub proxied: Option<String>,
    /// Addresses that pods can reach and should not.
    pub leaks: Vec<NetworkLeak>,
    /// First delay before a container is started again; doubles up to thirty times of it.
    pub backoff: Duration,
    /// Bytes of log kept per container, at most twice as much on disk.
    pub log_limit: u64,
    /// Called for every container that starts.
    pub inject_env: Option<Arc<InjectEnv>>,
}

impl KubeletOptions {
    /// Kubernetes' own figures, no images and no services.
    pub fn new(
        node_name: impl Into<String>,
        dir: impl Into<PathBuf>,
        self_exe: impl Into<PathBuf>,
    ) -> Self {
        Self {
            node_name: node_name.into(),
            dir: dir.into(),
            self_exe: self_exe.into(),
            images: BTreeMap::new(),
            namespaces: Vec::new(),
            services: Vec::new(),
            proxied: None,
            leaks: Vec::new(),
            backoff: Duration::from_secs(10),
            log_limit: 10 << 20,
            inject_env: None,
        }
    }
}
