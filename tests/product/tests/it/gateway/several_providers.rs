//! A Repo with several model providers: each model is asked for where it is, with the key of that provider.

use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_crds::NanoUsd;
use codebutler_models::model_conditions;
use codebutler_testbed::models::{ModelScript, small_png};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually, set_tools};

const CHAT: &str = "/v1/chat/completions";
const IMAGES: &str = "/v1/images/generations";

/// Serves some models to one key, and refuses others and other keys as real ones do.
struct Provider {
    url: String,
    own: Arc<Own>,
    _serving: AbortOnDropHandle<()>,
}

struct Own {
    key: &'static str,
    models: &'static [&'static str],
    asked: Mutex<Vec<(String, Value)>>,
    is_down: Mutex<bool>,
}

impl Provider {
    async fn start(key: &'static str, models: &'static [&'static str]) -> Self {
        let (asked, is_down) = (Mutex::default(), Mutex::default());
        let own = Arc::new(Own { key, models, asked, is_down });
        let app = axum::Router::new()
            .route("/v1/models", get(list))
            .route(CHAT, post(complete))
            .route(IMAGES, post(draw))
            .with_state(Arc::clone(&own));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { url, own, _serving: AbortOnDropHandle::new(serving) }
    }

    /// Paths and models that it was asked for.
    fn asked(&self) -> Vec<(String, String)> {
        let asked = self.own.asked.lock().unwrap();
        let model = |body: &Value| body["model"].as_str().unwrap_or_default().to_owned();
        asked.iter().map(|(path, body)| (path.clone(), model(body))).collect()
    }

    fn break_down(&self) {
        *self.own.is_down.lock().unwrap() = true;
    }
}

async fn list(State(own): State<Arc<Own>>, headers: HeaderMap) -> Response {
    if let Err(refusal) = own.admit(&headers) {
        return *refusal;
    }
    let models = own.models.iter().map(|id| json!({"id": id, "object": "model"}));
    axum::Json(json!({"object": "list", "data": models.collect::<Vec<_>>()})).into_response()
}

async fn complete(State(own): State<Arc<Own>>, headers: HeaderMap, body: Bytes) -> Response {
    let body = match own.take(CHAT, &headers, &body) {
        Ok(body) => body,
        Err(refusal) => return *refusal,
    };
    let usage = json!({"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100});
    let message = json!({"role": "assistant", "content": own.key});
    let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
    let answer = json!({"id": "a", "object": "chat.completion", "model": body["model"],
        "choices": [choice], "usage": usage});
    axum::Json(answer).into_response()
}

async fn draw(State(own): State<Arc<Own>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refusal) = own.take(IMAGES, &headers, &body) {
        return *refusal;
    }
    let png = STANDARD.encode(small_png("a logo"));
    axum::Json(json!({"created": 1, "data": [{"b64_json": png}]})).into_response()
}

impl Own {
    fn admit(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        let key = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        if key == Some(&format!("Bearer {}", self.key)) {
            return Ok(());
        }
        let error =
            json!({"error": {"message": "Incorrect API key provided", "code": "invalid_api_key"}});
        Err(Box::new((StatusCode::UNAUTHORIZED, axum::Json(error)).into_response()))
    }

    fn take(&self, path: &str, headers: &HeaderMap, body: &Bytes) -> Result<Value, Box<Response>> {
        self.admit(headers)?;
        let body: Value = serde_json::from_slice(body).unwrap();
        self.asked.lock().unwrap().push((path.to_owned(), body.clone()));
        if *self.is_down.lock().unwrap() {
            return Err(Box::new(StatusCode::SERVICE_UNAVAILABLE.into_response()));
        }
        if !self.models.iter().any(|id| body["model"] == *id) {
            let message = format!("The model {} does not exist", body["model"]);
            let error = json!({"error": {"message": message, "code": "model_not_found"}});
            return Err(Box::new((StatusCode::NOT_FOUND, axum::Json(error)).into_response()));
        }
        Ok(body)
    }
}

/// A world with the providers `default`, `openai` and `local`, whose coder has this model.
async fn world(providers: [&Provider; 3], model: &Value) -> World {
    let [default, openai, local] = providers;
    let price = json!({"prompt": "2", "completion": "10"});
    let spec = json!({"model": {
        "baseURL": default.url, "api": "Plain", "prices": {"acme/large": price},
        "providers": [
            {"name": "openai", "baseURL": openai.url, "credentials": {"name": "openai"}, "api": "OpenAI",
             "prices": {"gpt-5-mini": {"prompt": "0.25", "completion": "2"}, "brush-1": {"image": "0.04"}}},
            {"name": "local", "baseURL": local.url, "credentials": {"name": "local"}},
        ],
    }});
    let world = World::play(ModelScript::of("coder", vec![]), &spec, model).await;
    for (name, provider) in [("model", default), ("openai", openai), ("local", local)] {
        world.cluster.secret(name, &provider.url, &json!({"apiKey": provider.own.key})).await;
    }
    let (status, session) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 200, "{session}");
    world
}

async fn providers() -> (Provider, Provider, Provider) {
    let default = Provider::start("key-of-default", &["acme/large", "openai/gpt-5-mini"]).await;
    let openai = Provider::start("key-of-openai", &["gpt-5-mini", "brush-1"]).await;
    (default, openai, Provider::start("key-of-local", &["qwen3"]).await)
}

fn ask(model: &str) -> Value {
    json!({"model": model, "messages": [{"role": "user", "content": "x"}]})
}

/// Draws an image where people have allowed it.
async fn draw_one(world: &World) {
    set_tools(world, "coder", &["GenerateImage"]).await;
    world.patch_thread(&json!({"status": {"images": {"allowedBy": world.ana}}})).await;
    let wanted = json!({"key": "run.1.0", "prompt": "a logo", "count": 1});
    eventually("the image", || async {
        world.post("coder", "/v1/images/drawn", &wanted).await.0 == 200
    })
    .await;
}

#[tokio::test]
async fn each_model_is_asked_for_and_billed_at_its_provider() {
    let (default, openai, local) = providers().await;
    let role = json!({"default": "acme/large", "pool": ["openai/gpt-5-mini", "qwen3"], "image": "openai/brush-1"});
    let world = world([&default, &openai, &local], &role).await;
    for (model, key) in [
        ("acme/large", "key-of-default"),
        ("openai/gpt-5-mini", "key-of-openai"),
        // Named without its provider: the one whose list has it.
        ("qwen3", "key-of-local"),
    ] {
        let (status, answer) = world.post("coder", CHAT, &ask(model)).await;
        assert_eq!(status, 200, "{model}: {answer}");
        assert_eq!(answer["choices"][0]["message"]["content"], key, "{model}");
    }
    draw_one(&world).await;
    let at = |path: &str, id: &str| (path.to_owned(), id.to_owned());
    assert_eq!(default.asked(), [at(CHAT, "acme/large")]);
    assert_eq!(openai.asked(), [at(CHAT, "gpt-5-mini"), at(IMAGES, "brush-1")]);
    assert_eq!(local.asked(), [at(CHAT, "qwen3")]);
    // 1,000 tokens in and 100 out at the prices of each; a picture; and nothing for the own machine's.
    let cost = NanoUsd(2_000_000 + 1_000_000 + 250_000 + 200_000 + 40_000_000);
    eventually("the cost to be on the Thread", || async {
        let status = world.thread().await.status.unwrap_or_default();
        let usage = status.roles.get("coder").map(|role| role.usage);
        usage.is_some_and(|usage| usage.calls == 4 && usage.cost == cost)
    })
    .await;
}

#[tokio::test]
async fn another_provider_stands_in_for_one_that_fails() {
    let (default, openai, local) = providers().await;
    let role = json!({"default": "acme/large", "pool": ["local/qwen3"]});
    let world = world([&default, &openai, &local], &role).await;
    default.break_down();
    let (status, answer) = world.post("coder", CHAT, &ask("acme/large")).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["choices"][0]["message"]["content"], "key-of-local");
    assert_eq!(local.asked(), [(CHAT.to_owned(), "qwen3".to_owned())]);
}

