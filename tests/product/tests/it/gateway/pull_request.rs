//! The thread's pull request.

use codebutler_testbed::models::ModelScript;
use serde_json::{Value, json};

use super::{World, eventually, set_tools};

const PULL: &str = "/v1/pull-request";

fn wanted(title: &str) -> Value {
    json!({"title": title, "body": "Because."})
}

pub(super) async fn with_a_commit() -> World {
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
async fn another_reason_why_it_is_not_opened_is_told_in_githubs_words() {
    let world = with_a_commit().await;
    world.approve_plan().await;
    world.remote.force_push("ana", &world.branch, None).await.unwrap();
    let (status, body) = world.post("coder", PULL, &wanted("T")).await;
    let message = body["error"]["message"].as_str().unwrap_or_default();
    assert_eq!(status, 400, "{body}");
    assert!(message.contains("head (invalid)") && !message.contains("nothing to merge"), "{body}");
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

#[tokio::test]
async fn a_repo_can_have_people_asked_each_time_before_one_is_opened() {
    let policy = json!({"policy": {"requireApproval": ["PullRequest"]}});
    let world = World::play(ModelScript::of("coder", vec![]), &policy, &json!({})).await;
    assert_eq!(world.get("coder", "/v1/session").await.0, 200);
    world.remote.commit(&world.branch, "Ana", "Add a", &[("a.txt", Some("a\n"))]).await.unwrap();
    world.approve_plan().await;
    let refused = async |title: &str| {
        let (status, body) = world.post("coder", PULL, &wanted(title)).await;
        assert_eq!(
            (status, body["error"]["code"].as_str()),
            (403, Some("needs_approval")),
            "{body}"
        );
        body["error"]["message"].as_str().unwrap().to_owned()
    };
    let said = refused("Add a").await;
    assert!(said.contains("end your run"), "{said}");
    refused("Add a").await;
    let approvals = || async { world.thread().await.status.unwrap().approvals };
    let asked = approvals().await;
    assert_eq!(asked.len(), 1, "the same is asked once: {asked:?}");
    assert_eq!((&*asked[0].tool, &*asked[0].role), ("PullRequest", "coder"));
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let shown = shown.iter().find(|message| message.shown.contains("Open a pull request"));
    assert!(shown.is_some_and(|message| message.shown.contains("Add a")), "{shown:?}");

    // A role can't have people say yes to other words for the same thing.
    let own = asked[0].id.strip_prefix("coder:").unwrap();
    let forged = json!({
        "key": own, "tool": "PullRequest", "summary": "Say hello", "hash": asked[0].hash,
    });
    assert_eq!(world.post("coder", "/v1/approvals", &forged).await.0, 400);

    let mut answered = json!(asked);
    answered[0]["answer"] = json!("approved");
    answered[0]["by"] = json!("U1");
    world.patch_thread(&json!({"status": {"approvals": answered}})).await;
    refused("Something else").await;
    assert!(world.remote.pulls().await.unwrap().is_empty());
    eventually("exactly what was approved is opened", || async {
        let (status, body) = world.post("coder", PULL, &wanted("Add a")).await;
        status == 200 && body["created"] == true
    })
    .await;
    // It is open: what it says may change.
    let (status, body) = world.post("coder", PULL, &wanted("Add b")).await;
    assert_eq!((status, body["created"].as_bool()), (200, Some(false)), "{body}");

    let number = body["number"].as_u64().unwrap();
    world.remote.set_open(number, false).await.unwrap();
    refused("Add a").await;
}
