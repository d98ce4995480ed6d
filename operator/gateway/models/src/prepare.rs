//! Sets the parts of a request that are CodeButler's to say: the bound on its answer, how much is
//! thought, which providers may answer, and what only the model that a conversation was held with
//! can read. Pure.

use std::collections::BTreeMap;

use codebutler_crds::role::{ModelReasoning, ModelRouting, ReasoningEffort, RoleModel};
use codebutler_crds::wire::{CacheForm, EditForm};
use memchr::memmem;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::dialect::ApiDialect;
use super::facts::{KnownModelFacts, ThinkingFacts};
use super::foreign;
use super::params::{SentBlanks, SentEffort, SentParams, rank_effort};
use super::request::{ForwardableRequest, RequestError, SIGNATURES, THOUGHTS};
use super::tools;

/// Fewest tokens of thinking that providers take for a number.
const LEAST_THINKING: u32 = 1024;

/// Model, role and session that a request is made ready for.
pub struct RequestShape<'a> {
    /// Dialect of the model's API.
    pub dialect: ApiDialect,
    /// The id of the model that is asked, at its provider.
    pub id: &'a str,
    /// Known facts about the model.
    pub facts: &'a KnownModelFacts,
    pub role: &'a RoleModel,
    /// Session id, the same for all calls of a conversation: what a provider has cached of it stays
    /// of use.
    pub session: &'a str,
    /// Longest answer that there is credit for.
    pub affordable: Option<u32>,
    /// True if the answer is asked for as a stream although its caller wants the whole.
    pub collects: bool,
    /// The form in which the model takes the parameters that are set here.
    pub params: SentParams,
}

impl RequestShape<'_> {
    /// The field that bounds the answer.
    fn cap_field(&self) -> &'static str {
        match (self.dialect.cap_field(), self.params.has_other_cap) {
            (usual, false) => usual,
            ("max_tokens", true) => "max_completion_tokens",
            (_, true) => "max_tokens",
        }
    }

    /// True if the model takes tools whose argument is free text.
    fn takes_text(&self) -> bool {
        self.facts.edit_form(self.dialect, self.id) == EditForm::FreePatch
    }
}

impl ForwardableRequest {
    /// Returns the longest that each answer may be.
    pub fn cap(&self, shape: &RequestShape<'_>) -> u64 {
        let bounds = [shape.role.max_tokens, shape.facts.max_tokens].into_iter().flatten();
        let cap = match self.max_tokens {
            Some(asked) => bounds.map(u64::from).fold(asked, u64::min),
            None => shape.facts.cap(shape.role).into(),
        };
        shape.affordable.map_or(cap, |most| cap.min(most.into()))
    }

    /// The body to forward, for `model`, as the role calls it.
    ///
    /// # Errors
    /// Never, as far as is known.
    pub fn body(&self, model: &str, shape: &RequestShape<'_>) -> Result<Vec<u8>, RequestError> {
        let mut own = vec![("model", Value::from(shape.id))];
        if self.stream || shape.collects {
            own.push(("stream", true.into()));
            if shape.dialect.streams_usage_when_asked() {
                own.push(("stream_options", json!({"include_usage": true})));
            }
        }
        let cap = self.cap(shape);
        own.push((shape.cap_field(), cap.into()));
        match shape.dialect {
            ApiDialect::OpenRouter => {
                own.push(("session_id", shape.session.into()));
                own.extend(
                    shape
                        .role
                        .routing
                        .as_ref()
                        .and_then(provider_routing)
                        .map(|to| ("provider", to)),
                );
                let cap = u32::try_from(cap).unwrap_or(u32::MAX);
                own.extend(reasoning_field(shape, cap).map(|wanted| ("reasoning", wanted)));
            }
            ApiDialect::OpenAi | ApiDialect::Azure | ApiDialect::Anthropic | ApiDialect::Plain => {
                own.extend(effort_field(shape).map(|word| ("reasoning_effort", word)));
            }
        }
        let raw = |value: &Value| to_raw_value(value).map_err(|_| RequestError::NotJson);
        let own = own.iter().map(|(name, value)| Ok((*name, raw(value)?)));
        let own = own.collect::<Result<Vec<_>, RequestError>>()?;
        let messages = self.messages(model, shape);
        let tools = self.fields.get("tools");
        let tools = tools.and_then(|tools| tools::suit_tools(tools, shape.takes_text(), shape.id));
        let others = self.fields.iter().map(|(name, value)| (name.as_str(), &**value));
        let mut fields: BTreeMap<&str, &RawValue> = others.collect();
        fields.remove("max_tokens");
        fields.remove("max_completion_tokens");
        if let Some(messages) = &messages {
            fields.insert("messages", messages);
        }
        if let Some(tools) = &tools {
            fields.insert("tools", tools);
        }
        fields.extend(own.iter().map(|(name, value)| (*name, &**value)));
        serde_json::to_vec(&fields).map_err(|_| RequestError::NotJson)
    }

