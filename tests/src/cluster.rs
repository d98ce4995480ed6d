//! A cluster to run on: the embedded API server, or a real one.
//!
//! `KUBECONFIG` names a cluster to use; `KUBEBUILDER_ASSETS` a folder with `etcd` and
//! `kube-apiserver` to start; otherwise the embedded server is started. What a cluster offers here
//! goes through the API alone, so that it is the same on all three.

mod apply;
mod assets;
mod turns;

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};

use kube::config::{
    AuthInfo, KubeConfigOptions, Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext,
};
use kube::core::Status;
use kube::runtime::conditions;
use kube::runtime::wait::await_condition;
use kube::{Client, Config, ResourceExt as _};

use crate::apiserver::{self, ApiServer, ServerOptions};
use assets::AssetProcesses;
use turns::ClusterTurn;

/// Field manager of what is applied here.
const MANAGER: &str = "codebutler-testbed";
/// Timeout for an API server to become ready, or for a definition to be established.
const READY: Duration = Duration::from_mins(1);

/// An error of a cluster's start or of a request to it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The embedded API server did not start.
    #[error(transparent)]
    Embedded(#[from] apiserver::ServerStartError),
    /// A file could not be used or a process not be run.
    #[error("{what}")]
    Io {
        /// Action that was tried, for people.
        what: String,
        /// Underlying error of the system.
        #[source]
        source: std::io::Error,
    },
    /// Certificates of a real server.
    #[error("certificates")]
    Certificates(#[from] rcgen::Error),
    /// A kubeconfig can't be read or used.
    #[error("kubeconfig")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A request to the API server failed.
    #[error("{what}")]
    Request {
        /// Action that was tried, for people.
        what: String,
        /// Underlying error of the request.
        #[source]
        source: Box<kube::Error>,
    },
    /// A manifest can't be parsed or applied.
    #[error("manifest: {0}")]
    Manifest(String),
    /// Something did not happen in time.
    #[error("{0} took too long")]
    Timeout(&'static str),
}

impl ClusterError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        |source| Self::Io { what, source }
    }

    pub(crate) fn request(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| Self::Request { what, source: Box::new(source) }
    }
}

/// Result of this module's functions.
pub type Result<T, E = ClusterError> = std::result::Result<T, E>;

enum ClusterSource {
    Embedded(ApiServer),
    Assets(Box<AssetProcesses>),
    Given(std::fs::File),
}

/// A cluster, with an administrator's access to it.
pub struct TestCluster {
    source: ClusterSource,
    client: Client,
    config: Kubeconfig,
    path: PathBuf,
    ca: String,
}

impl TestCluster {
    /// Starts or finds a cluster. Files (the kubeconfig, a real server's data) go below `dir`.
    pub async fn start(dir: &Path) -> Result<Self> {
        Self::start_with(dir, ServerOptions::default()).await
    }

    /// Starts or finds a cluster as [`TestCluster::start`] does, with options for the embedded server,
    /// if it is that one.
    pub async fn start_with(dir: &Path, options: ServerOptions) -> Result<Self> {
        Self::given_or_own(dir, options, ClusterTurn::Together).await
    }

    /// Starts or finds a cluster once no other test uses it: for tests that watch or change all of it.
    pub async fn start_alone(dir: &Path, options: ServerOptions) -> Result<Self> {
        Self::given_or_own(dir, options, ClusterTurn::Alone).await
    }

    async fn given_or_own(dir: &Path, options: ServerOptions, turn: ClusterTurn) -> Result<Self> {
        if env_set("KUBECONFIG").is_none() {
            return Self::start_own(dir, options).await;
        }
        let config = Kubeconfig::read()?;
        let url = cluster_of(&config).and_then(|c| c.server.clone()).unwrap_or_default();
        let lock =
            turns::take_turn(url, turn).await.map_err(ClusterError::io("waiting for a turn"))?;
        Self::with(ClusterSource::Given(lock), config, dir).await
    }

    /// Starts a cluster that nobody else uses, even where one is given: for tests that take its
    /// definitions away.
    pub async fn start_own(dir: &Path, options: ServerOptions) -> Result<Self> {
        if let Some(folder) = env_set("KUBEBUILDER_ASSETS") {
            let assets = AssetProcesses::start(Path::new(&folder), &dir.join("cluster")).await?;
            let config = Kubeconfig::from_yaml(&assets.kubeconfig)?;
            return Self::with(ClusterSource::Assets(Box::new(assets)), config, dir).await;
        }
        Self::embedded(dir, options).await
    }

