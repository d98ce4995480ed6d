//! Chooses the answer to a request: found from script and request, so that retries, resumed runs and several
//! conversations at once all find their place again.
//!
//! The step is the number of assistant messages in the request that are steps ([`follow_conversation`]). The same
//! request twice therefore gets the same answer twice.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value};

use super::follow::{
    FollowMemory, FollowedConversation, call_id, conversation_by_id, follow_conversation,
};
use super::played::{FilledAnswer, PlayedCall, text_of};
use super::script::{ModelScript, ScriptStep};
use super::summary;

/// Position of a request in the script.
#[derive(Debug)]
pub(super) struct PlayPlace<'a> {
    pub role: &'a str,
    /// Id that tells conversations of a role apart.
    pub conversation: u64,
    /// Index of the step to play.
    pub index: usize,
    /// Index of the role's list that is played.
    pub list: usize,
    /// Opening text of the conversation.
    pub opening: String,
    /// Incoming text before each step.
    parts: Vec<String>,
    /// Values captured before this request.
    known: BTreeMap<String, String>,
    /// The steps to play from; `None` if no list fits this conversation.
    steps: Option<&'a [ScriptStep]>,
}

/// The prefix of every model's name; the role's short name follows.
pub(super) const MODEL_PREFIX: &str = "scripted/";
/// Start of the part of a request that changes from call to call.
const FACTS: &str = "\n\n[CodeButler] # As of now";

/// Finds the position of a request, or `None` if its role has no script.
pub(super) fn locate_request<'a>(
    script: &'a ModelScript,
    role: &str,
    request: &Value,
    memory: &FollowMemory,
) -> Option<PlayPlace<'a>> {
    let (role, script) = script.0.get_key_value(role)?;
    let messages = request_messages(request);
    let opening = messages.iter().find(|m| m["role"] == "user").map(text_of).unwrap_or_default();
    let opening = without_facts(opening);
    let told = summary::read_summary(&opening);
    let hashed = || {
        let mut hasher = DefaultHasher::new();
        (role, first_message(&opening)).hash(&mut hasher);
        let by_id = summary::is_own_word(&opening).then(|| conversation_by_id(messages)).flatten();
        by_id.unwrap_or_else(|| hasher.finish())
    };
    let conversation = told.map_or_else(hashed, |(conversation, _)| conversation);
    let fits =
        |thread: &Option<super::TextMatch>| thread.as_ref().is_none_or(|t| t.is_in(&opening));
    let list = script.conversations.iter().position(|c| fits(&c.thread));
    let list = memory.lists.get(&conversation).copied().or(list);
    let steps = list.and_then(|list| script.conversations.get(list)).map(|c| c.steps.as_slice());
    let base = told.map_or(0, |(_, steps)| steps);
    let FollowedConversation { index, parts } =
        follow_conversation(messages, conversation, base, steps.unwrap_or_default(), memory);
    Some(PlayPlace {
        role,
        conversation,
        index,
        list: list.unwrap_or_default(),
        opening,
        parts,
        known: memory.values.get(&conversation).cloned().unwrap_or_default(),
        steps,
    })
}

/// Cuts off the facts of the moment, which are joined to what people said: they name commits and pull requests of
/// other conversations.
fn without_facts(opening: String) -> String {
    match opening.split_once(FACTS) {
        Some((said, _)) => said.to_owned(),
        None => opening,
    }
}

/// The message that begins a conversation. What comes in before there is an answer is joined to it, and what the
/// harness says in front of it may be the same in several conversations.
fn first_message(opening: &str) -> &str {
    let mut paragraphs = opening.split("\n\n");
    let said = paragraphs.find(|paragraph| paragraph.starts_with("[message "));
    said.or_else(|| opening.split("\n\n").next()).unwrap_or_default()
}

/// Position of a request whose role has no script at all.
pub(super) fn place_nowhere(request: &Value) -> Option<PlayPlace<'_>> {
    let role = request["model"].as_str()?.strip_prefix(MODEL_PREFIX)?;
    Some(PlayPlace {
        role,
        conversation: 0,
        index: 0,
        list: 0,
        opening: String::new(),
        parts: Vec::new(),
        known: BTreeMap::new(),
        steps: None,
    })
}

/// A request is none that the script has an answer to.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlayError {
    #[error("no script of this role fits this conversation")]
    NoScript,
    #[error("expected {expected} in what came in, which is: {latest}")]
    Unexpected { expected: String, latest: String },
    #[error("nothing to capture as `{name}` with /{pattern}/")]
    NoCapture { name: String, pattern: String },
}

impl<'a> PlayPlace<'a> {
    /// True if the script has steps for this conversation.
    pub(super) fn is_known(&self) -> bool {
        self.steps.is_some()
    }

