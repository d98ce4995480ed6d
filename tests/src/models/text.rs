//! Text conditions of scripts: a part that the text contains, or a regular expression.

use std::borrow::Cow;
use std::fmt;

use regex::Regex;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

/// Condition on a text, written as a plain string (a part of the text) or as `{matches: <regular expression>}`.
#[derive(Clone, Debug)]
pub enum TextMatch {
    /// The text contains this part.
    Contains(String),
    /// The pattern matches somewhere in the text.
    Matches(Regex),
}

impl TextMatch {
    /// True if the text meets the condition.
    #[must_use]
    pub fn is_in(&self, text: &str) -> bool {
        match self {
            Self::Contains(part) => text.contains(part.as_str()),
            Self::Matches(pattern) => pattern.is_match(text),
        }
    }
}

impl fmt::Display for TextMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Contains(part) => write!(f, "`{part}`"),
            Self::Matches(pattern) => write!(f, "/{pattern}/"),
        }
    }
}

impl From<&str> for TextMatch {
    fn from(part: &str) -> Self {
        Self::Contains(part.to_owned())
    }
}

impl<'de> Deserialize<'de> for TextMatch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = TextMatch;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, or `matches: <regular expression>`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<TextMatch, E> {
                Ok(TextMatch::from(text))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TextMatch, A::Error> {
                let text = match map.next_key::<String>()?.as_deref() {
                    Some("matches") => TextMatch::Matches(map.next_value::<CheckedPattern>()?.0),
                    Some(other) => return Err(A::Error::unknown_field(other, &["matches"])),
                    None => return Err(A::Error::missing_field("matches")),
                };
                match map.next_key::<String>()? {
                    Some(other) => Err(A::Error::unknown_field(&other, &["matches"])),
                    None => Ok(text),
                }
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for TextMatch {
    fn schema_name() -> Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let pattern = generator.subschema_for::<CheckedPattern>();
        json_schema!({
            "description": "What a text must say: a part of it, or a regular expression.",
            "oneOf": [{"type": "string"}, {
                "type": "object",
                "properties": {"matches": pattern},
                "required": ["matches"],
                "additionalProperties": false,
            }],
        })
    }
}

impl JsonSchema for CheckedPattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // `format: regex` would mean JavaScript's dialect.
        json_schema!({"type": "string", "description": "A regular expression in the syntax of Rust's regex crate."})
    }
}

/// A regular expression, validated when it is read.
#[derive(Clone, Debug)]
pub struct CheckedPattern(pub Regex);

impl<'de> Deserialize<'de> for CheckedPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let pattern = Regex::new(&text);
        pattern.map(Self).map_err(|e| D::Error::custom(format!("not a regular expression: {e}")))
    }
}