    /// Starts the embedded server, whatever the environment says.
    pub async fn embedded(dir: &Path, options: ServerOptions) -> Result<Self> {
        let server = ApiServer::start(options).await?;
        let config = server.admin_kubeconfig()?;
        Self::with(ClusterSource::Embedded(server), config, dir).await
    }

    async fn with(source: ClusterSource, config: Kubeconfig, dir: &Path) -> Result<Self> {
        let (config, ca) = flatten_config(config).await?;
        let options = KubeConfigOptions::default();
        let mut parsed = Config::from_custom_kubeconfig(config.clone(), &options).await?;
        without_proxy(&mut parsed);
        let client = Client::try_from(parsed).map_err(ClusterError::request("client"))?;
        let path = dir.join("kubeconfig");
        write_private(&path, &yaml_of(&config)?)?;
        Ok(Self { source, client, config, path, ca })
    }

    /// A client with an administrator's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with an administrator's rights that repeats no request, so that the caller sees every answer.
    pub async fn client_without_retries(&self) -> Result<Client> {
        let options = KubeConfigOptions::default();
        let mut config = Config::from_custom_kubeconfig(self.config.clone(), &options).await?;
        config.default_retry = false;
        without_proxy(&mut config);
        Client::try_from(config).map_err(ClusterError::request("client"))
    }

    /// The administrator's kubeconfig, for kubectl. Readable by the owner only.
    pub fn kubeconfig(&self) -> &Path {
        &self.path
    }

    /// The certificate of the API server's CA as PEM (`kube-root-ca.crt`).
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// Base URL of the API server.
    pub fn url(&self) -> &str {
        cluster_of(&self.config).and_then(|c| c.server.as_deref()).unwrap_or_default()
    }

    /// Lists the requests that a user has made so far, each with true if it was always allowed. Only the
    /// embedded server records them; for others the list is empty.
    pub fn requests_of(&self, user: &str) -> Vec<(apiserver::AuditRecord, bool)> {
        match &self.source {
            ClusterSource::Embedded(server) => server.requests_of(user),
            ClusterSource::Assets(_) | ClusterSource::Given(_) => Vec::new(),
        }
    }

    /// The embedded server, if it is that one.
    pub fn server(&self) -> Option<&ApiServer> {
        match &self.source {
            ClusterSource::Embedded(server) => Some(server),
            ClusterSource::Assets(_) | ClusterSource::Given(_) => None,
        }
    }

    /// True if the cluster is shared with others and outlives this value.
    pub fn is_shared(&self) -> bool {
        matches!(self.source, ClusterSource::Given(_))
    }

    /// The turn on a shared cluster: it lasts until the last copy is gone.
    pub(crate) fn turn(&self) -> Option<std::fs::File> {
        match &self.source {
            ClusterSource::Given(turn) => turn.try_clone().ok(),
            ClusterSource::Embedded(_) | ClusterSource::Assets(_) => None,
        }
    }

    /// An administrator's access.
    pub(crate) fn config(&self) -> &Kubeconfig {
        &self.config
    }

    /// True if the API server is the embedded one.
    pub fn is_embedded(&self) -> bool {
        matches!(self.source, ClusterSource::Embedded(_))
    }

    /// The API server's version, such as `v1.36.0`.
    pub async fn version(&self) -> Result<String> {
        let info =
            self.client.apiserver_version().await.map_err(ClusterError::request("version"))?;
        Ok(info.git_version)
    }

