//! Which addresses are the public internet's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Azure's wire server: a public address that every virtual machine there can reach.
const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Whether an address belongs to the public internet, whatever it is wrapped in.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => embedded_address(v6).map_or_else(|| is_public_v6(v6), is_public_v4),
    }
}

/// Whether no configuration may open an address: metadata services live there.
pub fn is_never(ip: IpAddr) -> bool {
    let v4 = match ip {
        IpAddr::V4(v4) => Some(v4),
        IpAddr::V6(v6) => embedded_address(v6),
    };
    match (v4, ip) {
        (Some(v4), _) => v4.is_link_local() || v4.is_unspecified() || v4 == WIRE_SERVER,
        (None, IpAddr::V6(v6)) => v6.is_unicast_link_local() || v6.is_unspecified(),
        (None, IpAddr::V4(_)) => true,
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
    /// Whether an address is in it. IPv4 wrapped into IPv6 is not.
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

impl FromStr for IpNetwork {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no network: write 10.20.0.0/16 or an address");
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
