//! Spoils good answers.

use serde_json::{Value, json};

use super::super::played::{FilledAnswer, PlayedCall};
use super::super::reply::{PlayedReply, ReplyEnding};
use super::{MischiefKind, leak, mention};

/// Tool call for a fault that needs one, where the script calls nothing.
const CALL: (&str, &str) = ("Read", "{\"path\":\"README.md\"}");
const THOUGHT: &str = "Let me think about what is asked here. First I need to see what there is";
const APOLOGY: &str = "I'm sorry, but I can't help with that.";

/// Spoils an answer. For kinds that give no answer, returns what precedes the error.
pub(crate) fn spoil_answer(kind: MischiefKind, answer: &FilledAnswer) -> PlayedReply {
    use MischiefKind as K;
    let said = answer.say.as_deref().unwrap_or_default();
    let good = PlayedReply::from(answer);
    let silent = PlayedReply {
        content: None,
        calls: Vec::new(),
        finish: "stop",
        native: "stop",
        ..PlayedReply::from(answer)
    };
    let half = PlayedReply { content: Some(half_of(said)), ..silent.clone() };
    match kind {
        K::Empty => PlayedReply { content: Some(String::new()), ..silent },
        K::ReasoningOnly => PlayedReply {
            content: Some(String::new()),
            reasoning: Some(THOUGHT.to_owned()),
            ..silent
        },
        K::Refusal => {
            PlayedReply { refusal: Some(APOLOGY.to_owned()), native: "refusal", ..silent }
        }
        K::ContentFilter => PlayedReply { finish: "content_filter", native: "SAFETY", ..silent },
        K::Length => cut_length(answer),
        K::FinishError => PlayedReply { finish: "error", native: "error", ..half },
        K::ChoiceError | K::ErrorIn200 => {
            let error = json!({"code": 502, "message": "Upstream error from provider: the connection was reset",
                "metadata": {"provider_name": "Chutes", "error_type": "provider_unavailable"}});
            PlayedReply { finish: "error", native: "error", error: Some(error), ..half }
        }
        K::StreamError => {
            let error = json!({"code": "server_error", "message": "Provider disconnected unexpectedly",
                "metadata": {"provider_name": "Chutes", "error_type": "provider_unavailable"}});
            PlayedReply {
                finish: "error",
                native: "error",
                error: Some(error),
                ending: ReplyEnding::Error,
                ..half
            }
        }
        K::SilentStop => PlayedReply { native: "MALFORMED_FUNCTION_CALL", ..silent },
        K::CutInCall => PlayedReply { ending: ReplyEnding::Cut, ..good },
        K::LeakedKimi | K::LeakedQwen | K::LeakedLlama | K::LeakedPython => {
            let text = leak::as_text(kind, &calls_of(answer));
            let before = if answer.tools.is_empty() { String::new() } else { said.to_owned() };
            PlayedReply { content: Some(format!("{before}{text}")), ..silent }
        }
        K::OddIds => rename_calls(good, |n, name| Some(format!("functions.{name}:{n}"))),
        K::MissingIds => rename_calls(good, |_, _| None),
        K::Narration => {
            let next = answer.tools.first().map_or("look at the files", |call| call.name.as_str());
            let text = format!("Understood. I will now use {next} and report back when I am done.");
            PlayedReply { content: Some(text), ..silent }
        }
        K::MentionBold
        | K::MentionListed
        | K::MentionMidline
        | K::MentionDoubled
        | K::MentionMissing => PlayedReply {
            content: answer.say.as_deref().map(|say| mention::rewrite_mention(kind, say)),
            ..good
        },
        _ => good,
    }
}

fn half_of(text: &str) -> String {
    text.chars().take(text.chars().count() / 2).collect()
}

fn calls_of(answer: &FilledAnswer) -> Vec<PlayedCall> {
    if !answer.tools.is_empty() {
        return answer.tools.clone();
    }
    let (name, arguments) = CALL;
    vec![PlayedCall { id: String::new(), name: name.to_owned(), arguments: arguments.to_owned() }]
}

fn cut_length(answer: &FilledAnswer) -> PlayedReply {
    let mut reply =
        PlayedReply { finish: "length", native: "max_tokens", ..PlayedReply::from(answer) };
    reply.calls.truncate(1);
    match reply.calls.first_mut() {
        Some(call) => {
            call.arguments = half_of(&call.arguments);
            // The id is changed because the script recognizes its own steps by their ids.
            call.id = call.id.take().map(|id| id.replace("call_", "cut_"));
        }
        None => reply.content = reply.content.map(|text| half_of(&text)),
    }
    reply
}

fn rename_calls(mut reply: PlayedReply, id: impl Fn(usize, &str) -> Option<String>) -> PlayedReply {
    for (n, call) in reply.calls.iter_mut().enumerate() {
        call.id = id(n, &call.name);
    }
    reply
}

/// Error body in place of an answer, with status 200.
pub(crate) fn error_body(reply: &PlayedReply) -> Value {
    json!({"error": reply.error, "user_id": "user_testbed"})
}