#[tokio::test]
async fn the_repo_says_which_provider_lacks_a_model_or_refuses_its_key() {
    let (default, openai, local) = providers().await;
    let role = json!({"default": "acme/large", "pool": ["openai/gpt-5-mimi"], "image": "brush-9"});
    let world = world([&default, &openai, &local], &role).await;
    let knowing = Arc::clone(&world.gateway.models);
    let _knowing = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&knowing).await;
    }));
    eventually("the misspelled models", || async {
        let said = world.condition("ModelsKnown").await;
        said.contains("`openai/gpt-5-mimi` in spec.model.pool of AgentRole `coder` is no model of the provider `openai`: nearest are `openai/gpt-5-mini`")
            && said.contains("`brush-9` in spec.model.image of AgentRole `coder` is no model of any provider: nearest are `openai/brush-1`")
    })
    .await;
    let (status, refused) = world.post("coder", CHAT, &ask("openai/gpt-5-mimi")).await;
    assert_eq!(status, 502, "{refused}");
    let said = refused["error"]["message"].as_str().unwrap();
    assert!(said.contains("does not know the model `openai/gpt-5-mimi`"), "{said}");
    world.cluster.secret("openai", &openai.url, &json!({"apiKey": "another"})).await;
    eventually("the key that is refused", || async {
        world.condition("ModelReachable").await.contains("API key in Secret `openai`")
    })
    .await;
}
