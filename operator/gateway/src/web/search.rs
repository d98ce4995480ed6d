//! Web search by the provider that the operator's configuration names.

use std::time::Duration;

use clap::ValueEnum;
use codebutler_crds::repo::SecretRef;
use codebutler_crds::wire::{ErrorCode, WebResult, WebResults};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::DialReach;
use serde::Deserialize;
use url::Url;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum number of results, and maximum bytes of an answer.
const MOST: usize = 10;
const LONGEST_ANSWER: usize = 2 << 20;
const LONGEST_QUERY: usize = 400;

/// Services whose API is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SearchProvider {
    /// The API of Brave Search.
    Brave,
    /// The JSON API of any SearXNG instance.
    Searxng,
}

/// Options of the web search: provider, address and Secret.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct SearchOptions {
    /// Provider that answers WebSearch; without one a model of the role does whose provider has a search of its own.
    #[arg(long, env = "CODEBUTLER_SEARCH_PROVIDER")]
    pub search_provider: Option<SearchProvider>,
    /// Base URL of the provider, where it is not the provider's own (SearXNG has none of its own).
    #[arg(long, env = "CODEBUTLER_SEARCH_URL")]
    pub search_url: Option<Url>,
    /// Secret in the operator's namespace with the key `apiKey`, for providers that want one.
    #[arg(long, env = "CODEBUTLER_SEARCH_SECRET")]
    pub search_secret: Option<String>,
}

/// Searches, or says that nobody can.
#[derive(Clone, Debug, Default)]
pub struct SearchEngine(SearchOptions);

impl From<SearchOptions> for SearchEngine {
    fn from(options: SearchOptions) -> Self {
        Self(options)
    }
}

impl SearchEngine {
    /// True if the installation names a search provider.
    pub const fn is_configured(&self) -> bool {
        self.0.search_provider.is_some()
    }

    /// Asks the provider, and returns its results.
    ///
    /// # Errors
    /// In words; `Forbidden` where no provider is configured.
    pub async fn results(
        &self,
        context: &GatewayContext,
        query: &str,
    ) -> Result<WebResults, ApiError> {
        let absent = || {
            let message = "the installation's web search has no address (--search-url): work with what you \
                           have, or ask a person to look it up";
            ApiError::new(ErrorCode::Forbidden, message)
        };
        let provider = self.0.search_provider.ok_or_else(absent)?;
        let query = check_query(query)?;
        let (base, path) = match (provider, &self.0.search_url) {
            (SearchProvider::Brave, None) => {
                ("https://api.search.brave.com".to_owned(), "/res/v1/web/search")
            }
            (SearchProvider::Brave, Some(url)) => (url.to_string(), "/res/v1/web/search"),
            (SearchProvider::Searxng, Some(url)) => (url.to_string(), "/search"),
            (SearchProvider::Searxng, None) => return Err(absent()),
        };
        let failed = |what: &str| {
            ApiError::new(
                ErrorCode::Upstream,
                format!("the search provider {what}: try again later"),
            )
        };
        let url = Url::parse(&format!("{}{path}", base.trim_end_matches('/')))
            .map_err(|_| failed("has no usable URL"))?;
        let to = (&url, DialReach::Anywhere);
        let http = context.dialer.http(DialReach::Anywhere);
        let mut request = http.get(url.clone()).timeout(TIMEOUT).query(&[("q", query)]);
        if provider == SearchProvider::Searxng {
            request = request.query(&[("format", "json")]);
        }
        if let Some(name) = &self.0.search_secret {
            let secret = SecretRef { name: name.clone() };
            let key = context.secret(&context.namespace, &secret, "apiKey", to).await;
            let key = key.map_err(|error| ApiError::new(ErrorCode::Upstream, error.to_string()))?;
            request = match provider {
                SearchProvider::Brave => request.header("X-Subscription-Token", key),
                SearchProvider::Searxng => request.bearer_auth(key),
            };
        }
        let mut answer = request.send().await.map_err(|_| failed("can't be reached"))?;
        if !answer.status().is_success() {
            return Err(failed(&format!("answered {}", answer.status().as_u16())));
        }
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|_| failed("broke off"))? {
            if body.len() + chunk.len() > LONGEST_ANSWER {
                return Err(failed("answered too much"));
            }
            body.extend_from_slice(&chunk);
        }
        read_results(provider, &body).map_err(|_| failed("answered something unreadable"))
    }
}

/// The words to search for.
///
/// # Errors
/// When there are none, or too many.
pub fn check_query(query: &str) -> Result<&str, ApiError> {
    let query = query.trim();
    if query.is_empty() || query.len() > LONGEST_QUERY {
        let message = "`query` has to have 1 to 400 characters";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(query)
}

#[derive(Deserialize)]
struct Brave {
    #[serde(default)]
    web: BraveWeb,
}

#[derive(Default, Deserialize)]
struct BraveWeb {
    #[serde(default)]
    results: Vec<Hit>,
}

#[derive(Deserialize)]
struct Searxng {
    #[serde(default)]
    results: Vec<Hit>,
}

#[derive(Deserialize)]
struct Hit {
    #[serde(default)]
    title: String,
    #[serde(default)]
    url: String,
    #[serde(default, alias = "content")]
    description: String,
}

fn read_results(provider: SearchProvider, body: &[u8]) -> serde_json::Result<WebResults> {
    let hits = match provider {
        SearchProvider::Brave => serde_json::from_slice::<Brave>(body)?.web.results,
        SearchProvider::Searxng => serde_json::from_slice::<Searxng>(body)?.results,
    };
    let short = |text: String, most: usize| text.chars().take(most).collect::<String>();
    let results = hits.into_iter().filter(|hit| !hit.url.is_empty()).take(MOST);
    let results = results.map(|hit| WebResult {
        title: short(hit.title, 200),
        url: short(hit.url, 2000),
        snippet: short(hit.description, 600),
    });
    Ok(WebResults { results: results.collect(), note: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_providers_answers_are_read() {
        let brave = br#"{"web":{"results":[{"title":"T","url":"https://a.dev","description":"d"},{"title":"no url"}]}}"#;
        let searxng =
            br#"{"results":[{"title":"T","url":"https://a.dev","content":"d","engine":"x"}]}"#;
        let wanted =
            WebResult { title: "T".into(), url: "https://a.dev".into(), snippet: "d".into() };
        assert_eq!(
            read_results(SearchProvider::Brave, brave).unwrap().results,
            std::slice::from_ref(&wanted)
        );
        assert_eq!(read_results(SearchProvider::Searxng, searxng).unwrap().results, [wanted]);
        assert!(read_results(SearchProvider::Brave, b"{}").unwrap().results.is_empty());
        read_results(SearchProvider::Brave, b"<html>").unwrap_err();
    }
}
