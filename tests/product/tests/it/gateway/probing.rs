//! Probes find out that a Repo can be worked with before anybody has to, and notice when it is fixed.

use std::time::Duration;

use codebutler_git::probe;
use codebutler_models::model_conditions;
use codebutler_testbed::models::{
    ModelOptions, ModelScript, ModelServer, PlayedCatalogue, ScriptStep,
};
use codebutler_testbed::slack::SlackOptions;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::{World, eventually};

impl World {
    /// Returns a condition of the Repo, if it is about its current generation.
    pub(super) async fn word_on(&self, type_: &str) -> (String, String, String) {
        let repo = self.repo().await;
        let conditions = repo.status.unwrap_or_default().conditions;
        let found = conditions
            .into_iter()
            .find(|c| c.type_ == type_ && c.observed_generation == repo.metadata.generation);
        found.map(|c| (c.status, c.reason, c.message)).unwrap_or_default()
    }

    pub(super) async fn comes_to(&self, type_: &str, status: &str, part: &str) {
        eventually(&format!("{type_} is {status}, with {part}"), || async {
            let (is, _, message) = self.word_on(type_).await;
            is == status && message.contains(part)
        })
        .await;
    }
}

#[tokio::test]
async fn git_is_asked_before_the_first_conversation_and_when_its_secret_changes() {
    let world = World::start(vec![]).await;
    world.cluster.secret("git", world.remote.url(), &json!({"token": "ghp_wrong"})).await;
    tokio::select! {
        () = probe::run_probe(&world.gateway.git) => panic!("the probe ended"),
        () = git_is_mended(&world) => {}
    }
}

async fn git_is_mended(world: &World) {
    world.comes_to("GitReachable", "False", "put a valid one into it").await;
    let token = world.github.token().to_owned();
    world.cluster.secret("git", world.remote.url(), &json!({"token": token})).await;
    world.comes_to("GitReachable", "True", "accepts the credentials").await;

    // Another branch is another generation.
    let team = world.cluster.team().to_owned();
    let branch = |name: &str| json!({"spec": {"git": {"branch": name}}});
    world.cluster.patch::<codebutler_crds::Repo>(&team, "shop", &branch("trunk")).await;
    world.comes_to("GitReachable", "False", "trunk").await;
    world.cluster.patch::<codebutler_crds::Repo>(&team, "shop", &branch("main")).await;
    world.comes_to("GitReachable", "True", "accepts the credentials").await;
}

#[tokio::test]
async fn a_key_is_tried_before_it_is_needed_and_when_its_secret_changes() {
    for api in ["OpenRouter", "Plain"] {
        let spec = json!({"model": {"api": api}});
        let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
        let wrong = json!({"apiKey": "sk-or-v1-wrong"});
        world.cluster.secret("model", &world.models.url(), &wrong).await;
        let models = std::sync::Arc::clone(&world.gateway.models);
        let _asking =
            tokio::spawn(async move { model_conditions::run_model_conditions(&models).await });
        if api == "Plain" {
            // The list of this one is anybody's, too, and nothing says so.
            world.comes_to("ModelReachable", "True", "answers").await;
            continue;
        }
        world.comes_to("ModelReachable", "False", "API key in Secret `model`").await;
        assert!(world.models.requests().is_empty(), "no call was made for it");
        let right = json!({"apiKey": world.models.api_key()});
        world.cluster.secret("model", &world.models.url(), &right).await;
        world.comes_to("ModelReachable", "True", "answers").await;
    }
}

#[tokio::test]
async fn anthropics_list_is_asked_with_the_key_where_it_wants_it() {
    let provider =
        ModelOptions { catalogue: PlayedCatalogue::Anthropic, ..ModelOptions::default() };
    let script = ModelScript::of("coder", vec![ScriptStep::say("Here I am.")]);
    let spec = (&json!({"model": {"api": "Anthropic"}}), &json!({}));
    let world = World::play_at(SlackOptions::default(), provider, script, spec).await;
    let models = std::sync::Arc::clone(&world.gateway.models);
    let _asking = AbortOnDropHandle::new(tokio::spawn(async move {
        model_conditions::run_model_conditions(&models).await;
    }));
    world.comes_to("ModelReachable", "True", "answers").await;
    // Chat is OpenAI's, with a bearer.
    let call = json!({
        "model": ModelServer::model("coder"), "messages": [{"role": "user", "content": "hi"}],
    });
    let (status, answer) = world.post("coder", "/v1/chat/completions", &call).await;
    assert_eq!(status, 200, "{answer}");
    let wrong = json!({"apiKey": "sk-ant-wrong"});
    world.cluster.secret("model", &world.models.url(), &wrong).await;
    world.comes_to("ModelReachable", "False", "API key in Secret `model`").await;
}

