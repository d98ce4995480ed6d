//! What an API understands beyond the words that all OpenAI-compatible ones share. Strict ones refuse
//! fields that they don't know, so each word goes only where it is known to mean something. Pure.

use codebutler_crds::Repo;
use codebutler_crds::repo::ModelApi;
use url::Url;

/// The kind of API behind a base URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiDialect {
    /// openrouter.ai: tells each answer's usage and cost unasked.
    OpenRouter,
    OpenAi,
    /// OpenAI's API under the roof of Azure.
    Azure,
    /// Any other: only what all of them know.
    Plain,
}

impl ApiDialect {
    /// What the Repo says, or else told by the host.
    pub fn of(repo: &Repo) -> Self {
        let spec = &repo.spec.model;
        match spec.api.as_deref() {
            Some(ModelApi::OpenRouter) => Self::OpenRouter,
            Some(ModelApi::OpenAi) => Self::OpenAi,
            Some(ModelApi::Azure) => Self::Azure,
            Some(ModelApi::Plain) => Self::Plain,
            None => Url::parse(&spec.base_url).map_or(Self::Plain, |url| Self::at(&url)),
        }
    }

    fn at(base_url: &Url) -> Self {
        let host = base_url.host_str().unwrap_or_default().to_ascii_lowercase();
        let below = |domain: &str| {
            host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if below("openrouter.ai") {
            Self::OpenRouter
        } else if below("api.openai.com") {
            Self::OpenAi
        } else if below("openai.azure.com") || below("services.ai.azure.com") {
            Self::Azure
        } else {
            Self::Plain
        }
    }

    /// The field that bounds an answer. OpenAI's newer models refuse the old one.
    pub const fn cap_field(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Azure => "max_completion_tokens",
            Self::OpenRouter | Self::Plain => "max_tokens",
        }
    }

    /// Whether a stream has to be asked for its usage.
    pub const fn streams_usage_when_asked(self) -> bool {
        !matches!(self, Self::OpenRouter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_api_is_known_by_its_host_alone() {
        for (url, dialect) in [
            ("https://openrouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://OpenRouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://eu.openrouter.ai/api/v1", ApiDialect::OpenRouter),
            ("https://api.openai.com/v1", ApiDialect::OpenAi),
            ("https://team.openai.azure.com/openai/v1", ApiDialect::Azure),
            ("https://team.services.ai.azure.com/openai/v1", ApiDialect::Azure),
            ("https://notopenrouter.ai/api/v1", ApiDialect::Plain),
            ("https://proxy.example/openrouter.ai/v1", ApiDialect::Plain),
            ("http://localhost:11434/v1", ApiDialect::Plain),
        ] {
            assert_eq!(ApiDialect::at(&Url::parse(url).unwrap()), dialect, "{url}");
        }
    }
}
