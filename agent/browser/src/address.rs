//! Addresses of pages: of this pod alone. Pure.

use url::{Host, Url};

/// An address that is not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The address can't be parsed.
    #[error("`{0}` is no address of a page: give one such as `http://localhost:3000/about`")]
    Unreadable(String),
    /// The address is that of another host than this pod.
    #[error(
        "`{0}` is not this pod: only pages of servers that run here are shown, at `localhost` or `127.0.0.1`, with \
         `http` or `https`"
    )]
    Elsewhere(String),
}

/// Reads the address of a page that a server of this pod shows.
///
/// # Errors
/// When it is none.
pub fn read_address(text: &str) -> Result<Url, AddressError> {
    let shown: String = text.chars().take(200).collect();
    let url = Url::parse(text.trim()).map_err(|_| AddressError::Unreadable(shown.clone()))?;
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    let is_page = matches!(url.scheme(), "http" | "https");
    if is_here && is_page { Ok(url) } else { Err(AddressError::Elsewhere(shown)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pages_of_this_pod_are_opened() {
        for own in [
            "http://localhost:3000/a?b=1",
            "https://127.0.0.1/",
            "http://[::1]:80/",
            "http://app.localhost:1/",
        ] {
            assert!(read_address(own).is_ok(), "{own}");
        }
        for other in [
            "http://example.com/",
            "http://169.254.169.254/",
            "http://localhost.example.com/",
            "http://10.0.0.1/",
            "file:///etc/passwd",
            "chrome://version",
            "data:text/html,x",
            "http://0.0.0.0:1/",
        ] {
            assert!(matches!(read_address(other), Err(AddressError::Elsewhere(_))), "{other}");
        }
        assert!(matches!(read_address("localhost"), Err(AddressError::Unreadable(_))));
    }
}