    /// Returns the step to play, or `None` after the last one.
    ///
    /// # Errors
    /// When the role has no script for this conversation.
    pub(super) fn step(&self) -> Result<Option<&'a ScriptStep>, PlayError> {
        let steps = self.steps.ok_or(PlayError::NoScript)?;
        Ok(steps.get(self.index))
    }

    /// Fills in the step's answer to the request.
    ///
    /// # Errors
    /// When the request does not say what the step expects.
    pub(super) fn answer(&self, step: &ScriptStep) -> Result<FilledAnswer, PlayError> {
        let latest = self.parts.last().map(String::as_str).unwrap_or_default();
        for expected in &step.expect {
            if !expected.is_in(latest) {
                let latest = latest.chars().take(600).collect();
                return Err(PlayError::Unexpected { expected: expected.to_string(), latest });
            }
        }
        let values = self.captured()?;
        let say = step.say.as_deref().map(|text| fill_values(text, &values));
        let tools = step.tools.iter().enumerate().map(|(n, call)| {
            let arguments = match &call.raw {
                Some(raw) => fill_values(raw, &values),
                None => fill_all(&Value::Object(call.arguments.clone()), &values).to_string(),
            };
            let id = call_id(self.conversation, self.index, n);
            PlayedCall { id, name: call.name.clone(), arguments }
        });
        let tools = tools.collect();
        let reasoning = step.reasoning.as_deref().map(|text| fill_values(text, &values));
        Ok(FilledAnswer { say, tools, reasoning, values })
    }

    /// Values captured by the steps so far: from the request, or, where it no longer holds them, from what was
    /// captured then.
    fn captured(&self) -> Result<BTreeMap<String, String>, PlayError> {
        let mut values = self.known.clone();
        for (step, part) in self.steps.unwrap_or_default().iter().zip(&self.parts) {
            for (name, pattern) in &step.capture {
                let found = pattern.0.captures(part);
                let found = found.and_then(|c| c.get(1).or_else(|| c.get(0)));
                match found {
                    Some(found) => {
                        values.insert(name.clone(), found.as_str().to_owned());
                    }
                    None if values.contains_key(name) => {}
                    None => {
                        let (name, pattern) = (name.clone(), pattern.0.to_string());
                        return Err(PlayError::NoCapture { name, pattern });
                    }
                }
            }
        }
        Ok(values)
    }
}

fn request_messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn fill_values(text: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{{name}}}}}"), value)
    })
}

fn fill_all(value: &Value, values: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => fill_values(text, values).into(),
        Value::Array(items) => items.iter().map(|v| fill_all(v, values)).collect(),
        Value::Object(map) => {
            let filled = map.iter().map(|(k, v)| (k.clone(), fill_all(v, values)));
            filled.collect::<Map<_, _>>().into()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::CheckedPattern;
    use super::*;
    use serde_json::json;

    fn script() -> ModelScript {
        let mut third = ScriptStep::say("pushed {{sha}}, not {{other}}");
        third
            .capture
            .insert("sha".to_owned(), CheckedPattern("commit ([0-9a-f]+)".parse().unwrap()));
        let read = ScriptStep::tool("Read", json!({"path": "a"})).expecting("please");
        ModelScript::of(
            "coder",
            vec![read, ScriptStep::tool("GitCommit", json!({"message": "m"})), third],
        )
    }

    fn request(messages: &Value) -> Value {
        json!({"model": "scripted/coder", "messages": messages})
    }

    #[test]
    fn the_place_is_counted_from_the_request_alone() {
        let script = script();
        let mut messages =
            json!([{"role": "system", "content": "s"}, {"role": "user", "content": "please"}]);
        for index in 0..3 {
            let request = request(&messages);
            let place =
                locate_request(&script, "coder", &request, &FollowMemory::default()).unwrap();
            assert_eq!(place.index, index);
            let answer = place.answer(place.step().unwrap().unwrap()).unwrap();
            if index == 2 {
                assert_eq!(answer.say.as_deref(), Some("pushed 0abc, not {{other}}"));
                break;
            }
            assert_eq!(answer.tools.len(), 1);
            let list = messages.as_array_mut().unwrap();
            list.push(json!({"role": "assistant", "content": null}));
            list.push(json!({"role": "tool", "content": "commit 0abc done"}));
        }
    }

    #[test]
    fn what_is_not_as_expected_is_said() {
        let script = script();
        let request = request(&json!([{"role": "user", "content": "do it"}]));
        let place = locate_request(&script, "coder", &request, &FollowMemory::default()).unwrap();
        let error = place.answer(place.step().unwrap().unwrap()).unwrap_err().to_string();
        assert!(error.contains("`please`") && error.contains("do it"), "{error}");
    }
}
