//! Addresses of a Repo's Git remote and its API, read from one URL.

use url::Url;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The repository's URL without a trailing slash, for Git's smart HTTP protocol.
    pub git: String,
    /// `host` or `host:port`, for people.
    pub host: String,
    /// URL that the annotation of the credentials' Secret has to allow.
    pub url: Url,
    /// Base URL of the REST API, without a trailing slash.
    pub api: String,
    pub graphql: String,
    pub owner: String,
    /// The repository's name without `.git`.
    pub name: String,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemoteError {
    /// The URL has not the form that `spec.git.url` asks for.
    #[error("spec.git.url has to look like https://host/owner/name")]
    Form,
    /// Credentials belong into a Secret.
    #[error("spec.git.url must not contain credentials: put them into a Secret")]
    Credentials,
}

impl Remote {
    /// Reads a Repo's `spec.git.url`.
    ///
    /// # Errors
    /// A sentence that names the field.
    pub fn parse(text: &str) -> Result<Self, RemoteError> {
        let url = Url::parse(text).map_err(|_| RemoteError::Form)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(RemoteError::Credentials);
        }
        let host = url_authority(&url).ok_or(RemoteError::Form)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(RemoteError::Form);
        }
        let path = url.path().trim_matches('/');
        let (owner, name) = path.split_once('/').ok_or(RemoteError::Form)?;
        let name = name.strip_suffix(".git").unwrap_or(name);
        let plain = |part: &str| {
            !matches!(part, "" | "." | "..")
                && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b))
        };
        if !plain(owner) || !plain(name) {
            return Err(RemoteError::Form);
        }
        let scheme = url.scheme();
        let (api, graphql) = if is_cloud(&host) {
            let api = format!("https://api.{host}");
            (api.clone(), format!("{api}/graphql"))
        } else {
            let api = format!("{scheme}://{host}/api");
            (format!("{api}/v3"), format!("{api}/graphql"))
        };
        Ok(Self {
            git: format!("{scheme}://{host}/{path}"),
            api,
            graphql,
            owner: owner.to_owned(),
            name: name.to_owned(),
            host,
            url,
        })
    }
}

impl Remote {
    /// True on GitHub's own hosts; false on a company's, of whatever kind.
    pub fn is_cloud(&self) -> bool {
        is_cloud(&self.host)
    }

    /// An image of the repository at a commit, for people who may see the repository: in a private
    /// one, a browser is sent on with a sign-in of its own. `path` needs no escaping.
    pub fn image_url(&self, commit: &str, path: &str) -> String {
        let Self { url, host, owner, name, .. } = self;
        format!("{}://{host}/{owner}/{name}/blob/{commit}/{path}?raw=true", url.scheme())
    }

    /// Returns the remote of another repository on the same host, by its `owner/name`.
    pub fn renamed(&self, full_name: &str) -> Option<Self> {
        let scheme = self.git.split("://").next()?;
        Self::parse(&format!("{scheme}://{}/{full_name}", self.host)).ok()
    }
}

/// An Enterprise Cloud with data residency is a host below ghe.com, with its API beside it.
fn is_cloud(host: &str) -> bool {
    host == "github.com" || host.ends_with(".ghe.com")
}

