//! The cluster that the gateway's tests run on: the API server, with the gateway's own rights.

use std::path::Path;
use std::time::Duration;

use codebutler_testbed::apiserver::AuditRecord;
use codebutler_testbed::cluster;
use codebutler_testbed::place::{InstallPlace, PlaceLease};
use codebutler_testbed::stack::manifests::secrets_binding;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::api::{Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The ServiceAccount of the Repo's pods.
pub(super) const ACCOUNT: &str = "codebutler-shop";

const GATEWAY_YAML: &str = include_str!("../../../../../operator/deploy/gateway.yaml");

pub(super) struct Cluster {
    _lease: PlaceLease,
    inner: cluster::TestCluster,
    pub place: InstallPlace,
    /// Client with the gateway's own rights, and no others.
    pub gateway: Client,
}

impl Cluster {
    pub(super) async fn start(dir: &Path) -> Self {
        let cluster = cluster::TestCluster::start(dir).await.unwrap();
        cluster.install_crds().await.unwrap();
        let place = InstallPlace::own();
        place.make(&cluster).await.unwrap();
        cluster.apply_yaml(&place.adapted(GATEWAY_YAML).unwrap()).await.unwrap();
        let hour = Duration::from_hours(1);
        let config =
            cluster.kubeconfig_for(&place.system, "codebutler-gateway", hour).await.unwrap();
        let config = Kubeconfig::from_yaml(&config).unwrap();
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await.unwrap();
        let gateway = Client::try_from(config).unwrap();
        let this = Self { _lease: place.lease(&cluster), inner: cluster, place, gateway };
        this.apply(&secrets_binding(&this.place)).await;
        this.apply(&json!({
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"namespace": this.place.team, "name": ACCOUNT},
        }))
        .await;
        this
    }

    /// Namespaces that a gateway watches here.
    pub(super) fn watched(&self) -> Vec<String> {
        self.place.watched(&self.inner)
    }

    /// Namespace of the team.
    pub(super) fn team(&self) -> &str {
        &self.place.team
    }

    /// The operator's namespace.
    pub(super) fn system(&self) -> &str {
        &self.place.system
    }

    /// Host name by which agents know the gateway.
    pub(super) fn host(&self) -> String {
        format!("codebutler-gateway.{}.svc", self.place.system)
    }

    pub(super) fn is_embedded(&self) -> bool {
        self.inner.is_embedded()
    }

    /// Requests of a user so far; the embedded server alone remembers them.
    pub(super) fn requests_of(&self, user: &str) -> Vec<(AuditRecord, bool)> {
        self.inner.requests_of(user)
    }

    /// A client with an administrator's rights.
    pub(super) fn admin(&self) -> Client {
        self.inner.client()
    }

    /// A client with the controller's own rights.
    pub(super) async fn controller(&self) -> Client {
        let manifests = include_str!("../../../../../operator/deploy/controller.yaml");
        self.inner.apply_yaml(&self.place.adapted(manifests).unwrap()).await.unwrap();
        let (system, hour) = (&self.place.system, Duration::from_hours(1));
        let config = self.inner.kubeconfig_for(system, "codebutler-controller", hour).await;
        let config = Kubeconfig::from_yaml(&config.unwrap()).unwrap();
        let options = KubeConfigOptions::default();
        Client::try_from(Config::from_custom_kubeconfig(config, &options).await.unwrap()).unwrap()
    }

    /// A kubeconfig with the gateway's own rights, for a process of its own.
    pub(super) async fn kubeconfig(&self) -> String {
        let hour = Duration::from_hours(1);
        self.inner.kubeconfig_for(&self.place.system, "codebutler-gateway", hour).await.unwrap()
    }

    pub(super) fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: kube::Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.inner.client(), namespace)
    }

    pub(super) async fn apply(&self, object: &Value) {
        self.inner.apply_yaml(&object.to_string()).await.unwrap();
    }

    pub(super) async fn secret(&self, name: &str, url: &str, data: &Value) {
        let host = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "namespace": self.place.team, "name": name,
                "annotations": {"codebutler.dev/hosts": host},
            },
            "stringData": data,
        }))
        .await;
    }

    /// Merges a patch into an object, as `kubectl patch --type merge` does.
    pub(super) async fn patch<K>(&self, namespace: &str, name: &str, patch: &Value)
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
    pub(super) async fn pod(&self, namespace: &str, name: &str, account: &str) -> String {
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
    pub(super) async fn token(
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
