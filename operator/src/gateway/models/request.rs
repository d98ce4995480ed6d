//! What goes to the provider: the caller's request with the few fields that are CodeButler's own
//! checked or set, and everything else as it came.

use std::collections::BTreeMap;

use serde_json::value::{RawValue, to_raw_value};

/// Fields by which a request could reach another model, or run up another bill, than the one that
/// the role is given. (OpenRouter's names.)
const REFUSED: [&str; 4] = ["models", "preset", "plugins", "web_search_options"];

/// Why a request is not forwarded.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RequestError {
    /// No JSON object.
    #[error("the request is not a JSON object")]
    NotJson,
    /// Another model than the role's.
    #[error("this role's model is `{0}`: ask for no other")]
    Model(String),
    /// Streaming comes later.
    #[error("`stream` is not supported yet: leave it out")]
    Stream,
    /// See [`REFUSED`].
    #[error("`{0}` is not allowed here: leave it out")]
    Field(&'static str),
}

/// The body to forward.
///
/// # Errors
/// A sentence for whoever wrote the request.
pub fn prepare(body: &[u8], model: &str) -> Result<Vec<u8>, RequestError> {
    // A repeated field counts once and as its last value, for us and (written anew) for the provider.
    let mut fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_slice(body).map_err(|_| RequestError::NotJson)?;
    let asked = fields.get("model").and_then(|m| serde_json::from_str::<String>(m.get()).ok());
    if asked.as_deref() != Some(model) {
        return Err(RequestError::Model(model.to_owned()));
    }
    if let Some(stream) = fields.remove("stream")
        && !matches!(stream.get(), "false" | "null")
    {
        return Err(RequestError::Stream);
    }
    fields.remove("stream_options");
    for name in REFUSED {
        if fields.get(name).is_some_and(|value| value.get() != "null") {
            return Err(RequestError::Field(name));
        }
    }
    let usage = to_raw_value(&serde_json::json!({"include": true}));
    fields.insert("usage".to_owned(), usage.map_err(|_| RequestError::NotJson)?);
    serde_json::to_vec(&fields).map_err(|_| RequestError::NotJson)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(body: &str) -> Result<String, RequestError> {
        prepare(body.as_bytes(), "m/x").map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn unknown_fields_and_figures_pass_untouched() {
        let body = r#"{"model":"m/x","temperature":0.10,"stream":false,"seed":12345678901234567890123,
            "messages":[{"role":"user","content":"h\u00e9"}],"usage":{"include":false}}"#;
        assert_eq!(
            prepared(body).unwrap(),
            r#"{"messages":[{"role":"user","content":"h\u00e9"}],"model":"m/x","seed":12345678901234567890123,"temperature":0.10,"usage":{"include":true}}"#
        );
    }

    #[test]
    fn another_model_is_refused_however_it_is_asked_for() {
        let model = || Err(RequestError::Model("m/x".into()));
        assert_eq!(prepared(r#"{"model":"m/y"}"#), model());
        assert_eq!(prepared(r#"{"model":["m/x"]}"#), model());
        assert_eq!(prepared("{}"), model());
        assert_eq!(prepared(r#"{"model":"m/x","model":"m/y"}"#), model());
        assert_eq!(
            prepared(r#"{"model":"m/y","model":"m/x"}"#).unwrap(),
            r#"{"model":"m/x","usage":{"include":true}}"#
        );
        let refused = prepared(r#"{"model":"m/x","models":["m/y"]}"#);
        assert_eq!(refused, Err(RequestError::Field("models")));
    }

    #[test]
    fn streams_and_nonsense_are_refused() {
        assert_eq!(prepared(r#"{"model":"m/x","stream":true}"#), Err(RequestError::Stream));
        assert_eq!(prepared(r#"{"model":"m/x","stream":1}"#), Err(RequestError::Stream));
        assert_eq!(prepared("[1]"), Err(RequestError::NotJson));
        assert_eq!(prepared("{"), Err(RequestError::NotJson));
    }
}
