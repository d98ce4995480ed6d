//! Spellings of fields that were others in the first previews. The new one is what is shown; the old
//! one is read until `v1beta1`, and whoever uses it is told.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IntoDeserializer as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// A value in an outdated spelling: the field, the value that stands there, and the value to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutdatedSpelling {
    /// Path of the field, such as `spec.git.mergeMethod`.
    pub field: &'static str,
    /// Outdated value that stands there.
    pub old: String,
    /// Value to write instead.
    pub new: String,
}

/// A value that begins with a capital letter. The old spelling begins with a small one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpelledWord<T> {
    value: T,
    is_old: bool,
}

impl<T> From<T> for SpelledWord<T> {
    fn from(value: T) -> Self {
        Self { value, is_old: false }
    }
}

impl<T> Deref for SpelledWord<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Serialize> SpelledWord<T> {
    /// The outdated spelling and its replacement, if the value stands in the old one in `field`.
    #[must_use]
    pub fn outdated(&self, field: &'static str) -> Option<OutdatedSpelling> {
        let old = self.is_old.then(|| written_name(&self.value)).flatten()?;
        let new = capitalize_word(&old);
        Some(OutdatedSpelling { field, old, new })
    }
}

impl<T: Default + PartialEq> SpelledWord<T> {
    /// True if the value equals the default, in whatever spelling.
    pub fn is_default(&self) -> bool {
        self.value == T::default()
    }
}

impl<T: Serialize> Serialize for SpelledWord<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let old = written_name(&self.value).ok_or_else(|| S::Error::custom("not a word"))?;
        serializer.serialize_str(&if self.is_old { old } else { capitalize_word(&old) })
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for SpelledWord<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let is_old = text.starts_with(|first: char| first.is_ascii_lowercase());
        let value =
            T::deserialize(with_first(&text, char::to_ascii_lowercase).into_deserializer())?;
        Ok(Self { value, is_old })
    }
}

impl<T: JsonSchema> JsonSchema for SpelledWord<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("Word{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut old = Vec::new();
        gather_words(&Value::from(T::json_schema(generator)), &mut old);
        let new = old.iter().map(|word| capitalize_word(word));
        let words: Vec<String> = new.chain(old.iter().cloned()).collect();
        json_schema!({"type": "string", "enum": words})
    }
}

/// A word in a status: written with a capital, read in either spelling. For `serde(with)`; the schema of
/// such a field is that of a [`SpelledWord`].
pub mod word {
    use super::{Deserialize, Deserializer, Serialize, Serializer, SpelledWord};

    /// Writes the word in the spelling with a capital.
    pub fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Copy,
        S: Serializer,
    {
        SpelledWord::from(*value).serialize(serializer)
    }

    /// Reads the word in either spelling.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        SpelledWord::deserialize(deserializer).map(|word| word.value)
    }
}

/// Like [`word`], for an optional field.
pub mod optional_word {
    use super::{Deserialize, Deserializer, Serialize, Serializer, SpelledWord};

    /// Writes the word, if any, in the spelling with a capital.
    pub fn serialize<T, S>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error>
    where
        T: Serialize + Copy,
        S: Serializer,
    {
        value.map(SpelledWord::from).serialize(serializer)
    }

    /// Reads the word, if any, in either spelling.
    pub fn deserialize<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
    where
        T: Deserialize<'de>,
        D: Deserializer<'de>,
    {
        let word = Option::<SpelledWord<T>>::deserialize(deserializer)?;
        Ok(word.map(|word| word.value))
    }
}

/// A pull request as a status has it, whose agents are told of it in small letters.
pub mod pull_request {
    use codebutler_wire::{PullRequest, PullState};
    use schemars::{JsonSchema as _, Schema, SchemaGenerator};
    use serde::de::Error as _;
    use serde::ser::Error as _;
    use serde_json::Value;

    use super::{
        Deserialize, Deserializer, Serialize, Serializer, SpelledWord, capitalize_word, with_first,
    };

    /// Writes the pull request with its state capitalized.
    pub fn serialize<S: Serializer>(
        value: &Option<Box<PullRequest>>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut value = serde_json::to_value(value).map_err(S::Error::custom)?;
        spell(&mut value, capitalize_word);
        value.serialize(serializer)
    }

    /// Reads the pull request with its state in either spelling.
    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Box<PullRequest>>, D::Error> {
        let mut value = Value::deserialize(deserializer)?;
        spell(&mut value, |word| with_first(word, char::to_ascii_lowercase));
        serde_json::from_value(value).map_err(D::Error::custom)
    }

