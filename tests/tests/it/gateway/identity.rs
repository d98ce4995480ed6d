//! Who is let in, and what a role is told about its session.

use serde_json::json;

use super::cluster::Owner;
use super::{BRANCH, THREAD, World};

const SESSION: &str = "/v1/session";

#[tokio::test]
async fn only_the_registered_pods_own_token_is_a_role() {
    let world = World::start(vec![]).await;
    let bound = Owner {
        username: "system:serviceaccount:team:codebutler-shop".into(),
        pod_uid: Some("pod-coder".into()),
        audience: "codebutler-gateway".into(),
    };
    for (token, owner, expected) in [
        ("unbound", Owner { pod_uid: None, ..bound.clone() }, (401, "unauthenticated")),
        ("api", Owner { audience: "kubernetes".into(), ..bound.clone() }, (401, "unauthenticated")),
        ("user", Owner { username: "jane".into(), ..bound.clone() }, (401, "unauthenticated")),
        (
            "stray",
            Owner { pod_uid: Some("pod-x".into()), ..bound.clone() },
            (403, "not_registered"),
        ),
        (
            "elsewhere",
            Owner {
                username: "system:serviceaccount:other:codebutler-shop".into(),
                ..bound.clone()
            },
            (403, "not_registered"),
        ),
        (
            "account",
            Owner { username: "system:serviceaccount:team:default".into(), ..bound.clone() },
            (403, "forbidden"),
        ),
    ] {
        world.cluster.add_token(token, owner);
        let (status, body) = world.get(token, SESSION).await;
        assert_eq!((status, body["error"]["code"].as_str().unwrap()), expected, "{token}: {body}");
    }
    let (status, _) = world.get("forged", SESSION).await;
    assert_eq!(status, 401);
    let (status, body) = world.get("coder", SESSION).await;
    assert_eq!((status, body["role"].as_str()), (200, Some("coder")), "{body}");
    let metrics = world.metrics().await;
    assert!(
        metrics.contains(r#"codebutler_identity_refused_total{reason="unbound_token"} 1"#),
        "{metrics}"
    );
}

#[tokio::test]
async fn a_replaced_pod_is_out_at_once_although_its_review_is_remembered() {
    let world = World::start(vec![]).await;
    assert_eq!(world.get("coder", SESSION).await.0, 200);
    assert_eq!(world.get("coder", SESSION).await.0, 200);
    assert_eq!(world.cluster.reviews(), 1);
    let roles = json!({"status": {"roles": {"coder": {"podUID": "pod-next"}}}});
    world.cluster.patch("threads", THREAD, &roles);
    let (status, body) = world.get("coder", SESSION).await;
    assert_eq!((status, body["error"]["code"].as_str()), (403, Some("not_registered")));
    assert_eq!(world.cluster.reviews(), 1);
}

#[tokio::test]
async fn a_closed_thread_is_told_in_the_inbox_and_refuses_the_rest() {
    let world = World::start(vec![]).await;
    world.cluster.patch("threads", THREAD, &json!({"spec": {"state": "Closed"}}));
    let (status, body) = world.get("coder", "/v1/inbox?wait=30").await;
    assert_eq!((status, body["closed"].as_bool()), (200, Some(true)));
    let (status, body) = world.get("coder", SESSION).await;
    assert_eq!((status, body["error"]["code"].as_str()), (409, Some("thread_closed")));
    let report = json!({"state": "Idle", "turns": 3});
    assert_eq!(world.post("coder", "/v1/runs", &report).await.0, 200);
    assert_eq!(world.thread().status.unwrap().roles["coder"].turns, 3);
}

#[tokio::test]
async fn a_session_publishes_the_branch_once_and_says_how_git_is() {
    let world = World::start(vec![]).await;
    let base = world.remote.head("main").await.unwrap();
    let (status, session) = world.get("coder", SESSION).await;
    assert_eq!(status, 200, "{session}");
    assert_eq!(session["branch"], BRANCH);
    assert_eq!(session["baseCommit"], base);
    assert_eq!(session["maxTurns"], 50);
    assert_eq!(session["roles"][1]["role"], "coder");
    assert_eq!(world.remote.head(BRANCH).await, Some(base));
    let thread = world.thread();
    assert_eq!(thread.status.unwrap().branch.as_deref(), Some(BRANCH));
    let repo = world.repo();
    assert!(codebutler_crds::condition::is_true(&repo.status.unwrap().conditions, "GitReachable"));
    let asked = world.github.seen().len();
    let (_, session) = world.get("pm", SESSION).await;
    assert_eq!(session["baseCommit"], serde_json::Value::Null);
    assert_eq!(world.github.seen().len(), asked, "the branch is published once");
}

#[tokio::test]
async fn a_repo_that_cannot_be_worked_with_says_what_to_correct() {
    let world = World::start(vec![]).await;
    let host = world.remote.url().split('/').nth(2).unwrap().to_owned();
    let owner = "elsewhere.example";
    for (secret_host, token, branch, expected) in [
        (owner, world.github.token(), "main", "codebutler.dev/hosts"),
        (&host, "ghp_wrong", "main", "Secret `git`"),
        (&host, world.github.token(), "trunk", "spec.git.branch"),
    ] {
        world.cluster.secret("git", secret_host, "token", token);
        let spec = json!({"spec": {"git": {"branch": branch}}});
        world.cluster.patch("repos", "shop", &spec);
        let (status, body) = world.get("coder", SESSION).await;
        let message = body["error"]["message"].as_str().unwrap();
        assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
        assert!(message.contains(expected) && !message.contains("ghp_"), "{message}");
        let conditions = world.repo().status.unwrap().conditions;
        let condition = conditions.iter().find(|c| c.type_ == "GitReachable").unwrap();
        assert_eq!((&*condition.status, &*condition.message), ("False", message));
    }
    world.cluster.patch("repos", "shop", &json!({"spec": {"git": {"branch": "main"}}}));
    assert_eq!(world.get("coder", SESSION).await.0, 200);
    let conditions = world.repo().status.unwrap().conditions;
    assert!(codebutler_crds::condition::is_true(&conditions, "GitReachable"));
}
