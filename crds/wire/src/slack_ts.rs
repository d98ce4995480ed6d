//! Slack's message timestamp: the identity of a message in its channel, and its order.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// A Slack `ts`: `seconds.micros` as a string, ordered by time (never by text or float).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct SlackTs(String);

/// Error of reading a Slack timestamp.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a Slack timestamp: it looks like 1763765623.000100")]
pub struct ParseTsError(String);

impl SlackTs {
    /// The timestamp that is before every message.
    #[must_use]
    pub fn zero() -> Self {
        Self("0.000000".to_owned())
    }

    /// The text that Slack uses.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whole seconds since 1970 and microseconds within the second.
    #[must_use]
    pub fn parts(&self) -> (u64, u32) {
        let (secs, micros) = self.0.split_once('.').unwrap_or((&self.0, "0"));
        (secs.parse().unwrap_or(0), micros.parse().unwrap_or(0))
    }

    /// The same moment some seconds earlier, not before the epoch: where a re-read begins.
    #[must_use]
    pub fn minus_secs(&self, secs: u64) -> Self {
        let (own, micros) = self.parts();
        Self(format!("{}.{micros:06}", own.saturating_sub(secs)))
    }
}

impl FromStr for SlackTs {
    type Err = ParseTsError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = |s: &str, max: usize| {
            !s.is_empty() && s.len() <= max && s.bytes().all(|b| b.is_ascii_digit())
        };
        match text.split_once('.') {
            Some((secs, micros)) if digits(secs, 12) && micros.len() == 6 && digits(micros, 6) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(ParseTsError(text.chars().take(40).collect())),
        }
    }
}

impl Ord for SlackTs {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(&other.parts())
    }
}

impl PartialOrd for SlackTs {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for SlackTs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SlackTs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SlackTs {
    fn schema_name() -> Cow<'static, str> {
        "SlackTs".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": r"^[0-9]{1,12}\.[0-9]{6}$", "maxLength": 19})
    }
    fn inline_schema() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_time_not_by_text() {
        let early: SlackTs = "999999999.900000".parse().unwrap();
        let late: SlackTs = "1000000000.000001".parse().unwrap();
        assert!(early < late);
        assert_eq!(late.minus_secs(60).as_str(), "999999940.000001");
        assert!("1.5".parse::<SlackTs>().is_err());
        assert!("1763765623.00010x".parse::<SlackTs>().is_err());
    }
}
