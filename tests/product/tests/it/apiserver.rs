//! The API server as kube-rs and kubectl see it. Nothing here knows which server it is: with
//! `KUBECONFIG` or `KUBEBUILDER_ASSETS` set, the same tests run on a real one.

mod clients;
mod custom;
mod deletion;
mod identity;
pub(crate) mod kubectl;
mod ownership;
mod watching;
mod writing;

use codebutler_testbed::cluster::TestCluster;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::{GroupVersionKind, Status};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A cluster with CodeButler's definitions and a namespace of the test's own.
struct Fixture {
    cluster: TestCluster,
    client: Client,
    namespace: String,
    dir: TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = TestCluster::start(dir.path()).await.unwrap();
        cluster.install_crds().await.unwrap();
        let client = cluster.client();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = Namespace {
            metadata: ObjectMeta {
                generate_name: Some("apiserver-".to_owned()),
                ..ObjectMeta::default()
            },
            ..Namespace::default()
        };
        let namespace = namespaces.create(&PostParams::default(), &namespace).await.unwrap();
        let fixture = Self { client, namespace: namespace.name_any(), cluster, dir };
        // A bare control plane has no controller that makes it.
        fixture.account("default").await;
        fixture
    }

    async fn account(&self, name: &str) {
        let api: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &self.namespace);
        let account = json!({
            "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
        });
        api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(&account))
            .await
            .unwrap();
    }

    fn api(&self, version: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource(version, kind, plural))
    }

    fn threads(&self) -> Api<DynamicObject> {
        self.api("codebutler.dev/v1alpha1", "Thread", "threads")
    }

    fn maps(&self) -> Api<DynamicObject> {
        self.api("v1", "ConfigMap", "configmaps")
    }

    fn pods(&self) -> Api<DynamicObject> {
        self.api("v1", "Pod", "pods")
    }

    /// Removes what the test made; the embedded server goes with it.
    async fn done(self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.namespace, &kube::api::DeleteParams::default()).await.unwrap();
        self.cluster.shutdown().await;
        drop(self.dir);
    }
}

fn resource(version: &str, kind: &str, plural: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

fn config_map(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name}, "data": {"a": "1"},
    }))
}

fn thread(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
        "spec": {"repo": "shop", "slack": {"channel": "C0123", "ts": "1700000000.000100"}},
    }))
}

/// A pod that no scheduler takes.
fn pod(name: &str) -> DynamicObject {
    object(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "schedulerName": "nobody", "automountServiceAccountToken": false,
            "containers": [{"name": "main", "image": "image:1"}],
        },
    }))
}

/// Returns the Status of a request that was refused.
fn refusal<T>(result: Result<T, kube::Error>) -> Box<Status> {
    match result {
        Err(kube::Error::Api(status)) => status,
        Err(other) => panic!("another failure: {other}"),
        Ok(_) => panic!("it was allowed"),
    }
}
