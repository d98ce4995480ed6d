//! Model cards: the models on offer, as `OpenRouter`'s list describes them.

use std::time::Duration;

use codebutler_crds::NanoUsd;
use serde_json::{Value, json};

use super::play::MODEL_PREFIX;

/// Request parameters that most models take.
const PARAMETERS: [&str; 16] = [
    "frequency_penalty",
    "include_reasoning",
    "max_tokens",
    "parallel_tool_calls",
    "presence_penalty",
    "reasoning",
    "response_format",
    "seed",
    "stop",
    "structured_outputs",
    "temperature",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
    "verbosity",
];

/// Entry of a model in the list of models on offer.
#[derive(Clone, Debug)]
pub struct ModelCard {
    /// Id of the model, such as `anthropic/scripted-coder`.
    pub id: String,
    /// Role whose script the model plays.
    pub role: String,
    /// Context window in tokens, the answer included.
    pub context_length: u64,
    /// Most tokens of one answer.
    pub max_completion_tokens: Option<u64>,
    /// Kinds of input: `text`, `image` and so on.
    pub input_modalities: Vec<String>,
    /// Modalities of its answers, in the same terms.
    pub output_modalities: Vec<String>,
    /// Request parameters that it supports.
    pub supported_parameters: Vec<String>,
    /// True if requests to the model are moderated.
    pub is_moderated: bool,
    /// Date on which it leaves the list.
    pub expiration_date: Option<String>,
    /// Prices of its tokens, images and requests.
    pub pricing: PriceCard,
    /// Prompt caching of its provider.
    pub cache: CacheRule,
    /// True if calls are paid with the account's own key: `cost` is the fee alone.
    pub byok: bool,
}

/// Prices in USD, as the decimal texts of the list: of one token, image or request.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the provider's own words
pub struct PriceCard {
    pub prompt: String,
    pub completion: String,
    pub input_cache_read: Option<String>,
    pub input_cache_write: Option<String>,
    pub image: String,
    pub request: String,
    /// Other prices of longer prompts.
    pub overrides: Vec<PriceOverride>,
}

/// Prices of prompts above a length.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the provider's own words
pub struct PriceOverride {
    pub min_prompt_tokens: u64,
    pub prompt: String,
    pub completion: String,
    pub input_cache_read: Option<String>,
    pub input_cache_write: Option<String>,
}

/// Rules by which a provider caches prompt prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheRule {
    /// Prefixes are not cached at all.
    None,
    /// Prefixes from so many tokens on are cached without a mark.
    Automatic {
        /// Least number of tokens that are cached.
        minimum: u64,
    },
    /// Prefixes up to a mark are cached, from so many tokens on, for so long after the last use.
    Marked {
        /// Least number of tokens that are cached.
        minimum: u64,
        /// Lifetime of an entry after its last use.
        life: Duration,
    },
}

/// Cache rule of most of Anthropic's models.
const ANTHROPIC: CacheRule = CacheRule::Marked { minimum: 1024, life: Duration::from_mins(5) };

impl PriceCard {
    /// Prices of prompt and completion tokens, and of cache reads and writes as Anthropic has them.
    #[must_use]
    pub fn anthropic(prompt: &str, completion: &str, read: &str, write: &str) -> Self {
        let input_cache_write = Some(write.to_owned());
        Self { input_cache_write, ..Self::automatic(prompt, completion, read) }
    }

    /// Prices of prompt and completion tokens, and of cache reads.
    #[must_use]
    pub fn automatic(prompt: &str, completion: &str, read: &str) -> Self {
        Self {
            prompt: prompt.to_owned(),
            completion: completion.to_owned(),
            input_cache_read: Some(read.to_owned()),
            input_cache_write: None,
            image: "0".to_owned(),
            request: "0".to_owned(),
            overrides: Vec::new(),
        }
    }

    fn json(&self) -> Value {
        let mut json = json!({
            "prompt": self.prompt, "completion": self.completion, "image": self.image,
            "request": self.request,
        });
        let kept = [
            ("input_cache_read", &self.input_cache_read),
            ("input_cache_write", &self.input_cache_write),
        ];
        for (name, price) in kept {
            if let Some(price) = price {
                json[name] = price.as_str().into();
            }
        }
        let overrides = self.overrides.iter().map(|o| {
            let mut entry = json!({
                "min_prompt_tokens": o.min_prompt_tokens, "prompt": o.prompt,
                "completion": o.completion,
            });
            let kept = [
                ("input_cache_read", &o.input_cache_read),
                ("input_cache_write", &o.input_cache_write),
            ];
            for (name, price) in kept {
                if let Some(price) = price {
                    entry[name] = price.as_str().into();
                }
            }
            entry
        });
        let overrides: Vec<Value> = overrides.collect();
        if !overrides.is_empty() {
            json["overrides"] = overrides.into();
        }
        json
    }

