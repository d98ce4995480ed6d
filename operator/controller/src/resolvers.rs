//! The DNS servers of the controller's own pod, which agent pods must not reach: they have no
//! resolver of their own to ask for them.

use std::net::IpAddr;
use std::path::Path;

const FILE: &str = "/etc/resolv.conf";

/// Reads this pod's DNS servers. Empty where the file can't be read: then there is nothing to name.
pub(crate) fn own_resolvers() -> Vec<IpAddr> {
    named_in(&std::fs::read_to_string(Path::new(FILE)).unwrap_or_default())
}

/// A loopback is another one in every pod.
fn named_in(text: &str) -> Vec<IpAddr> {
    let servers = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|word| *word == "nameserver").and_then(|_| words.next())
    });
    let addresses = servers.filter_map(|server| server.parse::<IpAddr>().ok());
    addresses.filter(|address| !address.is_loopback() && !address.is_unspecified()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_and_what_is_local_or_nonsense_is_not() {
        let text = "search team.svc\n# nameserver 1.1.1.1\nnameserver 10.96.0.10\n\
                    nameserver\tfd00::a # two\nnameserver 127.0.0.53\nnameserver fe80::1%eth0\n";
        let wanted: [IpAddr; 2] = ["10.96.0.10".parse().unwrap(), "fd00::a".parse().unwrap()];
        assert_eq!(named_in(text), wanted);
    }
}
