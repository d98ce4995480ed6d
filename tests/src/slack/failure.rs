//! `ok: false`: the errors of the Web API, with the codes that Slack documents.

use serde_json::{Map, Value, json};

/// One refusal. Anything beside the code goes into the answer as it is.
#[derive(Debug)]
pub(super) struct MethodFailure {
    pub code: String,
    pub extra: Map<String, Value>,
}

impl MethodFailure {
    pub(super) fn new(code: impl Into<String>) -> Self {
        Self { code: code.into(), extra: Map::new() }
    }

    /// A code with sentences for developers, in `response_metadata.messages`.
    pub(super) fn explained(code: &str, messages: &[String]) -> Self {
        let mut failure = Self::new(code);
        let lines: Vec<String> = messages.iter().map(|m| format!("[ERROR] {m}")).collect();
        failure.extra.insert("response_metadata".to_owned(), json!({ "messages": lines }));
        failure
    }

    pub(super) fn missing_argument(name: &str) -> Self {
        Self::explained("invalid_arguments", &[format!("missing required field: {name}")])
    }

    pub(super) fn missing_scope(needed: &str, provided: &[String]) -> Self {
        let mut failure = Self::new("missing_scope");
        failure.extra.insert("needed".to_owned(), json!(needed));
        failure.extra.insert("provided".to_owned(), json!(provided.join(",")));
        failure
    }
}

/// Fails with a bare code, for `ok_or` and `?`.
pub(super) fn fail_with<T>(code: &str) -> Result<T, MethodFailure> {
    Err(MethodFailure::new(code))
}

pub(super) type MethodReply = Result<Map<String, Value>, MethodFailure>;

/// An `ok: true` answer from a `json!` object.
#[expect(clippy::unnecessary_wraps, reason = "every method ends with it")]
pub(super) fn answer_ok(value: Value) -> MethodReply {
    match value {
        Value::Object(fields) => Ok(fields),
        other => Ok(Map::from_iter([("value".to_owned(), other)])),
    }
}
