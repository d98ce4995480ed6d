//! The model APIs of a Repo: which provider answers for which model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::ModelPrice;
use crate::secret_ref::SecretRef;
use crate::spelling::{OutdatedSpelling, SpelledWord};
use crate::wire::{CacheForm, EditForm};

/// Providers beside the default one.
pub const MOST_PROVIDERS: usize = 8;
/// Name of the provider that the fields of `spec.model` itself describe.
pub const DEFAULT_PROVIDER: &str = "default";

/// The model API that answers, and others beside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSpec {
    /// Base URL of an OpenAI-compatible API, up to and with `/v1`.
    #[serde(default = "openrouter")]
    #[schemars(regex(pattern = r"^https?://[^@\s]+$"), length(max = 512))]
    #[serde(rename = "baseURL")]
    pub base_url: String,
    /// Secret with the key `apiKey`.
    pub credentials: SecretRef,
    /// Dialect of the API beyond what all OpenAI-compatible ones share; derived from the host if absent. To be set
    /// where one of these is behind a proxy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<SpelledWord<ModelApi>>,
    /// Prices by model, for providers that report no cost with their answers. What the provider's list
    /// says if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Capabilities of models, by id. They override what the provider's list says.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelNote>,
    /// Other providers. A role's model `NAME/MODEL` is asked for at the provider `NAME`; any other at the
    /// first provider whose list has it, the one above before these, and at the one above if none has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_PROVIDERS))]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub providers: Vec<ModelProviderSpec>,
}

/// A model API beside the default one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.name != 'default'",
    "message": "`default` is the provider that spec.model itself describes: choose another name"
}]))]
pub struct ModelProviderSpec {
    /// Prefix of its models' names, before the slash.
    #[schemars(regex(pattern = r"^[a-z0-9]([-a-z0-9]{0,28}[a-z0-9])?$"))]
    pub name: String,
    /// Base URL of an OpenAI-compatible API, up to and with `/v1`.
    #[serde(rename = "baseURL")]
    #[schemars(regex(pattern = r"^https?://[^@\s]+$"), length(max = 512))]
    pub base_url: String,
    /// Secret with the key `apiKey`.
    pub credentials: SecretRef,
    /// Dialect of the API beyond what all OpenAI-compatible ones share; derived from its host if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<SpelledWord<ModelApi>>,
    /// Prices by model, without the provider's name, where neither its answers nor its list tell them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// Capabilities of models, by id without the provider's name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub models: BTreeMap<String, ModelNote>,
}

/// One provider of a Repo, wherever its `spec.model` describes it.
#[derive(Clone, Copy, Debug)]
pub struct ModelProvider<'a> {
    /// Name of the provider; [`DEFAULT_PROVIDER`] for the fields of `spec.model` itself.
    pub name: &'a str,
    /// Base URL of the provider's API.
    pub base_url: &'a str,
    /// Secret that holds the API key.
    pub credentials: &'a SecretRef,
    /// Dialect of its API, where the Repo names one.
    pub api: Option<ModelApi>,
    /// Prices by the provider's own ids.
    pub prices: &'a BTreeMap<String, ModelPrice>,
    /// Capabilities of its models, by the provider's own ids.
    pub models: &'a BTreeMap<String, ModelNote>,
}

impl ModelProvider<'_> {
    /// The field of the Repo that describes it, for sentences.
    #[must_use]
    pub fn field(&self) -> String {
        match self.name {
            DEFAULT_PROVIDER => "spec.model".to_owned(),
            name => format!("spec.model.providers[{name}]"),
        }
    }
}

impl ModelSpec {
    /// The provider that the fields of `spec.model` itself describe.
    #[must_use]
    pub fn default_provider(&self) -> ModelProvider<'_> {
        ModelProvider {
            name: DEFAULT_PROVIDER,
            base_url: &self.base_url,
            credentials: &self.credentials,
            api: self.api.as_deref().copied(),
            prices: &self.prices,
            models: &self.models,
        }
    }

    /// All providers, the default one first.
    pub fn all_providers(&self) -> impl Iterator<Item = ModelProvider<'_>> {
        let others = self.providers.iter().map(|provider| ModelProvider {
            name: &provider.name,
            base_url: &provider.base_url,
            credentials: &provider.credentials,
            api: provider.api.as_deref().copied(),
            prices: &provider.prices,
            models: &provider.models,
        });
        std::iter::once(self.default_provider()).chain(others)
    }

    /// The provider that a model's name begins with, and the model's id there. Nothing if it begins with none.
    #[must_use]
    pub fn split_name<'m>(&self, model: &'m str) -> Option<(ModelProvider<'_>, &'m str)> {
        let (name, id) = model.split_once('/')?;
        let provider = self.all_providers().find(|provider| provider.name == name)?;
        (!id.is_empty()).then_some((provider, id))
    }

    /// Fields that are to be written in another way.
    pub(crate) fn outdated(&self) -> impl Iterator<Item = OutdatedSpelling> {
        let apis = std::iter::once(self.api).chain(self.providers.iter().map(|own| own.api));
        let api = apis.flatten().find_map(|word| word.outdated("spec.model.api"));
        let others = self.providers.iter().flat_map(|own| own.models.values());
        let mut caches = self.models.values().chain(others).filter_map(|note| note.cache);
        let cache = caches.find_map(|word| word.outdated("spec.model.models.*.cache"));
        api.into_iter().chain(cache)
    }
}

/// Dialect of a model API beyond what all OpenAI-compatible ones share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ModelApi {
    /// The dialect of openrouter.ai.
    OpenRouter,
    /// The dialect of api.openai.com.
    #[serde(rename = "openAI")]
    OpenAi,
    /// OpenAI's models at Azure.
    Azure,
    /// The dialect of api.anthropic.com: chat is OpenAI's, and the list wants the key in a header of its own.
    Anthropic,
    /// Any other OpenAI-compatible API.
    Plain,
}

/// Corrections to what a provider's list says of a model. An absent field leaves the list's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelNote {
    /// Tokens that it takes, the answer included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 10_000_000))]
    pub context_tokens: Option<u32>,
    /// Longest answer, in tokens, reasoning included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 256, max = 1_000_000))]
    pub max_tokens: Option<u32>,
    /// True if the model can call tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<bool>,
    /// True if the model accepts images.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sees: Option<bool>,
    /// Form of the provider's prompt cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<SpelledWord<CacheForm>>,
    /// The form in which it changes files, where its name does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<SpelledWord<EditForm>>,
}

fn openrouter() -> String {
    "https://openrouter.ai/api/v1".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_goes_to_the_provider_that_its_name_begins_with() {
        let spec: ModelSpec = serde_json::from_value(serde_json::json!({
            "credentials": {"name": "model"},
            "providers": [{"name": "openai", "baseURL": "https://api.openai.com/v1",
                           "credentials": {"name": "openai"}}],
        }))
        .unwrap();
        let of = |model| spec.split_name(model).map(|(provider, id)| (provider.name, id));
        assert_eq!(of("openai/gpt-image-1"), Some(("openai", "gpt-image-1")));
        assert_eq!(of("default/openai/gpt-5.6"), Some(("default", "openai/gpt-5.6")));
        for other in ["anthropic/claude-opus-5", "gpt-image-1", "openai/", "openai"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(
            spec.all_providers().map(|own| own.name).collect::<Vec<_>>(),
            ["default", "openai"]
        );
    }
}
