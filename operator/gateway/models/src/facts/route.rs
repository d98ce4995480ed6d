//! Chooses the provider of a Repo that answers for a model. Pure.

use codebutler_crds::model::{ModelProvider, ModelSpec};

use crate::learned::ModelAddress;

/// The provider of a model, and the model's id there.
#[derive(Clone, Copy, Debug)]
pub struct RoutedModel<'r, 'm> {
    pub provider: ModelProvider<'r>,
    pub id: &'m str,
}

impl RoutedModel<'_, '_> {
    /// Where the model is asked, and by which name.
    pub(crate) const fn address(&self) -> ModelAddress<'_> {
        ModelAddress { base_url: self.provider.base_url, id: self.id }
    }
}

/// The provider that a model's name begins with, or the first that `has` it, or the default one.
pub fn route_model<'r, 'm>(
    spec: &'r ModelSpec,
    model: &'m str,
    has: impl Fn(&ModelProvider<'r>) -> bool,
) -> RoutedModel<'r, 'm> {
    if let Some((provider, id)) = spec.split_name(model) {
        return RoutedModel { provider, id };
    }
    // With one provider there is nothing to look up.
    let listed = (!spec.providers.is_empty()).then(|| spec.all_providers().find(has)).flatten();
    RoutedModel { provider: listed.unwrap_or_else(|| spec.default_provider()), id: model }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_no_provider_goes_to_the_first_that_has_it() {
        let spec: ModelSpec = serde_json::from_value(serde_json::json!({
            "credentials": {"name": "model"},
            "providers": [
                {"name": "openai", "baseURL": "https://api.openai.com/v1", "credentials": {"name": "a"}},
                {"name": "local", "baseURL": "http://ollama:11434/v1", "credentials": {"name": "b"}},
            ],
        }))
        .unwrap();
        let route = |model, having: &[&str]| {
            let routed = route_model(&spec, model, |provider| having.contains(&provider.name));
            (routed.provider.name.to_owned(), routed.id.to_owned())
        };
        let at = |provider: &str, id: &str| (provider.to_owned(), id.to_owned());
        assert_eq!(route("local/qwen3", &["default"]), at("local", "qwen3"));
        assert_eq!(route("qwen3", &["local", "openai"]), at("openai", "qwen3"));
        assert_eq!(route("openai/gpt-5.6", &[]), at("openai", "gpt-5.6"));
        assert_eq!(route("x/y", &["default", "local"]), at("default", "x/y"));
        assert_eq!(route("nowhere", &[]), at("default", "nowhere"));
    }
}
