//! Descriptions of the messages that a step or an expectation means, and the form of one text or several.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};

use super::evidence::SeenMessage;
use crate::models::CheckedPattern;

/// Which messages are meant.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageMatch {
    /// A role's short name, a user's name, or `codebutler` for the system itself.
    #[serde(default)]
    pub from: Option<String>,
    /// Parts of the text, all of them.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(schema_with = "texts")]
    pub contains: Vec<String>,
    /// A regular expression that the text matches.
    #[serde(default)]
    pub matches: Option<CheckedPattern>,
}

impl MessageMatch {
    /// True if a message is one of those meant.
    #[must_use]
    pub fn fits(&self, message: &SeenMessage) -> bool {
        self.from.as_ref().is_none_or(|from| *from == message.from)
            && self.contains.iter().all(|part| message.text.contains(part))
            && self.matches.as_ref().is_none_or(|p| p.0.is_match(&message.text))
    }
}

impl fmt::Display for MessageMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message from {}", self.from.as_deref().unwrap_or("anybody"))?;
        for part in &self.contains {
            write!(f, " with `{part}`")?;
        }
        match &self.matches {
            Some(pattern) => write!(f, " like /{}/", pattern.0),
            None => Ok(()),
        }
    }
}

/// Schema of the values that [`one_or_many`] reads.
pub(super) fn texts(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]})
}

/// A string or a list of strings.
pub(super) fn one_or_many<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<String>, D::Error> {
    struct Either;
    impl<'de> Visitor<'de> for Either {
        type Value = Vec<String>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a string or a list of strings")
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(vec![text.to_owned()])
        }
        fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(seq))
        }
    }
    deserializer.deserialize_any(Either)
}
