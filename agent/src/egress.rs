//! Tries to leave the pod by the ways that must be closed. Where one of them works, nothing keeps
//! commands to the gateway.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use codebutler_wire::EgressWay;
use futures::future::join_all;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// A wall that drops packets answers nothing; one without a wall answers in a moment.
const PATIENCE: Duration = Duration::from_millis(800);
const DNS: u16 = 53;
/// Where every node's kubelet listens.
const KUBELET: u16 = 10_250;
/// Where clouds tell machines who they are.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);
/// Where NodeLocal DNSCache listens on each node.
const NODE_DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10)), DNS);
/// One that answers everywhere.
const INTERNET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)), 443);
/// "localhost A?", which no server has to ask others for.
const QUESTION: &[u8] = b"\xcb\x0d\x01\x00\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";

/// The ways out that are tried.
#[derive(Clone, Debug)]
pub struct EgressWays(Vec<(EgressWay, SocketAddr)>);

impl EgressWays {
    /// Those that every cluster may have, and its own.
    pub fn new(api_server: SocketAddr, node: Option<IpAddr>, dns: &[IpAddr]) -> Self {
        let known = [
            (EgressWay::ApiServer, api_server),
            (EgressWay::Metadata, METADATA),
            (EgressWay::NodeDns, NODE_DNS),
            (EgressWay::Internet, INTERNET),
        ];
        let node = node.map(|ip| (EgressWay::Node, SocketAddr::new(ip, KUBELET)));
        let dns = dns.iter().map(|ip| (EgressWay::ClusterDns, SocketAddr::new(*ip, DNS)));
        Self(known.into_iter().chain(node).chain(dns).collect())
    }

    /// Those that lead somewhere, now.
    pub async fn reached(&self) -> BTreeSet<EgressWay> {
        let tried = self.0.iter().map(|(way, address)| async move {
            let asks = matches!(way, EgressWay::ClusterDns | EgressWay::NodeDns);
            let (connected, answered) =
                tokio::join!(can_connect(*address), async { asks && does_answer(*address).await });
            (connected || answered).then_some(*way)
        });
        join_all(tried).await.into_iter().flatten().collect()
    }
}

/// Whether the address accepts a connection.
async fn can_connect(address: SocketAddr) -> bool {
    matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// Whether a DNS server answers there, whatever it says.
async fn does_answer(server: SocketAddr) -> bool {
    let asked = async {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).await?;
        // What others send does not arrive.
        socket.connect(server).await?;
        socket.send(QUESTION).await?;
        socket.recv(&mut [0; 512]).await
    };
    matches!(timeout(PATIENCE, asked).await, Ok(Ok(_)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_resolver_that_answers_by_udp_alone_is_a_way_out() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap();
        let ways = EgressWays(vec![(EgressWay::ClusterDns, address)]);
        assert!(ways.reached().await.is_empty(), "it says nothing");
        tokio::spawn(async move {
            let mut question = [0; 512];
            loop {
                let (length, from) = server.recv_from(&mut question).await.unwrap();
                server.send_to(&question[..length], from).await.unwrap();
            }
        });
        assert_eq!(ways.reached().await, [EgressWay::ClusterDns].into());
    }

    #[test]
    fn the_node_is_tried_where_its_address_is_known() {
        let api_server = "10.96.0.1:443".parse().unwrap();
        let tried = |node| EgressWays::new(api_server, node, &[]).0;
        let node = (EgressWay::Node, "192.0.2.7:10250".parse().unwrap());
        assert!(tried(Some("192.0.2.7".parse().unwrap())).contains(&node));
        assert!(tried(None).iter().all(|(way, _)| *way != EgressWay::Node));
    }

    #[tokio::test]
    async fn what_accepts_a_connection_is_named_and_what_refuses_is_not() {
        let open = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let shut = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = shut.local_addr().unwrap();
        drop(shut);
        let ways = vec![
            (EgressWay::Metadata, open.local_addr().unwrap()),
            (EgressWay::ApiServer, address),
        ];
        assert_eq!(EgressWays(ways).reached().await, [EgressWay::Metadata].into());
    }
}
