//! The gateway's certificates: an authority of its own, kept in a Secret so that every replica has
//! the same, and a short-lived server certificate that each process makes for itself.

mod authority;
mod rotation;
mod store;

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, RwLock};
use rustls::ServerConfig;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use self::authority::CertificateAuthority;
use self::rotation::{KeyPairPem, KnownAuthorities, RotationDue};
use crate::args::GatewayArgs;

/// Validity of a server certificate in days, and the age at which it is replaced.
const DAYS: i64 = 90;
const RENEW: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Interval of checks of the certificates.
const LOOK: Duration = Duration::from_hours(1);

/// Reason why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A certificate can't be made.
    #[error("a certificate can't be made")]
    Make(#[from] rcgen::Error),
    /// rustls refuses a certificate.
    #[error("a certificate can't be used")]
    Use(#[from] rustls::Error),
    /// The kept authority is damaged.
    #[error(
        "Secret `{0}` holds no usable certificate authority: delete it and install the chart again (`helm upgrade`), \
         and a new one is made (agent pods that run then have to be restarted)"
    )]
    Damaged(&'static str),
    /// The installation's own object is gone, and only the installation may create it.
    #[error(
        "{kind} `{name}` is missing: install the chart again (`helm upgrade`, or apply its manifests), which creates it"
    )]
    Missing { kind: &'static str, name: &'static str },
    /// The API server refused or failed.
    #[error("{what} can't be read or written")]
    Api {
        what: &'static str,
        #[source]
        source: Box<kube::Error>,
    },
}

pub type TlsClock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

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
    let certificates = ServerCertificates::start(client, args, Arc::new(Timestamp::now)).await?;
    let config = certificates.config()?;
    tokio::spawn(shutdown.run_until_cancelled_owned(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            if let Err(error) = certificates.renew().await {
                tracing::error!(%error, "certificate_renewal_failed");
            }
        }
    }));
    Ok(config)
}

/// The server's certificate and the authorities behind it.
pub struct ServerCertificates {
    client: kube::Client,
    namespace: String,
    names: Vec<String>,
    clock: TlsClock,
    current: Arc<CurrentCertificate>,
    /// The authority that signed the current certificate, and when.
    signed: Mutex<(String, Timestamp)>,
}

impl ServerCertificates {
    /// Reads or makes the authority, publishes it and signs the first certificate.
    ///
    /// # Errors
    /// When the authority can't be read or made.
    pub async fn start(
        client: &kube::Client,
        args: &GatewayArgs,
        clock: TlsClock,
    ) -> Result<Self, TlsError> {
        let now = clock();
        let kept = store::load_authorities(client, &args.namespace, now).await?;
        store::publish_authority(client, &args.namespace, &kept.authorities.bundle()).await?;
        let names = server_names(args);
        let current = &kept.authorities.current;
        let key = sign_certificate(current, &names, now)?;
        Ok(Self {
            client: client.clone(),
            namespace: args.namespace.clone(),
            names,
            clock,
            current: Arc::new(CurrentCertificate(RwLock::new(key))),
            signed: Mutex::new((current.certificate.clone(), now)),
        })
    }

    /// A configuration that always uses the newest certificate.
    ///
    /// # Errors
    /// When rustls can't be configured.
    pub fn config(&self) -> Result<ServerConfig, TlsError> {
        let mut config = ServerConfig::builder_with_provider(crypto_provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(self.current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Does what is due: one step of the authorities' rotation, and a new certificate where the old
    /// one ends soon or another authority signs now. Repeated by every replica; the first one wins.
    ///
    /// # Errors
    /// When the authority can't be read or written; everything stays as it is.
    pub async fn renew(&self) -> Result<(), TlsError> {
        let now = (self.clock)();
        let kept = store::load_authorities(&self.client, &self.namespace, now).await?;
        let before = kept.authorities.clone();
        let after = match before.due(now) {
            RotationDue::Nothing => None,
            RotationDue::Successor => {
                let (certificate, key) = CertificateAuthority::generate(now)?;
                Some(KnownAuthorities {
                    next: Some(KeyPairPem { certificate, key, since: now }),
                    ..before
                })
            }
            RotationDue::Promotion => Some(before.promoted(now)),
            RotationDue::Forgetting => Some(KnownAuthorities { previous: None, ..before }),
        };
        let authorities = match after {
            Some(after)
                if store::store_authorities(&self.client, &self.namespace, &kept, &after)
                    .await? =>
            {
                tracing::info!("certificate_authority_rotated");
                after
            }
            // Another replica was faster: its authority counts.
            Some(_) => {
                store::load_authorities(&self.client, &self.namespace, now).await?.authorities
            }
            None => kept.authorities,
        };
        store::publish_authority(&self.client, &self.namespace, &authorities.bundle()).await?;
        let signer = &authorities.current;
        let (by, since) = self.signed.lock().clone();
        if by != signer.certificate || now.duration_since(since) >= RENEW {
            let key = sign_certificate(signer, &self.names, now)?;
            *self.current.0.write() = key;
            let by = signer.certificate.clone();
            *self.signed.lock() = (by, now);
        }
        Ok(())
    }
}

fn sign_certificate(
    pair: &KeyPairPem,
    names: &[String],
    now: Timestamp,
) -> Result<Arc<CertifiedKey>, TlsError> {
    let authority = CertificateAuthority::parse(&pair.certificate, &pair.key);
    authority.ok_or(TlsError::Damaged("codebutler-gateway-tls"))?.server(names, now, DAYS)
}

/// DNS names and addresses by which agents may reach the gateway.
fn server_names(args: &GatewayArgs) -> Vec<String> {
    let (service, namespace) = (&args.service, &args.namespace);
    vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        "localhost".to_owned(),
        IpAddr::from(Ipv4Addr::LOCALHOST).to_string(),
    ]
}

fn crypto_provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// The server certificate that is in use.
#[derive(Debug)]
struct CurrentCertificate(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().clone())
    }
}
