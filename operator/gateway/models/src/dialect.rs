//! Extensions of an API beyond the words that all OpenAI-compatible ones share. Strict ones refuse
//! fields that they don't know, so each word goes only where it is known to mean something. Pure.

use codebutler_crds::NanoUsd;
use codebutler_crds::model::{ModelApi, ModelProvider};
use codebutler_gateway_core::dial::address::is_public;
use codebutler_gateway_core::dial::is_outside;
use http::header::{AUTHORIZATION, InvalidHeaderValue};
use http::{HeaderMap, HeaderValue};
use url::{Host, Url};

/// The version of Anthropic's API that is spoken; it wants to be told.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// Domains of Azure's resources, by their kinds and clouds.
const AZURE: [&str; 4] =
    ["openai.azure.com", "services.ai.azure.com", "cognitiveservices.azure.com", "openai.azure.us"];

/// The kind of API behind a base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiDialect {
    /// openrouter.ai: tells each answer's usage and cost unasked.
    OpenRouter,
    OpenAi,
    /// OpenAI's API under the roof of Azure.
    Azure,
    /// api.anthropic.com: OpenAI's words for chat, and Anthropic's own for everything else.
    Anthropic,
    /// Any other: only what all of them know.
    Plain,
}

impl ApiDialect {
    /// Chooses the dialect that the Repo names for the provider, or else by the host.
    pub fn of(provider: &ModelProvider<'_>) -> Self {
        match provider.api {
            Some(ModelApi::OpenRouter) => Self::OpenRouter,
            Some(ModelApi::OpenAi) => Self::OpenAi,
            Some(ModelApi::Azure) => Self::Azure,
            Some(ModelApi::Anthropic) => Self::Anthropic,
            Some(ModelApi::Plain) => Self::Plain,
            None => Url::parse(provider.base_url).map_or(Self::Plain, |url| Self::at(&url)),
        }
    }

    /// Chooses the dialect by the host of the base URL.
    pub fn at(base_url: &Url) -> Self {
        let host = base_url.host_str().unwrap_or_default().to_ascii_lowercase();
        let below = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if below("openrouter.ai") {
            Self::OpenRouter
        } else if below("api.openai.com") {
            Self::OpenAi
        } else if AZURE.iter().any(|domain| below(domain)) {
            Self::Azure
        } else if below("api.anthropic.com") {
            Self::Anthropic
        } else {
            Self::Plain
        }
    }

    /// Headers with the key for questions that are no calls. Anthropic takes a bearer's key for chat completions
    /// alone, and answers 401 to a good one elsewhere.
    ///
    /// # Errors
    /// When the key has characters that no header can carry.
    pub fn lookup_headers(self, key: &str) -> Result<HeaderMap, InvalidHeaderValue> {
        let sensitive = |text: String| {
            HeaderValue::try_from(text).map(|mut value| {
                value.set_sensitive(true);
                value
            })
        };
        let mut headers = HeaderMap::new();
        if self == Self::Anthropic {
            headers.insert("x-api-key", sensitive(key.to_owned())?);
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        } else {
            headers.insert(AUTHORIZATION, sensitive(format!("Bearer {key}"))?);
        }
        Ok(headers)
    }

    /// Returns the query parameters without which a list of models is cut.
    pub fn list_query(self) -> &'static [(&'static str, &'static str)] {
        match self {
            // It sends twenty otherwise.
            Self::Anthropic => &[("limit", "1000")],
            _ => &[],
        }
    }

    /// The field that bounds an answer. OpenAI's newer models refuse the old one.
    pub const fn cap_field(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Azure => "max_completion_tokens",
            Self::OpenRouter | Self::Anthropic | Self::Plain => "max_tokens",
        }
    }

    /// Returns true if a model costs nothing there unless somebody names a price: a server of one's
    /// own network is no provider's, unless the Repo says that it speaks for one.
    pub fn is_free_at(self, base_url: &Url) -> bool {
        self == Self::Plain && is_internal_url(base_url)
    }

    /// Returns the price of a search of the web there, where its lists tell none.
    pub const fn search_price(self) -> Option<NanoUsd> {
        match self {
            // Ten dollars for a thousand, besides the tokens of what was found.
            Self::Anthropic => Some(NanoUsd(10_000_000)),
            _ => None,
        }
    }

    /// Returns true if a stream reports its usage only when asked to.
    pub const fn streams_usage_when_asked(self) -> bool {
        !matches!(self, Self::OpenRouter)
    }
}

/// Returns true if a base URL leads to a server of one's own network, by its address or its name.
pub fn is_internal_url(base_url: &Url) -> bool {
    match base_url.host() {
        Some(Host::Ipv4(ip)) => !is_public(ip.into()),
        Some(Host::Ipv6(ip)) => !is_public(ip.into()),
        Some(Host::Domain(name)) => !is_outside(name),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_of_ones_own_is_known_by_its_address_or_name() {
        for (url, internal) in [
            ("http://127.0.0.1:8080/v1", true),
            ("http://[::1]:8080/v1", true),
            ("http://10.1.2.3/v1", true),
            ("http://192.168.1.20:11434/v1", true),
            ("http://[fd00::5]/v1", true),
            ("http://localhost:11434/v1", true),
            ("http://ollama:11434/v1", true),
            ("http://vllm.models.svc/v1", true),
            ("http://vllm.models.svc.cluster.local:8000/v1", true),
            ("https://openrouter.ai/api/v1", false),
            ("https://llm.example.com/v1", false),
            ("http://8.8.8.8/v1", false),
        ] {
            let url = Url::parse(url).unwrap();
            assert_eq!(is_internal_url(&url), internal, "{url}");
            assert_eq!(ApiDialect::Plain.is_free_at(&url), internal, "{url}");
            assert!(!ApiDialect::OpenRouter.is_free_at(&url), "a proxy to a provider: {url}");
        }
    }

    #[test]
    fn an_api_is_known_by_its_host_alone() {
        for (url, dialect) in [
            ("https://openrouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://OpenRouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://eu.openrouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://api.openai.com/v1", ApiDialect::OpenAi),
            ("https://team.openai.azure.com/openai/v1", ApiDialect::Azure),
            ("https://team.services.ai.azure.com/openai/v1", ApiDialect::Azure),
            ("https://team.cognitiveservices.azure.com/openai/v1", ApiDialect::Azure),
            ("https://team.openai.azure.us/openai/v1", ApiDialect::Azure),
            ("https://eu.api.openai.com/v1", ApiDialect::OpenAi),
            ("https://models.inference.ai.azure.com", ApiDialect::Plain),
            ("https://api.anthropic.com/v1", ApiDialect::Anthropic),
            ("https://notopenrouter.ai/api/v1", ApiDialect::Plain),
            ("https://proxy.example/openrouter.ai/v1", ApiDialect::Plain),
            ("http://localhost:11434/v1", ApiDialect::Plain),
        ] {
            assert_eq!(ApiDialect::at(&Url::parse(url).unwrap()), dialect, "{url}");
        }
    }
}
