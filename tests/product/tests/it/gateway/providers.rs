//! Providers as they word their lists, refusals and bills.

mod on_repo;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use codebutler_crds::{AgentRole, NanoUsd};
use codebutler_testbed::models::ModelScript;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "k3y-of-no-known-form";
const LIST: &str = include_str!("../../../../corpus/openrouter-models.json");

/// Answers with what was put down for it, in order, and then as a model would.
pub(super) struct Provider {
    url: String,
    state: Arc<Play>,
    _serving: AbortOnDropHandle<()>,
}

#[derive(Default)]
struct Play {
    answers: Mutex<VecDeque<(u16, Option<u32>, String)>>,
    asked: Mutex<Vec<Value>>,
}

impl Provider {
    pub(super) async fn start() -> Self {
        let state = Arc::<Play>::default();
        let app = axum::Router::new()
            .route("/v1/models", get(|| async { LIST }))
            .route("/v1/chat/completions", post(chat))
            .with_state(Arc::clone(&state));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, state, _serving: AbortOnDropHandle::new(serving) }
    }

    pub(super) fn next(&self, status: u16, retry_after: Option<u32>, body: &Value) {
        let answer = (status, retry_after, body.to_string());
        self.state.answers.lock().unwrap().push_back(answer);
    }

    pub(super) fn asked(&self) -> Vec<Value> {
        self.state.asked.lock().unwrap().clone()
    }

    /// A world whose coder asks here.
    async fn world(&self, model: &Value) -> World {
        self.world_with(model, &json!({})).await
    }

    /// The same, with these fields in the Repo's `spec`.
    pub(super) async fn world_with(&self, model: &Value, fields: &Value) -> World {
        let mut spec = json!({"model": {"baseURL": self.url, "api": "OpenRouter"}});
        json_patch::merge(&mut spec, fields);
        let world = World::play(ModelScript::of("coder", vec![]), &spec, model).await;
        world.cluster.secret("model", &self.url, &json!({"apiKey": KEY})).await;
        world
    }
}

async fn chat(State(play): State<Arc<Play>>, body: Bytes) -> Response {
    play.asked.lock().unwrap().push(serde_json::from_slice(&body).unwrap());
    let fine = || (200, None, said(&json!({"prompt_tokens": 10, "cost": 0.001})).to_string());
    let (status, after, body) = play.answers.lock().unwrap().pop_front().unwrap_or_else(fine);
    let mut headers = HeaderMap::new();
    if let Some(seconds) = after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    (StatusCode::from_u16(status).unwrap(), headers, body).into_response()
}

fn said(usage: &Value) -> Value {
    let message = json!({"role": "assistant", "content": "one"});
    json!({"id": "gen-1", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage})
}

fn ask(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "x"}]})
}

const CLAUDE: &str = "anthropic/claude-opus-5";

fn claude() -> Value {
    json!({"default": CLAUDE})
}

#[tokio::test]
async fn answers_are_bounded_and_routed_as_the_role_says() {
    let provider = Provider::start().await;
    let role = json!({
        "default": CLAUDE, "pool": ["google/gemini-3.6-flash"], "image": "some/brush",
        "maxTokens": 9000, "reasoning": {"maxTokens": 4000},
        "routing": {"requireParameters": true, "dataCollection": "deny"},
    });
    let world = provider.world(&role).await;
    let (status, session) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{session}");
    assert_eq!(
        session["facts"][CLAUDE],
        json!({"contextTokens": 1_000_000, "maxTokens": 128_000, "sees": true, "hears": false, "tools": true, "cache": "marked",
            "edits": "claudeNames"})
    );
    assert_eq!(session["facts"]["google/gemini-3.6-flash"]["cache"], "automatic");
    assert_eq!(
        session["models"],
        json!([CLAUDE, "google/gemini-3.6-flash"]),
        "none that only draws"
    );
    for _ in 0..2 {
        assert_eq!(world.post("coder", CHAT, &ask(CLAUDE)).await.0, 200);
    }
    let asked = provider.asked();
    let session = asked[0]["session_id"].as_str().unwrap();
    assert!(session.len() == 64 && !session.contains("shop"), "{session}");
    assert_eq!(
        asked[0],
        json!({
            "model": CLAUDE, "messages": [{"role": "user", "content": "x"}], "max_tokens": 9000,
            "reasoning": {"max_tokens": 4000}, "session_id": session,
            "provider": {"require_parameters": true, "data_collection": "deny"},
        })
    );
    assert_eq!(asked[0], asked[1], "what a provider has kept stays of use");
}