/// `host` or `host:port` of an http(s) URL.
pub fn url_authority(url: &Url) -> Option<String> {
    if !matches!(url.scheme(), "http" | "https") {
        return None;
    }
    let host = url.host_str().filter(|host| !host.is_empty())?;
    Some(url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")))
}

/// Returns the host of a URL in the form that a Secret's annotation uses.
pub fn annotation_name(url: &Url) -> Option<String> {
    let host = url_authority(url)?;
    Some(if url.scheme() == "http" { format!("http://{host}") } else { host })
}

/// Returns true if a Secret's annotation names the host of a URL: `host` stands for https at its
/// own port, `host:port` for https at another, and only `http://host:port` for what anybody on the
/// way can read.
pub fn allows_url(annotation: &str, url: &Url) -> bool {
    let place = |url: &Url| {
        let host = url.host_str().map(str::to_owned);
        (url.scheme().to_owned(), host, url.port_or_known_default())
    };
    let named = |entry: &str| {
        let whole =
            if entry.contains("://") { entry.to_owned() } else { format!("https://{entry}") };
        let named = Url::parse(&whole).ok()?;
        let plain = named.path() == "/"
            && named.query().is_none()
            && named.fragment().is_none()
            && named.username().is_empty()
            && named.password().is_none();
        (plain && matches!(named.scheme(), "http" | "https")).then_some(named)
    };
    let entries = annotation.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.filter_map(named).any(|named| place(&named) == place(url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn github_and_enterprise_hosts_get_their_own_api() {
        let remote = Remote::parse("https://github.com/acme/shop").unwrap();
        assert_eq!(remote.api, "https://api.github.com");
        assert_eq!(remote.git, "https://github.com/acme/shop");
        assert_eq!(remote.graphql, "https://api.github.com/graphql");
        let remote = Remote::parse("https://acme.ghe.com/acme/shop").unwrap();
        assert_eq!((&*remote.host, &*remote.api), ("acme.ghe.com", "https://api.acme.ghe.com"));
        assert_eq!(remote.graphql, "https://api.acme.ghe.com/graphql");
        assert_eq!(remote.git, "https://acme.ghe.com/acme/shop");
        let remote = Remote::parse("https://ghe.acme.dev/acme/shop.git").unwrap();
        assert_eq!(remote.graphql, "https://ghe.acme.dev/api/graphql");
        assert_eq!(remote.api, "https://ghe.acme.dev/api/v3");
        assert_eq!(
            (&*remote.host, &*remote.git),
            ("ghe.acme.dev", "https://ghe.acme.dev/acme/shop.git")
        );
        assert_eq!(
            remote.image_url("abc", "a.png"),
            "https://ghe.acme.dev/acme/shop/blob/abc/a.png?raw=true"
        );
        let remote = Remote::parse("http://127.0.0.1:4000/acme/shop.git").unwrap();
        assert_eq!(remote.api, "http://127.0.0.1:4000/api/v3");
        assert_eq!(remote.git, "http://127.0.0.1:4000/acme/shop.git");
        assert_eq!(remote.host, "127.0.0.1:4000");
        assert_eq!((&*remote.owner, &*remote.name), ("acme", "shop"));
    }

    #[test]
    fn a_secret_goes_where_its_annotation_says_and_not_in_clear() {
        let named = "github.com, git.acme.dev:8443 ,http://127.0.0.1:4000,[::1]";
        for url in [
            "https://github.com/acme/shop",
            "https://github.com:443/",
            "https://git.acme.dev:8443/x",
            "http://127.0.0.1:4000/acme/shop",
            "https://[::1]/x",
        ] {
            assert!(allows_url(named, &Url::parse(url).unwrap()), "{url}");
        }
        for url in [
            "http://github.com/acme/shop",
            "http://github.com:443/acme/shop",
            "https://github.com:8443/acme/shop",
            "https://git.acme.dev/x",
            "http://git.acme.dev:8443/x",
            "https://127.0.0.1:4000/x",
            "http://127.0.0.1/x",
            "https://evil.github.com/",
        ] {
            assert!(!allows_url(named, &Url::parse(url).unwrap()), "{url}");
        }
        assert!(!allows_url(
            "https://github.com/acme",
            &Url::parse("https://github.com/").unwrap()
        ));
        assert!(!allows_url("", &Url::parse("https://github.com/").unwrap()));
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "git@github.com:acme/shop.git",
            "file:///etc/passwd",
            "https://github.com/acme",
            "https://github.com/acme/shop/tree/main",
            "https://github.com/acme/..",
            "https://github.com/acme/sh%2fop",
            "https://github.com/acme/shop?x=1",
        ] {
            assert_eq!(Remote::parse(text), Err(RemoteError::Form), "{text}");
        }
        let text = "https://me:secret@github.com/acme/shop";
        assert_eq!(Remote::parse(text), Err(RemoteError::Credentials));
    }
}
