//! Web search by a search service: the one that the Repo names, or else the installation's. [`service`] knows how each
//! is asked and what it answers, [`error`] and [`limit`] what is wrong where it does not. [`condition`] reports on each
//! Repo whether its service can be used.

mod condition;
mod error;
mod limit;
mod service;

use std::time::Duration;

use bytes::BytesMut;
use clap::ValueEnum;
use codebutler_crds::repo::SecretRef;
use codebutler_crds::web::{SearchService, WebSearchSpec};
use codebutler_crds::wire::{ErrorCode, WebResults};
use codebutler_crds::{NanoUsd, Repo, names};
use codebutler_gateway_core::api_error::ApiError;
use codebutler_gateway_core::context::GatewayContext;
use codebutler_gateway_core::dial::{DialReach, DialTrouble, find_refusal, find_trouble};
use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue};
use kube::ResourceExt as _;
use url::Url;

pub(super) use self::condition::note_search;
pub use self::condition::run_search_conditions;
use self::error::{SearchError, SearchSubject, judge_answer};
use self::service::WrongBase;

const TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum bytes of an answer, and of a refusal.
const LONGEST_ANSWER: usize = 2 << 20;
const LONGEST_REFUSAL: usize = 64 << 10;
/// Maximum characters of a search, and words of one at Brave.
const LONGEST_QUERY: usize = 400;
const BRAVE_WORDS: usize = 50;
/// Times that a search is sent while the service only asks for a moment.
const ATTEMPTS: u32 = 3;

/// Search services that an installation can name.
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
    /// Provider that answers WebSearch where a Repo names none (spec.web.search); without one a model of the role does
    /// whose provider has a search of its own.
    #[arg(long, env = "CODEBUTLER_SEARCH_PROVIDER")]
    pub search_provider: Option<SearchProvider>,
    /// Base URL of the provider, where it is not the provider's own (SearXNG has none of its own).
    #[arg(long, env = "CODEBUTLER_SEARCH_URL")]
    pub search_url: Option<Url>,
    /// Secret in the operator's namespace with the key `apiKey`, for providers that want one.
    #[arg(long, env = "CODEBUTLER_SEARCH_SECRET")]
    pub search_secret: Option<String>,
    /// Price of a search in US dollars, which counts towards the budgets of the Repo that searches. The provider's list
    /// price if absent: 0.005 at Brave, 0 at SearXNG.
    #[arg(long, env = "CODEBUTLER_SEARCH_PRICE")]
    pub search_price: Option<NanoUsd>,
}

/// The search service of the installation, if it has one.
#[derive(Clone, Debug, Default)]
pub struct SearchEngine(SearchOptions);

impl From<SearchOptions> for SearchEngine {
    fn from(options: SearchOptions) -> Self {
        Self(options)
    }
}

impl SearchEngine {
    /// The service that answers a Repo's searches: its own, or else the installation's.
    pub(super) fn choose(&self, context: &GatewayContext, repo: &Repo) -> Option<ChosenSearch> {
        let own = repo.spec.web.as_ref().and_then(|web| web.search.as_ref());
        if let Some(spec) = own {
            return Some(ChosenSearch::of_repo(repo, spec));
        }
        let service = match self.0.search_provider? {
            SearchProvider::Brave => SearchService::Brave,
            SearchProvider::Searxng => SearchService::SearXng,
        };
        let secret = self.0.search_secret.clone();
        Some(ChosenSearch {
            subject: SearchSubject {
                service,
                url_field: "--search-url (gateway.search.url)",
                secret_field: "--search-secret (gateway.search.secret)",
                secret: secret.unwrap_or_default(),
            },
            base: self.0.search_url.as_ref().map(Url::to_string),
            namespace: context.namespace.clone(),
            reach: DialReach::Anywhere,
            price: self.0.search_price.unwrap_or(service.list_price()),
            is_of_repo: false,
        })
    }
}

/// A search service, and whose account is used there.
#[derive(Clone, Debug)]
pub(super) struct ChosenSearch {
    subject: SearchSubject,
    /// Base URL that somebody wrote down.
    base: Option<String>,
    /// Namespace of the Secret.
    namespace: String,
    reach: DialReach,
    /// Price of a search for the Repo.
    pub price: NanoUsd,
    /// True if the Repo names it, and has to say whether it can be used.
    pub is_of_repo: bool,
}

/// A search that can be sent.
pub(super) struct ReadySearch {
    url: Url,
    key: Option<(HeaderName, HeaderValue)>,
}

impl ChosenSearch {
    fn of_repo(repo: &Repo, spec: &WebSearchSpec) -> Self {
        let secret = spec.credentials.as_ref().map(|secret| secret.name.clone());
        Self {
            subject: SearchSubject {
                service: spec.provider,
                url_field: "spec.web.search.url of the Repo",
                secret_field: "spec.web.search.credentials of the Repo",
                secret: secret.unwrap_or_default(),
            },
            base: spec.url.clone(),
            namespace: repo.namespace().unwrap_or_default(),
            reach: DialReach::Outside,
            price: spec.price(),
            is_of_repo: true,
        }
    }

