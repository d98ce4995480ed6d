//! A company's way out: a proxy that knows CONNECT and passes on what is in clear, and behind it the embedded
//! servers under names that nobody else resolves, each with a certificate of the company's own authority.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

type CertificateIssuer = CertifiedIssuer<'static, KeyPair>;

/// A running proxy; it ends when dropped.
pub struct CompanyProxy {
    address: SocketAddr,
    ca: String,
    shared: Arc<SharedProxy>,
    _task: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct SharedProxy {
    hosts: BTreeMap<String, ProxiedHost>,
    seen: Mutex<BTreeSet<String>>,
    mood: Mutex<ProxyMood>,
}

struct ProxiedHost {
    behind: SocketAddr,
    good: TlsAcceptor,
    expired: TlsAcceptor,
    /// Good for long, by an authority that is not.
    by_expired: TlsAcceptor,
}

#[derive(Clone, Default)]
struct ProxyMood {
    password: Option<String>,
    shows: ShownCertificates,
}

/// The certificates that the proxy's hosts present.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShownCertificates {
    /// Valid ones, which clients accept.
    #[default]
    Good,
    /// Expired ones, by a valid authority.
    Expired,
    /// Valid ones, by an authority whose own certificate has expired.
    ByExpired,
}

impl CompanyProxy {
    /// Starts one in front of these servers, which speak no TLS of their own.
    ///
    /// # Errors
    /// When no port can be had or no certificate be made.
    pub async fn start(hosts: &[(&str, SocketAddr)]) -> anyhow::Result<Self> {
        let (issuer, old) = (make_authority(2100)?, make_authority(2020)?);
        let mut known = BTreeMap::new();
        for (name, behind) in hosts {
            let good = make_acceptor(&issuer, name, 2100)?;
            let expired = make_acceptor(&issuer, name, 2020)?;
            let by_expired = make_acceptor(&old, name, 2100)?;
            let host = ProxiedHost { behind: *behind, good, expired, by_expired };
            known.insert(format!("{name}:443"), host);
        }
        let shared = Arc::new(SharedProxy { hosts: known, ..SharedProxy::default() });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(accept_connections(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            ca: issuer.pem() + &old.pem(),
            shared,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// URL of the proxy, as the value of `HTTPS_PROXY`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Certificates of the company's authorities as PEM: the one of today, and one that has expired.
    #[must_use]
    pub fn ca(&self) -> &str {
        &self.ca
    }

    /// Destinations of requests that were let through, as `host:port`.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    /// Asks for `user:password` from now on, or for none.
    pub fn ask_for(&self, password: Option<&str>) {
        self.mood().password = password.map(str::to_owned);
    }

    /// Shows these certificates from now on.
    pub fn show(&self, shows: ShownCertificates) {
        self.mood().shows = shows;
    }

    fn mood(&self) -> std::sync::MutexGuard<'_, ProxyMood> {
        self.shared.mood.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn make_authority(until: i32) -> anyhow::Result<CertificateIssuer> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    let name = format!("Company until {until}");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

fn make_acceptor(
    issuer: &CertificateIssuer,
    name: &str,
    until: i32,
) -> anyhow::Result<TlsAcceptor> {
    let mut params = CertificateParams::new(vec![name.to_owned()])?;
    params.not_before = rcgen::date_time_ymd(2019, 1, 1);
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?;
    let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], private)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn accept_connections(listener: TcpListener, shared: Arc<SharedProxy>) {
    while let Ok((stream, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            if let Err(error) = serve_proxy(stream, &shared).await {
                tracing::debug!(%error, "a tunnel ended");
            }
        });
    }
}

async fn serve_proxy(mut stream: TcpStream, shared: &SharedProxy) -> std::io::Result<()> {
    let head = read_head(&mut stream).await?;
    let mut words = head.split_whitespace();
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mood = shared.mood.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let shown = |password: &String| {
        let wanted = format!("proxy-authorization: Basic {}", STANDARD.encode(password));
        head.lines().any(|line| line.eq_ignore_ascii_case(&wanted))
    };
    let in_clear = target.strip_prefix("http://").and_then(|rest| rest.split('/').next());
    let name = match in_clear {
        Some(name) => format!("{name}:443"),
        None => target.to_owned(),
    };
    let host = shared.hosts.get(&name).filter(|_| method == "CONNECT" || in_clear.is_some());
    let refusal = match host {
        _ if mood.password.as_ref().is_some_and(|password| !shown(password)) => {
            "407 Proxy Authentication Required\r\nproxy-authenticate: Basic realm=\"out\""
        }
        None => "403 Forbidden",
        Some(_) => "",
    };
    let (Some(host), "") = (host, refusal) else {
        let answer = format!("HTTP/1.1 {refusal}\r\ncontent-length: 0\r\n\r\n");
        return stream.write_all(answer.as_bytes()).await;
    };
    if in_clear.is_some() {
        let mut outside = TcpStream::connect(host.behind).await?;
        outside.write_all(head.as_bytes()).await?;
        tokio::io::copy_bidirectional(&mut stream, &mut outside).await?;
        return Ok(());
    }
    shared.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(target.to_owned());
    stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
    let acceptor = match mood.shows {
        ShownCertificates::Good => &host.good,
        ShownCertificates::Expired => &host.expired,
        ShownCertificates::ByExpired => &host.by_expired,
    };
    let mut inside = acceptor.accept(stream).await?;
    let mut outside = TcpStream::connect(host.behind).await?;
    tokio::io::copy_bidirectional(&mut inside, &mut outside).await?;
    Ok(())
}

async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 8192 {
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
