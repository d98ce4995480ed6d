//! Client addresses of requests to pages.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use codebutler_gateway_core::egress::IpNetwork;
use http::HeaderName;
use http::request::Parts;

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Bits of an IPv6 address that one subscriber has all addresses of.
const SUBSCRIBER: u32 = 64;

/// IP address of the connection's peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PeerAddress(pub IpAddr);

/// An address, or the network of a subscriber with IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct VisitorAddress(IpAddr);

impl From<IpAddr> for VisitorAddress {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(ip) => IpAddr::V4(ip),
            IpAddr::V6(ip) => {
                let network = u128::from(ip) & (u128::MAX << SUBSCRIBER);
                IpAddr::V6(Ipv6Addr::from(network))
            }
        })
    }
}

impl VisitorAddress {
    /// The last one on the way here that is no trusted proxy: what comes before it in the header may be made up.
    pub(super) fn of(parts: &Parts, proxies: &[IpNetwork]) -> Self {
        let peer = parts.extensions.get::<PeerAddress>();
        let mut known = peer.map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.0);
        let lines: Vec<&str> =
            parts.headers.get_all(FORWARDED).iter().filter_map(|line| line.to_str().ok()).collect();
        let mut way = lines.iter().rev().flat_map(|line| line.rsplit(','));
        loop {
            known = known.to_canonical();
            if !proxies.iter().any(|proxy| proxy.contains(known)) {
                return known.into();
            }
            match way.next().and_then(|said| parse_address(said.trim())) {
                Some(before) => known = before,
                None => return known.into(),
            }
        }
    }
}

/// Parses a client's address; some proxies add the port.
fn parse_address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse::<SocketAddr>().ok().map(|address| address.ip());
    bare.parse().ok().or_else(with_port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(peer: &str, forwarded: &[&str]) -> VisitorAddress {
        let mut request = http::Request::builder().extension(PeerAddress(peer.parse().unwrap()));
        for line in forwarded {
            request = request.header(FORWARDED, *line);
        }
        let proxies = ["10.1.0.0/16", "fd00::7"].map(|proxy| proxy.parse().unwrap());
        VisitorAddress::of(&request.body(()).unwrap().into_parts().0, &proxies)
    }

    fn address(text: &str) -> VisitorAddress {
        VisitorAddress(text.parse().unwrap())
    }

    #[test]
    fn only_trusted_proxies_say_from_where_somebody_comes() {
        for (peer, forwarded, expected) in [
            ("203.0.113.9", &["198.51.100.1"][..], "203.0.113.9"),
            ("::ffff:203.0.113.9", &[], "203.0.113.9"),
            ("10.1.2.3", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.1.2.3", &["198.51.100.1:4711"], "198.51.100.1"),
            ("10.1.2.3", &["192.0.2.66, 198.51.100.1, 10.1.9.9"], "198.51.100.1"),
            ("10.1.2.3", &["192.0.2.66", "198.51.100.1"], "198.51.100.1"),
            ("10.1.2.3", &["192.0.2.66, unknown"], "10.1.2.3"),
            ("10.1.2.3", &[], "10.1.2.3"),
            ("fd00::7", &["[2001:db8:1:2:3::4]:443"], "2001:db8:1:2::"),
            ("2001:db8:1:2:ffff::9", &["198.51.100.1"], "2001:db8:1:2::"),
        ] {
            assert_eq!(from(peer, forwarded), address(expected), "{peer} {forwarded:?}");
        }
    }
}
