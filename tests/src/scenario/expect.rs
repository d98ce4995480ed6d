//! The expectations of a scenario: everything that must be true at its end.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use codebutler_crds::NanoUsd;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

use super::message_match::{MessageMatch, one_or_many, texts};
use crate::github::{PullRequest, PullState};
use crate::models::{CheckedPattern, TextMatch, amount};

/// Everything that must be true. The first four sections can't be left out: a scenario that does
/// not look at messages, files, commits and cost proves little.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScenarioExpectations {
    /// Messages, in this order.
    pub messages: Vec<MessageExpect>,
    /// Files on the base branch of the remote.
    pub files: FilesExpect,
    /// Commits on the base branch since the start.
    pub commits: CommitExpect,
    /// What it cost.
    pub cost: CostExpect,
    /// Most that people have to read in the conversations.
    #[serde(default)]
    pub length: Option<LengthExpect>,
    /// Reactions on messages.
    #[serde(default)]
    pub reactions: Vec<ReactionExpect>,
    /// Commands in a fresh clone of the base branch.
    #[serde(default)]
    pub commands: Vec<ExpectedCommand>,
    /// Branches on the remote.
    #[serde(default)]
    pub branches: Option<BranchExpect>,
    /// The pull request; the newest, if there are several.
    #[serde(default)]
    pub pull_request: Option<PullRequestExpect>,
    /// Every pull request, oldest first.
    #[serde(default)]
    pub pull_requests: Option<Vec<PullRequestExpect>>,
    /// The Thread resource; the oldest, if there are several.
    #[serde(default)]
    pub thread: Option<ThreadExpect>,
    /// Every Thread resource, by the order in which their conversations began.
    #[serde(default)]
    pub threads: Option<Vec<ThreadExpect>>,
    /// Model calls by role.
    #[serde(default)]
    pub turns: BTreeMap<String, u64>,
    /// Tool calls by role.
    #[serde(default)]
    pub tool_calls: BTreeMap<String, u64>,
    /// Pods left.
    #[serde(default)]
    pub pods: Option<usize>,
    /// Volumes left.
    #[serde(default)]
    pub volumes: Option<usize>,
}

/// Most that there may be of something to read.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LengthExpect {
    /// Lines of all messages, empty ones included.
    pub lines: usize,
    /// Words of all messages.
    pub words: usize,
}

/// A message that must be there.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageExpect {
    /// A role's short name, a user's name, or `codebutler` for the system itself.
    #[serde(default)]
    pub from: Option<String>,
    /// Parts of its text.
    #[serde(default, deserialize_with = "one_or_many")]
    #[schemars(schema_with = "texts")]
    pub contains: Vec<String>,
    /// A regular expression that its text matches.
    #[serde(default)]
    pub matches: Option<CheckedPattern>,
    /// Exactly so many fit, anywhere. Absent: at least one, after the messages expected before.
    #[serde(default)]
    pub count: Option<usize>,
    /// Whether its place matters.
    #[serde(default)]
    pub order: MessageOrder,
}

/// Whether an expected message has to come after those expected before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageOrder {
    /// It has to.
    #[default]
    AfterPrevious,
    /// It may be anywhere.
    Any,
}

impl MessageExpect {
    /// Pattern that the expected message has to match.
    #[must_use]
    pub fn pattern(&self) -> MessageMatch {
        MessageMatch {
            from: self.from.clone(),
            contains: self.contains.clone(),
            matches: self.matches.clone(),
        }
    }
}

/// A reaction that must be there, or must not.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReactionExpect {
    /// Emoji without colons.
    pub emoji: String,
    /// On a message that fits.
    #[serde(default)]
    pub on: MessageMatch,
    /// By whom: a user's name, or `codebutler`.
    #[serde(default)]
    pub by: Option<String>,
    /// No message that fits has it.
    #[serde(default)]
    pub absent: bool,
}

/// Files on the base branch: `unchanged`, or by path.
#[derive(Clone, Debug)]
pub enum FilesExpect {
    /// Exactly as at the start.
    Unchanged,
    /// So for these paths.
    ByPath(BTreeMap<String, FileExpect>),
}

