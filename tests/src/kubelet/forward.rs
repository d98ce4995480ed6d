//! A Service's address inside a pod, served by the host.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// Destination of forwarded connections.
#[derive(Clone, Debug)]
pub(super) enum ForwardTarget {
    /// A fixed address of the host.
    Address(SocketAddr),
    /// A ready endpoint of a Service, chosen for each connection.
    Endpoint(Box<ForwardEndpoint>),
}

/// A Service whose endpoints are looked up; see [`ForwardTarget::Endpoint`].
#[derive(Clone, Debug)]
pub(super) struct ForwardEndpoint {
    /// Endpoint slices of the Service's namespace.
    pub slices: Api<EndpointSlice>,
    /// Name of the Service whose endpoints are used.
    pub service: String,
    /// Name of the Service's port: as with kube-proxy, only slices count that have one of this name.
    pub port: Option<String>,
}

impl ForwardTarget {
    async fn address(&self) -> io::Result<SocketAddr> {
        let ForwardEndpoint { slices, service, port } = match self {
            Self::Address(address) => return Ok(*address),
            Self::Endpoint(endpoint) => &**endpoint,
        };
        let own = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
        let found = slices.list(&own).await.map_err(io::Error::other)?;
        let none = || io::Error::new(io::ErrorKind::ConnectionRefused, "no ready endpoint");
        found.iter().find_map(|slice| ready_address(slice, port.as_deref())).ok_or_else(none)
    }
}

fn ready_address(slice: &EndpointSlice, port: Option<&str>) -> Option<SocketAddr> {
    let mut ports = slice.ports.iter().flatten();
    // A port without a name has the empty one.
    let named = |own: Option<&str>| own.unwrap_or_default() == port.unwrap_or_default();
    let port = ports.find(|own| named(own.name.as_deref()))?.port?;
    let endpoint = slice.endpoints.iter().find(|one| {
        one.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
    })?;
    let address: IpAddr = endpoint.addresses.first()?.parse().ok()?;
    Some(SocketAddr::new(address, u16::try_from(port).ok()?))
}

/// Passes every connection that comes in through `listener` on to `target`. Connections end with
/// the future.
pub(super) async fn serve_forward(listener: TcpListener, target: ForwardTarget) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((inside, _)) => {
                    connections.spawn(pass_on(inside, target.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "accept");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn pass_on(mut inside: TcpStream, target: ForwardTarget) {
    let result = async {
        let mut outside = TcpStream::connect(target.address().await?).await?;
        // Nagle's algorithm would delay small writes, and these are requests and their answers.
        inside.set_nodelay(true)?;
        outside.set_nodelay(true)?;
        tokio::io::copy_bidirectional(&mut inside, &mut outside).await
    };
    if let Err(error) = result.await {
        tracing::debug!(?target, %error, "forwarded connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_port_leads_to_the_slices_that_have_one_of_its_name() {
        let slice = |address: &str, port: Option<&str>, ready: bool| -> EndpointSlice {
            serde_json::from_value(json!({
                "metadata": {"name": "s"}, "addressType": "IPv4",
                "endpoints": [{"addresses": [address], "conditions": {"ready": ready}}],
                "ports": [{"name": port, "port": 8443}],
            }))
            .unwrap()
        };
        let one = slice("10.0.0.1", Some("agents-1"), true);
        assert_eq!(ready_address(&one, Some("agents-1")), Some(([10, 0, 0, 1], 8443).into()));
        assert_eq!(ready_address(&one, Some("agents")), None);
        assert_eq!(ready_address(&slice("10.0.0.1", Some("agents"), false), Some("agents")), None);
        assert!(ready_address(&slice("10.0.0.1", None, true), None).is_some());
    }
}
