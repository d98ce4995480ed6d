//! Prepares the request for the provider: the caller's own, with the few fields that are
//! CodeButler's checked or set, and everything else as it came.

use std::borrow::Cow;
use std::collections::BTreeMap;

use codebutler_crds::role::RoleModel;
use codebutler_gateway_core::redact::SecretRedactor;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Fields of an assistant's message that keep its model's thinking.
pub const THOUGHTS: [&str; 4] =
    ["reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"];
/// Fields of a call that keep the signature of the thoughts that led to it: Google's, and LiteLLM's.
pub const SIGNATURES: [&str; 2] = ["extra_content", "provider_specific_fields"];
/// Fields by which a request could reach another model or provider, or run up another bill, than the
/// one that the role is given.
const REFUSED: [&str; 15] = [
    "audio",
    "modalities",
    "prediction",
    "models",
    "preset",
    "plugins",
    "web_search_options",
    "provider",
    "route",
    "reasoning",
    "reasoning_effort",
    "session_id",
    "prompt_cache_key",
    "service_tier",
    "transforms",
];
/// Fields that hold what a model reads.
const TEXTS: [&str; 4] = ["messages", "prompt", "input", "tools"];
/// Fields of those that are no text: pictures, sounds, and what ties calls to answers.
const OPAQUE: [&str; 7] = ["url", "data", "id", "tool_call_id", "type", "role", "format"];
const MOST_ANSWERS: u64 = 8;

