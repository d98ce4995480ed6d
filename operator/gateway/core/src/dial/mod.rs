//! The one way out: Slack, Git, GitHub, models, web pages and workspaces are all connected to here, by
//! the same proxy, the same certificate authorities and the same rule on addresses.
//!
//! A host that a Repo names leads to public addresses only, unless the operator's configuration opens
//! its network; names are looked at when they are connected to, so that one which answers differently
//! the second time gains nothing. Behind a proxy it is the proxy that resolves: then the literal
//! address, or the name itself, has to be one of the outside.

pub mod address;
mod authorities;
mod causes;
mod names;
mod options;
pub(crate) mod refusal;
pub mod target;
mod trouble;

use std::error::Error;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use anyhow::Context as _;
use futures::future::BoxFuture;
use http::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tower::{Service, ServiceExt as _};
use url::Url;

pub use self::address::IpNetwork;
pub use self::causes::{find_refusal, find_trouble};
pub use self::names::{DialReach, NameLookup, is_outside};
use self::names::{HostNames, NameResolver};
pub use self::options::DialOptions;
use self::options::ProxyRules;
pub use self::refusal::EgressRefusal;
pub use self::target::EgressTarget;
pub use self::trouble::DialTrouble;

/// Timeout of a connection, including any proxy on the way.
pub const CONNECT: Duration = Duration::from_secs(10);

/// A connection, straight or through a proxy.
pub type DialedLine = MaybeHttpsStream<TokioIo<TcpStream>>;
/// Connector for clients of hyper.
pub type OutsideConnector = HttpsConnector<OperatorLines>;
type BoxError = Box<dyn Error + Send + Sync>;

/// Connects to the outside. Cheap to clone.
#[derive(Clone)]
pub struct OutsideDialer {
    names: HostNames,
    proxies: Arc<ProxyRules>,
    tls: Arc<ClientConfig>,
    /// Client for hosts that Repos name.
    http: reqwest::Client,
    /// Client for hosts that the operator's configuration names.
    chosen: reqwest::Client,
}

impl OutsideDialer {
    /// Makes a dialer from the operator's configuration, with the system's resolver.
    ///
    /// # Errors
    /// In words, when a proxy or the authorities can't be used.
    pub fn new(options: &DialOptions) -> anyhow::Result<Self> {
        Self::with_lookup(options, names::system_lookup())
    }

    /// Makes a dialer with the caller's resolver.
    ///
    /// # Errors
    /// As [`OutsideDialer::new`].
    pub fn with_lookup(options: &DialOptions, lookup: NameLookup) -> anyhow::Result<Self> {
        let proxies = ProxyRules::new(options)?;
        let tls = Arc::new(options.tls()?);
        let names = HostNames::new(lookup, &options.egress_allow, proxies.hosts());
        let client = |reach| build_client(&proxies, &tls, NameResolver::new(&names, reach));
        let (http, chosen) = (client(DialReach::Outside)?, client(DialReach::Anywhere)?);
        Ok(Self { names, proxies: Arc::new(proxies), tls, http, chosen })
    }

    /// A client that follows no redirect: it would carry a credential to a host that its Secret does
    /// not name.
    pub fn http(&self, reach: DialReach) -> &reqwest::Client {
        match reach {
            DialReach::Outside => &self.http,
            DialReach::Anywhere => &self.chosen,
        }
    }

    /// Returns a connector for clients of hosts that the operator's configuration names.
    pub fn connector(&self) -> OutsideConnector {
        HttpsConnector::from((OperatorLines(self.clone()), self.tls.clone()))
    }

    /// Refuses what can be seen to lead inside before anything is asked: a client does not resolve a
    /// literal address, nor what it leaves to a proxy.
    ///
    /// # Errors
    /// `Internal`, or `Form` where the URL names no host.
    pub fn admit(&self, url: &Url) -> Result<EgressTarget, EgressRefusal> {
        let none = || EgressRefusal::Form(url.scheme().to_owned());
        let (host, port) = url.host_str().zip(url.port_or_known_default()).ok_or_else(none)?;
        let target = EgressTarget::new(host, port)?;
        self.admit_target(url.scheme(), &target)?;
        Ok(target)
    }

