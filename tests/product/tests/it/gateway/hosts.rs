//! Whoever may write a Repo aims its Secrets at a server of his own, and gets nothing.

use std::collections::BTreeMap;
use std::path::Path;

use axum::response::Redirect;
use axum::routing::any;
use codebutler_crds::Repo;
use codebutler_testbed::github::{FirstCommit, GitHubOptions, GitHubServer};
use codebutler_testbed::models::{ModelOptions, ModelScript, ModelServer};
use serde_json::{Value, json};

use super::{World, eventually};

const HOSTS: &str = "codebutler.dev/hosts";

async fn git_host(dir: &Path) -> GitHubServer {
    let host = GitHubServer::start(dir, GitHubOptions::default()).await.unwrap();
    let files = FirstCommit::Files(BTreeMap::from([("a".to_owned(), "a".to_owned())]));
    host.create_repo("acme", "shop", files, "main").await.unwrap();
    host
}

async fn aim(world: &World, spec: &Value) {
    let before =
        world.gateway.work.context.repo(world.cluster.team(), "shop").unwrap().metadata.generation;
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &json!({"spec": spec})).await;
    eventually("the gateway knows the new Repo", || async {
        world.gateway.work.context.repo(world.cluster.team(), "shop").unwrap().metadata.generation
            != before
    })
    .await;
}

async fn condition(world: &World, type_: &str) -> (String, String) {
    let conditions = world.repo().await.status.unwrap_or_default().conditions;
    let found = conditions.into_iter().find(|condition| condition.type_ == type_);
    found.map(|condition| (condition.status, condition.message)).unwrap_or_default()
}

#[tokio::test]
async fn a_git_credential_goes_to_no_other_host() {
    let world = World::start(vec![]).await;
    let evil = git_host(&world.dir.path().join("evil")).await;
    let url = format!("{}/acme/shop", evil.url());
    aim(&world, &json!({"git": {"url": url}})).await;
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 502, "{body}");
    let (_, fetched) = world.get("coder", "/v1/git/info/refs?service=git-upload-pack").await;
    assert!(fetched.to_string().contains("ERR CodeButler: "), "{fetched}");
    let (status, message) = condition(&world, "GitReachable").await;
    assert_eq!(status, "False", "{message}");
    assert!(message.contains(HOSTS) && message.contains("Secret `git`"), "{message}");
    assert_eq!(evil.seen(), [], "not one request");
}

#[tokio::test]
async fn a_redirect_carries_a_git_credential_nowhere() {
    let world = World::start(vec![]).await;
    let evil = git_host(&world.dir.path().join("evil")).await;
    let target = evil.url();
    let app = axum::Router::new()
        .fallback(any(async move |uri: http::Uri| Redirect::temporary(&format!("{target}{uri}"))));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/acme/shop", listener.local_addr().unwrap());
    let serving = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    world.cluster.secret("moved", &url, &json!({"token": world.github.token()})).await;
    aim(&world, &json!({"git": {"url": url, "credentials": {"name": "moved"}}})).await;
    let (status, body) = world.get("coder", "/v1/session").await;
    assert_eq!(status, 502, "{body}");
    let (_, fetched) = world.get("coder", "/v1/git/info/refs?service=git-upload-pack").await;
    assert!(fetched.to_string().contains("ERR CodeButler: "), "{fetched}");
    let (_, message) = condition(&world, "GitReachable").await;
    assert!(message.contains("has moved: correct spec.git.url"), "{message}");
    assert_eq!(evil.seen(), []);
    serving.abort();
}

#[tokio::test]
async fn a_model_credential_goes_to_no_other_host() {
    let world = World::start(vec![]).await;
    let evil = ModelServer::start(ModelScript::of("coder", vec![]), ModelOptions::default())
        .await
        .unwrap();
    aim(&world, &json!({"model": {"baseURL": evil.url()}})).await;
    let call = json!({
        "model": ModelServer::model("coder"), "messages": [{"role": "user", "content": "hi"}],
    });
    let (status, body) = world.post("coder", "/v1/chat/completions", &call).await;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
    assert!(message.contains(HOSTS) && message.contains("Secret `model`"), "{message}");
    assert_eq!(evil.requests().len(), 0, "not one request");
}

#[tokio::test]
async fn a_secret_for_something_else_opens_no_slack() {
    let world = World::start(vec![]).await;
    let tokens = json!({"botToken": world.slack.bot_token(), "appToken": world.slack.app_token()});
    world.cluster.secret("other", "https://git.example.com/", &tokens).await;
    aim(&world, &json!({"slack": {"credentials": {"name": "other"}}})).await;
    let message = json!({"key": "k", "text": "hello"});
    let (status, body) = world.post("coder", "/v1/messages", &message).await;
    assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
    eventually("the Repo says so", || async {
        let (status, message) = condition(&world, "SlackReachable").await;
        status == "False" && message.contains(HOSTS) && message.contains("Secret `other`")
    })
    .await;
    let said = world.slack.messages(&world.channel, Some(&world.root));
    assert!(said.iter().all(|message| message.text != "hello"), "{said:?}");
}
