//! Usage of a call, as a script says it: tokens, and their cost.

use std::borrow::Cow;
use std::fmt;

use codebutler_crds::NanoUsd;
use codebutler_crds::money::ParseAmountError;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What a call is billed.
#[derive(Clone, Debug, Default)]
pub struct ScriptUsage {
    /// Tokens in.
    pub prompt: u64,
    /// Of those, what the provider had kept.
    pub cached: u64,
    /// Of those, what it keeps from now on.
    pub written: u64,
    /// Tokens out.
    pub completion: u64,
    /// Of those, thinking.
    pub reasoning: u64,
    /// US dollars. Goes out as exactly this text.
    pub cost: WrittenCost,
    /// None of it is said: it is counted, and priced by the model's card.
    pub metered: bool,
}

/// What a call is billed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Usage")]
struct RawUsage {
    /// Tokens in.
    #[serde(default)]
    prompt: u64,
    /// Of those, what the provider had kept.
    #[serde(default)]
    cached: u64,
    /// Of those, what it keeps from now on.
    #[serde(default)]
    written: u64,
    /// Tokens out.
    #[serde(default)]
    completion: u64,
    /// Of those, thinking.
    #[serde(default)]
    reasoning: u64,
    /// US dollars. Goes out as exactly this text.
    #[serde(default)]
    #[schemars(schema_with = "amount")]
    cost: WrittenCost,
}

impl<'de> Deserialize<'de> for ScriptUsage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ScriptUsage;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`metered`, or tokens and cost")
            }
            fn visit_str<E: Error>(self, word: &str) -> Result<ScriptUsage, E> {
                match word {
                    "metered" => Ok(ScriptUsage { metered: true, ..ScriptUsage::default() }),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScriptUsage, A::Error> {
                let raw = RawUsage::deserialize(MapAccessDeserializer::new(map))?;
                let RawUsage { prompt, cached, written, completion, reasoning, cost } = raw;
                let metered = false;
                Ok(ScriptUsage { prompt, cached, written, completion, reasoning, cost, metered })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for ScriptUsage {
    fn schema_name() -> Cow<'static, str> {
        "UsageOrMetered".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let told = generator.subschema_for::<RawUsage>();
        json_schema!({
            "description": "What a call is billed: as it is told, or counted and priced by the model's card.",
            "anyOf": [told, {"const": "metered"}],
        })
    }
}

/// US dollars, as a number or as text.
pub(crate) fn amount(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": ["number", "string"], "minimum": 0, "pattern": "^[0-9]+(\\.[0-9]+)?([eE]-?[0-9]+)?$"})
}

/// An amount of US dollars as the JSON number that a provider writes.
#[derive(Clone, Debug)]
pub struct WrittenCost {
    /// The number's text.
    pub text: String,
    /// Its value.
    pub amount: NanoUsd,
}

impl Default for WrittenCost {
    fn default() -> Self {
        Self { text: "0".to_owned(), amount: NanoUsd::ZERO }
    }
}

/// A text is no cost.
#[derive(Debug, thiserror::Error)]
pub enum WrittenCostError {
    /// It is no amount of money.
    #[error(transparent)]
    Amount(#[from] ParseAmountError),
    /// It is an amount that JSON can't have.
    #[error("`{0}` is not a JSON number: write a digit before the point")]
    NoNumber(String),
}

impl TryFrom<String> for WrittenCost {
    type Error = WrittenCostError;

    fn try_from(text: String) -> Result<Self, WrittenCostError> {
        let amount = NanoUsd::parse(&text)?;
        if RawValue::from_string(text.clone()).is_err() {
            return Err(WrittenCostError::NoNumber(text));
        }
        Ok(Self { text, amount })
    }
}

impl<'de> Deserialize<'de> for WrittenCost {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // As text, even where it is written without quotes: a float would not be exact.
        Self::try_from(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
