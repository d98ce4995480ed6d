//! Requests of a server for a model's answer (sampling): read leniently, bounded, and answered in the protocol's
//! form.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::events::cut_text;

/// Most messages of one request.
const MESSAGES: usize = 64;
/// Most bytes of a request's text.
const TEXT_BYTES: usize = 256 << 10;
/// Sequences that end an answer.
const STOPS: usize = 4;

/// Author of a message of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingSpeaker {
    /// The server, in the place of a person.
    User,
    /// A model, in an earlier answer.
    Assistant,
}

/// A server's request for a model's answer. All of it is untrusted.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingRequest {
    /// System prompt for the model.
    pub system: Option<String>,
    /// Messages of the conversation so far, with their authors.
    pub messages: Vec<(SamplingSpeaker, String)>,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
    /// Temperature that the server asks for.
    pub temperature: Option<f64>,
    /// Texts that end the answer.
    pub stop: Vec<String>,
}

/// Answer of a model to the server's request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledAnswer {
    pub text: String,
    /// Name of the model that answered.
    pub model: String,
    /// True if the answer was cut at its longest length.
    pub is_cut: bool,
}

/// A sentence for the server on why its request is not answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SamplingRefusal(pub String);

/// Answers requests of a server with a model, or says in a sentence why not.
#[async_trait]
pub trait SamplingHandler: Send + Sync {
    /// Asks the model. The future is dropped when the server takes the request back.
    async fn sample(&self, request: SamplingRequest) -> Result<SampledAnswer, SamplingRefusal>;
}

/// Reads a request, or says what of it can't be answered.
pub(super) fn read_sampling(params: &Value) -> Result<SamplingRequest, SamplingRefusal> {
    if params.get("tools").and_then(Value::as_array).is_some_and(|tools| !tools.is_empty()) {
        return Err(refuse("a model is not given tools here: leave `tools` out"));
    }
    let listed = params.get("messages").and_then(Value::as_array);
    let listed = listed
        .filter(|listed| !listed.is_empty())
        .ok_or_else(|| refuse("`messages` has to be a list"))?;
    if listed.len() > MESSAGES {
        return Err(refuse(&format!("more than {MESSAGES} messages")));
    }
    let mut messages: Vec<_> = listed.iter().map(read_message).collect::<Result<_, _>>()?;
    // Some providers refuse a whole conversation over a message that says nothing.
    messages.retain(|(_, text)| !text.trim().is_empty());
    if messages.is_empty() {
        return Err(refuse("none of the `messages` has a text"));
    }
    let system = params.get("systemPrompt").and_then(Value::as_str);
    let system = system.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let bytes = messages.iter().map(|(_, text)| text.len()).sum::<usize>();
    if bytes + system.as_ref().map_or(0, String::len) > TEXT_BYTES {
        return Err(refuse(&format!("more than {} KiB of text", TEXT_BYTES >> 10)));
    }
    let max_tokens = params.get("maxTokens").and_then(Value::as_f64).filter(|most| *most >= 1.0);
    // The protocol wants the field, and some servers leave it out.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded before")]
    let max_tokens = max_tokens.map_or(u32::MAX, |most| most.min(f64::from(u32::MAX)) as u32);
    let temperature = params.get("temperature").and_then(Value::as_f64);
    let stops = params.get("stopSequences").and_then(Value::as_array);
    let stops = stops.into_iter().flatten().filter_map(Value::as_str).take(STOPS);
    Ok(SamplingRequest {
        system,
        messages,
        max_tokens,
        temperature: temperature.filter(|wanted| (0.0..=2.0).contains(wanted)),
        stop: stops.map(cut_text).collect(),
    })
}

fn refuse(why: &str) -> SamplingRefusal {
    SamplingRefusal(why.to_owned())
}

fn read_message(message: &Value) -> Result<(SamplingSpeaker, String), SamplingRefusal> {
    let speaker = match message.get("role").and_then(Value::as_str) {
        Some("user") => SamplingSpeaker::User,
        Some("assistant") => SamplingSpeaker::Assistant,
        _ => return Err(refuse("a message's `role` is `user` or `assistant`")),
    };
    // One block in the older versions of the protocol, a list in the newer ones.
    let blocks = match message.get("content") {
        Some(Value::Array(blocks)) => blocks.iter().collect(),
        Some(block @ Value::Object(_)) => vec![block],
        Some(Value::String(text)) => return Ok((speaker, text.clone())),
        _ => return Err(refuse("a message without `content`")),
    };
    let text = |block: &&Value| match block.get("type").and_then(Value::as_str) {
        Some("text") => {
            Ok(block.get("text").and_then(Value::as_str).unwrap_or_default().to_owned())
        }
        kind => {
            let kind = cut_text(kind.unwrap_or_default());
            Err(refuse(&format!("only text is given to a model here, not `{kind}`")))
        }
    };
    let texts: Vec<String> = blocks.iter().map(text).collect::<Result<_, _>>()?;
    Ok((speaker, texts.join("\n")))
}

pub(super) fn write_answer(answer: &SampledAnswer) -> Value {
    json!({
        "role": "assistant",
        "content": {"type": "text", "text": answer.text},
        "model": answer.model,
        "stopReason": if answer.is_cut { "maxTokens" } else { "endTurn" },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_say_nothing_are_left_out() {
        let said = |text: &str| json!({"role": "user", "content": {"type": "text", "text": text}});
        let read = |texts: &[&str]| {
            let messages: Vec<Value> = texts.iter().map(|text| said(text)).collect();
            read_sampling(&json!({"messages": messages, "systemPrompt": " "}))
        };
        let request = read(&["", "one", " \n"]).unwrap();
        assert_eq!(request.messages, [(SamplingSpeaker::User, "one".to_owned())]);
        assert_eq!(request.system, None);
        assert!(read(&["", " "]).unwrap_err().0.contains("has a text"));
    }

    #[test]
    fn both_forms_of_content_are_read_and_what_is_no_text_is_refused() {
        let read = read_sampling(&json!({
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "one"}},
                {"role": "assistant", "content": [{"type": "text", "text": "two"}, {"type": "text", "text": "three"}]},
            ],
            "systemPrompt": "be short", "maxTokens": 100.0, "temperature": 7, "stopSequences": ["END", 1],
            "modelPreferences": {"hints": [{"name": "gpt"}]}, "includeContext": "allServers",
        }))
        .unwrap();
        let expected = SamplingRequest {
            system: Some("be short".into()),
            messages: vec![
                (SamplingSpeaker::User, "one".into()),
                (SamplingSpeaker::Assistant, "two\nthree".into()),
            ],
            max_tokens: 100,
            temperature: None,
            stop: vec!["END".into()],
        };
        assert_eq!(read, expected);
        let user = |content: Value| {
            read_sampling(&json!({"messages": [{"role": "user", "content": content}]}))
        };
        assert_eq!(user(json!("plain")).unwrap().max_tokens, u32::MAX);
        let refused =
            user(json!({"type": "image", "data": "", "mimeType": "image/png"})).unwrap_err();
        assert!(refused.0.contains("`image`"), "{refused}");
        assert!(user(json!(1)).is_err());
        assert!(read_sampling(&json!({"messages": "strange", "maxTokens": -1})).is_err());
        assert!(read_sampling(&json!({"messages": []})).is_err());
        assert!(user(json!("x".repeat(TEXT_BYTES + 1))).unwrap_err().0.contains("256 KiB"));
        let tools =
            json!({"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "Bash"}]});
        assert!(read_sampling(&tools).unwrap_err().0.contains("tools"));
    }
}
