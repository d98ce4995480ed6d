//! The cluster as its user sees it.

use codebutler_crds::{AgentRole, Repo, Thread};
use k8s_openapi::NamespaceResourceScope;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt as _};
use serde::de::DeserializeOwned;

use crate::PluginError;
use crate::args::PlaceArgs;

/// A connection, and the namespace that is meant.
pub(crate) struct TeamCluster {
    client: Client,
    /// None: all.
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
        let client = Client::try_from(config).map_err(|error| missing(error.to_string()))?;
        let named = place.namespace.clone().unwrap_or_else(|| usual.clone());
        let namespace = (!place.all_namespaces).then_some(named);
        Ok(Self { client, namespace, usual })
    }

    /// The client itself.
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

    /// All Repos.
    pub(crate) async fn repos(&self) -> Result<Vec<Repo>, PluginError> {
        self.list(&self.scope(), "list Repos").await
    }

    /// All AgentRoles that are in the same place.
    pub(crate) async fn roles(&self) -> Result<Vec<AgentRole>, PluginError> {
        self.list(&self.scope(), "list AgentRoles").await
    }

    /// All Threads.
    pub(crate) async fn threads(&self) -> Result<Vec<Thread>, PluginError> {
        self.list(&self.scope(), "list Threads").await
    }

    /// One Thread.
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

/// An error of the API server, for the user.
pub(crate) fn explain(what: &str, error: &kube::Error) -> PluginError {
    let what = what.to_owned();
    match error {
        kube::Error::Api(status) if status.is_forbidden() => {
            PluginError::Forbidden { what, said: status.message.clone() }
        }
        // A path that the server does not know: no definition.
        kube::Error::Api(status) if status.code == 404 => PluginError::NotInstalled,
        kube::Error::Api(status) => PluginError::Kube { what, said: status.message.clone() },
        other => PluginError::NoCluster(other.to_string()),
    }
}