    /// The name under which its costs are counted.
    pub(super) const fn label(&self) -> &'static str {
        match self.subject.service {
            SearchService::Brave => "brave-search",
            SearchService::SearXng => "searxng",
        }
    }

    /// Opens the service's address and key.
    ///
    /// # Errors
    /// What a person has to correct.
    pub(super) async fn prepare(
        &self,
        context: &GatewayContext,
    ) -> Result<ReadySearch, SearchError> {
        let subject = || self.subject.clone();
        let service = self.subject.service;
        let url =
            service::search_url(service, self.base.as_deref()).map_err(|wrong| match wrong {
                WrongBase::Missing => SearchError::NoAddress(subject()),
                WrongBase::Unusable => SearchError::Address(subject()),
            })?;
        // A client resolves no literal address, so it would not look at it either.
        if self.reach == DialReach::Outside && context.dialer.admit(&url).is_err() {
            return Err(SearchError::Barred { subject: subject(), trouble: DialTrouble::Internal });
        }
        if self.subject.secret.is_empty() {
            let is_wanted = service == SearchService::Brave && self.is_of_repo;
            return if is_wanted {
                Err(SearchError::NoKey(subject()))
            } else {
                Ok(ReadySearch { url, key: None })
            };
        }
        let reference = SecretRef { name: self.subject.secret.clone() };
        let (namespace, to) = (&self.namespace, (&url, self.reach));
        let key = context.secret(namespace, &reference, names::secret_key::MODEL_API_KEY, to).await;
        let key =
            key.map_err(|source| SearchError::Secret { field: self.subject.secret_field, source })?;
        let (name, value) = match service {
            SearchService::Brave => (HeaderName::from_static("x-subscription-token"), key),
            SearchService::SearXng => (AUTHORIZATION, format!("Bearer {key}")),
        };
        let mut value =
            HeaderValue::try_from(value).map_err(|_| SearchError::KeyForm(subject()))?;
        value.set_sensitive(true);
        Ok(ReadySearch { url, key: Some((name, value)) })
    }

    /// Asks the service, and asks again where it only wants a moment.
    ///
    /// # Errors
    /// In words.
    pub(super) async fn search(
        &self,
        context: &GatewayContext,
        ready: &ReadySearch,
        query: &str,
    ) -> Result<WebResults, SearchError> {
        if self.subject.service == SearchService::Brave
            && query.split_whitespace().count() > BRAVE_WORDS
        {
            return Err(SearchError::Words { most: BRAVE_WORDS });
        }
        let mut attempt = 1;
        loop {
            let error = match tokio::time::timeout(TIMEOUT, self.send(context, ready, query)).await
            {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(error)) => error,
                Err(_) => return Err(SearchError::Lost(self.subject.clone())),
            };
            let wait = match &error {
                SearchError::Busy { limit, .. } => limit.short_wait(rand::random()),
                _ => None,
            };
            match wait.filter(|_| attempt < ATTEMPTS) {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(error),
            }
            attempt += 1;
        }
    }

    async fn send(
        &self,
        context: &GatewayContext,
        ready: &ReadySearch,
        query: &str,
    ) -> Result<WebResults, SearchError> {
        let subject = || self.subject.clone();
        let service = self.subject.service;
        let http = context.dialer.http(self.reach);
        let mut request = service::ask(service, http.get(ready.url.clone()), query);
        if let Some((name, value)) = &ready.key {
            request = request.header(name.clone(), value.clone());
        }
        let mut answer = request.send().await.map_err(|error| match find_trouble(&error) {
            Some(trouble) => SearchError::Barred { subject: subject(), trouble },
            None if error.is_connect() || find_refusal(&error).is_some() => {
                SearchError::Unreachable(subject())
            }
            None => SearchError::Lost(subject()),
        })?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let most = if status.is_success() { LONGEST_ANSWER } else { LONGEST_REFUSAL };
        let mut body = BytesMut::new();
        loop {
            let piece = match answer.chunk().await {
                Ok(Some(piece)) => piece,
                Ok(None) => break,
                // Its status says enough.
                Err(_) if !status.is_success() => break,
                Err(_) => return Err(SearchError::Lost(subject())),
            };
            if body.len() + piece.len() > most {
                if status.is_success() {
                    return Err(SearchError::Page(subject()));
                }
                break;
            }
            body.extend_from_slice(&piece);
        }
        if !status.is_success() {
            return Err(judge_answer(subject(), status.as_u16(), &headers, &body));
        }
        service::read_results(service, &body).map_err(|_| SearchError::Page(subject()))
    }
}

/// The words to search for.
///
/// # Errors
/// When there are none, or too many.
pub fn check_query(query: &str) -> Result<&str, ApiError> {
    let query = query.trim();
    if query.is_empty() || query.chars().count() > LONGEST_QUERY {
        let message = "`query` has to have 1 to 400 characters";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message));
    }
    Ok(query)
}
