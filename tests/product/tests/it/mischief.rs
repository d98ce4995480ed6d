//! A model server that is as difficult as the real ones, as a client meets it.

use std::time::Duration;

use codebutler_testbed::models::{
    MischiefKind, ModelMischief, ModelOptions, ModelScript, ModelServer, RandomMischief, ScriptStep,
};
use serde_json::{Value, json};

/// A client that keeps a conversation, as agents do.
struct Chat {
    server: ModelServer,
    http: reqwest::Client,
    messages: Vec<Value>,
}

impl Chat {
    async fn start(steps: Vec<ScriptStep>) -> Self {
        Self::with(steps, ModelOptions::default()).await
    }

    async fn with(steps: Vec<ScriptStep>, options: ModelOptions) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let server = ModelServer::start(ModelScript::of("coder", steps), options).await.unwrap();
        let mut chat = Self { server, http: reqwest::Client::new(), messages: Vec::new() };
        chat.mail("please fix it");
        chat
    }

    fn mail(&mut self, text: &str) {
        let text = format!("[message 1.0 from user U1, to you]\n> {text}");
        self.messages.push(json!({"role": "user", "content": text}));
    }

    fn nudge(&mut self) {
        let text = "[CodeButler] That was no usable answer: go on.";
        self.messages.push(json!({"role": "user", "content": text}));
    }

    async fn send(&self, streamed: bool) -> reqwest::Response {
        let mut body = json!({"model": "scripted/coder", "messages": self.messages});
        if streamed {
            body["stream"] = true.into();
        }
        let url = format!("{}/chat/completions", self.server.url());
        let request = self.http.post(url).bearer_auth(self.server.api_key()).json(&body);
        request.timeout(Duration::from_secs(10)).send().await.unwrap()
    }

    async fn ask(&self) -> (u16, Value) {
        let response = self.send(false).await;
        (response.status().as_u16(), response.json().await.unwrap_or_default())
    }

    /// Asks the model, and returns the choice in its answer.
    async fn choice(&self) -> Value {
        let (status, body) = self.ask().await;
        assert_eq!(status, 200, "{body}");
        body["choices"][0].clone()
    }

    /// Keeps an answer, with ids that every provider takes, and answers its calls.
    fn keep(&mut self, choice: &Value) {
        let mut message = json!({"role": "assistant", "content": choice["message"]["content"]});
        let mut calls = choice["message"]["tool_calls"].clone();
        for (n, call) in calls.as_array_mut().into_iter().flatten().enumerate() {
            let id = call["id"].as_str().map(|id| id.replace(['.', ':'], "_"));
            let id = id.unwrap_or_else(|| format!("made_up_{n}"));
            let has_id = |message: &Value| message["tool_call_id"] == id.as_str();
            // Some providers refuse a conversation with the same id twice.
            let place = self.messages.len();
            let is_taken = self.messages.iter().any(has_id);
            call["id"] = json!(if is_taken { format!("{id}_{place}_{n}") } else { id });
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if serde_json::from_str::<Value>(arguments).is_err() {
                call["function"]["arguments"] = "{}".into();
            }
        }
        if calls.is_array() {
            message["tool_calls"] = calls.clone();
        } else if message["content"].as_str().is_none_or(str::is_empty) {
            message["content"] = "(nothing)".into();
        }
        self.messages.push(message);
        for call in calls.as_array().into_iter().flatten() {
            self.messages
                .push(json!({"role": "tool", "tool_call_id": call["id"], "content": "ok"}));
        }
    }
}

const ANSWERS: [MischiefKind; 16] = [
    MischiefKind::Empty,
    MischiefKind::ReasoningOnly,
    MischiefKind::Refusal,
    MischiefKind::ContentFilter,
    MischiefKind::Length,
    MischiefKind::FinishError,
    MischiefKind::ErrorIn200,
    MischiefKind::ChoiceError,
    MischiefKind::SilentStop,
    MischiefKind::StreamError,
    MischiefKind::CutInCall,
    MischiefKind::LeakedKimi,
    MischiefKind::LeakedQwen,
    MischiefKind::LeakedLlama,
    MischiefKind::LeakedPython,
    MischiefKind::Narration,
];

fn steps(kind: MischiefKind, times: u32) -> Vec<ScriptStep> {
    let spoilt = |step: ScriptStep| step.after(ModelMischief::from(kind).times(times));
    vec![
        spoilt(ScriptStep::tool("Read", json!({"path": "a.rs"}))),
        spoilt(ScriptStep::say(
            "I have read the whole of it, and it is fine.\n@codebutler.pm over.",
        )),
        ScriptStep::say("The end.").expecting("thank you"),
    ]
}

