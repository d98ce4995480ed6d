//! Faults of real models, played on purpose: before a step, as the script says, or anywhere, from a seed.

mod kind;
mod leak;
mod mention;
mod refuse;
mod seed;
mod spoil;

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize as _};
use serde_json::Value;

pub use self::kind::MischiefKind;
pub(super) use self::kind::MischiefManner;
pub(super) use self::mention::is_but_for_mentions;
pub(super) use self::refuse::{refuse_request, too_dear};
pub use self::seed::RandomMischief;
pub(super) use self::seed::SeedToss;
pub(super) use self::spoil::{error_body, spoil_answer};
use super::usage::ScriptUsage;

/// A fault that is played before a step.
#[derive(Clone, Debug)]
pub struct ModelMischief {
    /// Kind of fault that is played.
    pub kind: MischiefKind,
    /// Number of times that it is played before the step.
    pub times: u32,
    /// Seconds in the `Retry-After` header.
    pub retry_after: Option<u64>,
    /// Text that the error's message contains, such as a key.
    pub secret: Option<String>,
    /// Tokens and cost that a bad answer is billed.
    pub usage: ScriptUsage,
}

/// Faults played before the step: one name, one with details, or a list of either.
#[derive(Clone, Debug, Default)]
pub struct MischiefList(pub Vec<ModelMischief>);

/// Something that goes wrong, with details.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Mischief")]
struct RawMischief {
    /// What.
    kind: MischiefKind,
    /// How many times, before the step is played after all; once if absent.
    #[serde(default = "once")]
    #[schemars(range(min = 1))]
    times: u32,
    /// Seconds for `Retry-After`, where the kind is a status.
    #[serde(default)]
    retry_after: Option<u64>,
    /// A text that the error's message contains, such as a key.
    #[serde(default)]
    secret: Option<String>,
    /// What a bad answer is billed; nothing if absent.
    #[serde(default)]
    usage: ScriptUsage,
}

const fn once() -> u32 {
    1
}

impl From<MischiefKind> for ModelMischief {
    fn from(kind: MischiefKind) -> Self {
        Self { kind, times: 1, retry_after: None, secret: None, usage: ScriptUsage::default() }
    }
}

impl ModelMischief {
    /// Plays the same fault so many times.
    #[must_use]
    pub fn times(self, times: u32) -> Self {
        Self { times, ..self }
    }

    /// Plays the same fault with a `Retry-After` header.
    #[must_use]
    pub fn retry_after(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// Plays the same fault with this text in the error's message.
    #[must_use]
    pub fn saying(self, secret: &str) -> Self {
        Self { secret: Some(secret.to_owned()), ..self }
    }
}

impl ModelMischief {
    /// Adds the secret to an error's message.
    pub(super) fn confide(&self, message: &mut Value) {
        if let (Some(secret), Some(said)) = (&self.secret, message.as_str()) {
            *message = format!("{said} (asked with {secret})").into();
        }
    }
}

impl MischiefList {
    /// Returns the fault at the n-th request for the step, from 0.
    pub(super) fn at(&self, time: u32) -> Option<&ModelMischief> {
        let mut left = time;
        self.0.iter().find(|mischief| {
            let here = left < mischief.times;
            left = left.saturating_sub(mischief.times);
            here
        })
    }
}

impl<'de> Deserialize<'de> for ModelMischief {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ModelMischief;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind of mischief, or `kind:` with details")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ModelMischief, E> {
                MischiefKind::deserialize(StrDeserializer::new(name)).map(ModelMischief::from)
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ModelMischief, A::Error> {
                let raw = RawMischief::deserialize(MapAccessDeserializer::new(map))?;
                let RawMischief { kind, times, retry_after, secret, usage } = raw;
                Ok(ModelMischief { kind, times, retry_after, secret, usage })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for MischiefList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = MischiefList;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a kind of mischief, `kind:` with details, or a list")
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<MischiefList, E> {
                ModelMischief::deserialize(StrDeserializer::new(name))
                    .map(|one| MischiefList(vec![one]))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MischiefList, A::Error> {
                let one = ModelMischief::deserialize(MapAccessDeserializer::new(map))?;
                Ok(MischiefList(vec![one]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<MischiefList, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(seq)).map(MischiefList)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for MischiefList {
    fn schema_name() -> Cow<'static, str> {
        "Mischiefs".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let kind = generator.subschema_for::<MischiefKind>();
        let full = generator.subschema_for::<RawMischief>();
        json_schema!({
            "description": "What goes wrong before the step is played: a kind, one with details, or a list of either.",
            "anyOf": [kind, full, {"type": "array", "items": {"anyOf": [kind, full]}}],
        })
    }
}

impl fmt::Display for MischiefKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_several_and_details_are_read() {
        use MischiefKind::{ErrorIn200, Refusal};
        let read = |yaml: &str| serde_saphyr::from_str::<MischiefList>(yaml).map(|m| m.0);
        assert_eq!(read("empty").unwrap()[0].kind, MischiefKind::Empty);
        let full = read("{kind: rate_limited, times: 2, retry_after: 3}").unwrap();
        assert_eq!((full[0].times, full[0].retry_after), (2, Some(3)));
        let list = MischiefList(read("[{kind: error_in_200, times: 2}, refusal]").unwrap());
        let at = |time| list.at(time).map(|m| m.kind);
        let expected = [Some(ErrorIn200), Some(ErrorIn200), Some(Refusal), None];
        assert_eq!([0, 1, 2, 3].map(at), expected);
        for wrong in ["rage", "{kind: empty, often: 2}", "[rage]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_kind_is_documented() {
        let guide = include_str!("../../../scenarios/README.md");
        for kind in MischiefKind::ALL {
            assert!(guide.contains(&format!("`{kind}`")), "{kind} is not in the README");
        }
    }
}
