//! The cluster that the gateway's tests run on: the API server, with the gateway's own rights.

use std::path::Path;
use std::time::Duration;

use codebutler_testbed::apiserver::Options;
use codebutler_testbed::cluster;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The operator's namespace.
pub const SYSTEM: &str = "codebutler-system";
/// The team's.
pub const TEAM: &str = "team";
/// The ServiceAccount of the Repo's pods.
pub const ACCOUNT: &str = "codebutler-shop";

const GATEWAY_YAML: &str = include_str!("../../../../operator/deploy/gateway.yaml");

pub struct Cluster {
    cluster: cluster::Cluster,
    /// What the gateway itself may do, and nothing more.
    pub gateway: Client,
}

impl Cluster {
    pub async fn start(dir: &Path) -> Self {
        let cluster = cluster::Cluster::embedded(dir, Options::default()).await.unwrap();
        cluster.install_crds().await.unwrap();
        for namespace in [SYSTEM, TEAM] {
            let object = json!({
                "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
            });
            cluster.apply_yaml(&object.to_string()).await.unwrap();
        }
        cluster.apply_yaml(GATEWAY_YAML).await.unwrap();
        let hour = Duration::from_hours(1);
        let config = cluster.kubeconfig_for(SYSTEM, "codebutler-gateway", hour).await.unwrap();
        let config = Kubeconfig::from_yaml(&config).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let this = Self { cluster, gateway: Client::try_from(config).unwrap() };
        this.apply(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": TEAM, "name": ACCOUNT},
        }))
        .await;
        this
    }

    /// A client with an administrator's rights.
    pub fn admin(&self) -> Client {
        self.cluster.client()
    }

    /// A kubeconfig with the gateway's own rights, for a process of its own.
    pub async fn kubeconfig(&self) -> String {
        let hour = Duration::from_hours(1);
        self.cluster.kubeconfig_for(SYSTEM, "codebutler-gateway", hour).await.unwrap()
    }

    pub fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.cluster.client(), namespace)
    }

    pub async fn apply(&self, object: &Value) {
        self.cluster.apply_yaml(&object.to_string()).await.unwrap();
    }

    pub async fn secret(&self, name: &str, url: &str, data: &Value) {
        let host = url.split('/').nth(2).unwrap();
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": TEAM, "name": name,
                "annotations": {"codebutler.dev/hosts": host},
            },
            "stringData": data,
        }))
        .await;
    }

    /// As `kubectl patch --type merge` does.
    pub async fn patch<K>(&self, namespace: &str, name: &str, patch: &Value)
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned
            + Serialize,
    {
        let api = self.api::<K>(namespace);
        let params = PatchParams::default();
        if patch.get("status").is_some() {
            api.patch_status(name, &params, &Patch::Merge(patch)).await.unwrap();
        } else {
            api.patch(name, &params, &Patch::Merge(patch)).await.unwrap();
        }
    }

    /// Makes a pod; returns its UID. Nothing runs it.
    pub async fn pod(&self, namespace: &str, name: &str, account: &str) -> String {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {
                "serviceAccountName": account,
                "containers": [{"name": "agent", "image": "agent"}],
            },
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let pod = self.api::<Pod>(namespace).create(&PostParams::default(), &pod).await.unwrap();
        pod.uid().unwrap()
    }

    /// A token of a ServiceAccount, as the kubelet gets it: for a pod, or for none.
    pub async fn token(
        &self,
        namespace: &str,
        account: &str,
        audience: &str,
        pod: Option<(&str, &str)>,
    ) -> String {
        let bound = pod.map(|(name, uid)| BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(uid.to_owned()),
        });
        let spec = TokenRequestSpec {
            audiences: vec![audience.to_owned()],
            bound_object_ref: bound,
            expiration_seconds: Some(3600),
        };
        let request = TokenRequest { spec, ..TokenRequest::default() };
        let accounts = self.api::<ServiceAccount>(namespace);
        let params = PostParams::default();
        let answer = accounts.create_token_request(account, &params, &request).await.unwrap();
        answer.status.unwrap().token
    }
}