    /// The conversation without what only another model can read; nothing if it stays as it is.
    fn messages(&self, model: &str, shape: &RequestShape<'_>) -> Option<Box<RawValue>> {
        let field = self.fields.get("messages")?;
        let has = |name: &str| memmem::find(field.get().as_bytes(), name.as_bytes()).is_some();
        let is_thought = |name: &&str| has(&format!("\"{name}\""));
        let foreign = model != self.model && THOUGHTS.iter().chain(&SIGNATURES).any(is_thought);
        let unmarked = shape.facts.cache != CacheForm::Marked && has("\"cache_control\"");
        let unfree = has("\"custom\"") && !shape.takes_text();
        let blanks = shape.params.blanks;
        let lacking = model != self.model && blanks != SentBlanks::default();
        if !foreign && !unmarked && !unfree && !lacking {
            return None;
        }
        let mut messages: Vec<Value> = serde_json::from_str(field.get()).ok()?;
        for message in messages.iter_mut().filter_map(Value::as_object_mut) {
            let is_answer = message.get("role").is_some_and(|role| role == "assistant");
            if foreign && is_answer {
                foreign::forget_thoughts(message);
            }
            if lacking && is_answer {
                foreign::fill_blanks(message, blanks);
            }
            if unmarked {
                unmark_message(message);
            }
            if unfree {
                tools::suit_calls(message);
            }
        }
        to_raw_value(&messages).ok()
    }
}

/// Takes the marks from a message's parts.
fn unmark_message(message: &mut Map<String, Value>) {
    message.shift_remove("cache_control");
    let parts = message.get_mut("content").and_then(Value::as_array_mut);
    for part in parts.into_iter().flatten().filter_map(Value::as_object_mut) {
        part.shift_remove("cache_control");
    }
}

/// Builds OpenRouter's `provider` field.
pub fn provider_routing(wanted: &ModelRouting) -> Option<Value> {
    let ModelRouting {
        require_parameters,
        data_collection,
        zdr,
        order,
        only,
        ignore,
        allow_fallbacks,
    } = wanted;
    let list = |names: &[String]| (!names.is_empty()).then(|| json!(names));
    let fields = [
        ("require_parameters", require_parameters.map(Value::from)),
        ("data_collection", data_collection.map(|policy| json!(policy))),
        ("zdr", zdr.map(Value::from)),
        ("order", list(order)),
        ("only", list(only)),
        ("ignore", list(ignore)),
        ("allow_fallbacks", allow_fallbacks.map(Value::from)),
    ];
    let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let fields: Map<String, Value> = fields.collect();
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// OpenRouter's `reasoning`. A model that does not say that it thinks is not asked to.
fn reasoning_field(shape: &RequestShape<'_>, cap: u32) -> Option<Value> {
    let ModelReasoning { effort, max_tokens } = shape.role.reasoning?;
    let known = shape.facts.thinking.as_ref()?;
    // Something has to be left for the answer itself.
    let tokens = max_tokens.map(|tokens| tokens.min(cap / 5 * 4));
    let tokens = tokens.filter(|tokens| *tokens >= LEAST_THINKING);
    match tokens.filter(|_| known.takes_tokens != Some(false)) {
        Some(tokens) => Some(json!({"max_tokens": tokens})),
        None => Some(json!({"effort": nearest_effort(effort?, known)?})),
    }
}

/// OpenAI's `reasoning_effort`. Others are sent it only where they have asked for its one word.
fn effort_field(shape: &RequestShape<'_>) -> Option<Value> {
    match shape.params.effort {
        SentEffort::Wanted if shape.dialect == ApiDialect::OpenAi => {}
        SentEffort::Off => return Some(json!(ReasoningEffort::None)),
        SentEffort::Wanted | SentEffort::Unsaid => return None,
    }
    let effort = shape.role.reasoning?.effort?;
    nearest_effort(effort, shape.facts.thinking.as_ref()?).map(|word| json!(word))
}

/// The effort of those that the model knows that is nearest to what is wanted, the lower of two.
fn nearest_effort(wanted: ReasoningEffort, known: &ThinkingFacts) -> Option<ReasoningEffort> {
    if wanted == ReasoningEffort::None && known.is_mandatory {
        return None;
    }
    let away = |effort: &ReasoningEffort| {
        (rank_effort(*effort).abs_diff(rank_effort(wanted)), rank_effort(*effort))
    };
    known.efforts.iter().copied().min_by_key(away).or(Some(wanted))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value)] // so that what is expected reads well
