//! What the models say: per role, the answers in order.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::mischief::{MischiefList, ModelMischief};
use super::text::{CheckedPattern, TextMatch};
use super::usage::{ScriptUsage, WrittenCost};

/// The scripts of all roles, by short name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ModelScript(pub BTreeMap<String, RoleScript>);

impl ModelScript {
    /// A script with one role in it, for tests.
    #[must_use]
    pub fn of(role: &str, steps: Vec<ScriptStep>) -> Self {
        Self::default().and(role, steps)
    }

    /// The same with another role's steps.
    #[must_use]
    pub fn and(mut self, role: &str, steps: Vec<ScriptStep>) -> Self {
        let conversations = vec![ScriptedConversation { thread: None, steps }];
        self.0.insert(role.to_owned(), RoleScript { conversations });
        self
    }
}

/// One role's answers: a list of steps, or `threads:` with one list for each kind of conversation.
#[derive(Clone, Debug, Default)]
pub struct RoleScript {
    /// Tried in order; one without a marker fits every conversation.
    pub conversations: Vec<ScriptedConversation>,
}

/// A role's answers in one conversation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScriptedConversation {
    /// What the first user message must say for this list to be played.
    #[serde(default)]
    pub thread: Option<TextMatch>,
    /// The answers, in order.
    pub steps: Vec<ScriptStep>,
}

impl<'de> Deserialize<'de> for RoleScript {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Threads {
            threads: Vec<ScriptedConversation>,
        }
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RoleScript;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of steps, or `threads:`")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<RoleScript, A::Error> {
                let steps = Vec::deserialize(SeqAccessDeserializer::new(seq))?;
                Ok(RoleScript { conversations: vec![ScriptedConversation { thread: None, steps }] })
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RoleScript, A::Error> {
                let threads = Threads::deserialize(MapAccessDeserializer::new(map))?.threads;
                Ok(RoleScript { conversations: threads })
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl JsonSchema for RoleScript {
    fn schema_name() -> Cow<'static, str> {
        "RoleScript".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let steps = generator.subschema_for::<Vec<ScriptStep>>();
        let threads = generator.subschema_for::<Vec<ScriptedConversation>>();
        json_schema!({
            "description": "One role's answers: a list of steps, or one list for each kind of conversation.",
            "oneOf": [steps, {
                "type": "object",
                "properties": {"threads": threads},
                "required": ["threads"],
                "additionalProperties": false,
            }],
        })
    }
}

/// One answer of a model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, try_from = "RawStep")]
pub struct ScriptStep {
    /// What the messages since the last answer must say. If they don't, the script has gone wrong:
    /// the call fails, and so does the scenario.
    pub expect: Vec<TextMatch>,
    /// Text of the answer.
    pub say: Option<String>,
    /// Tools it calls, several at once in parallel.
    pub tools: Vec<ToolCall>,
    /// Values taken from the messages since the last answer: the first group of each expression.
    /// `{{name}}` stands for it in this step and all later ones.
    pub capture: BTreeMap<String, CheckedPattern>,
    /// What the call is billed.
    pub usage: ScriptUsage,
    /// What goes wrong before the answer is given.
    #[schemars(with = "Option<RawFault>")]
    pub fault: Option<ScriptFault>,
    /// What else goes wrong before it.
    pub mischief: MischiefList,
    /// What it thinks, as it is shown and wanted back.
    pub reasoning: Option<String>,
    /// How long the model thinks, in milliseconds.
    pub delay_ms: u64,
}

/// One answer of a model.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Step", extend("anyOf" = [{"required": ["say"]}, {"required": ["tools"]}]))]
struct RawStep {
    /// What came in since the last answer has to say this.
    #[serde(default)]
    expect: Vec<TextMatch>,
    /// The answer's text.
    #[serde(default)]
    say: Option<String>,
    /// Tools that it calls, side by side.
    #[serde(default)]
    tools: Vec<ToolCall>,
    /// Takes the first group from what came in; `{{name}}` stands for it here and later.
    #[serde(default)]
    capture: BTreeMap<String, CheckedPattern>,
    /// What it is billed.
    #[serde(default)]
    usage: ScriptUsage,
    /// What goes wrong before the answer is given.
    #[serde(default)]
    #[schemars(with = "Option<RawFault>")]
    fault: Option<ScriptFault>,
    /// What the model or its provider does wrong before the answer is given.
    #[serde(default)]
    mischief: MischiefList,
    /// What the model thinks: comes with a signature, and is wanted back unchanged.
    #[serde(default)]
    reasoning: Option<String>,
    /// How long the model thinks, in milliseconds.
    #[serde(default)]
    delay_ms: u64,
}

/// A step or a fault is not as it has to be.
#[derive(Debug, thiserror::Error)]
enum ScriptFormError {
    #[error("a step needs `say`, `tools`, or both")]
    NoAnswer,
    #[error("capture `{0}`: use lower-case letters, `_` and `.`")]
    Capture(String),
    #[error("`status` must be 400 to 599")]
    Status,
    #[error("a fault is one of `status`, `hang`, `cut`, `bad_json`")]
    Fault,
}

impl TryFrom<RawStep> for ScriptStep {
    type Error = ScriptFormError;

