//! The cluster as its user sees it.

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Status;
use kube::{Api, Client, Config, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::PluginError;
use crate::args::PlaceArgs;
use crate::proxy::{ProxyEnvironment, open_client};

/// A connection, and the namespace that is meant.
pub(crate) struct TeamCluster {
    client: Client,
    /// Namespace to look at; None for all.
    namespace: Option<String>,
    usual: String,
}

/// A kind that lives in namespaces.
pub(crate) trait TeamKind:
    kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + std::fmt::Debug
    + Send
    + 'static
{
}

impl<K> TeamKind for K where
    K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug
        + Send
        + 'static
{
}

impl TeamCluster {
    /// Reads the kubeconfig; the first request shows whether the cluster answers.
    ///
    /// # Errors
    /// Without one.
    pub(crate) async fn connect(place: &PlaceArgs) -> Result<Self, PluginError> {
        let missing = |said: String| PluginError::NoCluster(said);
        let config = match &place.context {
            None => Config::infer().await.map_err(|error| missing(error.to_string()))?,
            Some(context) => {
                let read = Kubeconfig::read().map_err(|error| missing(error.to_string()))?;
                let options =
                    KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
                let config = Config::from_custom_kubeconfig(read, &options).await;
                config.map_err(|error| missing(error.to_string()))?
            }
        };
        let usual = config.default_namespace.clone();
        let client = open_client(config, &ProxyEnvironment::read())?;
        let named = place.namespace.clone().unwrap_or_else(|| usual.clone());
        let namespace = (!place.all_namespaces).then_some(named);
        Ok(Self { client, namespace, usual })
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// The namespace for one object.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or(&self.usual)
    }

    /// True if all namespaces are meant.
    pub(crate) const fn is_wide(&self) -> bool {
        self.namespace.is_none()
    }

    /// Objects in the namespace that is meant.
    pub(crate) fn team<K: TeamKind>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), self.namespace())
    }

    /// Objects in all namespaces that are meant.
    pub(crate) fn scope<K: TeamKind>(&self) -> Api<K> {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    /// Lists the Repos of the namespace, or of all.
    pub(crate) async fn repos(&self) -> Result<Vec<Repo>, PluginError> {
        self.list(&self.scope(), "list Repos").await
    }

    /// Lists the AgentRoles of the namespace, or of all.
    pub(crate) async fn roles(&self) -> Result<Vec<AgentRole>, PluginError> {
        self.list(&self.scope(), "list AgentRoles").await
    }

    /// Lists the Threads of the namespace, or of all.
    pub(crate) async fn threads(&self) -> Result<Vec<Thread>, PluginError> {
        self.list(&self.scope(), "list Threads").await
    }

    /// Reads a Thread by its name; one that does not exist is an error.
    pub(crate) async fn thread(&self, name: &str) -> Result<Thread, PluginError> {
        let found = self.team::<Thread>().get_opt(name).await;
        found.map_err(|error| explain("read the Thread", &error))?.ok_or_else(|| {
            PluginError::NotFound(format!(
                "there is no Thread `{name}` in namespace {}: `kubectl codebutler threads -A` lists all",
                self.namespace()
            ))
        })
    }

    async fn list<K: TeamKind>(&self, api: &Api<K>, what: &str) -> Result<Vec<K>, PluginError> {
        let listed = api.list(&ListParams::default()).await;
        let mut items = listed.map_err(|error| explain(what, &error))?.items;
        items.sort_by_key(|item| (item.namespace(), item.name_any()));
        Ok(items)
    }
}

/// Turns an error of the API server into one for the user.
pub(crate) fn explain(what: &str, error: &kube::Error) -> PluginError {
    let what = what.to_owned();
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            PluginError::Forbidden { what, said: status.message.clone() }
        }
        kube::Error::Api(status) if status.code == 401 => PluginError::NotSignedIn,
        kube::Error::Api(status) if status.code == 404 => explain_missing(status),
        kube::Error::Api(status) => PluginError::Kube { what, said: status.message.clone() },
        other => PluginError::NoCluster(other.to_string()),
    }
}

/// An object, or its namespace, is not there; or a path that the server does not know: no definition.
fn explain_missing(status: &Status) -> PluginError {
    let details = status.details.as_ref();
    let named = details.map(|details| (details.kind.as_str(), details.name.as_str()));
    match named {
        Some(("namespaces", name)) if !name.is_empty() => PluginError::NotFound(format!(
            "there is no namespace `{name}`: create it (`kubectl create namespace {name}`), or name another one with -n"
        )),
        Some((_, name)) if !name.is_empty() => PluginError::NotFound(status.message.clone()),
        _ => PluginError::NotInstalled,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(status: serde_json::Value) -> String {
        let status: Status = serde_json::from_value(status).unwrap();
        explain("read it", &kube::Error::Api(Box::new(status))).to_string()
    }

    #[test]
    fn what_is_missing_is_named_and_not_always_the_product() {
        let missing = |details: serde_json::Value, message: &str| {
            told(serde_json::json!({
                "status": "Failure", "code": 404, "reason": "NotFound", "message": message,
                "details": details,
            }))
        };
        let unknown =
            missing(serde_json::json!({}), "the server could not find the requested resource");
        assert!(unknown.contains("install the charts first"), "{unknown}");
        let details = serde_json::json!({"name": "shop", "kind": "namespaces"});
        let space = missing(details, "namespaces \"shop\" not found");
        assert!(space.contains("kubectl create namespace shop"), "{space}");
        let details = serde_json::json!({"name": "pod-1", "kind": "pods"});
        assert_eq!(missing(details, "pods \"pod-1\" not found"), "pods \"pod-1\" not found");
        let away = told(
            serde_json::json!({"status": "Failure", "code": 401, "reason": "Unauthorized", "message": ""}),
        );
        assert!(away.contains("sign in"), "{away}");
    }
}
