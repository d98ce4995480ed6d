//! The names of an installation in a cluster: unique ones, so that several installations share a cluster
//! and each is removed without leaving anything behind.

use std::fs::File;
use std::time::Duration;

use codebutler_crds::{Repo, Thread, names};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Resource, ResourceExt as _};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::{ClusterError, Result, TestCluster};

/// The operator's namespace where nobody chose another, and in its manifests.
pub const SYSTEM: &str = "codebutler-system";
/// The team's namespace where nobody chose another.
pub const TEAM: &str = "team";

/// Timeout of the removal of a place.
const PATIENCE: Duration = Duration::from_secs(30);

/// The names of one installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallPlace {
    /// The operator's namespace.
    pub system: String,
    /// Namespace of the team's Repo.
    pub team: String,
    tag: String,
}

impl InstallPlace {
    /// The usual names, as the README has them: only one installation can have them.
    pub fn usual() -> Self {
        Self { system: SYSTEM.to_owned(), team: TEAM.to_owned(), tag: String::new() }
    }

    /// Names that nobody else has.
    pub fn own() -> Self {
        let tag = format!("-{:08x}", rand::random::<u32>());
        Self { system: format!("{SYSTEM}{tag}"), team: format!("{TEAM}{tag}"), tag }
    }

    /// True if the names are the usual ones, which only one installation in a cluster can have.
    pub fn is_usual(&self) -> bool {
        self.tag.is_empty()
    }

    /// A name of something that has no namespace.
    pub fn named(&self, name: &str) -> String {
        format!("{name}{}", self.tag)
    }

    /// Namespaces that the operator watches; empty for all, as in a cluster of its own.
    pub fn watched(&self, cluster: &TestCluster) -> Vec<String> {
        if cluster.is_shared() && !self.is_usual() { vec![self.team.clone()] } else { Vec::new() }
    }

    /// Manifests of the operator with these names instead of the usual ones.
    ///
    /// # Errors
    /// When the text is not YAML.
    pub fn adapted(&self, yaml: &str) -> Result<String> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| ClusterError::Manifest(error.to_string()))?;
        let adapted = documents.into_iter().map(|mut document| {
            let wide = |kind: &Value| kind == "ClusterRole" || kind == "ClusterRoleBinding";
            if wide(&document["kind"]) {
                self.rename(&mut document["metadata"]["name"]);
            }
            if document.get("roleRef").is_some_and(|role| wide(&role["kind"])) {
                self.rename(&mut document["roleRef"]["name"]);
            }
            let subjects = document.get_mut("subjects").and_then(Value::as_array_mut);
            for subject in subjects.into_iter().flatten() {
                self.move_here(subject);
            }
            self.move_here(&mut document["metadata"]);
            document.to_string()
        });
        Ok(adapted.collect::<Vec<_>>().join("\n---\n"))
    }

    fn rename(&self, name: &mut Value) {
        *name = self.named(name.as_str().unwrap_or_default()).into();
    }

    fn move_here(&self, part: &mut Value) {
        if part["namespace"] == SYSTEM {
            part["namespace"] = self.system.clone().into();
        }
        // Looking at a field makes it.
        if part["namespace"].is_null()
            && let Some(map) = part.as_object_mut()
        {
            map.remove("namespace");
        }
    }

    /// Makes both namespaces.
    ///
    /// # Errors
    /// When the API server says no.
    pub async fn make(&self, cluster: &TestCluster) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(cluster.client());
        for name in [&self.system, &self.team] {
            let leaving = || async {
                let found =
                    namespaces.get_opt(name).await.map_err(ClusterError::request(name.clone()))?;
                Ok::<_, ClusterError>(
                    found.is_some_and(|found| found.metadata.deletion_timestamp.is_some()),
                )
            };
            let deadline = tokio::time::Instant::now() + PATIENCE;
            while leaving().await? {
                if tokio::time::Instant::now() > deadline {
                    return Err(ClusterError::Timeout("the end of an earlier namespace"));
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            cluster.apply_yaml(&namespace.to_string()).await?;
        }
        Ok(())
    }

    /// Returns a guard that removes the place from a cluster that outlives it, once it is dropped. For
    /// tests: everything in the namespaces is deleted.
    pub fn lease(&self, cluster: &TestCluster) -> PlaceLease {
        PlaceLease(cluster.turn().map(|turn| (self.clone(), cluster.config().clone(), turn)))
    }
}

/// Guard that removes a place; see [`InstallPlace::lease`].
#[must_use = "the place is removed when this is dropped"]
pub struct PlaceLease(Option<(InstallPlace, Kubeconfig, File)>);