    fn try_from(raw: RawStep) -> Result<Self, ScriptFormError> {
        let RawStep { expect, say, tools, capture, usage, fault, mischief, reasoning, delay_ms } =
            raw;
        if say.is_none() && tools.is_empty() {
            return Err(ScriptFormError::NoAnswer);
        }
        let valid = |n: &String| {
            !n.is_empty() && n.bytes().all(|b| b.is_ascii_lowercase() || b"_.".contains(&b))
        };
        if let Some(name) = capture.keys().find(|n| !valid(n)) {
            return Err(ScriptFormError::Capture(name.clone()));
        }
        Ok(Self { expect, say, tools, capture, usage, fault, mischief, reasoning, delay_ms })
    }
}

impl ScriptStep {
    /// An answer that is only text: it ends the role's run.
    #[must_use]
    pub fn say(text: &str) -> Self {
        Self { say: Some(text.to_owned()), ..Self::default() }
    }

    /// An answer that calls one tool.
    #[must_use]
    pub fn tool(name: &str, arguments: Value) -> Self {
        Self::default().and_tool(name, arguments)
    }

    /// The same with one more tool call.
    #[must_use]
    pub fn and_tool(mut self, name: &str, arguments: Value) -> Self {
        let arguments = match arguments {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        self.tools.push(ToolCall { name: name.to_owned(), arguments, raw: None });
        self
    }

    /// The same, expecting something.
    #[must_use]
    pub fn expecting(mut self, text: &str) -> Self {
        self.expect.push(text.into());
        self
    }

    /// The same with a price. A text that is no amount counts as nothing.
    #[must_use]
    pub fn costing(mut self, prompt: u64, completion: u64, cost: &str) -> Self {
        let cost = WrittenCost::try_from(cost.to_owned()).unwrap_or_default();
        self.usage = ScriptUsage { prompt, completion, cost, ..ScriptUsage::default() };
        self
    }

    /// The same, priced by its model's card.
    #[must_use]
    pub fn metered(mut self) -> Self {
        self.usage = ScriptUsage { metered: true, ..ScriptUsage::default() };
        self
    }

    /// The same with something that goes wrong before it, after what does already.
    #[must_use]
    pub fn after(mut self, mischief: impl Into<ModelMischief>) -> Self {
        self.mischief.0.push(mischief.into());
        self
    }

    /// The same with what it thinks.
    #[must_use]
    pub fn thinking(mut self, text: &str) -> Self {
        self.reasoning = Some(text.to_owned());
        self
    }

    /// The same with a fault before it.
    #[must_use]
    pub fn failing(mut self, kind: FaultKind, times: u32) -> Self {
        self.fault = Some(ScriptFault { kind, times });
        self
    }
}

/// One tool call of an answer.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCall {
    /// The tool. Nothing keeps it from being one that does not exist.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The arguments' text instead, for what is no JSON.
    #[serde(default)]
    pub raw: Option<String>,
}

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "RawFault")]
pub struct ScriptFault {
    /// What.
    pub kind: FaultKind,
    /// How many times, before the step is played after all.
    pub times: u32,
}

/// What can go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An HTTP error.
    Status {
        /// Its code.
        status: u16,
        /// Seconds for `Retry-After`.
        retry_after: Option<u64>,
    },
    /// No answer, for so many seconds; then the connection is closed.
    Hang {
        /// Seconds.
        seconds: u64,
    },
    /// The answer breaks off in the middle.
    Cut,
    /// The answer is no JSON.
    BadJson,
}

/// Something that goes wrong: one of `status`, `hang`, `cut`, `bad_json`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Fault", extend("oneOf" = [{"required": ["status"]}, {"required": ["hang"]}, {"required": ["cut"]}, {"required": ["bad_json"]}]))]
struct RawFault {
    /// An HTTP error, 400 to 599.
    #[serde(default)]
    #[schemars(range(min = 400, max = 599))]
    status: Option<u16>,
    /// Seconds for `Retry-After`.
    #[serde(default)]
    retry_after: Option<u64>,
    /// Seconds without an answer.
    #[serde(default)]
    hang: Option<u64>,
    /// The answer breaks off in the middle.
    #[serde(default)]
    cut: bool,
    /// The answer is no JSON.
    #[serde(default)]
    bad_json: bool,
    /// How many times, before the step is played after all; once if absent.
    #[serde(default)]
    times: Option<u32>,
}

impl TryFrom<RawFault> for ScriptFault {
    type Error = ScriptFormError;

    fn try_from(raw: RawFault) -> Result<Self, ScriptFormError> {
        let retry_after = raw.retry_after;
        let kinds = [
            raw.status.map(|status| FaultKind::Status { status, retry_after }),
            raw.hang.map(|seconds| FaultKind::Hang { seconds }),
            raw.cut.then_some(FaultKind::Cut),
            raw.bad_json.then_some(FaultKind::BadJson),
        ];
        let mut kinds = kinds.into_iter().flatten();
        match (kinds.next(), kinds.next()) {
            (Some(FaultKind::Status { status, .. }), _) if !(400..600).contains(&status) => {
                Err(ScriptFormError::Status)
            }
            (Some(kind), None) => Ok(Self { kind, times: raw.times.unwrap_or(1) }),
            _ => Err(ScriptFormError::Fault),
        }
    }
}
