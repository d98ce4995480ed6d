//! A cluster with the controller in it, and helpers that play everybody else: the gateway (marks),
//! the kubelet (pod statuses) and the volume controller (bound claims). Only a Kubernetes client is
//! used, so that what passes here would pass on any API server.

use std::fmt::Debug;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use codebutler_controller::args::ControllerArgs;
use codebutler_crds::{AgentRole, Repo, Thread, condition, names};
use codebutler_runtime::args::LeaseArgs;
use codebutler_testbed::apiserver::{FaultSource, ServerOptions};
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::place::{InstallPlace, PlaceLease};
use k8s_openapi::api::coordination::v1::Lease as GatewayLease;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod, Service};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Resource;
use kube::{Api, Client, Config, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const THREAD: &str = "shop-1767268700-000100";
/// Messages in a thread, oldest first.
pub(crate) const MAIL: [&str; 3] = ["1767268700.000100", "1767268800.000100", "1767268900.000100"];
const DEADLINE: Duration = Duration::from_secs(30);

/// A running controller: what stops it, and how it ended.
pub(crate) type Replica = (CancellationToken, JoinHandle<anyhow::Result<()>>);

pub(crate) struct World {
    pub admin: Client,
    pub place: InstallPlace,
    own: Config,
    running: Option<Replica>,
    cluster: TestCluster,
    lease: Option<PlaceLease>,
    _dir: TempDir,
}

impl World {
    /// A cluster with CRDs, RBAC, gateway Service and AgentRoles, and the controller running.
    pub(crate) async fn start() -> Self {
        let mut world = Self::idle().await;
        world.start_controller();
        world
    }

    /// The same without a running controller.
    pub(crate) async fn idle() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = TestCluster::start(dir.path()).await.unwrap();
        let world = Self::on(cluster, InstallPlace::own(), dir).await;
        world.define().await;
        world
    }

    pub(crate) fn cluster(&self) -> &TestCluster {
        &self.cluster
    }

    /// Installs CRDs and AgentRoles.
    pub(crate) async fn define(&self) {
        self.cluster.install_crds().await.unwrap();
        self.create_roles().await;
    }

    /// The same without CRDs, and so without AgentRoles: on a cluster that nobody else uses.
    pub(crate) async fn without_definitions() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = TestCluster::start_own(dir.path(), ServerOptions::default()).await.unwrap();
        Self::on(cluster, InstallPlace::own(), dir).await
    }

    /// Everything on an embedded API server that fails on purpose, without a controller.
    pub(crate) async fn troubled(faults: Arc<FaultSource>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = ServerOptions { faults: Some(faults), ..ServerOptions::default() };
        let cluster = TestCluster::embedded(dir.path(), options).await.unwrap();
        let world = Self::on(cluster, InstallPlace::usual(), dir).await;
        world.define().await;
        world
    }

    async fn on(cluster: TestCluster, place: InstallPlace, dir: TempDir) -> Self {
        let filter = tracing_subscriber::EnvFilter::from_default_env();
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer();
        let _ = log.try_init();
        place.make(&cluster).await.unwrap();
        let manifests = include_str!("../../../../../operator/deploy/controller.yaml");
        cluster.apply_yaml(&place.adapted(manifests).unwrap()).await.unwrap();
        let hour = Duration::from_hours(1);
        let kubeconfig =
            cluster.kubeconfig_for(&place.system, "codebutler-controller", hour).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig).unwrap();
        let options = KubeConfigOptions::default();
        let own = Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        let lease = Some(place.lease(&cluster));
        let admin = cluster.client();
        let world = Self { admin, place, own, running: None, cluster, lease, _dir: dir };
        world.surroundings().await;
        world
    }

    async fn surroundings(&self) {
        let service = json!({
            "metadata": {"name": "codebutler-gateway", "namespace": self.place.system},
            "spec": {"ports": [{"port": 8443, "targetPort": 8443}]}});
        create::<Service>(&self.admin, &self.place.system, service).await;
        let authority = json!({
            "metadata": {"name": names::CA_CONFIG_MAP, "namespace": self.place.system},
            "data": {"ca.crt": "PEM"}});
        create::<ConfigMap>(&self.admin, &self.place.system, authority).await;
        let lease = json!({
            "metadata": {"name": "codebutler-gateway", "namespace": self.place.system},
            "spec": {"holderIdentity": "gateway-0", "leaseDurationSeconds": 3600}});
        create::<GatewayLease>(&self.admin, &self.place.system, lease).await;
    }

    /// Sets a condition that the gateway reports on the Repo, for the current generation.
    pub(crate) async fn gateway_says(&self, type_: &str, status: &str, message: &str) {
        let said = || async {
            let repo = self.api::<Repo>().get("shop").await.unwrap();
            let mut conditions = repo.status.unwrap_or_default().conditions;
            let time = Time(jiff::Timestamp::now());
            let generation = repo.metadata.generation;
            condition::set_to(&mut conditions, type_, status, "Said", message, generation, &time);
            let patch = json!({"metadata": {"resourceVersion": repo.metadata.resource_version},
                               "status": {"conditions": conditions}});
            let params = PatchParams::default();
            self.api::<Repo>().patch_status("shop", &params, &Patch::Merge(patch)).await.ok()
        };
        eventually("the gateway says it", said).await;
    }

    /// Sets the Repo's conditions as the gateway does when it finds all as it should be.
    pub(crate) async fn repo_is_ready(&self) {
        for type_ in ["SlackReachable", "GitReachable", "ModelReachable"] {
            self.gateway_says(type_, "True", "it answers").await;
        }
        self.condition::<Repo>("shop", "Ready", "True", "Ready").await;
    }

    async fn create_roles(&self) {
        for role in ["pm", "coder"] {
            let role = json!({
                "apiVersion": "codebutler.dev/v1alpha1", "kind": "AgentRole",
                "metadata": {"name": role},
                "spec": {"role": role, "phase": role,
                         "display": {"name": role, "icon": ":robot_face:"},
                         "model": {"default": "scripted/x"}}});
            create::<AgentRole>(&self.admin, &self.place.system, role).await;
        }
    }

    /// A client with the controller's rights.
    pub(crate) fn own_client(&self) -> Client {
        Client::try_from(self.own.clone()).unwrap()
    }

    /// Starts the replica that a killed one is restarted as.
    pub(crate) fn start_controller(&mut self) {
        self.running = Some(self.replica("controller-0"));
    }

    /// Starts a replica of the controller.
    pub(crate) fn replica(&self, identity: &str) -> Replica {
        self.replica_at(identity, ([127, 0, 0, 1], 0).into())
    }

    /// Starts a replica that tells of itself at this address.
    pub(crate) fn replica_at(&self, identity: &str, metrics_address: SocketAddr) -> Replica {
        self.replica_in(self.place.watched(&self.cluster), identity, metrics_address)
    }

    /// Starts a replica that is limited to the team's namespace.
    pub(crate) fn limited_replica(&self, identity: &str) -> Replica {
        self.replica_in(vec![self.place.team.clone()], identity, ([127, 0, 0, 1], 0).into())
    }

    fn replica_in(
        &self,
        namespaces: Vec<String>,
        identity: &str,
        metrics_address: SocketAddr,
    ) -> Replica {
        let args = ControllerArgs {
            namespaces,
            namespace: self.place.system.clone(),
            gateway_service: "codebutler-gateway".to_owned(),
            gateway_port: 8443,
            gateway_shards: 1,
            agent_image: "codebutler-agent:test".to_owned(),
            workspace_image: "debian:12".to_owned(),
            agent_pull_secrets: Vec::new(),
            cluster_dns: Vec::new(),
            agent_pull_policy: None,
            agent_pods: Box::default(),
            lease: LeaseArgs { identity: Some(identity.to_owned()), lease_seconds: 4 },
            metrics_address,
        };
        let client = self.own_client();
        let stop = CancellationToken::new();
        let task =
            tokio::spawn(codebutler_controller::serve_controller(args, client, stop.clone()));
        (stop, task)
    }

    /// Stops the controller the hard way: nothing that it has begun is ended.
    pub(crate) fn kill_controller(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
        }
    }

    /// Stops the controller as SIGTERM does.
    pub(crate) async fn stop_controller(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.cancel();
            tokio::time::timeout(DEADLINE, task).await.unwrap().unwrap().unwrap();
        }
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.admin.clone(), &self.place.team)
    }

    pub(crate) async fn create_repo(&self) {
        let repo = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Repo",
            "metadata": {"name": "shop"},
            "spec": {
                "git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
                "slack": {"channel": "C0TEAM", "credentials": {"name": "slack"},
                          "debounceSeconds": 0},
                "model": {"credentials": {"name": "model"}},
                "roles": ["pm", "coder"]}});
        create::<Repo>(&self.admin, &self.place.team, repo).await;
    }

    /// Plays the gateway at a first message: a Thread, then its mark.
    pub(crate) async fn create_thread(&self) {
        let thread = json!({
            "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread",
            "metadata": {"name": THREAD},
            "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": MAIL[0]}}});
        create::<Thread>(&self.admin, &self.place.team, thread).await;
    }

    /// The gateway's part of a role's status.
    pub(crate) async fn mark(&self, role: &str, fields: Value) {
        let patch = json!({"status": {"roles": {role: fields}}});
        let params = PatchParams::default();
        self.api::<Thread>().patch_status(THREAD, &params, &Patch::Merge(&patch)).await.unwrap();
    }

    pub(crate) async fn close_thread(&self) {
        let patch = Patch::Merge(json!({"spec": {"state": "Closed"}}));
        self.api::<Thread>().patch(THREAD, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Sets the status that the kubelet reports of a pod.
    pub(crate) async fn pod_is(&self, pod: &Pod, phase: &str) {
        let ended = json!({"terminated": {"exitCode": 1, "reason": "Error"}});
        let status = if phase == "Failed" {
            json!({"phase": phase, "containerStatuses": [{
                "name": "agent", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": ended}]})
        } else {
            json!({"phase": phase})
        };
        let patch = Patch::Merge(json!({"status": status}));
        let params = PatchParams::default();
        self.api::<Pod>().patch_status(&pod.name_any(), &params, &patch).await.unwrap();
    }

    pub(crate) async fn thread(&self) -> Thread {
        self.api().get(THREAD).await.unwrap()
    }

    /// Waits for the pod of a role that the role's identity is, other than `not`.
    pub(crate) async fn registered_pod(&self, role: &str, not: Option<&Pod>) -> Pod {
        let name = names::pod_name(THREAD, role);
        let registered = || async {
            let pod = self.api::<Pod>().get_opt(&name).await.unwrap()?;
            let status = self.thread().await.status?;
            let known = status.roles.get(role)?.pod_uid == pod.uid();
            (known && not.is_none_or(|not| not.uid() != pod.uid())).then_some(pod)
        };
        eventually(&format!("a pod of {role} is registered"), registered).await
    }

    /// Waits until a condition of an object has a status and reason.
    pub(crate) async fn condition<K>(
        &self,
        name: &str,
        type_: &str,
        status: &str,
        reason: &str,
    ) -> String
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let found = || async {
            let object = self.api::<K>().get(name).await.ok()?;
            let object = serde_json::to_value(object).unwrap();
            let conditions = object["status"]["conditions"].as_array()?.clone();
            let found = conditions.iter().find(|c| c["type"] == type_)?;
            let same = found["status"] == status && found["reason"] == reason;
            same.then(|| found["message"].as_str().unwrap_or_default().to_owned())
        };
        eventually(&format!("{name} is {type_}={status} because {reason}"), found).await
    }

    /// Waits for an event about an object.
    pub(crate) async fn event(&self, about: &str, reason: &str) {
        let told = || async {
            let events = self.api::<Event>().list(&ListParams::default()).await.unwrap();
            let about_it = |e: &Event| {
                e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(about)
                    && e.reason.as_deref() == Some(reason)
            };
            events.iter().any(about_it).then_some(())
        };
        eventually(&format!("an event {reason} about {about}"), told).await;
    }

    /// Releases claims that are being deleted. A real cluster protects a claim in use, and its own controller lets go
    /// of it.
    pub(crate) async fn release_claims(&self) {
        for claim in self.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap()
        {
            if claim.metadata.deletion_timestamp.is_some() && !claim.finalizers().is_empty() {
                let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                let params = PatchParams::default();
                let _ = self
                    .api::<PersistentVolumeClaim>()
                    .patch(&claim.name_any(), &params, &patch)
                    .await;
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kill_controller();
        drop(self.lease.take());
    }
}

/// Asks until there is an answer.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(
    what: &str,
    ask: impl Fn() -> F,
) -> T {
    let asking = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let answer = tokio::time::timeout(DEADLINE, asking).await;
    answer.unwrap_or_else(|_| panic!("within {DEADLINE:?}: {what}"))
}

pub(crate) async fn create<K>(client: &Client, namespace: &str, object: Value)
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + Debug
        + Serialize
        + DeserializeOwned,
{
    let object: K = serde_json::from_value(object).unwrap();
    let api = Api::<K>::namespaced(client.clone(), namespace);
    api.create(&PostParams::default(), &object).await.unwrap();
}
