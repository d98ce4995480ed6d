//! Target of a connection, read strictly: every form that a resolver might understand in its own
//! way (numbers for addresses, credentials, odd characters) is no host here.

use std::fmt;
use std::net::IpAddr;

use super::refusal::EgressRefusal;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressTarget {
    /// A name in lower case, or an address.
    pub host: String,
    /// The address, if `host` is one.
    pub ip: Option<IpAddr>,
    /// Port, never 0.
    pub port: u16,
}

impl fmt::Display for EgressTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.ip {
            Some(IpAddr::V6(ip)) => write!(f, "[{ip}]:{}", self.port),
            _ => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl EgressTarget {
    /// `host:port`, `1.2.3.4:port` or `[::1]:port`.
    ///
    /// # Errors
    /// `Form`.
    pub fn parse(authority: &str) -> Result<Self, EgressRefusal> {
        let form = || EgressRefusal::Form(authority.chars().take(100).collect());
        let (host, port) = authority.rsplit_once(':').ok_or_else(form)?;
        let plain = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        let port = port.parse().ok().filter(|_| plain).ok_or_else(form)?;
        Self::new(host, port)
    }

    /// Makes a target from a host as a URL has it (IPv6 in brackets).
    ///
    /// # Errors
    /// `Form`.
    pub fn new(host: &str, port: u16) -> Result<Self, EgressRefusal> {
        let form = || EgressRefusal::Form(host.chars().take(100).collect());
        if port == 0 {
            return Err(form());
        }
        if let Some(inside) = host.strip_prefix('[') {
            let ip = inside.strip_suffix(']').and_then(|ip| ip.parse().ok()).map(IpAddr::V6);
            let ip = ip.ok_or_else(form)?;
            return Ok(Self { host: ip.to_string(), ip: Some(ip), port });
        }
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if let Ok(ip) = host.parse::<IpAddr>() {
            return if ip.is_ipv4() { Ok(Self { host, ip: Some(ip), port }) } else { Err(form()) };
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        // `2130706433`, `0x7f.1` and `127.1` are addresses to some resolvers.
        let last = host.rsplit('.').next().unwrap_or_default();
        let number = last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x");
        if host.len() > 253 || number || !host.split('.').all(label) {
            return Err(form());
        }
        Ok(Self { host, ip: None, port })
    }
}