#[tokio::test]
async fn a_list_that_is_not_shown_says_nothing_of_the_key_unless_it_says_so() {
    let google = json!([{"error": {"code": 400, "message": "API key not valid. Please pass a valid API key.",
        "status": "INVALID_ARGUMENT", "details": [{"reason": "API_KEY_INVALID"}]}}]);
    let scopes = json!({"error": {"message": "Missing scopes: api.model.read", "code": null}});
    for (status, body, standing, part) in [
        (401, json!({"error": "lists are for administrators"}), "Unknown", "no list of models"),
        (403, scopes, "Unknown", "Missing scopes"),
        (404, json!({"detail": "Not Found"}), "Unknown", "no list of models"),
        (401, json!({"error": "Unauthorized"}), "False", "API key in Secret `model`"),
        (400, google, "False", "API key in Secret `model`"),
    ] {
        let (url, _serving) = serve_list(status, body).await;
        let spec = json!({"model": {"baseURL": url}});
        let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
        world.cluster.secret("model", &url, &json!({"apiKey": "k"})).await;
        let models = std::sync::Arc::clone(&world.gateway.models);
        let _asking = AbortOnDropHandle::new(tokio::spawn(async move {
            model_conditions::run_model_conditions(&models).await;
        }));
        world.comes_to("ModelReachable", standing, part).await;
    }
}

/// A provider with nothing but this answer.
async fn serve_list(status: u16, body: Value) -> (String, AbortOnDropHandle<()>) {
    let answer =
        move || async move { (http::StatusCode::from_u16(status).unwrap(), axum::Json(body)) };
    let app = axum::Router::new().fallback(axum::routing::any(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, AbortOnDropHandle::new(serving))
}

/// A Git host with the API of GitLab in front of repositories.
async fn serve_gitlab(behind: String) -> (String, AbortOnDropHandle<()>) {
    let gone = || async {
        let said = json!({"error": "API V3 is no longer supported. Use API V4 instead."});
        (http::StatusCode::GONE, axum::Json(said))
    };
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let forward = move |request: axum::extract::Request| {
        let (client, behind) = (client.clone(), behind.clone());
        async move {
            let (mut parts, body) = request.into_parts();
            parts.headers.remove(http::header::HOST);
            let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
            let asked = client.request(parts.method, format!("{behind}{}", parts.uri));
            let answer = asked.headers(parts.headers).body(body).send().await.unwrap();
            let kind = answer.headers()[http::header::CONTENT_TYPE].clone();
            let status = answer.status();
            (status, [(http::header::CONTENT_TYPE, kind)], answer.bytes().await.unwrap())
        }
    };
    let app = axum::Router::new()
        .route("/api/{*rest}", axum::routing::any(gone))
        .fallback(axum::routing::any(forward));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    (url, AbortOnDropHandle::new(serving))
}

#[tokio::test]
async fn a_host_that_is_no_github_is_said_to_be_none() {
    let world = World::start(vec![]).await;
    let (url, _serving) = serve_gitlab(world.github.url()).await;
    world.cluster.secret("git", &url, &json!({"token": world.github.token()})).await;
    let elsewhere = json!({"spec": {"git": {"url": format!("{url}/acme/shop")}}});
    let team = world.cluster.team().to_owned();
    world.cluster.patch::<codebutler_crds::Repo>(&team, "shop", &elsewhere).await;
    tokio::select! {
        () = probe::run_probe(&world.gateway.git) => panic!("the probe ended"),
        () = world.comes_to("GitReachable", "False", "does not answer as GitHub does") => {}
    }
}

#[tokio::test]
async fn a_remote_that_is_a_shallow_clone_is_said_on_the_repo() {
    let world = World::start(vec![]).await;
    let head = world.remote.commit("main", "ana", "Two", &[("b.txt", Some("b\n"))]).await.unwrap();
    std::fs::write(world.remote.git().dir().join("shallow"), format!("{head}\n")).unwrap();
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    let url = format!("{}/v1/git", world.url);
    let clone = world.git("coder", world.dir.path(), &["clone", "-q", &url, "cut-off"]).await;
    assert!(!clone.status.success(), "{clone:?}");
    world.comes_to("GitReachable", "False", "git fetch --unshallow").await;
    // Its refs can be had all the time.
    tokio::select! {
        () = probe::run_probe(&world.gateway.git) => panic!("the probe ended"),
        () = history_is_mended(&world) => {}
    }
}

async fn history_is_mended(world: &World) {
    for _ in 0..30 {
        world.comes_to("GitReachable", "False", "git fetch --unshallow").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    std::fs::remove_file(world.remote.git().dir().join("shallow")).unwrap();
    world.comes_to("GitReachable", "True", "accepts the credentials").await;
}
