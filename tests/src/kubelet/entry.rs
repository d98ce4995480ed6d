//! State that the tasks of this kubelet share: the node, and one entry per pod.

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use nix::sys::signal::Signal;
use serde_json::json;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::options::{InjectEnv, KubeletOptions};
use super::record::{ContainerRecord, PodRecord};
use super::sandbox::PodSandbox;
use super::sandbox::spec::{ProcessSpec, StartedHelper};
use super::status;

/// State of a kubelet that all its tasks share.
pub(crate) struct KubeletNode {
    pub client: Client,
    pub options: KubeletOptions,
    /// Pods by UID. A name may have been used before, a UID never.
    pub pods: Mutex<HashMap<String, Arc<PodEntry>>>,
    /// Namespaces in which a `ConfigMap` or Secret has changed.
    pub changes: broadcast::Sender<String>,
    /// Adds variables to containers.
    pub inject_env: RwLock<Option<Arc<InjectEnv>>>,
    /// Every task of this kubelet.
    pub tasks: TaskTracker,
    /// Cancels every task of this kubelet.
    pub shutdown: CancellationToken,
    next_ip: AtomicU32,
}

/// Reason why a pod has to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PodStop {
    /// The pod was deleted, with a grace period.
    Deleted,
    /// The pod is no longer in the API, or the kubelet ends.
    AtOnce,
}

/// A pod on this node, as its tasks share it.
pub(crate) struct PodEntry {
    pub node: Arc<KubeletNode>,
    pub namespace: String,
    pub name: String,
    pub uid: String,
    /// Folder with the pod's files.
    pub dir: PathBuf,
    /// Newest version of the pod that the watch has delivered.
    pub pod: watch::Sender<Arc<Pod>>,
    /// The kubelet's own record of the pod, the source of its status.
    pub record: watch::Sender<PodRecord>,
    /// Set once the pod has to stop.
    pub stop: watch::Sender<Option<PodStop>>,
    /// Namespaces of the pod, once they exist.
    pub sandbox: OnceLock<PodSandbox>,
    /// Host folders of its volumes, once they are there.
    pub volumes: OnceLock<BTreeMap<String, PathBuf>>,
    /// Running containers by name.
    pub running: Mutex<BTreeMap<String, RunningContainer>>,
    /// Cancels the tasks that serve the pod.
    pub done: CancellationToken,
    published: tokio::sync::Mutex<Option<serde_json::Value>>,
}

/// A running container, for those who want to reach into it.
#[derive(Clone, Debug)]
pub(crate) struct RunningContainer {
    /// Namespaces that the helper has made for it.
    pub started: StartedHelper,
    /// Command of the container, as executed.
    pub process: ProcessSpec,
    /// Channel through which the container is sent signals.
    pub signals: mpsc::UnboundedSender<Signal>,
}

impl KubeletNode {
    /// A node that runs no pods yet.
    pub(crate) fn new(client: Client, options: KubeletOptions) -> Self {
        Self {
            client,
            inject_env: RwLock::new(options.inject_env.clone()),
            options,
            pods: Mutex::default(),
            changes: broadcast::channel(256).0,
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            next_ip: AtomicU32::new(0),
        }
    }

    /// A pod address that no other pod has. It is real only inside the pod.
    pub(crate) fn new_ip(&self) -> IpAddr {
        const FIRST: u32 = u32::from_be_bytes([10, 244, 0, 2]);
        let offset = self.next_ip.fetch_add(1, Ordering::Relaxed) % 0xFFF0;
        Ipv4Addr::from(FIRST + offset).into()
    }

    /// The pod of that name that is here now: the newest, should an older one still be going.
    pub(crate) fn find(&self, namespace: &str, name: &str) -> Option<Arc<PodEntry>> {
        let created =
            |entry: &Arc<PodEntry>| entry.pod.borrow().metadata.creation_timestamp.clone();
        lock(&self.pods)
            .values()
            .filter(|entry| entry.namespace == namespace && entry.name == name)
            .max_by_key(|entry| created(entry).map(|time| time.0))
            .cloned()
    }
}

impl PodEntry {
    /// An entry for a pod that nothing has been done for yet.
    pub(crate) fn new(node: Arc<KubeletNode>, pod: Arc<Pod>) -> Self {
        let uid = pod.uid().unwrap_or_default();
        let record = PodRecord { start_time: Some(Timestamp::now()), ..PodRecord::default() };
        Self {
            dir: node.options.dir.join("pods").join(&uid),
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            uid,
            pod: watch::channel(pod).0,
            record: watch::channel(record).0,
            stop: watch::channel(None).0,
            sandbox: OnceLock::new(),
            volumes: OnceLock::new(),
            running: Mutex::default(),
            done: node.shutdown.child_token(),
            published: tokio::sync::Mutex::default(),
            node,
        }
    }

    /// Changes what is known of one container.
    pub(crate) fn update(&self, container: &str, change: impl FnOnce(&mut ContainerRecord)) {
        self.record.send_modify(|record| {
            change(record.containers.entry(container.to_owned()).or_default());
        });
    }

    /// Path of a container's log.
    pub(crate) fn log_path(&self, container: &str) -> PathBuf {
        self.dir.join(format!("{container}.log"))
    }

    /// Folder in which the pod's logs are kept after its end.
    pub(crate) fn kept_logs(&self) -> PathBuf {
        let name = format!("{}_{}_{}", self.namespace, self.name, self.uid);
        self.node.options.dir.join("logs").join(name)
    }

    /// Pods of this entry's namespace.
    pub(crate) fn api(&self) -> Api<Pod> {
        Api::namespaced(self.node.client.clone(), &self.namespace)
    }

    /// Writes the status if it differs from what was written before. The UID goes along, so that
    /// a new pod of the same name never gets it.
    pub(crate) async fn publish(&self) -> kube::Result<()> {
        let mut published = self.published.lock().await;
        let pod = self.pod.borrow().clone();
        let record = self.record.borrow().clone();
        let status = status::pod_status(&pod, &record, Timestamp::now());
        let status = serde_json::to_value(status).map_err(kube::Error::SerdeError)?;
        let comparable = without_times(status.clone());
        if published.as_ref() == Some(&comparable) {
            return Ok(());
        }
        let patch = json!({"metadata": {"uid": self.uid}, "status": status});
        let params = PatchParams::default();
        let new = self.api().patch_status(&self.name, &params, &Patch::Merge(patch)).await?;
        // Transition times are kept by the object, which the watch brings only later.
        self.pod.send_modify(|pod| Arc::make_mut(pod).status = new.status);
        *published = Some(comparable);
        Ok(())
    }
}

/// Times of conditions differ from call to call until the first of them has come back.
fn without_times(mut status: serde_json::Value) -> serde_json::Value {
    for condition in status["conditions"].as_array_mut().into_iter().flatten() {
        condition["lastTransitionTime"] = serde_json::Value::Null;
    }
    status
}

/// Locks; a panic elsewhere has not left the maps here half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