impl Drop for PlaceLease {
    fn drop(&mut self) {
        let Some((place, config, turn)) = self.0.take() else { return };
        // Whatever runtime this is dropped in may end with it.
        let removal = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let removed =
                async { tokio::time::timeout(PATIENCE, Box::pin(place.remove(config))).await };
            match runtime.map(|runtime| runtime.block_on(removed)) {
                Ok(Ok(Ok(()))) => {}
                other => tracing::warn!(?other, "a namespace of a test is left behind"),
            }
        });
        let _ = removal.join();
        drop(turn);
    }
}

impl InstallPlace {
    /// Takes everything away without waiting for anybody: who let finalizers go is gone himself.
    async fn remove(&self, config: Kubeconfig) -> kube::Result<()> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(config, &options).await;
        let mut config = config.map_err(|error| kube::Error::Service(error.into()))?;
        crate::cluster::without_proxy(&mut config);
        let client = Client::try_from(config)?;
        let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        for namespace in [&self.team, &self.system] {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            ignore_missing(namespaces.delete(namespace, &DeleteParams::default()).await)?;
            delete_all::<Thread>(&client, namespace).await?;
            delete_all::<Repo>(&client, namespace).await?;
            delete_all::<Pod>(&client, namespace).await?;
            delete_all::<PersistentVolumeClaim>(&client, namespace).await?;
            // A bare API server has nobody who does it.
            crate::controllers::end_namespace(&client, namespace).await;
        }
        let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
        let roles: Api<ClusterRole> = Api::all(client.clone());
        let own = ["codebutler-controller", names::GATEWAY, names::SECRETS_ROLE];
        // The chart adds the namespace to the names of cluster-scoped objects.
        let scoped = format!("{}-{}", names::GATEWAY, self.system);
        for name in own.map(|name| self.named(name)).into_iter().chain([scoped]) {
            ignore_missing(bindings.delete(&name, &now).await)?;
            ignore_missing(roles.delete(&name, &now).await)?;
        }
        let nodes: Api<Node> = Api::all(client.clone());
        ignore_missing(nodes.delete(&self.named("testbed"), &now).await)?;
        let volumes: Api<PersistentVolume> = Api::all(client);
        for volume in volumes.list(&ListParams::default()).await? {
            let claim = volume.spec.as_ref().and_then(|spec| spec.claim_ref.as_ref());
            if claim.and_then(|claim| claim.namespace.as_ref()) == Some(&self.team) {
                let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                ignore_missing(
                    volumes.patch(&volume.name_any(), &PatchParams::default(), &free).await,
                )?;
                ignore_missing(volumes.delete(&volume.name_any(), &now).await)?;
            }
        }
        Ok(())
    }
}

/// Deletes all objects of a kind at once, whatever holds them.
async fn delete_all<K>(client: &Client, namespace: &str) -> kube::Result<()>
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    let api = Api::<K>::namespaced(client.clone(), namespace);
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    for object in api.list(&ListParams::default()).await? {
        let name = object.name_any();
        if !object.finalizers().is_empty() {
            let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
            ignore_missing(api.patch(&name, &PatchParams::default(), &free).await)?;
        }
        ignore_missing(api.delete(&name, &now).await)?;
    }
    Ok(())
}

/// Turns an error that says that the object is gone already into success.
fn ignore_missing<T>(result: kube::Result<T>) -> kube::Result<()> {
    match result {
        Err(kube::Error::Api(status)) if crate::cluster::is_replaced(&status) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_move_to_the_place_with_all_that_points_at_them() {
        let place = InstallPlace::own();
        let yaml = include_str!("../../operator/deploy/gateway.yaml");
        let adapted = place.adapted(yaml).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&adapted).unwrap();
        for document in &documents {
            let namespace = &document["metadata"]["namespace"];
            assert!(namespace.is_null() || *namespace == place.system.as_str(), "{document}");
            for subject in document["subjects"].as_array().into_iter().flatten() {
                assert_eq!(subject["namespace"], place.system.as_str());
            }
        }
        let binding = documents.iter().find(|d| d["kind"] == "ClusterRoleBinding").unwrap();
        assert_eq!(binding["roleRef"]["name"], place.named("codebutler-gateway"));
        let usual = InstallPlace::usual().adapted(yaml).unwrap();
        let usual: Vec<Value> = serde_saphyr::from_multiple(&usual).unwrap();
        assert_eq!(usual, serde_saphyr::from_multiple::<Value>(yaml).unwrap());
    }
}
