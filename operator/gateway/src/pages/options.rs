//! Flags of pages: their listen address, their public address, and the sign-in. Parsed once.

use std::net::SocketAddr;

use anyhow::{Context as _, bail, ensure};
use clap::ValueEnum;
use codebutler_gateway_core::egress::IpNetwork;
use url::{Host, Url};

/// Slack, as an issuer of identities.
const SLACK: &str = "https://slack.com";

/// Identity provider of sign-ins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SignInKind {
    /// Sign in with Slack: a person is who they are in the workspace.
    Slack,
    /// Any OpenID Connect issuer: a person is who has the verified e-mail address in the workspace.
    Oidc,
}

/// Flags for pages on threads.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PagesOptions {
    /// Listen address of pages on threads. Without --pages-sign-in it has to be an address of the pod's
    /// own loopback, where `kubectl port-forward` leads.
    #[arg(long, env = "CODEBUTLER_PAGES")]
    pub pages: Option<SocketAddr>,
    /// Address under which people reach them, such as `https://codebutler.example.com`: threads and pull
    /// requests link there.
    #[arg(long, env = "CODEBUTLER_PAGES_URL")]
    pub pages_url: Option<Url>,
    /// Sign-in for pages: members of a thread's channel may see the thread.
    #[arg(long, env = "CODEBUTLER_PAGES_SIGN_IN")]
    pub pages_sign_in: Option<SignInKind>,
    /// Issuer that says who somebody is, for `oidc`.
    #[arg(long, env = "CODEBUTLER_PAGES_ISSUER")]
    pub pages_issuer: Option<Url>,
    /// Secret in the operator's namespace with the keys `clientId` and `clientSecret`.
    #[arg(long, env = "CODEBUTLER_PAGES_SECRET")]
    pub pages_secret: Option<String>,
    /// Addresses or networks of proxies such as an ingress, whose X-Forwarded-For says who asks. From all others
    /// that header says nothing.
    #[arg(long, env = "CODEBUTLER_PAGES_TRUSTED_PROXIES", value_delimiter = ',')]
    pub pages_trusted_proxies: Vec<IpNetwork>,
}

/// The flags of pages, validated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagesPlan {
    pub address: SocketAddr,
    pub sign_in: Option<SignInPlan>,
}

/// Validated settings of the sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInPlan {
    pub kind: SignInKind,
    pub issuer: Url,
    pub secret: String,
    /// Public address of pages, where sign-ins start and return.
    pub own: Url,
    /// Proxies that are trusted to name the client's address.
    pub proxies: Vec<IpNetwork>,
}

impl PagesOptions {
    /// Validates the flags; `None` if there are no pages.
    ///
    /// # Errors
    /// A sentence that names the flag.
    pub fn plan(&self) -> anyhow::Result<Option<PagesPlan>> {
        if let Some(url) = &self.pages_url {
            let whole = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
            ensure!(
                matches!(url.scheme(), "http" | "https") && url.has_host() && whole,
                "--pages-url={url}: give scheme and host alone, such as https://codebutler.example.com"
            );
        }
        let Some(address) = self.pages else { return Ok(None) };
        let Some(kind) = self.pages_sign_in else {
            ensure!(
                address.ip().is_loopback(),
                "--pages={address}: whoever reaches it sees every thread, so it has to be a loopback \
                 address such as 127.0.0.1:8090, where kubectl port-forward leads; or set \
                 --pages-sign-in"
            );
            return Ok(Some(PagesPlan { address, sign_in: None }));
        };
        let own = self.pages_url.clone();
        let own = own.context("--pages-sign-in needs --pages-url, where people come back to")?;
        ensure!(
            own.scheme() == "https" || is_loopback(&own),
            "--pages-url={own}: people sign in there, so it has to be https"
        );
        let issuer = match (kind, &self.pages_issuer) {
            (_, Some(issuer)) => issuer.clone(),
            (SignInKind::Slack, None) => Url::parse(SLACK)?,
            (SignInKind::Oidc, None) => bail!("--pages-sign-in=oidc needs --pages-issuer"),
        };
        ensure!(
            issuer.scheme() == "https" || is_loopback(&issuer),
            "--pages-issuer={issuer}: it says who somebody is, so it has to be https"
        );
        let secret = self.pages_secret.clone();
        let secret = secret.context(
            "--pages-sign-in needs --pages-secret: a Secret of the operator's namespace with \
             clientId and clientSecret",
        )?;
        let proxies = self.pages_trusted_proxies.clone();
        let sign_in = SignInPlan { kind, issuer, secret, own, proxies };
        Ok(Some(PagesPlan { address, sign_in: Some(sign_in) }))
    }

    /// Base address of links to pages, without a slash at the end.
    pub fn links(&self) -> Option<String> {
        self.pages?;
        Some(self.pages_url.as_ref()?.as_str().trim_end_matches('/').to_owned())
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pages: &str, url: &str, kind: Option<SignInKind>) -> PagesOptions {
        PagesOptions {
            pages: Some(pages.parse().unwrap()),
            pages_url: (!url.is_empty()).then(|| url.parse().unwrap()),
            pages_sign_in: kind,
            pages_issuer: None,
            pages_secret: Some("pages".to_owned()),
            pages_trusted_proxies: Vec::new(),
        }
    }

    #[test]
    fn without_a_sign_in_pages_are_open_to_the_pod_alone() {
        assert_eq!(PagesOptions::default().plan().unwrap(), None);
        assert!(options("127.0.0.1:8090", "", None).plan().unwrap().unwrap().sign_in.is_none());
        let told = options("0.0.0.0:8090", "", None).plan().unwrap_err().to_string();
        assert!(told.contains("--pages-sign-in"), "{told}");
        assert_eq!(options("127.0.0.1:1", "http://x.test", None).links().unwrap(), "http://x.test");
    }

    #[test]
    fn who_signs_in_does_so_over_https_at_an_address_that_is_known() {
        let slack = Some(SignInKind::Slack);
        let planned = |url, kind| options("[::]:8090", url, kind).plan();
        let plan = planned("https://x.test", slack).unwrap().unwrap().sign_in.unwrap();
        assert_eq!(plan.issuer.as_str(), "https://slack.com/");
        for (url, kind, says) in [
            ("", slack, "--pages-url"),
            ("http://x.test", slack, "https"),
            ("https://x.test/sub", slack, "host alone"),
            ("https://x.test", Some(SignInKind::Oidc), "--pages-issuer"),
        ] {
            let told = planned(url, kind).unwrap_err().to_string();
            assert!(told.contains(says), "{told}");
        }
        let lacks =
            PagesOptions { pages_secret: None, ..options("[::]:1", "https://x.test", slack) };
        assert!(lacks.plan().unwrap_err().to_string().contains("--pages-secret"));
    }
}
