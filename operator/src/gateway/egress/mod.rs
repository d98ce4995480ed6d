//! Where workspaces may connect to. [`target`] reads what was asked for, [`rules`] compares it with
//! the Repo's list, [`address`] refuses what a name must not resolve to, and [`tunnel`] carries the
//! bytes, to exactly the addresses that were checked: a name that answers differently the second
//! time is not asked a second time.

pub mod address;
pub mod check;
mod rules;
pub mod target;
mod tunnel;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codebutler_crds::policy::EgressSpec;
use codebutler_crds::wire::ErrorCode;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::net::TcpStream;

pub use self::address::Network;
pub use self::rules::allows;
pub use self::target::Target;
pub use self::tunnel::connect;
use super::context::{ApiError, ThreadKey};

/// How long a name may take to be resolved, and a host to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// Connections of one Thread at a time: package managers open dozens.
const MOST: usize = 64;

/// Why a connection is refused, in words for whoever runs the command.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Not `host:port`.
    #[error("`{0}` is no host and port that can be connected to")]
    Form(String),
    /// Not listed.
    #[error(
        "{host}:{port} is not among the hosts that this repository allows (spec.egress.hosts of \
         its Repo): a person has to add it"
    )]
    NotListed {
        /// As asked.
        host: String,
        /// As asked.
        port: u16,
    },
    /// Private, local, or a cloud's metadata.
    #[error("{0} leads to an internal address, which workspaces must not reach")]
    Internal(String),
    /// No address.
    #[error("{0} can't be resolved")]
    Unknown(String),
    /// No answer.
    #[error("{0} does not accept the connection")]
    Unreachable(String),
    /// Too many.
    #[error("this thread has {MOST} connections open already: close some first")]
    TooMany,
}

impl Refusal {
    /// The metric's label.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Form(_) => "form",
            Self::NotListed { .. } => "not_listed",
            Self::Internal(_) => "internal_address",
            Self::Unknown(_) => "unknown_name",
            Self::Unreachable(_) => "unreachable",
            Self::TooMany => "too_many",
        }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Form(_) => ErrorCode::InvalidRequest,
            Refusal::Unknown(_) | Refusal::Unreachable(_) => ErrorCode::Upstream,
            Refusal::NotListed { .. } | Refusal::Internal(_) | Refusal::TooMany => {
                ErrorCode::Forbidden
            }
        };
        Self::new(code, refusal.to_string())
    }
}

/// Resolves a name.
pub type Lookup =
    Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Opens connections for Threads. Cheap to clone; clones count together.
#[derive(Clone)]
pub struct Egress {
    lookup: Lookup,
    /// Internal networks that the operator's own configuration opens to Repos.
    open: Arc<[Network]>,
    connections: Arc<Mutex<HashMap<ThreadKey, usize>>>,
}

impl Egress {
    /// With the system's resolver. `open` are internal networks that Repos may list hosts of.
    pub fn new(open: Vec<Network>) -> Self {
        let lookup: Lookup = Arc::new(|host, port| {
            async move { Ok(tokio::net::lookup_host((host, port)).await?.collect()) }.boxed()
        });
        Self::with_lookup(open, lookup)
    }

    /// With a resolver of the caller's.
    pub fn with_lookup(open: Vec<Network>, lookup: Lookup) -> Self {
        Self { lookup, open: open.into(), connections: Arc::default() }
    }

    /// Addresses that may be connected to for a target that the Repo lists. One forbidden address
    /// among them refuses all: such an answer is made to be tried until it works.
    ///
    /// # Errors
    /// In words.
    pub async fn resolve(
        &self,
        rules: &EgressSpec,
        target: &Target,
    ) -> Result<Vec<SocketAddr>, Refusal> {
        if !allows(&rules.hosts, target) {
            let (host, port) = (target.host.clone(), target.port);
            return Err(Refusal::NotListed { host, port });
        }
        let unknown = || Refusal::Unknown(target.host.clone());
        let found = match target.ip {
            Some(ip) => vec![SocketAddr::new(ip, target.port)],
            None => tokio::time::timeout(CONNECT, (self.lookup)(target.host.clone(), target.port))
                .await
                .map_err(|_| unknown())?
                .map_err(|_| unknown())?,
        };
        if found.is_empty() {
            return Err(unknown());
        }
        if !found.iter().all(|address| self.may_reach(address.ip())) {
            return Err(Refusal::Internal(target.host.clone()));
        }
        Ok(found)
    }

    fn may_reach(&self, ip: IpAddr) -> bool {
        address::is_public(ip)
            || !address::is_never(ip) && self.open.iter().any(|network| network.contains(ip))
    }

    /// A connection to one of the target's addresses.
    ///
    /// # Errors
    /// In words.
    pub async fn open(&self, rules: &EgressSpec, target: &Target) -> Result<TcpStream, Refusal> {
        let addresses = self.resolve(rules, target).await?;
        let connecting = async {
            for address in addresses {
                if let Ok(stream) = TcpStream::connect(address).await {
                    return Some(stream);
                }
            }
            None
        };
        let connected = tokio::time::timeout(CONNECT, connecting).await.ok().flatten();
        let stream = connected.ok_or_else(|| Refusal::Unreachable(target.to_string()))?;
        let _ = stream.set_nodelay(true);
        Ok(stream)
    }

    /// Leave for one more connection of a Thread, for as long as it is held.
    fn permit(&self, thread: &ThreadKey) -> Result<Permit, Refusal> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let count = connections.entry(thread.clone()).or_default();
        if *count >= MOST {
            return Err(Refusal::TooMany);
        }
        *count += 1;
        drop(connections);
        Ok(Permit { thread: thread.clone(), connections: Arc::clone(&self.connections) })
    }
}

struct Permit {
    thread: ThreadKey,
    connections: Arc<Mutex<HashMap<ThreadKey, usize>>>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = connections.get_mut(&self.thread) {
            *count -= 1;
            if *count == 0 {
                connections.remove(&self.thread);
            }
        }
    }
}

#[cfg(test)]
mod tests;
