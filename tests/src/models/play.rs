//! Which answer a request gets: a pure function of script and request, so that retries, resumed
//! runs and several conversations at once all find their place again.
//!
//! The step is the number of assistant messages in the request. The same request twice therefore
//! gets the same answer twice.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::{Map, Value};

use super::otherwise::is_aside;
use super::script::{Script, Step};

/// Where in the script a request is.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub role: &'a str,
    /// Tells conversations of a role apart.
    pub conversation: u64,
    /// Index of the step.
    pub index: usize,
    /// The steps to play from; `None` if no list fits this conversation.
    steps: Option<&'a [Step]>,
}

/// An answer with every `{{name}}` filled in.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub say: Option<String>,
    pub tools: Vec<Call>,
}

impl Answer {
    /// Text alone.
    pub fn say(text: &str) -> Self {
        Self { say: Some(text.to_owned()), tools: Vec::new() }
    }
}

/// One tool call of an answer.
#[derive(Debug, PartialEq)]
pub(super) struct Call {
    pub id: String,
    pub name: String,
    /// JSON, or what the script says instead.
    pub arguments: String,
}

/// The prefix of every model's name; the role's short name follows.
pub(super) const MODEL_PREFIX: &str = "scripted/";

/// Finds the place of a request, or `None` if its model is not in the script.
pub(super) fn locate<'a>(script: &'a Script, request: &Value) -> Option<Place<'a>> {
    let model = request["model"].as_str()?;
    let (role, script) = script.0.get_key_value(model.strip_prefix(MODEL_PREFIX)?)?;
    let messages = messages(request);
    let opening = messages.iter().find(|m| m["role"] == "user").map(text_of).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (role, &opening).hash(&mut hasher);
    let fits = |thread: &Option<super::Text>| thread.as_ref().is_none_or(|t| t.is_in(&opening));
    let conversation = script.conversations.iter().find(|c| fits(&c.thread));
    Some(Place {
        role,
        conversation: hasher.finish(),
        index: messages.iter().filter(|m| is_step(m)).count(),
        steps: conversation.map(|c| c.steps.as_slice()),
    })
}

/// The place of a request whose role has no script at all.
pub(super) fn nowhere(request: &Value) -> Option<Place<'_>> {
    let role = request["model"].as_str()?.strip_prefix(MODEL_PREFIX)?;
    Some(Place { role, conversation: 0, index: 0, steps: None })
}

/// Whether a message is a step of the script that was played.
fn is_step(message: &Value) -> bool {
    message["role"] == "assistant" && !is_aside(message)
}

impl<'a> Place<'a> {
    /// Whether there is a script for this conversation.
    pub fn is_known(&self) -> bool {
        self.steps.is_some()
    }

    /// The step to play, or `None` after the last one.
    ///
    /// # Errors
    /// When the role has no script for this conversation.
    pub fn step(&self) -> Result<Option<&'a Step>, String> {
        let steps = self.steps.ok_or("no script of this role fits this conversation")?;
        Ok(steps.get(self.index))
    }

    /// The step's answer to a request.
    ///
    /// # Errors
    /// When the request does not say what the step expects.
    pub fn answer(&self, step: &Step, request: &Value) -> Result<Answer, String> {
        let parts = by_turn(request);
        let latest = parts.last().map(String::as_str).unwrap_or_default();
        for expected in &step.expect {
            if !expected.is_in(latest) {
                let shown: String = latest.chars().take(600).collect();
                return Err(format!("expected {expected} in what came in, which is: {shown}"));
            }
        }
        let values = self.captured(&parts)?;
        let say = step.say.as_deref().map(|text| fill(text, &values));
        let tools = step.tools.iter().enumerate().map(|(n, call)| {
            let arguments = match &call.raw {
                Some(raw) => fill(raw, &values),
                None => fill_all(&Value::Object(call.arguments.clone()), &values).to_string(),
            };
            let id = format!("call_{:016x}_{}_{n}", self.conversation, self.index);
            Call { id, name: call.name.clone(), arguments }
        });
        Ok(Answer { say, tools: tools.collect() })
    }

    /// What the steps so far have captured, from the request alone.
    fn captured(&self, parts: &[String]) -> Result<BTreeMap<&'a str, String>, String> {
        let mut values = BTreeMap::new();
        for (step, part) in self.steps.unwrap_or_default().iter().zip(parts) {
            for (name, pattern) in &step.capture {
                let found = pattern.0.captures(part);
                let found = found.and_then(|c| c.get(1).or_else(|| c.get(0)));
                let missing = || format!("nothing to capture as `{name}` with /{}/", pattern.0);
                let found = found.ok_or_else(missing)?.as_str().to_owned();
                values.insert(name.as_str(), found);
            }
        }
        Ok(values)
    }
}

fn messages(request: &Value) -> &[Value] {
    request["messages"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A message's content as text.
pub(super) fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|p| p["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// What came in before each answer: one text per step so far, and one for the step to play.
fn by_turn(request: &Value) -> Vec<String> {
    let mut parts = vec![String::new()];
    for message in messages(request) {
        match message["role"].as_str() {
            Some("assistant") if is_step(message) => parts.push(String::new()),
            Some("user" | "tool") => {
                if let Some(part) = parts.last_mut() {
                    part.push_str(&text_of(message));
                    part.push('\n');
                }
            }
            _ => {}
        }
    }
    parts
}

fn fill(text: &str, values: &BTreeMap<&str, String>) -> String {
    values.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{{name}}}}}"), value)
    })
}

fn fill_all(value: &Value, values: &BTreeMap<&str, String>) -> Value {
    match value {
        Value::String(text) => fill(text, values).into(),
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
    use super::super::text::Pattern;
    use super::*;
    use serde_json::json;

    fn script() -> Script {
        let mut third = Step::say("pushed {{sha}}, not {{other}}");
        third.capture.insert("sha".to_owned(), Pattern("commit ([0-9a-f]+)".parse().unwrap()));
        let read = Step::tool("Read", json!({"path": "a"})).expecting("please");
        Script::of("coder", vec![read, Step::tool("GitCommit", json!({"message": "m"})), third])
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
            let place = locate(&script, &request).unwrap();
            assert_eq!(place.index, index);
            let answer = place.answer(place.step().unwrap().unwrap(), &request).unwrap();
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
        let place = locate(&script, &request).unwrap();
        let error = place.answer(place.step().unwrap().unwrap(), &request).unwrap_err();
        assert!(error.contains("`please`") && error.contains("do it"), "{error}");
    }
}
