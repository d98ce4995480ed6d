//! Facts about a model: how much it takes, what it can, and what it costs. From the provider's list
//! ([`list`]), or built in where that tells less ([`builtin`]); the Repo's own word counts more
//! than both.
//!
//! Pure: [`builtin`], [`check`], [`family`], [`list`], [`llama`], [`price`], [`route`].
//! [`catalog`](crate::catalog) asks the providers and keeps what they say,
//! [`model_conditions`](crate::model_conditions) compares it with what each Repo's roles want.

pub mod builtin;
pub mod check;
pub mod family;
pub mod list;
pub mod llama;
pub mod price;
pub mod route;

use codebutler_crds::model::{ModelNote, ModelProvider};
use codebutler_crds::role::{ReasoningEffort, RoleModel};
use codebutler_crds::wire::{CacheForm, EditForm, ModelFacts};

use self::price::ModelPrices;
use super::dialect::ApiDialect;
use super::hearing::ModelHearing;

/// Longest answer where neither role nor model say: what an agent leaves room for.
pub const ANSWER: u32 = 16_000;
/// Shortest answer that is worth asking for.
const LEAST: u32 = 1_000;

/// Facts about a model. Absent fields are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownModelFacts {
    /// Tokens that it takes, the answer included.
    pub window: Option<u32>,
    /// Longest answer, in tokens.
    pub max_tokens: Option<u32>,
    /// True if the model can call tools.
    pub tools: Option<bool>,
    /// True if it is served with a chat template that leaves tools out without a word.
    pub is_template_toolless: bool,
    /// True if the model can be shown pictures.
    pub sees: Option<bool>,
    /// Way of the model with recordings, where its list says so.
    pub hearing: Option<ModelHearing>,
    /// True if its answers are images, without words.
    pub draws_only: bool,
    /// Ways to ask for its thinking, where it is known that it thinks.
    pub thinking: Option<ThinkingFacts>,
    /// Form of prompt caching at the provider.
    pub cache: CacheForm,
    /// The form in which it was trained to change files, where the Repo says so.
    pub edits: Option<EditForm>,
    pub prices: Option<ModelPrices>,
    /// The day on which it ends, as `YYYY-MM-DD`.
    pub expires: Option<String>,
}

/// Facts about a model's thinking.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThinkingFacts {
    /// The efforts that it knows; empty if it does not say.
    pub efforts: Vec<ReasoningEffort>,
    /// True if it takes a number of tokens; None if it does not say.
    pub takes_tokens: Option<bool>,
    /// True if thinking can't be switched off.
    pub is_mandatory: bool,
}

impl KnownModelFacts {
    /// Fills in what somebody else knows where this says nothing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        let cache = match self.cache {
            CacheForm::Automatic => other.cache,
            marked @ CacheForm::Marked => marked,
        };
        Self {
            window: self.window.or(other.window),
            max_tokens: self.max_tokens.or(other.max_tokens),
            tools: self.tools.or(other.tools),
            is_template_toolless: self.is_template_toolless || other.is_template_toolless,
            sees: self.sees.or(other.sees),
            hearing: self.hearing.or(other.hearing),
            draws_only: self.draws_only || other.draws_only,
            thinking: self.thinking.or(other.thinking),
            cache,
            edits: self.edits.or(other.edits),
            prices: self.prices.or(other.prices),
            expires: self.expires.or(other.expires),
        }
    }

    /// Applies what the Repo itself says of the model `id` of a provider.
    #[must_use]
    pub fn noted(mut self, provider: &ModelProvider<'_>, id: &str) -> Self {
        let ModelNote { context_tokens, max_tokens, tools, sees, cache, edits } =
            provider.models.get(id).copied().unwrap_or_default();
        self.window = context_tokens.or(self.window);
        self.max_tokens = max_tokens.or(self.max_tokens);
        self.tools = tools.or(self.tools);
        self.is_template_toolless &= tools.is_none();
        self.sees = sees.or(self.sees);
        self.cache = cache.map_or(self.cache, |cache| *cache);
        self.edits = edits.map_or(self.edits, |edits| Some(*edits));
        if let Some(price) = provider.prices.get(id) {
            self.prices = Some(ModelPrices::from(*price));
        }
        self
    }

    /// The form in which the model `id` changes files best at an API.
    pub fn edit_form(&self, dialect: ApiDialect, id: &str) -> EditForm {
        self.edits.unwrap_or_else(|| family::edit_form(dialect, id))
    }

    /// Converts the facts for the agent.
    pub fn wire(&self) -> ModelFacts {
        let default = ModelFacts::default();
        ModelFacts {
            context_tokens: self.window.unwrap_or(default.context_tokens),
            max_tokens: self.max_tokens,
            sees: self.sees,
            hears: self.hearing == Some(ModelHearing::Chats),
            tools: self.tools,
            cache: self.cache,
            edits: self.edits.unwrap_or_default(),
        }
    }

    /// Returns the longest answer to ask for: as long as the role says, or a share of a small
    /// window, and never longer than the model can.
    pub fn cap(&self, role: &RoleModel) -> u32 {
        let share = self.window.map_or(ANSWER, |window| (window / 4).max(LEAST));
        let wanted = role.max_tokens.unwrap_or_else(|| ANSWER.min(share));
        self.max_tokens.map_or(wanted, |most| most.min(wanted)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use codebutler_crds::model::ModelSpec;
    use serde_json::json;

    fn role(max_tokens: Option<u32>) -> RoleModel {
        serde_json::from_value(json!({"default": "m", "maxTokens": max_tokens})).unwrap()
    }

    #[test]
    fn an_answer_is_as_long_as_role_and_model_allow() {
        let facts = |window, max_tokens| KnownModelFacts {
            window,
            max_tokens,
            ..KnownModelFacts::default()
        };
        for (facts, wanted, cap) in [
            (facts(None, None), None, 16_000),
            (facts(Some(200_000), Some(64_000)), None, 16_000),
            (facts(Some(200_000), Some(8_192)), None, 8_192),
            (facts(Some(200_000), Some(64_000)), Some(32_000), 32_000),
            (facts(Some(200_000), Some(64_000)), Some(100_000), 64_000),
            (facts(Some(32_768), None), None, 8_192),
            (facts(Some(32_768), None), Some(12_000), 12_000),
            (facts(Some(2_000), None), None, 1_000),
        ] {
            assert_eq!(facts.cap(&role(wanted)), cap, "{facts:?} {wanted:?}");
        }
    }

    #[test]
    fn the_repos_own_word_counts_more_than_the_list() {
        let spec: ModelSpec = serde_json::from_value(json!({
            "credentials": {"name": "model"},
            "prices": {"m": {"prompt": "1"}},
            "models": {"m": {"contextTokens": 32000, "tools": true, "cache": "Marked"}},
        }))
        .unwrap();
        let provider = spec.default_provider();
        let listed = KnownModelFacts {
            window: Some(128_000),
            max_tokens: Some(4_096),
            tools: Some(false),
            ..KnownModelFacts::default()
        };
        let facts = listed.clone().noted(&provider, "m");
        assert_eq!((facts.window, facts.max_tokens), (Some(32_000), Some(4_096)));
        assert_eq!((facts.tools, facts.cache), (Some(true), CacheForm::Marked));
        assert!(facts.prices.is_some());
        assert_eq!(listed.clone().noted(&provider, "other"), listed);
        assert_eq!(KnownModelFacts::default().wire(), ModelFacts::default());
    }
}
