//! Pages of the web that a scenario has: served on loopback behind a proxy that knows their hosts' names, so that the
//! product opens them as it opens any page outside.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{Html, IntoResponse as _, Response};
use schemars::JsonSchema;
use serde::Deserialize;
use url::Url;

use crate::models::SearchedPage;
use crate::proxy::CompanyProxy;
use crate::serving::RunningServer;

/// Addresses of this machine, where everything else of a stack is.
const THIS_MACHINE: &str = "127.0.0.0/8,localhost,::1";

/// A page of the web.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Page")]
pub struct ScenarioPage {
    /// Its address: `https://`, a host's name without a port, and a path.
    #[schemars(regex(pattern = r"^https://[^/:@\s]+/[^#\s]*$"))]
    pub url: String,
    /// Its title, as searches show it.
    pub title: String,
    /// What searches show of it.
    pub excerpt: String,
    /// Its HTML; the excerpt if absent.
    #[serde(default)]
    pub html: Option<String>,
    /// Address to which it redirects instead.
    #[serde(default)]
    pub redirect: Option<String>,
}

impl ScenarioPage {
    /// Name of its host; nothing if the address is no page of the public web.
    pub(super) fn host(&self) -> Option<String> {
        let url = Url::parse(&self.url).ok()?;
        let is_page = url.scheme() == "https" && url.port().is_none() && url.fragment().is_none();
        url.domain().filter(|_| is_page && url.as_str() == self.url).map(str::to_owned)
    }
}

/// Pages of a scenario, served until they are dropped.
pub struct ScenarioPages {
    found: Vec<SearchedPage>,
    variables: Vec<(String, String)>,
    _serving: Option<(RunningServer, CompanyProxy)>,
}

impl ScenarioPages {
    /// Serves all of them. The proxy's authority is written into `dir`.
    ///
    /// # Errors
    /// When no port can be had, or the authority not be written.
    pub async fn start(pages: &[ScenarioPage], dir: &Path) -> anyhow::Result<Self> {
        let found = pages.iter().map(|page| SearchedPage {
            url: page.url.clone(),
            title: page.title.clone(),
            excerpt: page.excerpt.clone(),
        });
        let found: Vec<SearchedPage> = found.collect();
        if pages.is_empty() {
            return Ok(Self { found, variables: Vec::new(), _serving: None });
        }
        let by_url: BTreeMap<String, ScenarioPage> =
            pages.iter().map(|page| (page.url.clone(), page.clone())).collect();
        let router = Router::new().fallback(serve_page).with_state(Arc::new(by_url));
        let server = RunningServer::start(router).await?;
        let behind = SocketAddr::from((Ipv4Addr::LOCALHOST, server.port()));
        let hosts: BTreeSet<String> = pages.iter().filter_map(ScenarioPage::host).collect();
        let hosts: Vec<(&str, SocketAddr)> = hosts.iter().map(|host| (&**host, behind)).collect();
        let proxy = CompanyProxy::start(&hosts).await?;
        let authority = dir.join("pages.pem");
        std::fs::write(&authority, proxy.ca()).context("writing the pages' authority")?;
        let variables = [
            // Under another name than Git, Slack and models have: a proxy is no host for anybody.
            ("HTTPS_PROXY", proxy.url().replace("127.0.0.1", "localhost")),
            ("NO_PROXY", THIS_MACHINE.to_owned()),
            ("CODEBUTLER_TRUSTED_CA", authority.display().to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).into();
        Ok(Self { found, variables, _serving: Some((server, proxy)) })
    }

    /// Variables of the gateway's environment that lead to the pages.
    #[must_use]
    pub fn variables(&self) -> Vec<(String, String)> {
        self.variables.clone()
    }

    /// What a model's search finds.
    #[must_use]
    pub fn found(&self) -> Vec<SearchedPage> {
        self.found.clone()
    }
}

async fn serve_page(
    State(pages): State<Arc<BTreeMap<String, ScenarioPage>>>,
    headers: HeaderMap,
    uri: Uri,
) -> Response {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    match pages.get(&format!("https://{host}{uri}")) {
        None => StatusCode::NOT_FOUND.into_response(),
        Some(ScenarioPage { redirect: Some(to), .. }) => {
            (StatusCode::FOUND, [(header::LOCATION, to.clone())]).into_response()
        }
        Some(page) => Html(page.html.as_ref().unwrap_or(&page.excerpt).clone()).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_name_and_no_port() {
        let host = |url: &str| {
            let page = ScenarioPage {
                url: url.to_owned(),
                title: String::new(),
                excerpt: String::new(),
                html: None,
                redirect: None,
            };
            page.host()
        };
        assert_eq!(host("https://docs.example/a?v=2").as_deref(), Some("docs.example"));
        for wrong in [
            "http://docs.example/",
            "https://docs.example",
            "https://docs.example:8443/",
            "https://192.0.2.7/",
            "https://docs.example/#a",
            "docs.example/a",
        ] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
