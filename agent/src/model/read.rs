//! The body of a chat completion, as providers really send it.

use serde_json::{Map, Value, json};

use super::{AssistantMessage, REASONING, SIGNATURES, SignedCall, ToolCall, WrittenCall, thought};
use codebutler_guides::text::clip_text;

/// A readable reply. Whether it is an answer is another question.
#[derive(Debug, Default, PartialEq)]
pub struct ModelReply {
    pub message: AssistantMessage,
    /// True if thoughts stood in its text, where they are none of it.
    pub has_thoughts: bool,
    /// True if its text is such a thought alone, without an end.
    pub is_unended: bool,
    /// The provider's figures, as they came.
    pub usage: Option<Value>,
    pub finish: FinishReason,
    /// The model's words of refusal, where it gives them in a field of their own.
    pub refusal: Option<String>,
    /// An error in the place of the answer's end.
    pub error: Option<String>,
    /// The provider's name for the model that answered.
    pub model: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FinishReason {
    /// The answer ended as it should, or nobody says how.
    #[default]
    Whole,
    /// The answer reached the token limit.
    Length,
    /// The provider held it back.
    Filtered,
    Error,
    /// The answer was a call that nobody could read.
    Malformed,
}

/// Reason why a reply can't be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnreadableReply {
    /// There is no answer in it: the way to the model, not the model, is to blame.
    #[error("{0}")]
    Lost(String),
    /// The model's answer has no form that can be worked with. The text is for the model.
    #[error("{0}")]
    Formless(String),
}

const MAX_WHY: usize = 400;
/// Mark between a call's id and the signature that LiteLLM puts behind it.
const SIGNED_ID: &str = "__thought__";

/// Reads the body of a chat completion.
pub fn parse_reply(body: &[u8]) -> Result<ModelReply, UnreadableReply> {
    let lost = |why: &str| UnreadableReply::Lost(clip_text(why, MAX_WHY));
    let body: Value =
        serde_json::from_slice(body).map_err(|e| lost(&format!("it is not JSON ({e})")))?;
    let choice = body.pointer("/choices/0").unwrap_or(&Value::Null);
    let error = said_by_provider(&choice["error"]).or_else(|| said_by_provider(&body["error"]));
    let nothing = Map::new();
    let message = match (choice["message"].as_object(), &error) {
        (Some(message), _) => message,
        (None, Some(_)) if choice.is_object() => &nothing,
        (None, error) => return Err(lost(error.as_deref().unwrap_or("it has no message"))),
    };
    let content = read_content(message.get("content"))?;
    let is_said = |name: &&str| message.get(*name).is_some_and(is_filled);
    let is_apart = REASONING.iter().any(is_said);
    let said = content.as_deref().map(|text| thought::split_thoughts(text, is_apart));
    let has_thoughts = said.is_some_and(|(_, has_thoughts)| has_thoughts);
    let is_unended = content.as_deref().is_some_and(thought::is_unended);
    let content = said.map(|(text, _)| text.to_owned()).filter(|text| !text.trim().is_empty());
    let tool_calls = match message.get("tool_calls") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(calls)) => {
            let calls = calls.iter().enumerate();
            calls.map(|(index, call)| tool_call(index, call)).collect::<Result<_, _>>()?
        }
        Some(_) => return Err(formless("`tool_calls` is not a list")),
    };
    let written = free_calls(message.get("tool_calls"));
    let signed = signed_calls(message.get("tool_calls"));
    let reasoning = REASONING
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), message.get(*name)?.clone())))
        .filter(|(_, value)| !value.is_null())
        .collect();
    let text = |value: &Value| value.as_str().map(|text| clip_text(text, MAX_WHY));
    Ok(ModelReply {
        message: AssistantMessage {
            content,
            tool_calls,
            reasoning,
            written,
            signed,
            ..AssistantMessage::default()
        },
        has_thoughts,
        is_unended,
        usage: body.get("usage").filter(|usage| !usage.is_null()).cloned(),
        finish: read_finish(choice),
        refusal: message.get("refusal").and_then(text).filter(|text| !text.trim().is_empty()),
        error,
        model: body["model"].as_str().map(|model| clip_text(model, 200)),
    })
}

/// True for a text or a list that has something in it.
fn is_filled(value: &Value) -> bool {
    match value {
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(parts) => !parts.is_empty(),
        _ => false,
    }
}

