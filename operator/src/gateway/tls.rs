//! The gateway's certificates: an authority of its own, kept in a Secret so that every replica has
//! the same, and a short-lived server certificate that each process makes for itself.

mod authority;
mod store;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use self::authority::Authority;
use crate::args::GatewayArgs;

/// How long a server certificate is valid, and when it is replaced.
const DAYS: i64 = 90;
const RENEW: Duration = Duration::from_hours(30 * 24);

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate can't be made.
    #[error("a certificate can't be made")]
    Make(#[from] rcgen::Error),
    /// rustls does not take it.
    #[error("a certificate can't be used")]
    Use(#[from] rustls::Error),
    /// The kept authority is damaged.
    #[error(
        "Secret `{0}` holds no usable certificate authority: delete it, and a new one is made \
         (agent pods that run then have to be restarted)"
    )]
    Damaged(&'static str),
    /// The API server refused or failed.
    #[error("{what} can't be read or written")]
    Api {
        /// Kind and name.
        what: &'static str,
        /// Why.
        #[source]
        source: Box<kube::Error>,
    },
}

/// The server's side of TLS, with certificates that renew themselves until `shutdown`. The public
/// half of the authority is in its ConfigMap when this returns.
///
/// # Errors
/// When the authority can't be read or made.
pub async fn server_config(
    client: &kube::Client,
    args: &GatewayArgs,
    shutdown: CancellationToken,
) -> Result<ServerConfig, TlsError> {
    let authority = store::authority(client, &args.namespace).await?;
    store::publish(client, &args.namespace, authority.certificate_pem()).await?;
    let names = names(args);
    let current = Arc::new(Current(RwLock::new(authority.server(&names, DAYS)?)));
    tokio::spawn(renew(authority, names, current.clone(), shutdown));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(current);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

async fn renew(
    authority: Authority,
    names: Vec<String>,
    current: Arc<Current>,
    shutdown: CancellationToken,
) {
    while shutdown.run_until_cancelled(tokio::time::sleep(RENEW)).await.is_some() {
        match authority.server(&names, DAYS) {
            Ok(key) => *current.0.write().unwrap_or_else(PoisonError::into_inner) = key,
            Err(error) => tracing::error!(%error, "the server certificate was not renewed"),
        }
    }
}

/// What agents may call the gateway.
fn names(args: &GatewayArgs) -> Vec<String> {
    let (service, namespace) = (&args.service, &args.namespace);
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        "localhost".to_owned(),
        IpAddr::from(Ipv4Addr::LOCALHOST).to_string(),
    ]
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The certificate in use.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}