/// Reason why a request is not forwarded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    #[error("the request is not a JSON object")]
    NotJson,
    /// The model is not one of the role's.
    #[error("this role's models are {0}: ask for no other")]
    Model(String),
    /// `stream` is neither true nor false.
    #[error("`stream` has to be true or false")]
    Stream,
    /// `n` is not a small number.
    #[error("`n` has to be a number from 1 to {MOST_ANSWERS}")]
    Answers,
    #[error("`{0}` has to be a whole number of tokens")]
    Bound(&'static str),
    /// The provider's own tools have prices of their own.
    #[error("`tools` may hold functions and custom tools only")]
    Tools,
    /// A field of [`REFUSED`] is set.
    #[error("`{0}` is not allowed here: leave it out")]
    Field(&'static str),
}

/// A request that may be forwarded.
#[derive(Debug)]
pub struct ForwardableRequest {
    pub(super) fields: BTreeMap<String, Box<RawValue>>,
    /// The requested model.
    pub model: String,
    /// True if the answer is to be streamed.
    pub stream: bool,
    /// Longest answer in tokens, if it says.
    pub max_tokens: Option<u64>,
    pub answers: u64,
}

/// Refuses a model that the role may not ask for.
///
/// # Errors
/// Names those that it may.
pub fn check_model(asked: Option<&str>, models: &RoleModel) -> Result<String, RequestError> {
    let asked = asked.filter(|asked| models.allowed().any(|model| model == *asked));
    asked.map(str::to_owned).ok_or_else(|| {
        let mut names: Vec<String> = Vec::new();
        for model in models.allowed().map(|model| format!("`{model}`")) {
            if !names.contains(&model) {
                names.push(model);
            }
        }
        RequestError::Model(names.join(", "))
    })
}

impl ForwardableRequest {
    /// Reads and checks a body.
    ///
    /// # Errors
    /// A sentence for whoever wrote the request.
    pub fn read(body: &[u8], models: &RoleModel) -> Result<Self, RequestError> {
        // A repeated field counts once and as its last value, for us and (written anew) for the
        // provider.
        let mut fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_slice(body).map_err(|_| RequestError::NotJson)?;
        let asked = fields.get("model").and_then(|m| serde_json::from_str::<String>(m.get()).ok());
        let model = check_model(asked.as_deref(), models)?;
        let stream = match fields.remove("stream").as_ref().map(|stream| stream.get()) {
            None | Some("false" | "null") => false,
            Some("true") => true,
            Some(_) => return Err(RequestError::Stream),
        };
        // Ours to say. `usage` was OpenRouter's, is dead there, and strict APIs refuse it.
        for name in ["stream_options", "usage"] {
            fields.remove(name);
        }
        for name in REFUSED {
            if fields.get(name).is_some_and(|value| value.get() != "null") {
                return Err(RequestError::Field(name));
            }
        }
        let mut max_tokens: Option<u64> = None;
        for name in ["max_completion_tokens", "max_tokens"] {
            let Some(bound) =
                fields.get(name).map(|bound| whole_number(bound, name)).transpose()?
            else {
                continue;
            };
            max_tokens = max_tokens.max(bound);
            // The parsed bound is sent, so that what is sent is what was counted.
            match bound.and_then(|bound| to_raw_value(&bound).ok()) {
                Some(bound) => fields.insert(name.to_owned(), bound),
                None => fields.remove(name),
            };
        }
        if fields.get("tools").is_some_and(|tools| !are_functions(tools)) {
            return Err(RequestError::Tools);
        }
        let answers = match fields.get("n").map(|n| n.get()) {
            None | Some("null") => 1,
            Some(text) => text.parse().map_err(|_| RequestError::Answers)?,
        };
        if !(1..=MOST_ANSWERS).contains(&answers) {
            return Err(RequestError::Answers);
        }
        Ok(Self { fields, model, stream, max_tokens, answers })
    }

    /// Makes a request of CodeButler's own, which may name a tool of the provider's.
    ///
    /// # Errors
    /// When it is no JSON object.
    pub fn own(model: String, body: &Value) -> Result<Self, RequestError> {
        let fields = serde_json::from_str(&body.to_string()).map_err(|_| RequestError::NotJson)?;
        let max_tokens = body["max_tokens"].as_u64();
        Ok(Self { fields, model, stream: false, max_tokens, answers: 1 })
    }

    /// Masks what must not reach a model in every text of the request. Pictures stay as they are.
    pub fn mask(&mut self, redactor: &SecretRedactor) {
        for name in TEXTS {
            let Some(field) = self.fields.get_mut(name) else { continue };
            let Ok(mut value) = serde_json::from_str::<Value>(field.get()) else { continue };
            mask_request(&mut value, redactor);
            if let Ok(masked) = to_raw_value(&value) {
                *field = masked;
            }
        }
    }
}

/// A bound as JSON writes numbers: `100000`, `1e5` or `100000.0`.
fn whole_number(bound: &RawValue, name: &'static str) -> Result<Option<u64>, RequestError> {
    let wrong = || RequestError::Bound(name);
    match serde_json::from_str::<Value>(bound.get()).map_err(|_| wrong())? {
        Value::Null => Ok(None),
        Value::Number(number) => {
            let odd = || number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..1e9).contains(n));
            // Digits alone, for whoever reads them.
            let digits = || odd().and_then(|n| format!("{n:.0}").parse().ok());
            number.as_u64().or_else(digits).map(Some).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

fn are_functions(tools: &RawValue) -> bool {
    match serde_json::from_str::<Value>(tools.get()) {
        Ok(Value::Array(tools)) => tools.iter().all(is_own_tool),
        Ok(Value::Null) => true,
        _ => false,
    }
}

/// A tool that the caller carries out, not the provider.
fn is_own_tool(tool: &Value) -> bool {
    ["function", "custom"].iter().any(|kind| tool["type"] == *kind && tool[*kind].is_object())
}

fn mask_request(value: &mut Value, redactor: &SecretRedactor) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(masked) = redactor.mask(text) {
                *text = masked;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| mask_request(value, redactor)),
        Value::Object(fields) => {
            // A model knows its own thoughts by what they are signed with: changed, it refuses them.
            let speaks = fields.get("role").is_some_and(|role| role == "assistant");
            let calls = fields.contains_key("function");
            let is_kept = |name: &str| {
                OPAQUE.contains(&name)
                    || (speaks && THOUGHTS.contains(&name))
                    || (calls && SIGNATURES.contains(&name))
            };
            let texts = fields.iter_mut().filter(|(name, _)| !is_kept(name));
            texts.for_each(|(_, value)| mask_request(value, redactor));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::dialect::ApiDialect;
    use super::super::facts::KnownModelFacts;
    use super::super::params::SentParams;
    use super::super::prepare::RequestShape;
    use super::*;

    #[test]
    fn every_text_is_masked_and_nothing_else() {
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        let body = serde_json::json!({
            "model": "m/x", "seed": 1, "messages": [
                {"role": "user", "content": format!("use {key}")},
                {"role": "user", "content": [
                    {"type": "text", "text": key},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]},
                {"role": "assistant", "tool_calls": [
                    {"id": "c1", "function": {"name": "Bash", "arguments": format!("{{\"command\":\"echo {key}\"}}")}}]},
            ],
        });
        let mut request = read(&body.to_string()).unwrap();
        request.mask(&SecretRedactor::default());
        let sent = String::from_utf8(request.plain_body("m/x").unwrap()).unwrap();
        assert!(!sent.contains(&key), "{sent}");
        assert_eq!(sent.matches("[redacted:github-token]").count(), 3, "{sent}");
        assert!(sent.contains("data:image/png;base64,AAAA") && sent.contains("\"c1\""), "{sent}");
    }

    impl ForwardableRequest {
        /// The body as it was read, for `model`.
        fn plain_body(&self, model: &str) -> Result<Vec<u8>, RequestError> {
            let model = to_raw_value(model).map_err(|_| RequestError::NotJson)?;
            let others = self.fields.iter().map(|(name, value)| (name.as_str(), &**value));
            let mut fields: BTreeMap<&str, &RawValue> = others.collect();
            fields.insert("model", &model);
            serde_json::to_vec(&fields).map_err(|_| RequestError::NotJson)
        }
    }

    fn models() -> RoleModel {
        let model = serde_json::json!({"default": "m/x", "pool": ["m/z"]});
        serde_json::from_value(model).unwrap()
    }

    fn read(body: &str) -> Result<ForwardableRequest, RequestError> {
        ForwardableRequest::read(body.as_bytes(), &models())
    }

    fn prepared(body: &str) -> Result<String, RequestError> {
        let request = read(body)?;
        let bytes = request.plain_body(&request.model)?;
        Ok(String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn unknown_fields_and_figures_pass_untouched() {
        let body = r#"{"model":"m/x","temperature":0.10,"stream":false,"seed":12345678901234567890123,
            "messages":[{"role":"user","content":"h\u00e9"}],"usage":{"include":false}}"#;
        assert_eq!(
            prepared(body).unwrap(),
            r#"{"messages":[{"role":"user","content":"h\u00e9"}],"model":"m/x","seed":12345678901234567890123,"temperature":0.10}"#
        );
        let plain = read(r#"{"model":"m/x"}"#).unwrap().plain_body("m/z").unwrap();
        assert_eq!(plain, br#"{"model":"m/z"}"#);
    }

    #[test]
    fn another_model_is_refused_however_it_is_asked_for() {
        let model = || Err(RequestError::Model("`m/x`, `m/z`".into()));
        assert_eq!(prepared(r#"{"model":"m/y"}"#), model());
        assert_eq!(prepared(r#"{"model":["m/x"]}"#), model());
        assert_eq!(prepared("{}"), model());
        assert_eq!(prepared(r#"{"model":"m/x","model":"m/y"}"#), model());
        assert_eq!(prepared(r#"{"model":"m/y","model":"m/x"}"#).unwrap(), r#"{"model":"m/x"}"#);
        assert!(prepared(r#"{"model":"m/z"}"#).is_ok(), "one of the pool");
        let refused = prepared(r#"{"model":"m/x","models":["m/y"]}"#);
        assert_eq!(refused, Err(RequestError::Field("models")));
    }

    #[test]
    fn a_stream_always_ends_with_its_usage() {
        let facts = KnownModelFacts::default();
        let role = models();
        let sent = |dialect| {
            let body = r#"{"model":"m/x","stream":true,"stream_options":{"include_usage":false},"max_tokens":9}"#;
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
            String::from_utf8(read(body).unwrap().body("m/x", &shape).unwrap()).unwrap()
        };
        assert_eq!(
            sent(ApiDialect::Plain),
            r#"{"max_tokens":9,"model":"m/x","stream":true,"stream_options":{"include_usage":true}}"#
        );
        assert_eq!(
            sent(ApiDialect::OpenRouter),
            r#"{"max_tokens":9,"model":"m/x","session_id":"s","stream":true}"#,
            "it always tells"
        );
        assert_eq!(prepared(r#"{"model":"m/x","stream":1}"#), Err(RequestError::Stream));
    }

    #[test]
    fn what_is_the_roles_to_say_is_not_the_agents() {
        for name in REFUSED {
            let refused = prepared(&format!(r#"{{"model":"m/x","{name}":{{}}}}"#));
            assert_eq!(refused, Err(RequestError::Field(name)));
            assert!(prepared(&format!(r#"{{"model":"m/x","{name}":null}}"#)).is_ok());
        }
    }

    #[test]
    fn thoughts_are_not_masked_for_they_are_signed() {
        let key = ["ghp", &"a1B2".repeat(9)].join("_");
        let details =
            serde_json::json!([{"type": "reasoning.text", "text": key, "signature": "s"}]);
        let body = serde_json::json!({"model": "m/x", "messages": [
            {"role": "assistant", "content": key, "reasoning": key, "reasoning_details": details,
             "tool_calls": [{"id": "c", "type": "function", "function": {"name": "Bash", "arguments": key},
                "extra_content": {"google": {"thought_signature": key}}}]},
            {"role": "user", "content": "x", "reasoning": key},
        ]});
        let mut request = read(&body.to_string()).unwrap();
        request.mask(&SecretRedactor::default());
        let sent: Value = serde_json::from_slice(&request.plain_body("m/x").unwrap()).unwrap();
        let messages = &sent["messages"];
        assert_eq!(messages[0]["reasoning_details"], details);
        assert_eq!(messages[0]["reasoning"], *key);
        assert_ne!(messages[0]["content"], *key);
        let call = &messages[0]["tool_calls"][0];
        assert_eq!(call["extra_content"]["google"]["thought_signature"], *key);
        assert_ne!(call["function"]["arguments"], *key);
        assert_ne!(messages[1]["reasoning"], *key, "only a model has thoughts");
    }

    #[test]
    fn what_an_answer_may_cost_is_read_and_nonsense_refused() {
        let request = read(r#"{"model":"m/x","max_tokens":10,"max_completion_tokens":20,"n":2}"#);
        let request = request.unwrap();
        assert_eq!((request.max_tokens, request.answers), (Some(20), 2));
        for n in ["0", "9", "1.5", "\"1\"", "-1"] {
            let body = format!(r#"{{"model":"m/x","n":{n}}}"#);
            assert_eq!(prepared(&body), Err(RequestError::Answers), "{n}");
        }
        for (bound, tokens) in [("1e5", 100_000), ("100000.0", 100_000), ("7", 7)] {
            let body = format!(r#"{{"model":"m/x","max_tokens":{bound}}}"#);
            assert_eq!(read(&body).unwrap().max_tokens, Some(tokens), "{bound}");
            assert!(
                prepared(&body).unwrap().contains(&format!("\"max_tokens\":{tokens}")),
                "{bound}"
            );
        }
        for bound in ["-1", "1.5", "\"9\"", "1e99", "[]"] {
            let body = format!(r#"{{"model":"m/x","max_tokens":{bound}}}"#);
            assert_eq!(prepared(&body), Err(RequestError::Bound("max_tokens")), "{bound}");
        }
        assert_eq!(read(r#"{"model":"m/x","max_tokens":null}"#).unwrap().max_tokens, None);
        for kinds in [r#"["audio"]"#, r#"["\u0069mage"]"#] {
            let asked = prepared(&format!(r#"{{"model":"m/x","modalities":{kinds}}}"#));
            assert_eq!(asked, Err(RequestError::Field("modalities")), "images are asked about");
        }
        let tools = prepared(r#"{"model":"m/x","tools":[{"type":"openrouter:web_search"}]}"#);
        assert_eq!(tools, Err(RequestError::Tools));
        assert_eq!(prepared("[1]"), Err(RequestError::NotJson));
        assert_eq!(prepared("{"), Err(RequestError::NotJson));
    }
}