fn formless(why: &str) -> UnreadableReply {
    UnreadableReply::Formless(clip_text(why, MAX_WHY))
}

/// The words of an error, whatever its form.
fn said_by_provider(error: &Value) -> Option<String> {
    let text = match error {
        Value::Null => return None,
        Value::String(text) => text.clone(),
        error => error["message"].as_str().map_or_else(|| error.to_string(), ToOwned::to_owned),
    };
    Some(clip_text(&text, MAX_WHY))
}

/// The provider's word for the end, and the model's own where that is more exact. Google puts it behind its own:
/// `function_call_filter: MALFORMED_FUNCTION_CALL`.
fn read_finish(choice: &Value) -> FinishReason {
    let any = |words: &str| {
        let mut found = words.rsplit(':').map(|word| finish_of(word.trim()));
        found.find(|finish| *finish != FinishReason::Whole).unwrap_or_default()
    };
    let word = |name: &str| choice[name].as_str().map(any).unwrap_or_default();
    match word("finish_reason") {
        FinishReason::Whole => word("native_finish_reason"),
        other => other,
    }
}

fn finish_of(word: &str) -> FinishReason {
    match word.to_ascii_lowercase().as_str() {
        "length"
        | "max_tokens"
        | "max_output_tokens"
        | "model_length"
        | "model_context_window_exceeded" => FinishReason::Length,
        // OpenAI's and Anthropic's; Bedrock's; Zhipu's; and Google's.
        "content_filter"
        | "refusal"
        | "content_filtered"
        | "guardrail_intervened"
        | "sensitive"
        | "safety"
        | "recitation"
        | "language"
        | "prohibited_content"
        | "blocklist"
        | "spii"
        | "image_safety"
        | "image_recitation"
        | "image_prohibited_content" => FinishReason::Filtered,
        // OpenRouter's; DeepSeek's; Zhipu's; vLLM's and SGLang's.
        "error" | "insufficient_system_resource" | "network_error" | "abort" => FinishReason::Error,
        "malformed_function_call" | "malformed_response" | "unexpected_tool_call" => {
            FinishReason::Malformed
        }
        _ => FinishReason::Whole,
    }
}

/// Text, or the text parts of a list.
fn read_content(value: Option<&Value>) -> Result<Option<String>, UnreadableReply> {
    let text = match value {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            // Parts follow each other directly: a break between them may be within a word.
            parts.iter().filter_map(part_text).collect()
        }
        Some(_) => return Err(formless("`content` is neither text nor a list")),
    };
    Ok(Some(text).filter(|text| !text.trim().is_empty()))
}

/// The words of a part, if it holds words for others: not what the model thinks.
fn part_text(part: &Value) -> Option<&str> {
    let kind = part["type"].as_str().unwrap_or("text");
    let text = part.as_str().or_else(|| part["text"].as_str());
    text.filter(|_| matches!(kind, "text" | "output_text"))
}

/// Name and text of a call whose argument is free text.
fn free_text(call: &Value) -> Option<(&str, &str)> {
    let custom = call.get("custom").filter(|custom| custom.is_object())?;
    Some((custom["name"].as_str()?, custom["input"].as_str().unwrap_or_default()))
}

/// The calls whose argument is free text, which have to be sent back as such.
fn free_calls(calls: Option<&Value>) -> Vec<WrittenCall> {
    let calls = calls.and_then(Value::as_array).into_iter().flatten().enumerate();
    let free = calls.filter_map(|(place, call)| {
        let (name, input) = free_text(call)?;
        Some(WrittenCall { call: place, name: name.into(), arguments: input.into(), free: true })
    });
    free.collect()
}

/// The signatures of calls, by the places of these.
fn signed_calls(calls: Option<&Value>) -> Vec<SignedCall> {
    let calls = calls.and_then(Value::as_array).into_iter().flatten().enumerate();
    let signed = calls.map(|(call, given)| SignedCall { call, fields: signature_of(given) });
    signed.filter(|signed| !signed.fields.is_empty()).collect()
}