mod tests {
    use super::*;

    fn role(extra: Value) -> RoleModel {
        let mut model = json!({"default": "m/x", "pool": ["m/z"]});
        model.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        serde_json::from_value(model).unwrap()
    }

    fn sent(
        dialect: ApiDialect,
        facts: &KnownModelFacts,
        wants: Value,
        body: &Value,
        model: &str,
    ) -> Value {
        let role = role(wants);
        let request = ForwardableRequest::read(body.to_string().as_bytes(), &role).unwrap();
        let shape = RequestShape {
            dialect,
            id: model,
            facts,
            role: &role,
            session: "s1",
            affordable: None,
            collects: false,
            params: SentParams::default(),
        };
        serde_json::from_slice(&request.body(model, &shape).unwrap()).unwrap()
    }

    fn thinker() -> KnownModelFacts {
        KnownModelFacts {
            max_tokens: Some(8_000),
            thinking: Some(ThinkingFacts {
                efforts: vec![ReasoningEffort::Low, ReasoningEffort::High],
                ..ThinkingFacts::default()
            }),
            ..KnownModelFacts::default()
        }
    }

    #[test]
    fn each_answer_has_an_end_in_the_words_of_the_api() {
        let ask = json!({"model": "m/x"});
        let none = || json!({});
        let facts = KnownModelFacts::default();
        assert_eq!(
            sent(ApiDialect::Plain, &facts, none(), &ask, "m/x"),
            json!({"model": "m/x", "max_tokens": 16_000})
        );
        for dialect in [ApiDialect::OpenAi, ApiDialect::Azure] {
            let own = json!({"model": "m/x", "max_tokens": 77});
            assert_eq!(
                sent(dialect, &facts, none(), &own, "m/x"),
                json!({"model": "m/x", "max_completion_tokens": 77})
            );
        }
        let much = json!({"model": "m/x", "max_tokens": 99_999});
        let capped = |wants: Value| sent(ApiDialect::Plain, &thinker(), wants, &much, "m/x");
        assert_eq!(capped(none())["max_tokens"], 8_000);
        assert_eq!(capped(json!({"maxTokens": 500}))["max_tokens"], 500);
    }

    #[test]
    fn what_only_openrouter_knows_goes_there_alone() {
        let wants = || {
            json!({"reasoning": {"effort": "medium"}, "routing": {
                "requireParameters": true, "dataCollection": "deny", "order": ["anthropic"]}})
        };
        let ask = json!({"model": "m/x", "stream": true});
        assert_eq!(
            sent(ApiDialect::OpenRouter, &thinker(), wants(), &ask, "m/x"),
            json!({
                "model": "m/x", "stream": true, "max_tokens": 8_000, "session_id": "s1",
                "reasoning": {"effort": "low"},
                "provider": {"require_parameters": true, "data_collection": "deny", "order": ["anthropic"]},
            })
        );
        let plain = sent(ApiDialect::Plain, &thinker(), wants(), &ask, "m/x");
        let names: Vec<&String> = plain.as_object().unwrap().keys().collect();
        assert_eq!(names, ["max_tokens", "model", "stream", "stream_options"]);
        let openai = sent(ApiDialect::OpenAi, &thinker(), wants(), &ask, "m/x");
        assert_eq!(openai["reasoning_effort"], "low");
        let mute = sent(ApiDialect::OpenRouter, &KnownModelFacts::default(), wants(), &ask, "m/x");
        assert!(mute.get("reasoning").is_none(), "it does not say that it thinks: {mute}");
    }