    fn spell(value: &mut Value, how: impl Fn(&str) -> String) {
        if let Some(state) = value.get_mut("state")
            && let Some(word) = state.as_str()
        {
            *state = how(word).into();
        }
    }

    /// Schema in which `state` has either spelling.
    pub fn schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = PullRequest::json_schema(generator);
        let properties = schema.get_mut("properties");
        if let Some(state) = properties.and_then(|all| all.get_mut("state")) {
            let told = state["description"].take();
            *state = SpelledWord::<PullState>::json_schema(generator).into();
            state["description"] = told;
        }
        schema
    }
}

/// Serialized name of an enum's value.
fn written_name(value: &impl Serialize) -> Option<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => Some(name),
        _ => None,
    }
}

/// All words that a schema allows.
fn gather_words(schema: &Value, words: &mut Vec<String>) {
    let listed = schema["enum"].as_array().into_iter().flatten();
    let own = listed.chain(schema.get("const")).filter_map(Value::as_str);
    words.extend(own.map(str::to_owned));
    for one in schema["oneOf"].as_array().into_iter().flatten() {
        gather_words(one, words);
    }
}

fn capitalize_word(word: &str) -> String {
    with_first(word, char::to_ascii_uppercase)
}

fn with_first(word: &str, change: impl Fn(&char) -> char) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| change(&first)).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt as _;
    use serde_json::json;

    use super::*;
    use crate::repo::ModelApi;
    use crate::role::WorktreeAccess;
    use crate::{Thread, ThreadStatus};

    #[test]
    fn both_spellings_are_read_and_the_old_one_is_named() {
        let read = |word: &str| serde_json::from_value::<SpelledWord<WorktreeAccess>>(word.into());
        let (new, old) = (read("ReadOnly").unwrap(), read("readOnly").unwrap());
        assert_eq!((*new, *old), (WorktreeAccess::ReadOnly, WorktreeAccess::ReadOnly));
        assert_eq!(new.outdated("x"), None);
        let told = old.outdated("x").unwrap();
        assert_eq!((told.old.as_str(), told.new.as_str()), ("readOnly", "ReadOnly"));
        assert!(read("readWrite").unwrap().is_default() && !old.is_default());
        assert!(read("readonly").is_err());
        for word in ["ReadOnly", "readOnly"] {
            assert_eq!(serde_json::to_value(read(word).unwrap()).unwrap(), word);
        }
        assert_eq!(serde_json::to_value(SpelledWord::from(ModelApi::OpenAi)).unwrap(), "OpenAI");
    }

    #[test]
    fn a_status_is_written_with_capitals_and_read_in_either_spelling() {
        let (ts, expires) = ("1767268700.000100", "2026-01-01T00:00:00Z");
        let stored = json!({
            "approvals": [{"id": "coder:k", "role": "coder", "tool": "Bash", "hash": "a", "ts": ts,
                           "expires": expires, "answer": "expired"}],
            "budget": {"ask": {"ts": ts, "limit": "callsPerHour"}},
            "closing": {"ts": ts, "role": "lead", "choice": "merge", "waits": "checks"},
            "handovers": [{"id": "a", "why": "planWaits"}],
            "offers": [{"ts": ts, "role": "lead", "kind": "learnings", "of": 2}],
            "planDetails": {"plan": ts, "complexity": "complex"},
            "pullRequest": {"number": 1, "url": "u", "state": "merged"},
        });
        let status: ThreadStatus = serde_json::from_value(stored).unwrap();
        let written = serde_json::to_value(&status).unwrap();
        for (field, word) in [
            ("/approvals/0/answer", "Expired"),
            ("/budget/ask/limit", "CallsPerHour"),
            ("/closing/choice", "Merge"),
            ("/closing/waits", "Checks"),
            ("/handovers/0/why", "PlanWaits"),
            ("/offers/0/kind", "Learnings"),
            ("/planDetails/complexity", "Complex"),
            ("/pullRequest/state", "Merged"),
        ] {
            assert_eq!(written.pointer(field), Some(&json!(word)), "{field}");
        }
        assert_eq!(serde_json::from_value::<ThreadStatus>(written).unwrap(), status);
        // Agents are told of it as they always were.
        let told = serde_json::to_value(status.pull_request).unwrap();
        assert_eq!(told["state"], "merged");
        // A stored value has to stay valid until it is written anew.
        let definition = serde_json::to_string(&Thread::crd()).unwrap();
        for word in
            ["expired", "callsPerHour", "checks", "planWaits", "learnings", "complex", "merged"]
        {
            let both = [capitalize_word(word), word.to_owned()];
            assert!(both.iter().all(|word| definition.contains(&format!("\"{word}\""))), "{word}");
        }
    }
}
