//! Tells addresses of the public internet from internal ones.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Azure's wire server: a public address that every virtual machine there can reach.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
/// Metadata services of clouds outside of the link-local range: they give a machine's credentials to whatever
/// asks from it.
const METADATA_V4: [Ipv4Addr; 4] = [
    WIRE_SERVER,
    // Alibaba Cloud.
    Ipv4Addr::new(100, 100, 100, 200),
    // Volcano Engine.
    Ipv4Addr::new(100, 96, 0, 96),
    // Oracle Cloud Classic.
    Ipv4Addr::new(192, 0, 0, 192),
];
/// Metadata services at unique local addresses: the first four groups, as clouds put several
/// services into one network.
const METADATA_V6: [[u16; 4]; 5] = [
    // Amazon: metadata, pod identity, time, names.
    [0xfd00, 0xec2, 0, 0],
    // Google.
    [0xfd20, 0xce, 0, 0],
    // Oracle.
    [0xfd00, 0xc1, 0, 0],
    // Akamai.
    [0xfd00, 0xa9fe, 0xa9fe, 0],
    // Scaleway.
    [0xfd00, 0x42, 0, 0],
];

/// Returns true if an address belongs to the public internet, whatever it is wrapped in.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => embedded_address(v6).map_or_else(|| is_public_v6(v6), is_public_v4),
    }
}

/// Returns true if no configuration may open an address, because metadata services live there.
pub fn is_never(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_never_v4(v4),
        IpAddr::V6(v6) => match embedded_address(v6).or_else(|| locally_translated(v6)) {
            Some(v4) => is_never_v4(v4),
            None => is_never_v6(v6),
        },
    }
}

fn is_never_v4(ip: Ipv4Addr) -> bool {
    ip.is_link_local() || ip.is_unspecified() || METADATA_V4.contains(&ip)
}

fn is_never_v6(ip: Ipv6Addr) -> bool {
    let [a, b, c, d, ..] = ip.segments();
    ip.is_unicast_link_local() || ip.is_unspecified() || METADATA_V6.contains(&[a, b, c, d])
}

/// The IPv4 address to which a network's own translator leads (RFC 8215).
fn locally_translated(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    match ip.segments() {
        [0x64, 0xff9b, 1, _, _, _, high, low] => {
            Some(Ipv4Addr::from(u32::from(high) << 16 | u32::from(low)))
        }
        _ => None,
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let special = matches!(a, 0 | 127 | 224..=255)
        || a == 100 && (64..=127).contains(&b)
        || a == 192 && matches!((b, c), (0, 0) | (88, 99))
        || a == 198 && (18..=19).contains(&b);
    !(special
        || ip.is_private()
        || ip.is_link_local()
        || ip.is_documentation()
        || ip == WIRE_SERVER)
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let [a, b, ..] = ip.segments();
    // Only 2000::/3 is handed out, and of it not Teredo, documentation or benchmarking.
    a & 0xe000 == 0x2000
        && !(a == 0x2001 && (b == 0 || b == 2 || b == 0xdb8 || (0x10..0x40).contains(&b)))
        && !(a == 0x3fff && b < 0x1000)
}

/// The IPv4 address that an IPv6 one stands for: mapped, compatible, NAT64 or 6to4.
fn embedded_address(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let of = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match ip.segments() {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] if (high, low) > (0, 1) => Some(of(high, low)),
        [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            Some(of(high, low))
        }
        [0x2002, high, low, ..] => Some(of(high, low)),
        _ => None,
    }
}

/// A network such as `10.20.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpNetwork {
    ip: IpAddr,
    prefix: u8,
}

impl IpNetwork {
    /// Returns true if the network contains an address. IPv4 wrapped into IPv6 does not count.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(net), IpAddr::V4(ip)) => {
                let shift = 32 - u32::from(self.prefix);
                u32::from(net).checked_shr(shift) == u32::from(ip).checked_shr(shift)
            }
            (IpAddr::V6(net), IpAddr::V6(ip)) => {
                let shift = 128 - u32::from(self.prefix);
                u128::from(net).checked_shr(shift) == u128::from(ip).checked_shr(shift)
            }
            _ => false,
        }
    }
}

/// A text is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no network: write 10.20.0.0/16 or an address")]
pub struct NetworkError(String);

impl FromStr for IpNetwork {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError(text.to_owned());
        let (ip, prefix) = match text.split_once('/') {
            Some((ip, prefix)) => (ip, Some(prefix.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
        let longest = if ip.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(longest);
        (prefix <= longest).then_some(Self { ip, prefix }).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn never(ip: &str) -> bool {
        is_never(ip.parse().unwrap())
    }

    #[test]
    fn no_configuration_opens_the_metadata_service_of_a_cloud() {
        for ip in [
            "169.254.169.254",
            "169.254.170.23",
            "168.63.129.16",
            "100.100.100.200",
            "100.96.0.96",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "fd00:c1::a9fe:a9fe",
            "fd00:a9fe:a9fe::1",
            "fd00:42::42",
            "fe80::a9fe:a9fe",
            "::ffff:100.100.100.200",
            "64:ff9b::100.100.100.200",
            "64:ff9b:1::169.254.169.254",
            "2002:6464:64c8::1",
            "::",
        ] {
            assert!(never(ip), "{ip}");
        }
        for ip in
            ["100.100.100.201", "10.0.0.7", "fd00:ec3::254", "fd20:cf::1", "64:ff9b:1::10.0.0.7"]
        {
            assert!(!never(ip), "{ip} is a network's own");
        }
    }
}
