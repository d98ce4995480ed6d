//! The web as roles of a Repo read it: pages, searches, and the wishes of sites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::NanoUsd;
use crate::secret_ref::SecretRef;

/// List price of a search at Brave.
const BRAVE_PRICE: NanoUsd = NanoUsd(5_000_000);

/// Pages that web tools may read beside the hosts that commands may connect to, and who searches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebSpec {
    /// Hosts whose pages `WebFetch` may read beside those of `spec.egress`. Commands don't reach them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 256),
        inner(regex(
            pattern = r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[0-9]{1,5})?$"
        ))
    )]
    pub hosts: Vec<String>,
    /// If true, `WebFetch` may read the pages that `WebSearch` has found in the same Thread, whatever their host.
    /// True by default.
    #[serde(default = "yes")]
    pub open_results: bool,
    /// Policy of `WebFetch` for pages that the robots.txt of their host closes to `codebutler`.
    #[serde(default)]
    pub robots: RobotsPolicy,
    /// Search service that answers `WebSearch`. If absent: the installation's, or else a model that can search.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<WebSearchSpec>,
    /// The role's model that searches, where its provider has a search of its own. The cheapest one if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 256))]
    pub search_model: Option<String>,
}

impl Default for WebSpec {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            open_results: true,
            robots: RobotsPolicy::default(),
            search: None,
            search_model: None,
        }
    }
}

/// Policy for the robots.txt of hosts whose pages roles read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RobotsPolicy {
    /// Pages that it disallows are not read.
    #[default]
    Respect,
    /// Its rules are not asked for.
    Ignore,
}

/// A search service, and the Repo's account there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [
    {
        "rule": "self.provider != 'SearXNG' || has(self.url)",
        "message": "SearXNG has no address of its own: write the base URL of an instance into `url`, such as https://search.example.com"
    },
    {
        "rule": "self.provider != 'Brave' || has(self.credentials)",
        "message": "Brave wants a key: name a Secret with the key `apiKey` in `credentials`"
    }
]))]
pub struct WebSearchSpec {
    /// Search service that is asked.
    pub provider: SearchService,
    /// Base URL of the service. Brave's own if absent; SearXNG has none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^@\s]+$"), length(max = 512))]
    pub url: Option<String>,
    /// Secret with the key `apiKey`. Brave wants one; SearXNG gets it as a bearer token, for a proxy in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<SecretRef>,
    /// Price of a search in US dollars, which counts towards all budgets. 0.005 at Brave and 0 at SearXNG if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_per_search: Option<NanoUsd>,
}

impl WebSearchSpec {
    /// Price of one search.
    #[must_use]
    pub fn price(&self) -> NanoUsd {
        self.price_per_search.unwrap_or(self.provider.list_price())
    }
}

/// Search services whose API is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SearchService {
    /// The Web Search API of Brave Search.
    Brave,
    /// The JSON API of an instance of SearXNG, which has to have `json` among its `search.formats`.
    #[serde(rename = "SearXNG")]
    SearXng,
}

impl SearchService {
    /// The name that the service goes by.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Brave => "Brave",
            Self::SearXng => "SearXNG",
        }
    }

    /// Price of one search where nobody has named another.
    #[must_use]
    pub const fn list_price(self) -> NanoUsd {
        match self {
            Self::Brave => BRAVE_PRICE,
            Self::SearXng => NanoUsd::ZERO,
        }
    }
}

const fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_has_its_services_price_unless_the_repo_names_one() {
        let price = |spec: serde_json::Value| {
            serde_json::from_value::<WebSearchSpec>(spec).unwrap().price()
        };
        let brave = serde_json::json!({"provider": "Brave", "credentials": {"name": "brave"}});
        assert_eq!(price(brave.clone()), NanoUsd(5_000_000));
        let searxng = serde_json::json!({"provider": "SearXNG", "url": "https://search.example"});
        assert_eq!(price(searxng), NanoUsd::ZERO);
        let mut own = brave;
        own["pricePerSearch"] = "0.003".into();
        assert_eq!(price(own), NanoUsd(3_000_000));
    }

    #[test]
    fn what_an_older_repo_says_of_the_web_means_what_it_did() {
        let spec: WebSpec = serde_json::from_str("{}").unwrap();
        assert_eq!(spec, WebSpec::default());
        assert!(spec.open_results && spec.robots == RobotsPolicy::Respect);
    }
}