/// One file.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FileExpect {
    /// Parts of its content.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "texts")]
    pub contains: Vec<String>,
    /// Parts that its content does not have.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "texts")]
    pub lacks: Vec<String>,
    /// A regular expression that its content matches.
    pub matches: Option<CheckedPattern>,
    /// Its whole content.
    pub equals: Option<String>,
    /// It is not there.
    pub absent: bool,
}

/// Commits on the base branch since the start.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CommitExpect {
    /// How many.
    pub count: usize,
    /// What the newest one's subject says.
    #[serde(default)]
    pub subject: Option<TextMatch>,
    /// What the newest one's message says.
    #[serde(default)]
    pub message: Vec<TextMatch>,
    /// Each has one parent only, and none is a commit of the thread's own branch.
    #[serde(default)]
    pub squash: bool,
}

/// What it cost, exactly, in US dollars. Held against the Threads and against what was billed.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CostExpect {
    /// All roles together.
    #[schemars(schema_with = "amount")]
    pub total: NanoUsd,
    /// By role; every role that cost something, if any is named.
    #[serde(default)]
    #[schemars(schema_with = "amounts")]
    pub roles: BTreeMap<String, NanoUsd>,
    /// Answers that may have been paid for twice.
    #[serde(default)]
    pub repeats: u64,
}

/// A command in a fresh clone of the base branch.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpectedCommand {
    /// For `bash -c`.
    pub run: String,
    /// Its exit code.
    #[serde(default)]
    pub exit: i32,
    /// What it prints.
    #[serde(default)]
    pub output: Vec<TextMatch>,
    /// Seconds until it is killed.
    #[serde(default = "two_minutes")]
    pub within: u64,
}

const fn two_minutes() -> u64 {
    120
}

/// Branches on the remote. A plain string is a whole name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BranchExpect {
    /// There are no others than these.
    pub only: Vec<TextMatch>,
    /// None is like these.
    pub absent: Vec<TextMatch>,
    /// So many.
    pub count: Option<usize>,
}

/// The pull request: a state, or more about it.
#[derive(Clone, Debug)]
pub struct PullRequestExpect {
    /// Expected state; `None` if there must be no pull request.
    pub state: Option<PullState>,
    /// Text that the title must contain.
    pub title: Option<TextMatch>,
    /// Texts that the description must contain.
    pub body: Vec<TextMatch>,
}

impl PullRequestExpect {
    /// Describes how the pull requests found differ from the expected one, if they do.
    #[must_use]
    pub fn difference(&self, found: &[PullRequest]) -> Option<String> {
        match (self.state, found) {
            (None, []) => None,
            (None, [pull, ..]) => Some(format!("there is #{}", pull.number)),
            (Some(_), []) => Some("there is none".to_owned()),
            (Some(_), [.., pull]) => self.differs(pull),
        }
    }

    /// Describes how one pull request differs from the expected one, if it does.
    #[must_use]
    pub fn differs(&self, pull: &PullRequest) -> Option<String> {
        if Some(pull.state) != self.state {
            return Some(format!("#{} is {:?}", pull.number, pull.state));
        }
        if let Some(title) = self.title.as_ref().filter(|t| !t.is_in(&pull.title)) {
            return Some(format!("the title is `{}`, without {title}", pull.title));
        }
        let missing = self.body.iter().find(|t| !t.is_in(&pull.body));
        missing.map(|text| format!("the description is without {text}: {}", pull.body))
    }
}

/// The Thread resource.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ThreadExpect {
    /// `Active` or `Closed`.
    pub state: Option<String>,
    /// Such as `pm` or `closed`.
    pub phase: Option<String>,
    /// Status of conditions by type: `"True"`, `"False"`, or `absent`.
    pub conditions: BTreeMap<String, String>,
    /// Any field by JSON pointer, such as `/status/plan/role`.
    pub fields: BTreeMap<String, Value>,
}

