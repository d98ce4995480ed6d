//! The thread's pull request.

use serde_json::{Value, json};

use super::{World, eventually, set_tools};

const PULL: &str = "/v1/pull-request";

fn wanted(title: &str) -> Value {
    json!({"title": title, "body": "Because."})
}

pub async fn with_a_commit() -> World {
    let world = World::start(vec![]).await;
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    world.remote.commit(&world.branch, "Ana", "Add a", &[("a.txt", Some("a\n"))]).await.unwrap();
    world
}

#[tokio::test]
async fn it_is_opened_once_and_only_after_approval() {
    let world = with_a_commit().await;
    let code = |body: &Value| body["error"]["code"].as_str().unwrap_or_default().to_owned();
    let (status, body) = world.post("pm", PULL, &wanted("T")).await;
    assert_eq!((status, code(&body)), (403, "forbidden".into()));
    let (status, body) = world.post("coder", PULL, &wanted("T")).await;
    assert_eq!((status, code(&body)), (403, "needs_approval".into()));
    assert!(world.remote.pulls().await.unwrap().is_empty());
    let (status, body) = world.get("coder", PULL).await;
    assert_eq!((status, code(&body)), (400, "invalid_request".into()));

    world.approve_plan().await;
    let (status, first) = world.post("coder", PULL, &wanted("Add\na")).await;
    assert_eq!((status, first["created"].as_bool()), (200, Some(true)), "{first}");
    assert_eq!(first["head"], world.remote.head(&world.branch).await.unwrap());
    let (status, again) = world.post("coder", PULL, &wanted("Add b")).await;
    assert_eq!((status, again["created"].as_bool()), (200, Some(false)), "{again}");
    assert_eq!(again["number"], first["number"]);
    let pulls = world.remote.pulls().await.unwrap();
    assert_eq!((pulls.len(), &*pulls[0].title), (1, "Add b"));
    let recorded = world.thread().await.status.unwrap().pull_request.unwrap();
    assert_eq!(recorded.number, first["number"]);
    let (status, state) = world.get("coder", PULL).await;
    assert_eq!((status, state["state"].as_str()), (200, Some("open")));
}

#[tokio::test]
async fn nothing_to_merge_is_said_so() {
    let world = World::start(vec![]).await;
    world.approve_plan().await;
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    let (status, body) = world.post("coder", PULL, &wanted("T")).await;
    assert_eq!(status, 400, "{body}");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(message.contains("push at least one commit"), "{message}");
}

#[tokio::test]
async fn only_a_role_with_the_tool_and_a_users_word_closes() {
    let world = with_a_commit().await;
    let (status, body) = world.post("coder", "/v1/close", &json!({"summary": "done"})).await;
    assert_eq!((status, body["error"]["code"].as_str()), (403, Some("forbidden")));
    set_tools(&world, "coder", &["CloseThread"]).await;
    eventually("the tool is not enough", || async {
        let (_, body) = world.post("coder", "/v1/close", &json!({"summary": "done"})).await;
        body["error"]["code"] == "needs_approval"
    })
    .await;
}
