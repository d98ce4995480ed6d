//! What a kubelet is started with.

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
    /// Port of the Service.
    pub port: u16,
    /// Where connections to it end, on the host.
    pub target: SocketAddr,
}

/// What pods can reach although no policy lets them, as with a network plugin that enforces policies
/// a while after a pod's start, or never.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkLeak {
    /// As pods know it.
    pub address: SocketAddr,
    /// Where connections to it end, on the host.
    pub target: SocketAddr,
    /// How long after a pod's start; for good if absent.
    pub lasts: Option<Duration>,
}

/// Configuration of a [`ProcessKubelet`](super::ProcessKubelet).
#[derive(Clone)]
pub struct KubeletOptions {
    /// Name of its Node.
    pub node_name: String,
    /// Where pods' files live. Made if missing.
    pub dir: PathBuf,
    /// The binary that becomes the helper when run as `codebutler-pause`.
    pub self_exe: PathBuf,
    /// Images by the name that pods use. Others can't be pulled.
    pub images: BTreeMap<String, LocalImage>,
    /// Whose pods it takes: those of these namespaces, or everybody's if there are none.
    pub namespaces: Vec<String>,
    /// What pods can reach.
    pub services: Vec<ServiceForward>,
    /// Services of this name, in any namespace, that pods can reach at their ready endpoints.
    pub proxied: Option<String>,
    /// What pods can reach and should not.
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
