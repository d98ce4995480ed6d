//! A Repo's list of hosts.

use crate::dial::EgressTarget;

/// Ports of entries that name none.
const USUAL: [u16; 2] = [443, 80];
/// Longest part of a name that `*` stands for, and its labels: names are no place for messages.
const LONGEST: usize = 80;
const LABELS: usize = 4;

/// True if one of `hosts` (`crates.io`, `*.npmjs.org`, `registry.acme.dev:8443`) is the target.
pub fn allows_target<'a>(hosts: impl IntoIterator<Item = &'a str>, target: &EgressTarget) -> bool {
    hosts.into_iter().any(|entry| matches_entry(entry, target))
}

fn matches_entry(entry: &str, target: &EgressTarget) -> bool {
    let (host, port) = match entry.rsplit_once(':') {
        Some((host, port)) => (host, port.parse::<u16>().ok()),
        None => (entry, None),
    };
    let port_fits = match port {
        Some(port) => port == target.port,
        None => !entry.contains(':') && USUAL.contains(&target.port),
    };
    port_fits && host_fits(&host.to_ascii_lowercase(), target)
}

fn host_fits(host: &str, target: &EgressTarget) -> bool {
    let Some(suffix) = host.strip_prefix('*') else { return host == target.host };
    if target.ip.is_some() || !suffix.starts_with('.') {
        return false;
    }
    let Some(below) = target.host.strip_suffix(suffix) else { return false };
    !below.is_empty() && below.len() <= LONGEST && below.split('.').count() <= LABELS
}