/// However a client deals with a bad answer, the script goes on where it was.
#[tokio::test]
async fn the_place_survives_bad_answers_that_are_kept_or_dropped() {
    for kind in ANSWERS {
        for kept in [false, true] {
            let mut chat = Chat::start(steps(kind, 2)).await;
            for step in 0..2 {
                for _ in 0..2 {
                    let response = chat.send(false).await;
                    assert_eq!(response.status(), 200, "{kind}");
                    let body: Value = response.json().await.unwrap_or_default();
                    let choice = body["choices"][0].clone();
                    if kept && choice.is_object() {
                        chat.keep(&choice);
                        chat.nudge();
                    }
                }
                let choice = chat.choice().await;
                #[allow(clippy::single_match_else)] // which step says what
                match step {
                    0 => assert_eq!(choice["finish_reason"], "tool_calls", "{kind}: {choice}"),
                    _ => {
                        let said = choice["message"]["content"].as_str().unwrap();
                        assert!(said.starts_with("I have read the whole"), "{kind}: {choice}");
                    }
                }
                chat.keep(&choice);
            }
            chat.mail("thank you");
            assert_eq!(chat.choice().await["message"]["content"], "The end.", "{kind} {kept}");
            let played: Vec<_> = chat.server.misplayed().iter().map(|m| (m.step, m.kind)).collect();
            assert_eq!(played, [(0, kind), (0, kind), (1, kind), (1, kind)]);
            assert!(chat.server.failures().is_empty(), "{:?}", chat.server.failures());
            assert_eq!(chat.server.billed().roles["coder"].repeats, 0, "{kind}");
        }
    }
}

#[tokio::test]
async fn a_right_answer_with_other_ids_is_the_step() {
    for (kind, id) in
        [(MischiefKind::OddIds, json!("functions.Read:0")), (MischiefKind::MissingIds, Value::Null)]
    {
        let mut chat = Chat::start(steps(kind, 1)).await;
        let choice = chat.choice().await;
        assert_eq!(choice["message"]["tool_calls"][0]["id"], id);
        chat.keep(&choice);
        let choice = chat.choice().await;
        assert!(choice["message"]["content"].as_str().unwrap().starts_with("I have read"));
    }
}

#[tokio::test]
async fn a_hand_over_that_was_understood_is_the_step_and_one_that_was_not_is_played_again() {
    for kind in [
        MischiefKind::MentionBold,
        MischiefKind::MentionListed,
        MischiefKind::MentionMidline,
        MischiefKind::MentionDoubled,
        MischiefKind::MentionMissing,
    ] {
        for understood in [true, false] {
            let mut chat = Chat::start(steps(kind, 1)).await;
            let choice = chat.choice().await;
            chat.keep(&choice);
            let choice = chat.choice().await;
            let said = choice["message"]["content"].as_str().unwrap();
            assert!(!said.ends_with("\n@codebutler.pm over."), "{kind}: {said}");
            chat.keep(&choice);
            if !understood {
                chat.nudge();
                let choice = chat.choice().await;
                let said = choice["message"]["content"].as_str().unwrap();
                assert!(said.ends_with("\n@codebutler.pm over."), "{kind}: {said}");
                chat.keep(&choice);
            }
            chat.mail("thank you");
            assert_eq!(chat.choice().await["message"]["content"], "The end.", "{kind}");
            assert_eq!(chat.server.billed().roles["coder"].repeats, 0, "{kind}");
        }
    }
}

