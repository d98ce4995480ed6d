//! A cluster with controllers and a kubelet, for one test.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use codebutler_testbed::cluster::TestCluster;
use codebutler_testbed::controllers::{ControllerManager, ControllerOptions};
use codebutler_testbed::kubelet::{KubeletOptions, LocalImage, ProcessKubelet};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Timeout of anything in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct World {
    pub client: Client,
    pub namespace: String,
    pub node: String,
    pub dir: tempfile::TempDir,
    pub cluster: TestCluster,
    controllers: ControllerManager,
    pub kubelet: Option<ProcessKubelet>,
}

/// A world with a kubelet that knows the image `shell`, and whatever `change` makes of it.
pub(crate) async fn world(change: impl FnOnce(&mut KubeletOptions)) -> World {
    let mut world = without_kubelet().await;
    let mut options = world.options();
    change(&mut options);
    world.start(options).await;
    world
}

pub(crate) async fn without_kubelet() -> World {
    let dir = tempfile::tempdir().unwrap();
    let cluster = TestCluster::start(dir.path()).await.unwrap();
    let client = cluster.client();
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let namespace = format!("test-{}", &unique[..8]);
    let options = ControllerOptions {
        pv_dir: dir.path().join("pv"),
        root_ca: Some(cluster.ca_pem().to_owned()).filter(|pem| !pem.is_empty()),
    };
    let served = vec![namespace.clone()];
    let controllers = ControllerManager::start_in(client.clone(), options, served);
    let controllers = controllers.await.unwrap();
    let node = format!("node-{}", &unique[..8]);
    let world = World { client, namespace, node, dir, cluster, controllers, kubelet: None };
    let new = json!({"metadata": {"name": world.namespace}});
    let new: Namespace = serde_json::from_value(new).unwrap();
    Api::all(world.client.clone()).create(&PostParams::default(), &new).await.unwrap();
    world
        .until("default account", || async {
            world
                .api::<k8s_openapi::api::core::v1::ServiceAccount>()
                .get_opt("default")
                .await
                .unwrap()
        })
        .await;
    world
}

impl World {
    pub(crate) fn options(&self) -> KubeletOptions {
        KubeletOptions {
            images: BTreeMap::from([("shell".to_owned(), LocalImage::default())]),
            namespaces: vec![self.namespace.clone()],
            backoff: Duration::from_millis(200),
            ..KubeletOptions::new(
                &self.node,
                self.dir.path().join("kubelet"),
                PathBuf::from(env!("CARGO_BIN_EXE_demo")),
            )
        }
    }

    pub(crate) async fn start(&mut self, options: KubeletOptions) {
        self.kubelet = Some(ProcessKubelet::start(self.client.clone(), options).await.unwrap());
    }

    pub(crate) fn kubelet(&self) -> &ProcessKubelet {
        self.kubelet.as_ref().unwrap()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn create<K>(&self, value: Value) -> K
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + Debug
            + Serialize
            + DeserializeOwned,
    {
        let object: K = serde_json::from_value(value).unwrap();
        self.api().create(&PostParams::default(), &object).await.unwrap()
    }

    /// Makes a pod of this node from its spec; containers get the image `shell`.
    pub(crate) async fn pod(&self, name: &str, mut spec: Value) -> Pod {
        for kind in ["containers", "initContainers"] {
            for container in spec[kind].as_array_mut().into_iter().flatten() {
                if container["image"].is_null() {
                    container["image"] = "shell".into();
                }
            }
        }
        if spec["nodeName"].is_null() {
            spec["nodeName"] = self.node.clone().into();
        }
        spec["automountServiceAccountToken"] = false.into();
        self.create(json!({"metadata": {"name": name}, "spec": spec})).await
    }

    /// Asks until there is an answer.
    pub(crate) async fn until<T, F>(&self, what: &str, mut ask: impl FnMut() -> F) -> T
    where
        F: Future<Output = Option<T>>,
    {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(Instant::now() < deadline, "{what} took too long");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a pod's JSON satisfies `holds`.
    pub(crate) async fn pod_until(
        &self,
        name: &str,
        what: &str,
        holds: impl Fn(&Value) -> bool,
    ) -> Value {
        let mut last = Value::Null;
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let pod = self.api::<Pod>().get_opt(name).await.unwrap();
            last = serde_json::to_value(pod).unwrap();
            if holds(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{name}: {what} took too long: {:#}", last["status"]);
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Value {
        self.pod_until(name, phase, |pod| pod["status"]["phase"] == phase).await
    }

    pub(crate) async fn ready(&self, name: &str) -> Value {
        self.pod_until(name, "ready", |pod| condition(pod, "Ready") == "True").await
    }

    pub(crate) async fn delete_pod(&self, name: &str, grace: Option<u32>) {
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        let uid = self.api::<Pod>().get(name).await.unwrap().uid();
        self.api::<Pod>().delete(name, &params).await.unwrap();
        self.until("deletion", || async {
            let now = self.api::<Pod>().get_opt(name).await.unwrap();
            now.is_none_or(|pod| pod.uid() != uid).then_some(())
        })
        .await;
    }

    pub(crate) async fn logs(&self, pod: &str, container: &str) -> String {
        self.kubelet().logs(&self.namespace, pod, container).await.unwrap()
    }

    /// Standard output of a shell script in a container.
    pub(crate) async fn sh(&self, pod: &str, container: &str, script: &str) -> String {
        let argv = ["sh", "-c", script];
        let output = self.kubelet().exec(&self.namespace, pod, container, &argv).await.unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) async fn end(mut self) {
        if let Some(kubelet) = self.kubelet.take() {
            kubelet.shutdown().await;
        }
        if self.cluster.is_shared() {
            // Nobody else would say of pods on a node without a kubelet that they are over.
            let pods = Api::<Pod>::namespaced(self.client.clone(), &self.namespace);
            let now = DeleteParams::default().grace_period(0);
            let _ = pods.delete_collection(&now, &ListParams::default()).await;
            let namespaces: Api<Namespace> = Api::all(self.client.clone());
            let _ = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
            self.until("end of the namespace", || async {
                namespaces.get_opt(&self.namespace).await.unwrap().is_none().then_some(())
            })
            .await;
            let nodes: Api<Node> = Api::all(self.client.clone());
            let _ = nodes.delete(&self.node, &DeleteParams::default()).await;
        }
        self.controllers.shutdown().await;
        self.cluster.shutdown().await;
    }
}

/// The status of a condition of a pod.
pub(crate) fn condition<'a>(pod: &'a Value, kind: &str) -> &'a str {
    let all = pod["status"]["conditions"].as_array().into_iter().flatten();
    all.filter(|c| c["type"] == kind).find_map(|c| c["status"].as_str()).unwrap_or_default()
}

/// The status of a container of any kind.
pub(crate) fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    ["containerStatuses", "initContainerStatuses"]
        .iter()
        .flat_map(|kind| pod["status"][kind].as_array().into_iter().flatten())
        .find(|status| status["name"] == name)
        .unwrap_or(&Value::Null)
}

/// A container that runs a script.
pub(crate) fn sh(name: &str, script: &str) -> Value {
    json!({"name": name, "command": ["sh", "-c", script]})
}

/// A container and more of its fields.
pub(crate) fn with(mut container: Value, mut more: Value) -> Value {
    container.as_object_mut().unwrap().append(more.as_object_mut().unwrap());
    container
}