    #[test]
    fn what_a_model_has_refused_is_sent_otherwise() {
        let role = role(json!({"reasoning": {"effort": "low"}}));
        let request = ForwardableRequest::read(br#"{"model":"m/x"}"#, &role).unwrap();
        let facts = thinker();
        let sent = |dialect, has_other_cap, effort| {
            let params = SentParams { has_other_cap, effort, ..SentParams::default() };
            let (session, affordable, collects) = ("s", None, false);
            let shape = RequestShape {
                dialect,
                id: "m/x",
                facts: &facts,
                role: &role,
                session,
                affordable,
                collects,
                params,
            };
            let body: Value =
                serde_json::from_slice(&request.body("m/x", &shape).unwrap()).unwrap();
            let cap = ["max_tokens", "max_completion_tokens"].map(|name| body[name].is_u64());
            (cap, body["reasoning_effort"].as_str().map(str::to_owned))
        };
        let effort = |word: &str| Some(word.to_owned());
        let (old, new) = ([true, false], [false, true]);
        let (openai, plain) = (ApiDialect::OpenAi, ApiDialect::Plain);
        assert_eq!(sent(openai, false, SentEffort::Wanted), (new, effort("low")));
        assert_eq!(sent(openai, true, SentEffort::Unsaid), (old, None));
        assert_eq!(sent(openai, false, SentEffort::Off), (new, effort("none")));
        assert_eq!(sent(plain, false, SentEffort::Wanted), (old, None));
        assert_eq!(sent(plain, true, SentEffort::Off), (new, effort("none")));
    }

    #[test]
    fn thinking_leaves_room_for_the_answer() {
        let of = |wants: Value, thinking: ThinkingFacts| {
            let facts = KnownModelFacts { thinking: Some(thinking), ..thinker() };
            let body = sent(ApiDialect::OpenRouter, &facts, wants, &json!({"model": "m/x"}), "m/x");
            body.get("reasoning").cloned()
        };
        let any = ThinkingFacts::default;
        let tokens = |n: u32| json!({"reasoning": {"maxTokens": n, "effort": "high"}});
        assert_eq!(of(tokens(4_000), any()), Some(json!({"max_tokens": 4_000})));
        assert_eq!(of(tokens(60_000), any()), Some(json!({"max_tokens": 6_400})));
        let words = ThinkingFacts { takes_tokens: Some(false), ..any() };
        assert_eq!(of(tokens(4_000), words), Some(json!({"effort": "high"})));
        let none = || json!({"reasoning": {"effort": "none"}});
        assert_eq!(of(none(), any()), Some(json!({"effort": "none"})));
        assert_eq!(of(none(), ThinkingFacts { is_mandatory: true, ..any() }), None);
        assert_eq!(of(json!({"reasoning": {}}), any()), None);
    }

    #[test]
    fn a_model_that_stands_in_is_shown_no_thoughts_of_another() {
        let marked = || json!([{"type": "text", "text": "a \"cache_control\"", "cache_control": {"type": "ephemeral"}}]);
        let ask = json!({"model": "m/x", "messages": [
            {"role": "user", "content": marked()},
            {"role": "assistant", "content": "b", "reasoning": "t", "reasoning_content": "t",
             "reasoning_details": [{"type": "reasoning.text", "text": "t", "signature": "s"}]},
            {"role": "user", "content": "\"reasoning\":"},
        ]});
        let call =
            json!({"id": "c", "type": "function", "function": {"name": "Read", "arguments": "{}"}});
        let mut signed = call.clone();
        signed["extra_content"] = json!({"google": {"thought_signature": "s"}});
        let calling = json!({"model": "m/x", "messages": [
            {"role": "assistant", "content": "", "tool_calls": [signed]}]});
        let stand_in = |model| {
            let facts = KnownModelFacts::default();
            sent(ApiDialect::Plain, &facts, json!({}), &calling, model)["messages"][0]["tool_calls"]
                [0]
            .clone()
        };
        assert_eq!((stand_in("m/x"), stand_in("m/z")), (signed.clone(), call));
        let keeps = KnownModelFacts { cache: CacheForm::Marked, ..KnownModelFacts::default() };
        let messages = |facts: &KnownModelFacts, model: &str| {
            sent(ApiDialect::Plain, facts, json!({}), &ask, model)["messages"].clone()
        };
        assert_eq!(messages(&keeps, "m/x"), ask["messages"], "the one that it came from");
        let other = messages(&keeps, "m/z");
        assert_eq!(other[1], json!({"role": "assistant", "content": "b"}));
        assert_eq!((&other[0], &other[2]), (&ask["messages"][0], &ask["messages"][2]));
        let unmarked = messages(&KnownModelFacts::default(), "m/x");
        assert_eq!(
            unmarked[0]["content"],
            json!([{"type": "text", "text": "a \"cache_control\""}])
        );
        assert_eq!(unmarked[1], ask["messages"][1]);
    }

    /// Recorded conversations and schemas reach the provider byte for byte, whatever is done beside them.
    #[test]
    fn what_is_not_changed_keeps_its_order_in_every_dialect() {
        let call = r#"{"id":"c1","type":"function","function":{"name":"Edit","arguments":"{\"path\":\"a\",\"edits\":[{\"old\":\"x\",\"new\":\"y\"}]}"}}"#;
        let thought = r#"{"type":"reasoning.text","text":"t","signature":"s","index":0}"#;
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"},"edits":{"type":"array"},"all":{"type":"boolean"}},"required":["path","edits"]}"#;
        let tool = format!(
            r#"{{"type":"function","function":{{"name":"Edit","description":"d","parameters":{schema}}}}}"#
        );
        let marked = r#"{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}"#;
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        let messages = format!(
            r#"[{{"role":"user","content":[{marked}]}},{{"role":"assistant","content":"z","reasoning_details":[{thought}],"tool_calls":[{call}]}},{{"role":"tool","tool_call_id":"c1","content":"{key}"}}]"#
        );
        let body = format!(r#"{{"model":"m/x","messages":{messages},"tools":[{tool}]}}"#);
        let role = role(json!({}));
        for dialect in
            [ApiDialect::OpenRouter, ApiDialect::OpenAi, ApiDialect::Azure, ApiDialect::Plain]
        {
            let mut request = ForwardableRequest::read(body.as_bytes(), &role).unwrap();
            request.mask(&codebutler_gateway_core::redact::SecretRedactor::default());
            let facts = KnownModelFacts::default();
            let shape = RequestShape {
                dialect,
                id: "m/x",
                facts: &facts,
                role: &role,
                session: "s",
                affordable: None,
                collects: false,
                params: SentParams::default(),
            };
            let sent = String::from_utf8(request.body("m/x", &shape).unwrap()).unwrap();
            assert!(sent.contains(call) && sent.contains(&tool), "{dialect:?}: {sent}");
            assert!(sent.contains(thought) && sent.contains("[redacted:"), "{dialect:?}: {sent}");
            assert!(
                sent.contains(r#"{"type":"text","text":"hi"}"#),
                "its mark alone is gone: {sent}"
            );
        }
    }

    #[test]
    fn credit_bounds_an_answer_that_was_too_long_for_it() {
        let role = role(json!({}));
        let request = ForwardableRequest::read(br#"{"model":"m/x"}"#, &role).unwrap();
        let facts = KnownModelFacts::default();
        let shape = |affordable| RequestShape {
            dialect: ApiDialect::OpenRouter,
            id: "m/x",
            facts: &facts,
            role: &role,
            session: "s",
            affordable,
            collects: false,
            params: SentParams::default(),
        };
        assert_eq!(request.cap(&shape(Some(3_000))), 3_000);
        assert_eq!(request.cap(&shape(Some(30_000))), 16_000);
    }
}