impl ThreadExpect {
    /// Lists the fields in which a Thread differs from what is expected.
    #[must_use]
    pub fn differences(&self, thread: &Value) -> Vec<String> {
        let text = |pointer: &str| thread.pointer(pointer).and_then(Value::as_str);
        let mut differences = Vec::new();
        let mut compare = |what: &str, wanted: &str, found: Option<&str>| {
            if found != Some(wanted) {
                let found = found.unwrap_or("absent");
                differences.push(format!("{what} is {found}, not {wanted}"));
            }
        };
        if let Some(state) = &self.state {
            // The default is not always written down.
            compare("spec.state", state, Some(text("/spec/state").unwrap_or("Active")));
        }
        if let Some(phase) = &self.phase {
            compare("status.phase", phase, text("/status/phase"));
        }
        let conditions = thread.pointer("/status/conditions").and_then(Value::as_array);
        for (kind, wanted) in &self.conditions {
            let all = conditions.map(Vec::as_slice).unwrap_or_default();
            let found = all.iter().find(|c| c["type"] == kind.as_str());
            let found = found.map_or(Some("absent"), |c| c["status"].as_str());
            compare(&format!("condition {kind}"), wanted, found);
        }
        for (pointer, wanted) in &self.fields {
            let found = thread.pointer(pointer).unwrap_or(&Value::Null);
            if found != wanted {
                differences.push(format!("{pointer} is {found}, not {wanted}"));
            }
        }
        differences
    }
}

fn amounts(generator: &mut SchemaGenerator) -> Schema {
    let amount = amount(generator);
    json_schema!({"type": "object", "additionalProperties": amount})
}

impl JsonSchema for FilesExpect {
    fn schema_name() -> Cow<'static, str> {
        "FilesExpect".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let files = generator.subschema_for::<BTreeMap<String, FileExpect>>();
        json_schema!({
            "description": "Files on the base branch: `unchanged`, or by path.",
            "oneOf": [{"const": "unchanged"}, files],
        })
    }
}

impl JsonSchema for PullRequestExpect {
    fn schema_name() -> Cow<'static, str> {
        "PullRequestExpect".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let state = json_schema!({"enum": ["none", "open", "closed", "merged"]});
        let text = generator.subschema_for::<TextMatch>();
        let texts = generator.subschema_for::<Vec<TextMatch>>();
        json_schema!({
            "description": "A pull request: a state, or more about it.",
            "oneOf": [state, {
                "type": "object",
                "properties": {"state": state, "title": text, "body": texts},
                "required": ["state"],
                "additionalProperties": false,
            }],
        })
    }
}

impl<'de> Deserialize<'de> for FilesExpect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = FilesExpect;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`unchanged`, or a map of paths")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<FilesExpect, E> {
                match text {
                    "unchanged" => Ok(FilesExpect::Unchanged),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(text), &self)),
                }
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<FilesExpect, A::Error> {
                let files = BTreeMap::deserialize(MapAccessDeserializer::new(map))?;
                Ok(FilesExpect::ByPath(files))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl<'de> Deserialize<'de> for PullRequestExpect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Full {
            state: String,
            #[serde(default)]
            title: Option<TextMatch>,
            #[serde(default)]
            body: Vec<TextMatch>,
        }
        fn state<E: Error>(text: &str) -> Result<Option<PullState>, E> {
            match text {
                "none" => Ok(None),
                "open" => Ok(Some(PullState::Open)),
                "closed" => Ok(Some(PullState::Closed)),
                "merged" => Ok(Some(PullState::Merged)),
                _ => Err(E::unknown_variant(text, &["none", "open", "closed", "merged"])),
            }
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = PullRequestExpect;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`none`, `open`, `closed` or `merged`, or a map with `state`")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(PullRequestExpect { state: state(text)?, title: None, body: Vec::new() })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let full = Full::deserialize(MapAccessDeserializer::new(map))?;
                let state = state(&full.state)?;
                Ok(PullRequestExpect { state, title: full.title, body: full.body })
            }
        }
        deserializer.deserialize_any(Either)
    }
}