#[tokio::test]
async fn a_refusal_has_a_code_a_remedy_and_the_providers_words() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let error = |message: &str| json!({"error": {"code": 400, "message": message}});
    for (status, body, code, named) in [
        (
            400,
            error("prompt is too long: 213462 tokens > 200000 maximum"),
            "context_overflow",
            "213462",
        ),
        (
            403,
            json!({"error": {"message": "flagged", "metadata": {"reasons": ["violence"]}}}),
            "content_refused",
            "AgentRole `coder`",
        ),
        (401, error("User not found."), "upstream", "Secret `model`: put a valid one into it"),
        (402, error("Insufficient credits"), "upstream", "no credit left"),
        (404, error("No endpoints found that support tool use"), "upstream", "can't call tools"),
        (404, error("No endpoints found matching your data policy"), "upstream", "dataCollection"),
        (422, error("Extra inputs are not permitted"), "invalid_request", "Extra inputs"),
    ] {
        provider.next(status, None, &body);
        let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
        let message = told["error"]["message"].as_str().unwrap();
        assert_eq!(told["error"]["code"], code, "{status} {body}: {told}");
        assert!(message.contains(named), "{message}");
        let words = body["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("The provider says: {words}")), "{message}");
    }
    assert_eq!(provider.asked().len(), 7, "none is repeated");
    let status = world.thread().await.status.unwrap();
    let flagged = status.budget.map(|budget| budget.flagged).unwrap_or_default();
    assert_eq!((status.cost.unwrap_or_default(), flagged), (NanoUsd::ZERO, NanoUsd::ZERO));
}

#[tokio::test]
async fn an_account_that_is_not_served_is_on_the_repo_until_it_is() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let github = ["ghp", &"a1B2".repeat(9)].join("_");
    let words = format!("no such key: {KEY} or {github} {}", "and so on ".repeat(99));
    provider.next(401, None, &json!({"error": {"message": words, "code": 401}}));
    let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
    let message = told["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("no such key: [redacted:api-key] or [redacted"), "{message}");
    assert!(!message.contains(KEY) && !message.contains(&github), "{message}");
    assert!(message.chars().count() < 450, "{message}");
    eventually("the Repo says it", || async { world.condition("ModelReachable").await == message })
        .await;
    eventually("the gateway has seen it", || async {
        world.post("coder", CHAT, &ask(CLAUDE)).await;
        world.condition("ModelReachable").await == "the model API answers"
    })
    .await;
}

#[tokio::test]
async fn what_a_provider_says_of_a_model_is_on_the_repo_until_it_answers() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let words = "No endpoints found that support tool use";
    provider.next(404, None, &json!({"error": {"message": words, "code": 404}}));
    let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
    let message = told["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with(&format!("The provider says: {words}")), "{message}");
    eventually("the Repo says it", || async { world.condition("ModelReachable").await == message })
        .await;
    // A refusal that comes of one conversation's content is no news about the Repo.
    let flagged = json!({"error": {"message": "flagged", "metadata": {"reasons": ["violence"]}}});
    provider.next(403, None, &flagged);
    world.post("coder", CHAT, &ask(CLAUDE)).await;
    assert_eq!(world.condition("ModelReachable").await, message);
    eventually("the gateway has seen it", || async {
        world.post("coder", CHAT, &ask(CLAUDE)).await;
        world.condition("ModelReachable").await == "the model API answers"
    })
    .await;
}

#[tokio::test]
async fn little_credit_gets_a_shorter_answer_and_the_thread_is_told() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let poor = |tokens: u32| {
        let words = format!(
            "This request requires more credits, or fewer max_tokens. You requested up to 16000 \
             tokens, but can only afford {tokens}."
        );
        json!({"error": {"code": 402, "message": words}})
    };
    provider.next(402, None, &poor(3000));
    let (status, body) = world.post("coder", CHAT, &ask(CLAUDE)).await;
    assert_eq!(status, 200, "{body}");
    let caps: Vec<Value> = provider.asked().iter().map(|body| body["max_tokens"].clone()).collect();
    assert_eq!(caps, [16_000, 3_000]);
    eventually("the thread is told", || async { world.told("is nearly used up") == 1 }).await;
    // Too little, or less again: it is not tried for ever.
    provider.next(402, None, &poor(999));
    let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("999 tokens"), "{told}");
    provider.next(402, None, &poor(3000));
    provider.next(402, None, &poor(2000));
    let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
    assert!(told["error"]["message"].as_str().unwrap().contains("2000 tokens"), "{told}");
    assert_eq!(provider.asked().len(), 5);
    let cost = world.thread().await.status.unwrap().cost;
    eventually("one call is billed", || async {
        world.thread().await.status.unwrap().cost == Some(NanoUsd(1_000_000))
    })
    .await;
    assert!(cost.is_none_or(|cost| cost <= NanoUsd(1_000_000)));
}