    /// Prices of a prompt of this length. Later entries win, and what one does not name stays as it is.
    pub(super) fn of(&self, prompt_tokens: u64) -> PriceRates {
        let (mut prompt, mut completion) = (&self.prompt, &self.completion);
        let (mut read, mut write) = (&self.input_cache_read, &self.input_cache_write);
        for entry in self.overrides.iter().filter(|entry| prompt_tokens > entry.min_prompt_tokens) {
            (prompt, completion) = (&entry.prompt, &entry.completion);
            read = if entry.input_cache_read.is_some() { &entry.input_cache_read } else { read };
            write =
                if entry.input_cache_write.is_some() { &entry.input_cache_write } else { write };
        }
        let plain = PriceRate::of(prompt);
        let other = |price: &Option<String>| price.as_deref().map_or(plain, PriceRate::of);
        PriceRates {
            prompt: plain,
            completion: PriceRate::of(completion),
            read: other(read),
            write: other(write),
            request: PriceRate::of(&self.request),
        }
    }
}

/// Prices as exact amounts in USD.
pub(super) struct PriceRates {
    pub prompt: PriceRate,
    pub completion: PriceRate,
    pub read: PriceRate,
    pub write: PriceRate,
    pub request: PriceRate,
}

/// The price of a million units, so that fractions of a nano-dollar per unit add up.
#[derive(Clone, Copy)]
pub(super) struct PriceRate(NanoUsd);

impl PriceRate {
    const MANY: u64 = 1_000_000;

    fn of(price: &str) -> Self {
        Self(NanoUsd::parse(&format!("{price}e6")).unwrap_or_default())
    }

    pub(super) fn times(self, count: u64) -> NanoUsd {
        self.0.times(count, Self::MANY)
    }

    /// Number of units that an amount pays for.
    pub(super) fn affords(self, amount: NanoUsd) -> u64 {
        amount.0.saturating_mul(Self::MANY) / self.0.0.max(1)
    }
}

impl ModelCard {
    /// A model that plays the role that its name ends in: `scripted/coder`, `other/coder`,
    /// `scripted/coder-2` and `anthropic/scripted-coder` play the coder's. Those of `anthropic` keep
    /// what marks tell them to, and bill for it.
    #[must_use]
    pub fn new(id: &str) -> Self {
        let marked = id.starts_with("anthropic/") || id.starts_with("~anthropic/");
        let (prompt, completion) = ("0.000003", "0.000015");
        let (pricing, cache) = if marked {
            let pricing = PriceCard::anthropic(prompt, completion, "0.0000003", "0.00000375");
            (pricing, ANTHROPIC)
        } else {
            let pricing = PriceCard::automatic(prompt, completion, "0.0000015");
            (pricing, CacheRule::Automatic { minimum: 1024 })
        };
        Self {
            id: id.to_owned(),
            role: role_in(id).to_owned(),
            context_length: 200_000,
            max_completion_tokens: Some(16_000),
            input_modalities: vec!["text".to_owned(), "image".to_owned()],
            output_modalities: vec!["text".to_owned()],
            supported_parameters: PARAMETERS.map(str::to_owned).to_vec(),
            is_moderated: false,
            expiration_date: None,
            pricing,
            cache,
            byok: false,
        }
    }

    /// The same model, able to draw images.
    #[must_use]
    pub fn drawing(mut self) -> Self {
        self.output_modalities.push("image".to_owned());
        self
    }

    /// The same model, able to draw images and to do nothing else.
    #[must_use]
    pub fn drawing_only(mut self) -> Self {
        self.output_modalities = vec!["image".to_owned()];
        self
    }

    /// The same model with another role's script.
    #[must_use]
    pub fn playing(self, role: &str) -> Self {
        Self { role: role.to_owned(), ..self }
    }

