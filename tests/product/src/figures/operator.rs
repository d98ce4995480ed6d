//! The controller as a process of its own on an API server with definitions, rights and a Repo: what
//! `reconcile` and `admission` are measured on. Nobody plays kubelet or gateway.

use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use codebutler_crds::{AgentRole, Repo, Thread, names};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::memory;
use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::stack::process::{OperatorProcess, ProcessCommand};

const SYSTEM: &str = "codebutler-system";
const MANIFESTS: &str = include_str!("../../../../operator/deploy/controller.yaml");
const READY: Duration = Duration::from_mins(2);

/// A running controller and access to its cluster.
pub(super) struct RunningOperator {
    /// An administrator's client.
    pub client: Client,
    /// The team's namespace, new for this run.
    pub namespace: String,
    process: OperatorProcess,
    metrics: String,
    cluster: TestCluster,
    _dir: tempfile::TempDir,
}

impl RunningOperator {
    /// Starts a cluster (or uses the one of `KUBECONFIG`) and the controller on it.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let cluster = TestCluster::start(&dir.path().join("cluster")).await?;
        cluster.install_crds().await?;
        let client = cluster.client();
        apply_object::<Namespace>(&Api::all(client.clone()), SYSTEM, json!({})).await?;
        cluster.apply_yaml(MANIFESTS).await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(json!({"metadata": {"generateName": "figures-"}}))?;
        let namespace = namespaces.create(&PostParams::default(), &namespace).await?;
        let namespace = namespace.metadata.name.unwrap_or_default();
        make_surroundings(&client, &namespace).await?;

        let hour = Duration::from_hours(1);
        let kubeconfig = cluster.kubeconfig_for(SYSTEM, "codebutler-controller", hour).await?;
        let path = dir.path().join("controller.kubeconfig");
        std::fs::write(&path, kubeconfig)?;
        let program = dir.path().join("codebutler-operator");
        symlink(std::env::current_exe()?, &program)?;
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let address = format!("127.0.0.1:{port}");
        let command = ProcessCommand {
            program,
            args: vec!["controller".into(), format!("--metrics-address={address}").into()],
            env: vec![
                ("KUBECONFIG".to_owned(), path.into_os_string()),
                ("CODEBUTLER_LOG".to_owned(), "error".into()),
                // As in its image.
                ("MALLOC_ARENA_MAX".to_owned(), "64".into()),
            ],
            log: dir.path().join("controller.log"),
        };
        let process = command.spawn()?;
        let operator = Self { client, namespace, process, metrics: address, cluster, _dir: dir };
        operator.ready().await?;
        Ok(operator)
    }

    async fn ready(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + READY;
        let url = format!("http://{}/readyz", self.metrics);
        while Instant::now() < deadline {
            if reqwest::get(&url).await.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let log = std::fs::read_to_string(self.process.log()).unwrap_or_default();
        anyhow::bail!("the controller did not become ready: {log}")
    }

    /// The team's objects of a kind.
    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// Number of the controller's reconciles of Threads so far.
    pub(super) async fn reconciles(&self) -> anyhow::Result<f64> {
        let url = format!("http://{}/metrics", self.metrics);
        let text = reqwest::get(url).await?.text().await?;
        let samples = text.lines().filter(|line| {
            line.starts_with("codebutler_reconciles_total{") && line.contains("kind=\"Thread\"")
        });
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Resident memory of the controller, in MiB.
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        let pid = self.process.pid().context("the controller has ended")?;
        memory::resident_memory(pid)
    }

    /// Stops the controller and the cluster. A given cluster stays, and deletes the namespace without being awaited.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        self.process.stop().await?;
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &kube::api::DeleteParams::default()).await?;
        self.cluster.shutdown().await;
        Ok(())
    }
}

/// Makes a Thread of the measured Repo.
pub(super) fn make_thread(name: &str) -> anyhow::Result<Thread> {
    Ok(serde_json::from_value(json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
        "spec": {"repo": "shop", "slack": {"channel": "C0TEAM", "ts": "1767268700.000100"}},
    }))?)
}

/// The status patch that the gateway writes when somebody has written to a role.
pub(super) fn mail_patch() -> Patch<Value> {
    Patch::Merge(json!({"status": {"roles": {"pm": {"inbox": "1767268700.000100"}}}}))
}

async fn make_surroundings(client: &Client, namespace: &str) -> anyhow::Result<()> {
    let services: Api<Service> = Api::namespaced(client.clone(), SYSTEM);
    let service = json!({"spec": {"ports": [{"port": 8443, "targetPort": 8443}]}});
    apply_object(&services, "codebutler-gateway", service).await?;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), SYSTEM);
    apply_object(&maps, names::CA_CONFIG_MAP, json!({"data": {"ca.crt": "PEM"}})).await?;
    let roles: Api<AgentRole> = Api::namespaced(client.clone(), namespace);
    let role = json!({"spec": {
        "role": "pm", "phase": "pm", "display": {"name": "pm", "icon": ":robot_face:"},
        "model": {"default": "scripted/x"},
    }});
    apply_object(&roles, "pm", role).await?;
    let repos: Api<Repo> = Api::namespaced(client.clone(), namespace);
    let repo = json!({"spec": {
        "git": {"url": "https://git.example/acme/shop", "credentials": {"name": "git"}},
        "slack": {"channel": "C0TEAM", "credentials": {"name": "slack"}, "debounceSeconds": 0},
        "model": {"credentials": {"name": "model"}}, "roles": ["pm"],
        "limits": {"concurrentThreads": 1000, "concurrentRuns": 1000},
    }});
    apply_object(&repos, "shop", repo).await
}

async fn apply_object<K>(api: &Api<K>, name: &str, mut object: Value) -> anyhow::Result<()>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
{
    object["apiVersion"] = K::api_version(&()).into();
    object["kind"] = K::kind(&()).into();
    object["metadata"] = json!({"name": name});
    let params = PatchParams::apply("codebutler-figures").force();
    api.patch(name, &params, &Patch::Apply(&object)).await?;
    Ok(())
}
