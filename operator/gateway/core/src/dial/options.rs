//! Options of the operator for connections to the outside.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use http::Uri;
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use url::Url;

use super::address::IpNetwork;
use super::authorities::TrustedAuthorities;
use crate::redact::log;

/// Proxies, authorities and opened networks.
#[derive(Clone, Default, clap::Args)]
pub struct DialOptions {
    /// Internal networks (`10.20.0.0/16`) that Repos may name hosts of: for Git, for models, and in
    /// `spec.egress.hosts`. None unless said here; metadata services never.
    #[arg(long, env = "CODEBUTLER_EGRESS_ALLOW", value_delimiter = ',')]
    pub egress_allow: Vec<IpNetwork>,
    /// File with certificate authorities (PEM) that are trusted besides the system's.
    #[arg(long, env = "CODEBUTLER_TRUSTED_CA")]
    pub trusted_ca: Option<PathBuf>,
    /// Proxy for https, and for all that workspaces connect to: `http://user:password@host:port`.
    #[arg(long, env = "HTTPS_PROXY", hide_env_values = true, hide_default_value = true,
          default_value_t = read_environment(&["https_proxy", "ALL_PROXY", "all_proxy"]))]
    pub https_proxy: String,
    /// Proxy for http.
    #[arg(long, env = "HTTP_PROXY", hide_env_values = true, hide_default_value = true,
          default_value_t = read_environment(&["http_proxy", "ALL_PROXY", "all_proxy"]))]
    pub http_proxy: String,
    /// Hosts and networks that are connected to without a proxy.
    #[arg(long, env = "NO_PROXY", hide_default_value = true,
          default_value_t = read_environment(&["no_proxy"]))]
    pub no_proxy: String,
}

/// A proxy's URL can hold a password.
impl fmt::Debug for DialOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DialOptions")
            .field("egress_allow", &self.egress_allow)
            .field("trusted_ca", &self.trusted_ca)
            .field("no_proxy", &self.no_proxy)
            .finish_non_exhaustive()
    }
}

impl DialOptions {
    /// Builds the TLS configuration of all connections to the outside.
    pub fn tls(&self) -> anyhow::Result<ClientConfig> {
        let mut system = RootCertStore::empty();
        system.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let mut own = Vec::new();
        if let Some(path) = &self.trusted_ca {
            let wrong = || format!("--trusted-ca: {} holds no certificates", path.display());
            for certificate in CertificateDer::pem_file_iter(path).with_context(wrong)? {
                own.push(certificate.with_context(wrong)?);
            }
            if own.is_empty() {
                bail!(wrong());
            }
        }
        if system.is_empty() && own.is_empty() {
            bail!("no certificate authority is known: name one with --trusted-ca");
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let wrong = "--trusted-ca holds what is no certificate of an authority";
        let trusted = TrustedAuthorities::new(Arc::clone(&provider), system, own).context(wrong)?;
        Ok(ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(trusted))
            .with_no_client_auth())
    }
}

/// Rules that choose the proxy of a host.
pub(super) struct ProxyRules {
    matcher: Matcher,
    https: Option<Url>,
    http: Option<Url>,
    no: String,
}

impl ProxyRules {
    pub(super) fn new(options: &DialOptions) -> anyhow::Result<Self> {
        let https = parse_proxy("HTTPS_PROXY", &options.https_proxy)?;
        let http = parse_proxy("HTTP_PROXY", &options.http_proxy)?;
        let text = |url: &Option<Url>| url.as_ref().map_or_else(String::new, Url::to_string);
        let matcher = Matcher::builder()
            .https(text(&https))
            .http(text(&http))
            .no(options.no_proxy.as_str())
            .build();
        for password in [&https, &http].into_iter().flatten().filter_map(Url::password) {
            log::mask_secret(password);
        }
        Ok(Self { matcher, https, http, no: options.no_proxy.clone() })
    }

    pub(super) fn of(&self, to: &Uri) -> Option<Intercept> {
        self.matcher.intercept(to)
    }

    pub(super) fn hosts(&self) -> Vec<String> {
        let hosts = [&self.https, &self.http].into_iter().flatten();
        hosts.filter_map(|url| url.host_str().map(str::to_owned)).collect()
    }

    pub(super) fn for_reqwest(&self) -> anyhow::Result<Vec<reqwest::Proxy>> {
        let no = || reqwest::NoProxy::from_string(&self.no);
        let https = self.https.as_ref().map(|url| reqwest::Proxy::https(url.as_str()));
        let http = self.http.as_ref().map(|url| reqwest::Proxy::http(url.as_str()));
        let proxies = [https, http].into_iter().flatten();
        proxies.map(|proxy| Ok(proxy.context("a proxy can't be used")?.no_proxy(no()))).collect()
    }
}

/// A URL that nobody can use would silently be no proxy.
fn parse_proxy(name: &str, text: &str) -> anyhow::Result<Option<Url>> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&whole).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(|h| !h.is_empty())
    });
    match url {
        Some(url) => Ok(Some(url)),
        None => bail!("{name} is no proxy that can be used: write http://host:port"),
    }
}

/// The first of these variables that says anything: proxies have names in both cases.
fn read_environment(names: &[&str]) -> String {
    let said = names.iter().filter_map(|name| std::env::var(name).ok());
    said.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxied(https: &str, no: &str) -> anyhow::Result<ProxyRules> {
        let options = DialOptions {
            https_proxy: https.to_owned(),
            no_proxy: no.to_owned(),
            ..DialOptions::default()
        };
        ProxyRules::new(&options)
    }

    #[test]
    fn a_proxy_is_used_but_for_the_hosts_without() {
        let proxies = proxied("proxy.corp:3128", "git.corp,10.0.0.0/8,.svc").unwrap();
        let by = |to: &str| proxies.of(&to.parse().unwrap()).map(|by| by.uri().to_string());
        assert_eq!(by("https://slack.com/api").unwrap(), "http://proxy.corp:3128/");
        for direct in
            ["https://git.corp/a", "https://10.1.2.3/", "https://a.b.svc/", "http://a.dev"]
        {
            assert_eq!(by(direct), None, "{direct}");
        }
        assert_eq!(proxies.hosts(), ["proxy.corp"]);
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_and_no_password_is_shown() {
        for wrong in ["socks5://proxy:1080", "http://", "http://user:hunter2@:bad"] {
            let told = proxied(wrong, "").err().unwrap().to_string();
            assert!(told.starts_with("HTTPS_PROXY is no proxy"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        let https_proxy = "http://user:hunter2@proxy:1".to_owned();
        let options = DialOptions { https_proxy, ..DialOptions::default() };
        assert!(!format!("{options:?}").contains("hunter2"));
    }
}