    /// The same model with this context window and longest answer.
    #[must_use]
    pub fn taking(self, context_length: u64, max_completion_tokens: u64) -> Self {
        let max_completion_tokens = Some(max_completion_tokens);
        Self { context_length, max_completion_tokens, ..self }
    }

    /// The same model at other prices.
    #[must_use]
    pub fn priced(self, pricing: PriceCard) -> Self {
        Self { pricing, ..self }
    }

    /// The same model with another cache rule.
    #[must_use]
    pub fn caching(self, cache: CacheRule) -> Self {
        Self { cache, ..self }
    }

    /// The same model without a request parameter, such as `tools`.
    #[must_use]
    pub fn without(mut self, parameter: &str) -> Self {
        self.supported_parameters.retain(|known| known != parameter);
        if parameter == "tools" {
            self.supported_parameters.retain(|known| known != "tool_choice");
        }
        self
    }

    /// The same model without pictures as input.
    #[must_use]
    pub fn blind(mut self) -> Self {
        self.input_modalities.retain(|kind| kind != "image");
        self
    }

    /// The same model, taking recordings in a chat.
    #[must_use]
    pub fn hearing(mut self) -> Self {
        self.input_modalities.push("audio".to_owned());
        self
    }

    /// The same model, for transcribing recordings and nothing else.
    #[must_use]
    pub fn transcribing(mut self) -> Self {
        self.input_modalities = vec!["audio".to_owned()];
        self.output_modalities = vec!["transcription".to_owned()];
        self
    }

    /// The same model, paid with the account's own key.
    #[must_use]
    pub fn own_key(self) -> Self {
        Self { byok: true, ..self }
    }

    /// The model's entry in the list, as JSON.
    pub(super) fn json(&self) -> Value {
        json!({
            "id": self.id, "canonical_slug": self.id, "name": format!("Testbed: {}", self.id),
            "created": 1_700_000_000, "description": "Plays a script.",
            "context_length": self.context_length,
            "architecture": {
                "modality": "text->text", "tokenizer": "Other", "instruct_type": null,
                "input_modalities": self.input_modalities,
                "output_modalities": self.output_modalities,
            },
            "pricing": self.pricing.json(),
            "top_provider": {
                "context_length": self.context_length,
                "max_completion_tokens": self.max_completion_tokens,
                "is_moderated": self.is_moderated,
            },
            "per_request_limits": null, "supported_parameters": self.supported_parameters,
            "default_parameters": {}, "expiration_date": self.expiration_date,
            "supported_voices": null, "links": {"details": format!("/api/v1/models/{}", self.id)},
        })
    }
}

/// Extracts the role from a model's id: its last part without `scripted-`, and without a number at its end.
fn role_in(id: &str) -> &str {
    let name = id.rsplit('/').next().unwrap_or(id);
    let name = name.split(':').next().unwrap_or(name);
    let name = name.strip_prefix("scripted-").unwrap_or(name);
    match name.rsplit_once('-') {
        Some((role, number)) if number.bytes().all(|b| b.is_ascii_digit()) => role,
        _ => name,
    }
}

/// Name of the model that every role of the script has.
pub(super) fn usual_model(role: &str) -> String {
    format!("{MODEL_PREFIX}{role}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_script_is_played() {
        for id in
            ["scripted/coder", "scripted/coder-2", "other/coder:free", "~anthropic/scripted-coder"]
        {
            assert_eq!(ModelCard::new(id).role, "coder", "{id}");
        }
        assert_eq!(ModelCard::new("z-ai/glm-5.2").playing("pm").role, "pm");
    }

    #[test]
    fn longer_prompts_have_their_own_prices() {
        let mut pricing = PriceCard::automatic("0.0000000125", "0.00001", "0.000000001");
        pricing.overrides.push(PriceOverride {
            min_prompt_tokens: 200_000,
            prompt: "0.00000002".to_owned(),
            completion: "0.00002".to_owned(),
            input_cache_read: None,
            input_cache_write: None,
        });
        assert_eq!(pricing.of(10).prompt.times(10), NanoUsd(125));
        assert_eq!(pricing.of(200_000).prompt.times(10), NanoUsd(125), "it is not longer");
        assert_eq!(pricing.of(200_001).prompt.times(10), NanoUsd(200));
        assert_eq!(pricing.of(200_001).read.times(10), NanoUsd(10), "as without the override");
        assert_eq!(pricing.json()["overrides"][0]["min_prompt_tokens"], 200_000);
    }
}