#[tokio::test]
async fn an_error_in_the_place_of_an_answer_is_billed_as_far_as_it_says() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let told = async |status, after, body: &Value| {
        provider.next(status, after, body);
        let (_, told) = world.post("coder", CHAT, &ask(CLAUDE)).await;
        (told["error"]["code"].as_str().unwrap().to_owned(), told["error"]["retry_after"].as_u64())
    };
    let money = async || {
        let status = world.thread().await.status.unwrap();
        let flagged = status.budget.map(|budget| budget.flagged).unwrap_or_default();
        (status.cost.unwrap_or_default(), flagged > NanoUsd::ZERO)
    };
    let error = json!({"code": 503, "message": "no capacity", "metadata": {"retry_after": 40}});
    let unavailable = ("unavailable".to_owned(), Some(40));
    assert_eq!(told(200, None, &json!({"error": error})).await, unavailable);
    // The gateway waits for less by itself.
    assert_eq!(
        told(529, Some(40), &json!({"error": {"type": "overloaded_error"}})).await,
        unavailable
    );
    assert_eq!(provider.asked().len(), 2);
    let broken = |usage: &Value| {
        let choice = json!({"finish_reason": "error", "error": {"message": "odd"},
            "message": {"role": "assistant", "content": ""}});
        json!({"id": "gen-2", "choices": [choice], "usage": usage})
    };
    assert_eq!(money().await, (NanoUsd::ZERO, false), "nothing was billed");
    let unanswered = ("unanswered".to_owned(), None);
    assert_eq!(
        told(200, None, &broken(&json!({"prompt_tokens": 9, "cost": 0.25}))).await,
        unanswered
    );
    eventually("what it says is billed", || async {
        money().await == (NanoUsd(250_000_000), false)
    })
    .await;
    assert_eq!(told(524, None, &json!("<html>")).await, unanswered);
    eventually("what nobody knows is flagged", || async {
        money().await == (NanoUsd(250_000_000), true)
    })
    .await;
    assert_eq!(provider.asked().len(), 4, "the gateway repeats none that may be billed");
}

#[tokio::test]
async fn parameters_that_a_model_refuses_are_sent_otherwise_from_then_on() {
    let provider = Provider::start().await;
    let role = json!({"default": "gpt-5.4", "reasoning": {"effort": "high"}});
    let world = provider.world_with(&role, &json!({"model": {"api": "OpenAI"}})).await;
    let error = |param: &str, message: &str| json!({"error": {"message": message, "type": "invalid_request_error", "param": param}});
    let functions = "Function tools with reasoning_effort are not supported for gpt-5.4 in /v1/chat/completions. \
                     Please use /v1/responses instead.";
    provider.next(400, None, &error("reasoning_effort", functions));
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
    let old = "Unsupported parameter: 'max_completion_tokens' is not supported with this model.";
    provider.next(400, None, &error("max_completion_tokens", old));
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
    let asked = provider.asked();
    let of = |name: &str| asked.iter().map(|body| body.get(name).is_some()).collect::<Vec<_>>();
    assert_eq!(of("reasoning_effort"), [true, false, false, false, false]);
    assert_eq!(of("max_completion_tokens"), [true, true, true, true, false]);
    assert_eq!(of("max_tokens"), [false, false, false, false, true]);
    // What was tried is not tried again, and what nobody can fix is told.
    provider.next(400, None, &error("max_tokens", "Unsupported parameter: 'max_tokens'."));
    let (_, told) = world.post("coder", CHAT, &ask("gpt-5.4")).await;
    assert_eq!(told["error"]["code"], "invalid_request", "{told}");
    assert_eq!(provider.asked().len(), 6);
}

#[tokio::test]
async fn a_form_is_learned_once_it_is_taken_and_for_the_effort_that_was_refused() {
    let provider = Provider::start().await;
    let role = |effort: &str| json!({"default": "gpt-5.4", "reasoning": {"effort": effort}});
    let world = provider.world_with(&role("high"), &json!({"model": {"api": "OpenAI"}})).await;
    let refuse = |message: &str| {
        let error = json!({"message": message, "type": "invalid_request_error"});
        provider.next(400, None, &json!({"error": error}));
    };
    let efforts = || {
        let asked = provider.asked();
        let effort = |body: &Value| body["reasoning_effort"].as_str().unwrap_or("-").to_owned();
        asked.iter().map(effort).collect::<Vec<_>>()
    };
    // Neither form helps, so that it was something else: nothing is learned of it.
    (0..3).for_each(|_| refuse("reasoning_effort: internal mapping failed"));
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 400);
    refuse("Unsupported value: 'reasoning_effort' does not support 'high' with this model.");
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
    assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
    assert_eq!(efforts(), ["high", "-", "none", "high", "-", "-"]);
    let patch = json!({"spec": {"model": role("low")}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &patch).await;
    eventually("another effort is not taken for the refused one", || async {
        assert_eq!(world.post("coder", CHAT, &ask("gpt-5.4")).await.0, 200);
        efforts().last().is_some_and(|effort| effort == "low")
    })
    .await;
}

