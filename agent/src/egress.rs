//! Tries to leave the pod by the ways that must be closed. Where one of them works, nothing keeps
//! commands to the gateway.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use codebutler_wire::EgressWay;
use futures::future::join_all;
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::{sleep, timeout};

/// A wall that drops packets answers nothing; without one an answer takes as long as the way is, and from
/// one end of the world to the other that is less. Every pod's start waits so long.
const PATIENCE: Duration = Duration::from_millis(350);
/// Timeout for the gateway's address, which has to be reachable, and interval of the attempts.
const INSIDE_PATIENCE: Duration = Duration::from_secs(10);
const INSIDE_STEP: Duration = Duration::from_millis(100);
const DNS: u16 = 53;
/// Port of the kubelet on every node.
const KUBELET: u16 = 10_250;
/// Address of the clouds' metadata service.
const METADATA: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254)), 80);
/// Address at which NodeLocal DNSCache listens on each node.
const NODE_DNS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(169, 254, 20, 10)), DNS);
/// Public address that answers from everywhere.
const INTERNET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(1, 1, 1, 1)), 443);
/// "localhost A?", which no server has to ask others for.
const QUESTION: &[u8] = b"\xcb\x0d\x01\x00\0\x01\0\0\0\0\0\0\x09localhost\0\0\x01\0\x01";

/// The ways out that are tried.
#[derive(Clone, Debug)]
pub struct EgressWays {
    /// Address of the gateway. As long as that can't be reached either, nothing is learned.
    inside: Option<SocketAddr>,
    ways: Vec<(EgressWay, SocketAddr)>,
}

impl EgressWays {
    /// The ways that every cluster may have, and this cluster's own.
    pub fn new(
        inside: Option<SocketAddr>,
        api_server: SocketAddr,
        node: Option<IpAddr>,
        dns: &[IpAddr],
    ) -> Self {
        let known = [
            (EgressWay::ApiServer, api_server),
            (EgressWay::Metadata, METADATA),
            (EgressWay::NodeDns, NODE_DNS),
            (EgressWay::Internet, INTERNET),
        ];
        let node = node.map(|ip| (EgressWay::Node, SocketAddr::new(ip, KUBELET)));
        let dns = dns.iter().map(|ip| (EgressWay::ClusterDns, SocketAddr::new(*ip, DNS)));
        Self { inside, ways: known.into_iter().chain(node).chain(dns).collect() }
    }

    /// Tries all ways, and returns those that lead somewhere now.
    pub async fn reached(&self) -> BTreeSet<EgressWay> {
        // A pod whose network is not up yet would seem to be kept in.
        if let Some(inside) = self.inside {
            let up = async {
                while !can_connect(inside).await {
                    sleep(INSIDE_STEP).await;
                }
            };
            let _ = timeout(INSIDE_PATIENCE, up).await;
        }
        let tried = self.ways.iter().map(|(way, address)| async move {
            let asks = matches!(way, EgressWay::ClusterDns | EgressWay::NodeDns);
            let (connected, answered) =
                tokio::join!(can_connect(*address), async { asks && does_answer(*address).await });
            (connected || answered).then_some(*way)
        });
        join_all(tried).await.into_iter().flatten().collect()
    }
}

/// Returns true if the address accepts a connection.
async fn can_connect(address: SocketAddr) -> bool {
    matches!(timeout(PATIENCE, TcpStream::connect(address)).await, Ok(Ok(_)))
}

/// Returns true if a DNS server answers at the address, whatever it says.
async fn does_answer(server: SocketAddr) -> bool {
    let asked = async {
        let any = if server.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).await?;
        // A connected socket receives only from this address.
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
        let ways = EgressWays { inside: None, ways: vec![(EgressWay::ClusterDns, address)] };
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
        let tried = |node| EgressWays::new(None, api_server, node, &[]).ways;
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
        let ways = EgressWays { inside: None, ways };
        assert_eq!(ways.reached().await, [EgressWay::Metadata].into());
    }

    #[tokio::test]
    async fn a_pod_whose_network_is_not_up_is_not_yet_kept_in() {
        let free = || TcpListener::bind("127.0.0.1:0");
        let (inside, way) = (free().await.unwrap(), free().await.unwrap());
        let (at, leads) = (inside.local_addr().unwrap(), way.local_addr().unwrap());
        drop((inside, way));
        let ways = EgressWays { inside: Some(at), ways: vec![(EgressWay::ApiServer, leads)] };
        let looking = tokio::spawn(async move { ways.reached().await });
        sleep(INSIDE_STEP / 2).await;
        assert!(!looking.is_finished(), "it has seen nothing");
        let _way = TcpListener::bind(leads).await.unwrap();
        let _inside = TcpListener::bind(at).await.unwrap();
        assert_eq!(looking.await.unwrap(), [EgressWay::ApiServer].into());
    }
}