    /// A kubeconfig, as YAML, for a ServiceAccount, with a token that lives for `expiration` (at
    /// least ten minutes). The account is not made here.
    pub async fn kubeconfig_for(
        &self,
        namespace: &str,
        service_account: &str,
        expiration: Duration,
    ) -> Result<String> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let seconds = i64::try_from(expiration.as_secs()).unwrap_or(i64::MAX);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                audiences: Vec::new(),
                expiration_seconds: Some(seconds),
                bound_object_ref: None,
            },
            ..TokenRequest::default()
        };
        let what = || format!("token of {namespace}/{service_account}");
        let answer = accounts
            .create_token_request(service_account, &PostParams::default(), &request)
            .await
            .map_err(ClusterError::request(what()))?;
        let token = answer.status.map(|status| status.token).unwrap_or_default();
        let config = kubeconfig_with_token(&self.access(), &token, Some(namespace));
        yaml_of(&config)
    }

    /// Address of the API server and how it is trusted: by a certificate authority, or blindly where the
    /// kubeconfig says so.
    pub fn access(&self) -> kube::config::Cluster {
        cluster_of(&self.config).cloned().unwrap_or_default()
    }

    /// Installs CodeButler's definitions and waits until they are established.
    pub async fn install_crds(&self) -> Result<()> {
        self.install_definitions(&codebutler_crds::all_definitions()).await
    }

    /// Installs these definitions, such as an earlier build's, and waits until they are established.
    pub async fn install_definitions(
        &self,
        definitions: &[CustomResourceDefinition],
    ) -> Result<()> {
        // A definition is large: it is read as one, and looked at again, only where it is not established at once.
        let resource = ApiResource::erase::<CustomResourceDefinition>(&());
        let answers: Api<DynamicObject> = Api::all_with(self.client(), &resource);
        let params = PatchParams::apply(MANAGER).force();
        let mut late = Vec::new();
        for definition in definitions {
            let name = definition.name_any();
            let answer = answers
                .patch(&name, &params, &Patch::Apply(definition))
                .await
                .map_err(ClusterError::request(format!("definition {name}")))?;
            if !is_established(&answer) {
                late.push(name);
            }
        }
        let api: Api<CustomResourceDefinition> = Api::all(self.client());
        for name in late {
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            match tokio::time::timeout(READY, established).await {
                Ok(Ok(_)) => {}
                _ => return Err(ClusterError::Timeout("establishing a definition")),
            }
        }
        Ok(())
    }

    /// Applies every object of a multi-document YAML text, of whatever kinds the cluster has.
    /// Objects without a namespace go to `default`.
    pub async fn apply_yaml(&self, yaml: &str) -> Result<()> {
        self.apply_yaml_as(MANAGER, yaml).await
    }

    /// Creates every object of a multi-document YAML text. The server leaves out the fields that its definitions don't
    /// have, where an apply is refused.
    pub async fn create_yaml(&self, yaml: &str) -> Result<()> {
        apply::create_yaml(&self.client, yaml).await
    }

    /// Applies objects as [`TestCluster::apply_yaml`] does, as another field manager, which removes no
    /// fields that others set.
    pub async fn apply_yaml_as(&self, manager: &str, yaml: &str) -> Result<()> {
        apply::apply_yaml(&self.client, yaml, manager).await
    }

    /// Stops what was started. A given cluster is left as it is.
    pub async fn shutdown(self) {
        match self.source {
            ClusterSource::Embedded(server) => server.shutdown().await,
            ClusterSource::Assets(assets) => assets.shutdown().await,
            ClusterSource::Given(_) => {}
        }
    }
}

/// True if a definition is served, by its own status.
fn is_established(definition: &DynamicObject) -> bool {
    let conditions = definition.data["status"]["conditions"].as_array();
    let mut all = conditions.into_iter().flatten();
    all.any(|one| one["type"] == "Established" && one["status"] == "True")
}

/// kube takes `HTTPS_PROXY` for every cluster; one of this machine is reached without.
pub(crate) fn without_proxy(config: &mut Config) {
    let host = config.cluster_url.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
    if is_here || host == "localhost" {
        config.proxy_url = None;
    }
}