    fn admit_target(&self, scheme: &str, target: &EgressTarget) -> Result<(), EgressRefusal> {
        let internal = EgressRefusal::Internal(target.host.clone());
        let to = target_uri(scheme, target)?;
        let fits = match target.ip {
            Some(ip) => self.names.may_reach(ip),
            None => self.proxies.of(&to).is_none() || is_outside(&target.host),
        };
        // A proxy is reached whatever its address: it is no host for anybody.
        let proxy = self.names.is_proxy(&target.host);
        if fits && !proxy { Ok(()) } else { Err(internal) }
    }

    /// A connection to a target that a Repo lists.
    ///
    /// # Errors
    /// In words.
    pub async fn dial(&self, target: &EgressTarget) -> Result<DialedLine, EgressRefusal> {
        let scheme = if target.port == 80 { "http" } else { "https" };
        self.admit_target(scheme, target)?;
        let dialing = self.line(DialReach::Outside, target_uri(scheme, target)?);
        let outcome = tokio::time::timeout(CONNECT, dialing).await;
        let unreachable = || EgressRefusal::Unreachable(target.to_string());
        outcome.map_err(|_| unreachable())?.map_err(|error| {
            let why =
                find_trouble(&*error).map(|why| EgressRefusal::Barred(target.to_string(), why));
            find_refusal(&*error).or(why).unwrap_or_else(unreachable)
        })
    }

    /// Addresses that would be connected to without a proxy.
    #[cfg(test)]
    pub async fn addresses(
        &self,
        target: &EgressTarget,
    ) -> Result<Vec<std::net::SocketAddr>, EgressRefusal> {
        self.admit_target("https", target)?;
        match target.ip {
            Some(ip) => Ok(vec![std::net::SocketAddr::new(ip, target.port)]),
            None => self.names.clone().resolve(DialReach::Outside, target.host.clone()).await,
        }
    }

    async fn line(&self, reach: DialReach, to: Uri) -> Result<DialedLine, BoxError> {
        let Some(proxy) = self.proxies.of(&to) else {
            let stream = self.wire(reach).oneshot(to).await?;
            return Ok(MaybeHttpsStream::Http(stream));
        };
        let under = HttpsConnector::from((self.wire(DialReach::Anywhere), self.tls.clone()));
        let mut tunnel = Tunnel::new(proxy.uri().clone(), under);
        if let Some(password) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(password.clone());
        }
        Ok(tunnel.oneshot(with_port(to)?).await?)
    }

    fn wire(&self, reach: DialReach) -> HttpConnector<NameResolver> {
        let mut wire = HttpConnector::new_with_resolver(NameResolver::new(&self.names, reach));
        wire.enforce_http(false);
        wire.set_connect_timeout(Some(CONNECT));
        wire.set_nodelay(true);
        wire
    }
}

fn build_client(
    proxies: &ProxyRules,
    tls: &Arc<ClientConfig>,
    resolver: NameResolver,
) -> anyhow::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(CONNECT)
        // By default a connection ends whose peer reads nothing for 30 s: a busy host may read a push or a file late.
        .tcp_user_timeout(None)
        .dns_resolver(resolver)
        .tls_backend_preconfigured((**tls).clone())
        .user_agent(concat!("codebutler/", env!("CARGO_PKG_VERSION")));
    for proxy in proxies.for_reqwest()? {
        builder = builder.proxy(proxy);
    }
    builder.build().context("no HTTP client")
}

fn target_uri(scheme: &str, target: &EgressTarget) -> Result<Uri, EgressRefusal> {
    let text = format!("{scheme}://{target}/");
    text.parse().map_err(|_| EgressRefusal::Form(target.host.clone()))
}

/// A tunnel has to be told the port of http.
fn with_port(to: Uri) -> Result<Uri, BoxError> {
    if to.port().is_some() || to.scheme_str() != Some("http") {
        return Ok(to);
    }
    let host = to.host().unwrap_or_default();
    Ok(format!("http://{host}:80/").parse()?)
}

/// Lines to hosts that the operator's configuration names, as hyper asks for them.
#[derive(Clone)]
pub struct OperatorLines(OutsideDialer);

impl Service<Uri> for OperatorLines {
    type Response = DialedLine;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<DialedLine, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let dialer = self.0.clone();
        Box::pin(async move { dialer.line(DialReach::Anywhere, to).await })
    }
}