#[tokio::test]
async fn bad_answers_look_as_the_providers_make_them() {
    for (kind, pointer, expected) in [
        (MischiefKind::Empty, "/choices/0/message/content", json!("")),
        (MischiefKind::Empty, "/choices/0/finish_reason", json!("stop")),
        (MischiefKind::ContentFilter, "/choices/0/finish_reason", json!("content_filter")),
        (MischiefKind::Length, "/choices/0/finish_reason", json!("length")),
        (
            MischiefKind::Length,
            "/choices/0/message/tool_calls/0/function/arguments",
            json!("{\"path\""),
        ),
        (MischiefKind::FinishError, "/choices/0/finish_reason", json!("error")),
        (MischiefKind::ChoiceError, "/choices/0/error/code", json!(502)),
        (MischiefKind::ErrorIn200, "/error/metadata/error_type", json!("provider_unavailable")),
        (
            MischiefKind::SilentStop,
            "/choices/0/native_finish_reason",
            json!("MALFORMED_FUNCTION_CALL"),
        ),
        (
            MischiefKind::LeakedKimi,
            "/choices/0/message/content",
            json!(
                "<|tool_calls_section_begin|><|tool_call_begin|>functions.Read:0\
                 <|tool_call_argument_begin|>{\"path\":\"a.rs\"}<|tool_call_end|><|tool_calls_section_end|>"
            ),
        ),
        (
            MischiefKind::LeakedLlama,
            "/choices/0/message/content",
            json!("<function=Read>{\"path\":\"a.rs\"}</function>"),
        ),
    ] {
        let chat = Chat::start(steps(kind, 1)).await;
        let (status, body) = chat.ask().await;
        assert_eq!((status, body.pointer(pointer)), (200, Some(&expected)), "{kind}: {body}");
    }
    let chat = Chat::start(steps(MischiefKind::StreamError, 1)).await;
    let text = chat.send(true).await.text().await.unwrap();
    assert!(text.contains(r#""finish_reason":"error""#) && !text.contains("[DONE]"), "{text}");
    let chat = Chat::start(steps(MischiefKind::CutInCall, 1)).await;
    assert!(chat.send(true).await.text().await.is_err());
}

#[tokio::test]
async fn refusals_have_the_providers_words_and_may_say_a_secret() {
    for (kind, status, words) in [
        (MischiefKind::OverflowOpenai, 400, "maximum context length is"),
        (MischiefKind::OverflowAnthropic, 400, "prompt is too long"),
        (MischiefKind::OverflowGoogle, 400, "exceeds the maximum number of tokens"),
        (MischiefKind::OverflowOpenrouter, 400, "context_length_exceeded"),
        (MischiefKind::OverflowVllm, 400, "available context size"),
        (MischiefKind::UnknownModel, 400, "scripted/coder is not a valid model ID"),
        (MischiefKind::NoCredit, 402, "Insufficient credits"),
        (MischiefKind::CreditForLess, 402, "can only afford 30104"),
        (MischiefKind::InFlight, 402, "openrouter_in_flight_budget"),
        (MischiefKind::Moderated, 403, "flagged"),
        (MischiefKind::Guardrail, 403, "guardrail"),
        (MischiefKind::KeyForbidden, 403, "API key"),
        (MischiefKind::NoToolEndpoints, 404, "support tool use"),
        (MischiefKind::DataPolicy, 404, "data policy"),
        (MischiefKind::TooLarge, 413, "Request exceeds"),
        (MischiefKind::RateLimited, 429, "rate_limit_exceeded"),
        (MischiefKind::Overloaded, 529, "Overloaded"),
        (MischiefKind::Unavailable, 503, "No instances"),
    ] {
        let mischief = ModelMischief::from(kind).saying("sk-or-v1-00").retry_after(7);
        let chat = Chat::start(vec![ScriptStep::say("finally").after(mischief)]).await;
        let response = chat.send(false).await;
        assert_eq!(response.status().as_u16(), status, "{kind}");
        assert_eq!(response.headers()["retry-after"], "7");
        let text = response.text().await.unwrap();
        assert!(text.contains(words) && text.contains("asked with sk-or-v1-00"), "{kind}: {text}");
        let body: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(body["error"]["code"], status);
        assert_eq!(chat.choice().await["message"]["content"], "finally");
    }
}

#[tokio::test]
async fn chance_spoils_answers_and_every_conversation_ends_all_the_same() {
    let steps = || {
        let mut steps: Vec<ScriptStep> =
            (0..20).map(|n| ScriptStep::tool("Read", json!({"path": n.to_string()}))).collect();
        steps.push(ScriptStep::say("All of them are read, every single one."));
        steps
    };
    let mischief = Some(RandomMischief::of_all_kinds(11, 0.4));
    let mut chat = Chat::with(steps(), ModelOptions { mischief, ..ModelOptions::default() }).await;
    for turn in 0.. {
        assert!(turn < 200, "no end: {:?}", chat.server.misplayed());
        let response = chat.send(turn % 2 == 0).await;
        let Ok(body) = response.json::<Value>().await else { continue };
        let choice = body["choices"][0].clone();
        if !choice.is_object() {
            continue;
        }
        let called = choice["message"]["tool_calls"].is_array();
        if choice["message"]["content"] == "All of them are read, every single one." {
            break;
        }
        chat.keep(&choice);
        if !called {
            chat.nudge();
        }
    }
    assert!(chat.server.misplayed().len() > 5);
    assert!(chat.server.failures().is_empty(), "{:?}", chat.server.failures());
    let steps = chat.server.served().iter().map(|s| s.step).max();
    assert_eq!(steps, Some(20));
}

#[tokio::test]
async fn a_conversation_that_was_summed_up_goes_on() {
    let first = ScriptStep {
        capture: [(
            "name".to_owned(),
            codebutler_testbed::models::CheckedPattern("fix (it)".parse().unwrap()),
        )]
        .into(),
        ..ScriptStep::tool("Read", json!({"path": "a"}))
    };
    let mut chat = Chat::start(vec![
        first,
        ScriptStep::tool("Read", json!({"path": "b"})),
        ScriptStep::say("done with {{name}}"),
    ])
    .await;
    for _ in 0..2 {
        let choice = chat.choice().await;
        chat.keep(&choice);
    }
    let ask = "[CodeButler] The conversation is too long. Write down what you need to go on.";
    chat.messages.push(json!({"role": "user", "content": ask}));
    let summary = chat.choice().await["message"]["content"].as_str().unwrap().to_owned();
    let text = format!("[CodeButler] What was said before:\n\n{summary}");
    chat.messages = vec![json!({"role": "user", "content": text})];
    assert_eq!(chat.choice().await["message"]["content"], "done with it");
    assert!(chat.server.failures().is_empty(), "{:?}", chat.server.failures());
}
