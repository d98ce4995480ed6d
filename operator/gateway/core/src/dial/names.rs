//! Resolves host names, and decides which of their addresses may be connected to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns;
use tower::Service;

use super::address::{self, IpNetwork};
use super::refusal::EgressRefusal;

/// Timeout of a name lookup.
const PATIENCE: Duration = Duration::from_secs(10);
/// Names that mean something inside of a cluster or a network only.
const INSIDE: [&str; 6] = ["localhost", "local", "internal", "svc", "arpa", "lan"];
/// The cluster's own, of two labels.
const CLUSTER: &str = "cluster.local";

pub type NameLookup =
    Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Range of addresses that a client may connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialReach {
    /// Addresses that Repos may name: public ones, and those that the operator opened.
    Outside,
    /// Addresses that the operator's configuration names.
    Anywhere,
}

pub(super) fn system_lookup() -> NameLookup {
    Arc::new(|host, port| {
        async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
    })
}

/// Returns true if a name that nobody here resolves can be one of the internet's.
pub fn is_outside(host: &str) -> bool {
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    let last = host.rsplit('.').next().unwrap_or_default();
    host.contains('.') && !INSIDE.contains(&last) && !host.ends_with(CLUSTER)
}

/// Resolves names and judges addresses. Cheap to clone.
#[derive(Clone)]
pub(super) struct HostNames {
    lookup: NameLookup,
    /// Internal networks that the operator's own configuration opens to Repos.
    open: Arc<[IpNetwork]>,
    proxies: Arc<[String]>,
}

impl HostNames {
    pub(super) fn new(lookup: NameLookup, open: &[IpNetwork], proxies: Vec<String>) -> Self {
        Self { lookup, open: open.into(), proxies: proxies.into() }
    }

    pub(super) fn may_reach(&self, ip: IpAddr) -> bool {
        address::is_public(ip)
            || !address::is_never(ip) && self.open.iter().any(|network| network.contains(ip))
    }

    pub(super) fn is_proxy(&self, host: &str) -> bool {
        self.proxies.iter().any(|proxy| proxy.eq_ignore_ascii_case(host))
    }

    /// One forbidden address among them refuses all: such an answer is made to be tried until it
    /// works.
    pub(super) async fn resolve(
        self,
        reach: DialReach,
        host: String,
    ) -> Result<Vec<SocketAddr>, EgressRefusal> {
        let unknown = || EgressRefusal::Unknown(host.clone());
        let asked = tokio::time::timeout(PATIENCE, (self.lookup)(host.clone(), 0));
        let found = asked.await.map_err(|_| unknown())?.map_err(|_| unknown())?;
        if found.is_empty() {
            return Err(unknown());
        }
        let free = reach == DialReach::Anywhere || self.is_proxy(&host);
        if !free && !found.iter().all(|address| self.may_reach(address.ip())) {
            return Err(EgressRefusal::Internal(host));
        }
        Ok(found)
    }
}

/// [`HostNames`] as clients ask them.
#[derive(Clone)]
pub(super) struct NameResolver {
    names: HostNames,
    reach: DialReach,
}

impl NameResolver {
    pub(super) fn new(names: &HostNames, reach: DialReach) -> Self {
        Self { names: names.clone(), reach }
    }
}

impl reqwest::dns::Resolve for NameResolver {
    fn resolve(&self, name: reqwest::dns::Name) -> reqwest::dns::Resolving {
        let resolving = self.names.clone().resolve(self.reach, name.as_str().to_owned());
        Box::pin(async move {
            let addresses: reqwest::dns::Addrs = Box::new(resolving.await?.into_iter());
            Ok(addresses)
        })
    }
}

impl Service<dns::Name> for NameResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = EgressRefusal;
    type Future = BoxFuture<'static, Result<Self::Response, EgressRefusal>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EgressRefusal>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: dns::Name) -> Self::Future {
        let resolving = self.names.clone().resolve(self.reach, name.as_str().to_owned());
        Box::pin(async move { Ok(resolving.await?.into_iter()) })
    }
}
