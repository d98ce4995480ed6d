//! Connection to the cluster with its user's own rights, and the namespace that is meant.

use std::error::Error as _;

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::PluginError;
use crate::answer_limit::{PATIENCE, limit_answers};
use crate::args::PlaceArgs;
use crate::explain::explain;
use crate::proxy::{ProxyEnvironment, open_client};

/// A connection, and the namespace that is meant.
pub(crate) struct TeamCluster {
    client: Client,
    /// Namespace to look at; None for all.
    namespace: Option<String>,
    usual: String,
    /// Address of the API server.
    server: String,
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
        let missing = |error: KubeconfigError| PluginError::NoKubeconfig(error.to_string());
        let config = match &place.context {
            // Its own text begins with the fact that this is no pod, which nobody asked.
            None => Config::infer().await.map_err(|error| {
                let cause = error.source().map_or_else(|| error.to_string(), ToString::to_string);
                PluginError::NoKubeconfig(cause)
            })?,
            Some(context) => {
                let read = Kubeconfig::read().map_err(missing)?;
                let options =
                    KubeConfigOptions { context: Some(context.clone()), ..Default::default() };
                Config::from_custom_kubeconfig(read, &options).await.map_err(missing)?
            }
        };
        let usual = config.default_namespace.clone();
        let server = config.cluster_url.to_string();
        let client = open_client(config, &ProxyEnvironment::read())?;
        let client = limit_answers(client, PATIENCE);
        let named = place.namespace.clone().unwrap_or_else(|| usual.clone());
        let namespace = (!place.all_namespaces).then_some(named);
        Ok(Self { client, namespace, usual, server })
    }

    /// Asks if the cluster answers and has the product's definitions, which everybody who is signed in may.
    ///
    /// # Errors
    /// A sentence that says what to do.
    pub(crate) async fn require_product(&self) -> Result<(), PluginError> {
        let group = <Repo as kube::Resource>::api_version(&());
        match self.client.list_api_group_resources(&group).await {
            Ok(_) => Ok(()),
            // Some clusters hide that as well: then the next request shows it.
            Err(kube::Error::Api(status)) if status.is_forbidden() => Ok(()),
            Err(error) => Err(self.explain("ask what the cluster has", &error)),
        }
    }

    /// True if the namespace that is meant is known not to be there.
    pub(crate) async fn lacks_namespace(&self) -> bool {
        let spaces = Api::<Namespace>::all(self.client.clone());
        matches!(spaces.get_opt(self.namespace()).await, Ok(None))
    }

    /// Names the cluster where it does not answer.
    fn explain(&self, what: &str, error: &kube::Error) -> PluginError {
        match explain(what, error) {
            PluginError::NoCluster(said) => {
                PluginError::NoCluster(format!("{} ({said})", self.server))
            }
            other => other,
        }
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
        found.map_err(|error| self.explain("read the Thread", &error))?.ok_or_else(|| {
            PluginError::NotFound(format!(
                "there is no Thread `{name}` in namespace {}: `kubectl codebutler threads -A` lists all",
                self.namespace()
            ))
        })
    }

    async fn list<K: TeamKind>(&self, api: &Api<K>, what: &str) -> Result<Vec<K>, PluginError> {
        let listed = api.list(&ListParams::default()).await;
        let mut items = listed.map_err(|error| self.explain(what, &error))?.items;
        items.sort_by_key(|item| (item.namespace(), item.name_any()));
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_cluster_that_does_not_answer_is_named_with_the_cause() {
        let server = "http://127.0.0.1:1/";
        let client = Client::try_from(Config::new(server.parse().unwrap())).unwrap();
        let namespace = Some("team".to_owned());
        let cluster =
            TeamCluster { client, namespace, usual: "team".to_owned(), server: server.to_owned() };
        for told in [cluster.require_product().await, cluster.repos().await.map(|_| ())] {
            let told = told.unwrap_err().to_string();
            for part in
                ["can't be reached: http://127.0.0.1:1/", "onnection refused", "use-context"]
            {
                assert!(told.contains(part), "{part}: {told}");
            }
        }
    }
}