fn env_set(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

fn cluster_of(config: &Kubeconfig) -> Option<&kube::config::Cluster> {
    let current = config.current_context.as_deref();
    let context = config.contexts.iter().find(|c| Some(c.name.as_str()) == current)?;
    let name = &context.context.as_ref()?.cluster;
    config.clusters.iter().find(|c| c.name == *name)?.cluster.as_ref()
}

/// A kubeconfig for a bearer token.
pub fn kubeconfig_with_token(
    access: &kube::config::Cluster,
    token: &str,
    namespace: Option<&str>,
) -> Kubeconfig {
    const NAME: &str = "codebutler";
    Kubeconfig {
        api_version: Some("v1".to_owned()),
        kind: Some("Config".to_owned()),
        current_context: Some(NAME.to_owned()),
        clusters: vec![NamedCluster {
            name: NAME.to_owned(),
            cluster: Some(access.clone()),
            ..NamedCluster::default()
        }],
        contexts: vec![NamedContext {
            name: NAME.to_owned(),
            context: Some(kube::config::Context {
                cluster: NAME.to_owned(),
                user: Some(NAME.to_owned()),
                namespace: namespace.map(str::to_owned),
                ..Default::default()
            }),
            ..NamedContext::default()
        }],
        auth_infos: vec![NamedAuthInfo {
            name: NAME.to_owned(),
            auth_info: Some(AuthInfo {
                token: Some(token.to_owned().into()),
                ..AuthInfo::default()
            }),
            ..NamedAuthInfo::default()
        }],
        ..Kubeconfig::default()
    }
}

fn yaml_of(config: &Kubeconfig) -> Result<String> {
    let value = serde_json::to_value(config).ok();
    value
        .and_then(|value| serde_saphyr::to_string(&value).ok())
        .ok_or_else(|| ClusterError::Manifest("kubeconfig can't be written".to_owned()))
}

/// A kubeconfig whose CA is in it, and that CA.
async fn flatten_config(mut config: Kubeconfig) -> Result<(Kubeconfig, String)> {
    use base64::Engine as _;
    let engine = base64::engine::general_purpose::STANDARD;
    let mut ca = String::new();
    if let Some(cluster) = cluster_of(&config) {
        if let Some(data) = &cluster.certificate_authority_data {
            let bytes = engine.decode(data).unwrap_or_default();
            ca = String::from_utf8_lossy(&bytes).into_owned();
        } else if let Some(file) = &cluster.certificate_authority {
            ca = tokio::fs::read_to_string(file)
                .await
                .map_err(ClusterError::io("reading the CA"))?;
        }
    }
    for named in &mut config.clusters {
        if let Some(cluster) = &mut named.cluster
            && cluster.certificate_authority.take().is_some()
        {
            cluster.certificate_authority_data = Some(engine.encode(&ca));
        }
    }
    Ok((config, ca))
}

/// Writes a file that only its owner may read, from its first byte on.
fn write_private(path: &Path, text: &str) -> Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let what = || format!("writing {}", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(ClusterError::io(what()))?;
    }
    let _ = std::fs::remove_file(path);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(ClusterError::io(what()))?;
    file.write_all(text.as_bytes()).map_err(ClusterError::io(what()))
}

/// True when the API server says that the object is gone, or is another one of the same name by now: a delete or
/// replace with another UID is a conflict, a patch with one is invalid.
pub(crate) fn is_replaced(status: &Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.is_not_found()
        || status.is_conflict()
        || (status.code == 422 && causes.into_iter().any(|cause| cause.field == "metadata.uid"))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::api::ListParams;

    use super::*;

    /// As `kubectl config set-cluster --insecure-skip-tls-verify` leaves it.
    #[tokio::test]
    async fn a_kubeconfig_without_an_authority_is_good_for_accounts_too() {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        let server = ApiServer::start(ServerOptions::default()).await.unwrap();
        let mut config = server.admin_kubeconfig().unwrap();
        let access = config.clusters[0].cluster.as_mut().unwrap();
        access.certificate_authority_data = None;
        access.insecure_skip_tls_verify = Some(true);
        let cluster =
            TestCluster::with(ClusterSource::Embedded(server), config, dir.path()).await.unwrap();
        let accounts = Api::<ServiceAccount>::namespaced(cluster.client(), "default");
        let account = ServiceAccount {
            metadata: kube::api::ObjectMeta { name: Some("a".to_owned()), ..Default::default() },
            ..ServiceAccount::default()
        };
        accounts.create(&PostParams::default(), &account).await.unwrap();
        let yaml = cluster.kubeconfig_for("default", "a", Duration::from_mins(10)).await.unwrap();
        let config = Kubeconfig::from_yaml(&yaml).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await;
        let client = Client::try_from(config.unwrap()).unwrap();
        let maps = Api::<ConfigMap>::namespaced(client, "default");
        let refused = maps.list(&ListParams::default()).await.unwrap_err();
        assert!(refused.to_string().contains("system:serviceaccount:default:a"), "{refused}");
        cluster.shutdown().await;
    }
}
