//! An in-process Kubernetes API server over HTTPS.
//!
//! The reference is what Kubernetes 1.36 documents: clients must not be able to tell the difference
//! in what they use. Requests flow `http` (TLS, identity, rights) → `handlers` (what the request
//! means for an object) → `store` (compare-and-swap, log). What a kind is, is data (`kinds`,
//! `definitions`, `crd`); what the server does to built-in kinds of its own accord is in `strategy`.
//! Controllers are not part of it.

mod admission;
mod audit;
mod auth;
mod convert;
mod crd;
mod crd_definition;
mod definitions;
mod discovery;
mod faults;
mod fields;
mod generated_name;
mod handlers;
mod http;
mod impersonation;
mod jsonpath;
mod kinds;
mod object;
mod openapi;
mod patch;
mod protobuf;
mod render;
mod request;
mod scalars;
mod schema;
mod selectors;
mod snapshot;
mod status;
mod store;
mod strategy;
mod table;
mod tls;
mod twice;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kube::config::Kubeconfig;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use auth::{ApiUser, TokenMaker};
use kinds::KindRegistry;
use store::ObjectStore;

use crate::serving::{ListenAddress, listen_at};

pub use audit::AuditRecord;
pub use auth::API_AUDIENCE;
pub use faults::FaultSource;
pub use snapshot::ServerSnapshot;

/// The version that the server says it is.
pub const VERSION: &str = "v1.36.0";

/// An error that keeps a server from starting.
#[derive(Debug, thiserror::Error)]
pub enum ServerStartError {
    /// The port can't be bound or used.
    #[error("the API server can't listen")]
    Listen(#[from] std::io::Error),
    /// Certificates could not be made.
    #[error("the API server can't make its certificates")]
    Certificates(#[from] tls::TlsError),
}

/// Configuration of an [`ApiServer`].
#[derive(Clone, Debug)]
pub struct ServerOptions {
    /// Writes per kind that watches can go back to.
    pub log_length: usize,
    /// Further bearer tokens, for parts of a cluster that have no ServiceAccount: `(token, user
    /// name, groups)`.
    pub tokens: Vec<(String, String, Vec<String>)>,
    /// Source of injected faults, if any.
    pub faults: Option<Arc<FaultSource>>,
    /// Port to listen at if it is free.
    pub port: Option<u16>,
    /// Objects of an earlier life of the server.
    pub snapshot: Option<ServerSnapshot>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self { log_length: 20_000, tokens: Vec::new(), faults: None, port: None, snapshot: None }
    }
}

/// State that all requests share.
pub(crate) struct ServerState {
    store: ObjectStore,
    kinds: KindRegistry,
    tokens: TokenMaker,
    users: HashMap<String, ApiUser>,
    audit: audit::RequestAudit,
    faults: Option<Arc<FaultSource>>,
    addresses: Mutex<()>,
    stop: CancellationToken,
}

impl ServerState {
    fn static_user(&self, token: &str) -> Option<&ApiUser> {
        self.users.get(token)
    }

    fn lock_addresses(&self) -> MutexGuard<'_, ()> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running API server. It stops when it is dropped.
pub struct ApiServer {
    server: Arc<ServerState>,
    address: SocketAddr,
    ca: String,
    admin_token: String,
    stop: CancellationToken,
    task: Option<JoinHandle<()>>,
}

impl ApiServer {
    /// Starts a server on a free loopback port, with a CA of its own.
    pub async fn start(options: ServerOptions) -> Result<Self, ServerStartError> {
        let listener =
            listen_at(ListenAddress { port: options.port, ..ListenAddress::default() }).await?;
        let address = listener.local_addr()?;
        let identity = tls::ServerIdentity::new()?;
        let admin_token = random_token();
        let mut users = HashMap::from([(
            admin_token.clone(),
            ApiUser::new("kubernetes-admin", &["system:masters"]),
        )]);
        for (token, name, groups) in options.tokens {
            let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
            users.insert(token, ApiUser::new(&name, &groups));
        }
        let stop = CancellationToken::new();
        let server = Arc::new(ServerState {
            store: ObjectStore::new(options.log_length),
            kinds: KindRegistry::new(),
            tokens: TokenMaker::new(),
            users,
            audit: audit::RequestAudit::default(),
            faults: options.faults,
            addresses: Mutex::new(()),
            stop: stop.clone(),
        });
        if let Some(snapshot) = options.snapshot {
            server.restore(snapshot);
        }
        server.seed(address);
        server.store.begin();
        let task = tokio::spawn(http::serve_api(Arc::clone(&server), listener, identity.acceptor));
        Ok(Self { server, address, ca: identity.ca, admin_token, stop, task: Some(task) })
    }

    /// Port that the server listens on.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Version of the newest write.
    pub fn version(&self) -> u64 {
        self.server.store.version()
    }

    /// Saves the objects that a later run of this server needs to go on.
    pub fn snapshot(&self) -> ServerSnapshot {
        ServerSnapshot::of(&self.server.store)
    }

    /// `https://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("https://{}", self.address)
    }

    /// Requests that a user has made so far, each with true if it was always allowed.
    pub fn requests_of(&self, user: &str) -> Vec<(AuditRecord, bool)> {
        self.server.audit.of(user)
    }

    /// The certificate of the server's CA, as PEM.
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// The kubeconfig of an administrator (group `system:masters`), as YAML.
    pub fn admin_kubeconfig_yaml(&self) -> String {
        kubeconfig_yaml(&self.url(), &self.ca, &self.admin_token, None)
    }

    /// The administrator's kubeconfig, parsed.
    pub fn admin_kubeconfig(&self) -> Result<Kubeconfig, kube::config::KubeconfigError> {
        Kubeconfig::from_yaml(&self.admin_kubeconfig_yaml())
    }

    /// Ends all watches and connections, and waits until that is done.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        if let Some(task) = self.task.take() {
            // A task that failed has ended, too.
            let _ = task.await;
        }
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A kubeconfig for a bearer token.
pub fn kubeconfig_yaml(url: &str, ca_pem: &str, token: &str, namespace: Option<&str>) -> String {
    let mut context = json!({ "cluster": "codebutler", "user": "codebutler" });
    if let Some(namespace) = namespace {
        context["namespace"] = namespace.into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "codebutler",
        "clusters": [{"name": "codebutler", "cluster": {
            "server": url, "certificate-authority-data": STANDARD.encode(ca_pem),
        }}],
        "contexts": [{"name": "codebutler", "context": context}],
        "users": [{"name": "codebutler", "user": {"token": token}}],
    });
    // JSON is YAML, but people read this file.
    serde_saphyr::to_string(&config).unwrap_or_else(|_| config.to_string())
}

/// A token that can't be guessed.
pub(crate) fn random_token() -> String {
    let bytes: [u8; 32] = rand::random();
    URL_SAFE_NO_PAD.encode(bytes)
}