#[tokio::test]
async fn a_model_that_stands_in_gets_what_it_misses_in_answers_of_another() {
    const SPARE: &str = "google/gemini-3.6-flash";
    let provider = Provider::start().await;
    let role = json!({"default": CLAUDE, "pool": [SPARE]});
    let world = provider.world_with(&role, &json!({"model": {"api": "OpenAI"}})).await;
    let error = |code: u16, text: &str| json!({"error": {"message": text, "code": code}});
    (0..3).for_each(|_| provider.next(503, Some(0), &error(503, "overloaded")));
    let misses = |text: &str| provider.next(400, None, &error(400, text));
    misses("Function call is missing a thought_signature in functionCall parts.");
    misses("The `reasoning_content` in the thinking mode must be passed back to the API.");
    let mut asking = ask(CLAUDE);
    let messages = asking["messages"].as_array_mut().unwrap();
    messages.push(json!({"role": "assistant", "content": "", "reasoning": "hm", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "Read", "arguments": "{}"}}]}));
    messages.push(json!({"role": "tool", "tool_call_id": "c", "content": "x"}));
    assert_eq!(world.post("coder", CHAT, &asking).await.0, 200);
    let asked = provider.asked();
    let models: Vec<&Value> = asked.iter().map(|body| &body["model"]).collect();
    assert_eq!(models, [CLAUDE, CLAUDE, CLAUDE, SPARE, SPARE, SPARE]);
    let answer = |n: usize| &asked[n]["messages"][1];
    let signature = |n: usize| &answer(n)["tool_calls"][0]["extra_content"]["google"];
    assert_eq!((&answer(0)["reasoning"], signature(0)), (&json!("hm"), &Value::Null));
    assert!(answer(3).get("reasoning").is_none() && signature(3).is_null());
    let skipped = json!({"thought_signature": "skip_thought_signature_validator"});
    assert_eq!((signature(5), &answer(5)["reasoning_content"]), (&skipped, &json!(" ")));
}

#[tokio::test]
async fn a_model_that_nobody_prices_counts_as_a_large_one() {
    let provider = Provider::start().await;
    let own = json!({"default": "house/unpriced"});
    let world = provider.world(&own).await;
    provider.next(200, None, &said(&json!({"prompt_tokens": 1_000, "completion_tokens": 100})));
    assert_eq!(world.post("coder", CHAT, &ask("house/unpriced")).await.0, 200);
    eventually("it is counted", || async {
        world.thread().await.status.unwrap().cost == Some(NanoUsd(4_500_000))
    })
    .await;
}

#[tokio::test]
async fn what_was_kept_is_billed_and_shown_apart() {
    let provider = Provider::start().await;
    let world = provider.world(&claude()).await;
    let usage = json!({
        "prompt_tokens": 100_000, "completion_tokens": 900,
        "prompt_tokens_details": {"cached_tokens": 90_000, "cache_write_tokens": 8_000},
        "completion_tokens_details": {"reasoning_tokens": 400},
    });
    let (_, session) = world.get("coder", "/v1/session").await;
    assert!(session["facts"].is_object(), "the list is there: {session}");
    provider.next(200, None, &said(&usage));
    assert_eq!(world.post("coder", CHAT, &ask(CLAUDE)).await.0, 200);
    // By the list, in dollars a million: 5 fresh, 0.5 cached, 6.25 written, 25 for the answer.
    let cost = NanoUsd(1_000 * (2_000 * 5 + 8_000 * 25 / 4 + 900 * 25) + 90_000 * 500);
    eventually("each token has its price", || async {
        world.thread().await.status.unwrap().cost == Some(cost)
    })
    .await;
    let told = world.thread().await.status.unwrap().roles["coder"].usage;
    let told = (told.cached_tokens, told.written_tokens, told.reasoning_tokens);
    assert_eq!(told, (90_000, 8_000, 400));
    let metrics = world.metrics().await;
    for (kind, tokens) in
        [("prompt", 100_000), ("cached", 90_000), ("written", 8_000), ("reasoning", 400)]
    {
        let line = format!(r#"model="{CLAUDE}",kind="{kind}"}} {tokens}"#);
        assert!(metrics.contains(&line), "{line}: {metrics}");
    }
}
