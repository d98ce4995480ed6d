//! Addresses: credentials inside URLs, and internal hosts with their ports.

use std::net::Ipv4Addr;
use std::ops::Range;

use super::value;

/// Prefixes of internal IP addresses; the address itself decides.
pub(crate) const BEGINS: [&str; 10] =
    ["10.", "172.1", "172.2", "172.3", "192.168.", "169.254.", "100.", "[fc", "[fd", "[fe80"];
/// Suffixes of internal host names.
pub(crate) const HOST_ENDS: [&str; 8] =
    [".internal", ".svc", ".cluster.local", ".local", ".lan", ".corp", ".intranet", ".home.arpa"];
/// Longest scheme, user and password that are looked at.
const LONGEST: usize = 256;

/// The credentials of a URL whose `://` is at `at`: from the user to the password.
pub(crate) fn find_credentials(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let scheme = bytes[..at]
        .iter()
        .rev()
        .take(32)
        .take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        .count();
    if scheme == 0 {
        return None;
    }
    let start = at + 3;
    // A password may hold what an URL should not: the last `@` before the path or a space counts.
    let rest = &bytes[start..bytes.len().min(start + 2 * LONGEST)];
    let stop = |b: &u8| b.is_ascii_whitespace() || matches!(b, b'"' | b'\'' | b'`' | b'<' | b'>');
    let rest = &rest[..rest.iter().position(stop).unwrap_or(rest.len())];
    let first = rest.iter().position(|b| matches!(b, b'/' | b'?' | b'#'));
    let until = match first.and_then(|slash| rest[..slash].iter().rposition(|b| *b == b'@')) {
        Some(at) => at,
        None if first.is_none() => rest.iter().rposition(|b| *b == b'@')?,
        // `user:pa/ss@host`: only where what precedes the slash is no `host:port`.
        None => {
            let head = &rest[..first?];
            let colon = head.iter().position(|b| *b == b':')?;
            let at = rest.iter().position(|b| *b == b'@')?;
            if head[colon + 1..].iter().all(u8::is_ascii_digit) || head[..colon].contains(&b'.') {
                return None;
            }
            at
        }
    };
    let info = text.get(start..start + until)?;
    let (user, password) = info.split_once(':')?;
    if user.contains('/') || !value::is_password(user, password) {
        return None;
    }
    Some(start..start + until)
}

/// An internal IP address with its port, beginning at `at`.
pub(crate) fn find_internal(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let before = at.checked_sub(1).map(|i| bytes[i]);
    if before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_')) {
        return None;
    }
    if bytes[at] == b'[' {
        let end = at + bytes[at..].iter().take(48).position(|b| *b == b']')?;
        text.get(at + 1..end)?.parse::<std::net::Ipv6Addr>().ok()?;
        return port_end(bytes, end + 1).map(|end| at..end);
    }
    let part = |b: &u8| b.is_ascii_digit() || *b == b'.';
    let end = at + bytes[at..].iter().take(16).take_while(|b| part(b)).count();
    let ip: Ipv4Addr = text.get(at..end)?.parse().ok()?;
    let shared = ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]);
    if !(ip.is_private() || ip.is_link_local() || shared) {
        return None;
    }
    port_end(bytes, end).map(|end| at..end)
}

/// An internal name with its port, one of whose [`HOST_ENDS`] is at `ending`.
pub(crate) fn internal_host(text: &str, ending: Range<usize>) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let end = port_end(bytes, ending.end)?;
    let name = |b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let start =
        ending.start - bytes[..ending.start].iter().rev().take(253).take_while(name).count();
    // `.env.local:120` is a line of a file, as is `vite.config.local:12`.
    let first = bytes.get(start).filter(|b| b.is_ascii_alphanumeric())?;
    let lines = end - ending.end < 4;
    (!lines && first.is_ascii_alphanumeric() && start < ending.start).then_some(start..end)
}

/// The end of a `:port` at `at`.
fn port_end(bytes: &[u8], at: usize) -> Option<usize> {
    let digits = bytes.get(at..)?.strip_prefix(b":")?;
    let count = digits.iter().take(6).take_while(|b| b.is_ascii_digit()).count();
    let number = std::str::from_utf8(&digits[..count]).ok()?.parse::<u16>().ok()?;
    let after = digits.get(count);
    let word = after.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    (count >= 2 && number > 0 && !word).then_some(at + 1 + count)
}