fn signature_of(call: &Value) -> Map<String, Value> {
    let is_said = |value: &&Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    let mut fields = Map::new();
    for name in SIGNATURES {
        let mut places = [call.get(name), call["function"].get(name)].into_iter().flatten();
        if let Some(value) = places.find(is_said) {
            fields.insert(name.to_owned(), value.clone());
        }
    }
    let in_id = call["id"].as_str().and_then(|id| id.split_once(SIGNED_ID));
    if let Some((_, signature)) = in_id.filter(|_| fields.is_empty()) {
        // The id itself is shortened to what every provider takes.
        fields.insert(SIGNATURES[1].to_owned(), json!({"thought_signature": signature}));
    }
    fields
}

/// A call without an id has an empty one.
fn tool_call(index: usize, call: &Value) -> Result<ToolCall, UnreadableReply> {
    let id = call.get("id").and_then(Value::as_str).unwrap_or_default();
    let id = id.split_once(SIGNED_ID).map_or(id, |(id, _)| id);
    if let Some((name, input)) = free_text(call) {
        return Ok(ToolCall {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: input.to_owned(),
        });
    }
    let name = call
        .pointer("/function/name")
        .and_then(Value::as_str)
        .ok_or_else(|| formless(&format!("tool call {index} has no function name")))?;
    let arguments = match call.pointer("/function/arguments") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.trim().to_owned(),
        Some(other) => other.to_string(),
    };
    Ok(ToolCall { id: id.to_owned(), name: name.to_owned(), arguments })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &Value) -> Result<AssistantMessage, UnreadableReply> {
        parse_reply(json!({"choices": [{"message": message}]}).to_string().as_bytes())
            .map(|r| r.message)
    }

    #[test]
    fn what_providers_really_send_is_read() {
        let text = read(&json!({"role": "assistant", "content": "hi", "refusal": null})).unwrap();
        assert_eq!(text.content.as_deref(), Some("hi"));
        let parts = read(&json!({"content": [{"type": "text", "text": "un"}, {"type": "x"},
            {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
            {"type": "reasoning", "text": "hm"}, {"text": "brok"}, "en"]}))
        .unwrap();
        assert_eq!(parts.content.as_deref(), Some("unbroken"));
        assert_eq!(read(&json!({"content": " \n"})).unwrap(), AssistantMessage::default());
        let calls = read(&json!({"content": null, "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "Read", "arguments": "{\"path\":\"x\"}"}},
            {"function": {"name": "Read", "arguments": {"path": "y"}}},
            {"id": "", "function": {"name": "GitPush", "arguments": ""}},
        ], "reasoning_details": [{"id": 1}], "reasoning": null}))
        .unwrap();
        let shown: Vec<_> = calls
            .tool_calls
            .iter()
            .map(|c| (c.id.as_str(), c.name.as_str(), c.arguments.as_str()))
            .collect();
        assert_eq!(
            shown,
            [
                ("a", "Read", r#"{"path":"x"}"#),
                ("", "Read", r#"{"path":"y"}"#),
                ("", "GitPush", "")
            ]
        );
        let sent = calls.to_chat(None);
        assert_eq!(sent["reasoning_details"], json!([{"id": 1}]));
        assert!(sent.get("reasoning").is_none());
    }

    #[test]
    fn thoughts_in_the_text_are_not_said() {
        let of = |content: &str| {
            let body = json!({"choices": [{"message": {"content": content}}]});
            let reply = parse_reply(body.to_string().as_bytes()).unwrap();
            (reply.message.content, reply.has_thoughts)
        };
        assert_eq!(of("<think>hm</think>\n\nDone."), (Some("Done.".to_owned()), true));
        assert_eq!(of("<think>hm</think>\n"), (None, true));
        assert_eq!(of(" Done."), (Some(" Done.".to_owned()), false));
    }

    #[test]
    fn the_end_of_a_thought_is_a_word_where_thoughts_have_a_field() {
        let text = "The template lacks this line:\n</think>\nAdd it.";
        for (reasoning, said) in [("They ask why.", text), ("", "Add it.")] {
            let answer = read(&json!({"content": text, "reasoning_content": reasoning})).unwrap();
            assert_eq!(answer.content.as_deref(), Some(said), "{reasoning:?}");
        }
    }

    #[test]
    fn the_signature_of_a_call_goes_back_with_it() {
        let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "Read", "arguments": "{}"}});
        let google = json!({"google": {"thought_signature": "c2ln"}});
        let (mut own, mut inner) = (call("a"), call("b"));
        own["extra_content"] = google.clone();
        inner["function"]["provider_specific_fields"] = json!({"thought_signature": "c2ln"});
        let signed_id = format!("call_1__thought__{}", "c2ln+/=".repeat(40));
        let calls = [own, inner, call(&signed_id), call("d")];
        let answer = read(&json!({"content": null, "tool_calls": calls})).unwrap();
        let sent = answer.to_chat(Some("m x"));
        let sent_calls = sent["tool_calls"].as_array().unwrap();
        assert_eq!(sent_calls[0]["extra_content"], google);
        assert_eq!(sent_calls[1]["provider_specific_fields"]["thought_signature"], "c2ln");
        assert_eq!(sent_calls[2]["id"], "call_1");
        let whole = sent_calls[2]["provider_specific_fields"]["thought_signature"].as_str();
        assert_eq!(whole, Some("c2ln+/=".repeat(40).as_str()));
        assert_eq!(sent_calls[3], call("d"));
        assert_eq!(sent[crate::model::THINKER], "m x", "another model can't read them");
        let kept = serde_json::to_string(&answer).unwrap();
        assert_eq!(serde_json::from_str::<AssistantMessage>(&kept).unwrap(), answer);
    }

    #[test]
    fn what_is_no_answer_says_why_and_whether_the_model_is_to_blame() {
        for (body, lost, why) in [
            ("<html>", true, "not JSON"),
            ("{}", true, "no message"),
            (r#"{"choices": []}"#, true, "no message"),
            (r#"{"error": {"message": "overloaded"}}"#, true, "overloaded"),
            (r#"{"error": "overloaded"}"#, true, "overloaded"),
            (r#"{"choices": [{"message": {"tool_calls": 1}}]}"#, false, "not a list"),
            (r#"{"choices": [{"message": {"content": 1}}]}"#, false, "neither"),
            (
                r#"{"choices": [{"message": {"tool_calls": [{"function": {}}]}}]}"#,
                false,
                "no function name",
            ),
        ] {
            let error = parse_reply(body.as_bytes()).unwrap_err();
            assert_eq!(matches!(error, UnreadableReply::Lost(_)), lost, "{body}: {error}");
            assert!(error.to_string().contains(why), "{body}: {error}");
        }
    }

    #[test]
    fn the_end_of_an_answer_is_told_in_many_words() {
        let ended =
            |choice: Value| parse_reply(json!({"choices": [choice]}).to_string().as_bytes());
        for (choice, finish) in [
            (json!({"finish_reason": "stop"}), FinishReason::Whole),
            (json!({"finish_reason": null}), FinishReason::Whole),
            (json!({"finish_reason": "length"}), FinishReason::Length),
            (
                json!({"finish_reason": "stop", "native_finish_reason": "MAX_TOKENS"}),
                FinishReason::Length,
            ),
            (
                json!({"finish_reason": "stop", "native_finish_reason": "refusal"}),
                FinishReason::Filtered,
            ),
            (json!({"finish_reason": "content_filter"}), FinishReason::Filtered),
            (json!({"finish_reason": "error"}), FinishReason::Error),
            (
                json!({"finish_reason": "stop", "native_finish_reason": "MALFORMED_FUNCTION_CALL"}),
                FinishReason::Malformed,
            ),
            (
                json!({"finish_reason": "function_call_filter: MALFORMED_FUNCTION_CALL"}),
                FinishReason::Malformed,
            ),
            (
                json!({"finish_reason": "content_filter: PROHIBITED_CONTENT"}),
                FinishReason::Filtered,
            ),
            (json!({"finish_reason": "sensitive"}), FinishReason::Filtered),
            (json!({"finish_reason": "guardrail_intervened"}), FinishReason::Filtered),
            (json!({"finish_reason": "insufficient_system_resource"}), FinishReason::Error),
            (json!({"finish_reason": "network_error"}), FinishReason::Error),
            (json!({"finish_reason": "abort"}), FinishReason::Error),
        ] {
            let mut whole = choice.clone();
            whole["message"] = json!({"content": "x"});
            assert_eq!(ended(whole).unwrap().finish, finish, "{choice}");
        }
        let broken = ended(json!({"error": {"code": 502, "message": "upstream"}})).unwrap();
        assert_eq!(broken.error.as_deref(), Some("upstream"));
    }
}
