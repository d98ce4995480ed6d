//! Authentication of pods, and what a role is told about its session.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codebutler_crds::condition::{GIT_REACHABLE, is_true};
use codebutler_crds::{Repo, names};
use futures::StreamExt as _;
use serde_json::json;

use super::cluster::ACCOUNT;
use super::{AUDIENCE, World, eventually};

const SESSION: &str = "/v1/session";

#[tokio::test]
async fn only_the_registered_pods_own_token_is_a_role() {
    let world = World::start(vec![]).await;
    let cluster = &world.cluster;
    let pod = names::pod_name(&world.name, "coder");
    let thread = world.thread().await;
    let uid = thread.status.unwrap().roles["coder"].pod_uid.clone().unwrap();
    let registered = Some((pod.as_str(), uid.as_str()));
    let stray = cluster.pod(cluster.team(), "stray", ACCOUNT).await;
    let elsewhere = cluster.pod(cluster.system(), "elsewhere", "codebutler-gateway").await;
    let unauthenticated = (401, "unauthenticated");
    let not_registered = (403, "not_registered");
    for (what, token, expected) in [
        ("no pod", cluster.token(cluster.team(), ACCOUNT, AUDIENCE, None).await, unauthenticated),
        (
            "audience",
            cluster.token(cluster.team(), ACCOUNT, "vault", registered).await,
            unauthenticated,
        ),
        (
            "another pod of the account",
            cluster.token(cluster.team(), ACCOUNT, AUDIENCE, Some(("stray", &stray))).await,
            not_registered,
        ),
        (
            "another namespace's pod",
            cluster
                .token(
                    cluster.system(),
                    "codebutler-gateway",
                    AUDIENCE,
                    Some(("elsewhere", &elsewhere)),
                )
                .await,
            not_registered,
        ),
        ("forged", "eyJhbGciOiJub25lIn0.e30.".to_owned(), unauthenticated),
    ] {
        let (status, body) = world.get(&token, SESSION).await;
        assert_eq!((status, body["error"]["code"].as_str().unwrap()), expected, "{what}: {body}");
    }
    let (status, body) = world.get("coder", SESSION).await;
    assert_eq!((status, body["role"].as_str()), (200, Some("coder")), "{body}");
    let metrics = world.metrics().await;
    let counted = r#"codebutler_identity_refused_total{reason="unbound_token"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}

/// A token that says this of itself, and that nobody has signed.
fn forged(uid: &str, count: usize) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = json!({"kubernetes.io": {"namespace": "team", "pod": {"name": "p", "uid": uid}}});
    let signature = part(&count.to_string());
    format!("{}.{}.{signature}", part(r#"{"alg":"RS256"}"#), part(&claims.to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_bad_tokens_asks_nobody_and_keeps_nobody_waiting() {
    const MANY: usize = 2_000;
    let world = World::start(vec![]).await;
    let inbox = "/v1/inbox?wait=0";
    assert_eq!(world.get("coder", inbox).await.0, 200);
    let flood = futures::stream::iter(0..MANY).for_each_concurrent(32, async |count| {
        let token = match count % 3 {
            0 => forged("nobodys", count),
            1 => format!("random-{count}"),
            _ => forged("", count),
        };
        let (status, _) = world.get(&token, SESSION).await;
        assert!(matches!(status, 401 | 403), "{status}");
    });
    let mut flood = std::pin::pin!(flood);
    loop {
        tokio::select! {
            () = &mut flood => break,
            (status, body) = world.get("coder", inbox) => assert_eq!(status, 200, "{body}"),
        }
    }
    let user = format!("system:serviceaccount:{}:codebutler-gateway", world.cluster.system());
    let asked = world.cluster.requests_of(&user);
    let reviews = asked.iter().filter(|(record, _)| record.resource == "tokenreviews").count();
    assert!(reviews <= 1, "{reviews} reviews for one good token");
}

#[tokio::test]
async fn a_bad_token_of_a_known_pod_is_reviewed_once() {
    let world = World::start(vec![]).await;
    let good = world.token("coder").to_owned();
    let (signed, _) = good.rsplit_once('.').unwrap();
    let user = format!("system:serviceaccount:{}:codebutler-gateway", world.cluster.system());
    let reviews = || {
        let asked = world.cluster.requests_of(&user);
        asked.iter().filter(|(record, _)| record.resource == "tokenreviews").count()
    };
    let before = reviews();
    for _ in 0..20 {
        let (status, body) = world.get(&format!("{signed}.bm9uZQ"), SESSION).await;
        assert_eq!(status, 401, "{body}");
    }
    assert!(reviews() <= before + 1, "{} reviews", reviews() - before);
    assert_eq!(world.get("coder", SESSION).await.0, 200);
}

#[tokio::test]
async fn a_new_token_that_many_calls_show_at_once_is_reviewed_once() {
    let world = World::start(vec![]).await;
    let calls = (0..8).map(|_| world.get("coder", "/v1/inbox?wait=0"));
    for (status, body) in futures::future::join_all(calls).await {
        assert_eq!(status, 200, "{body}");
    }
    let user = format!("system:serviceaccount:{}:codebutler-gateway", world.cluster.system());
    let asked = world.cluster.requests_of(&user);
    let reviews = asked.iter().filter(|(record, _)| record.resource == "tokenreviews").count();
    // Another server does not say what it was asked.
    assert_eq!(reviews, usize::from(world.cluster.is_embedded()));
}

#[tokio::test]
async fn a_replaced_pod_is_out_although_its_review_is_remembered() {
    let world = World::start(vec![]).await;
    assert_eq!(world.get("coder", SESSION).await.0, 200);
    let roles = json!({"status": {"roles": {"coder": {"podUID": "of-the-next-pod"}}}});
    world.patch_thread(&roles).await;
    eventually("the old pod is refused", || async {
        let (status, body) = world.get("coder", SESSION).await;
        (status, body["error"]["code"].as_str()) == (403, Some("not_registered"))
    })
    .await;
    assert_eq!(world.get("pm", SESSION).await.0, 200);
}

#[tokio::test]
async fn a_closed_thread_is_told_in_the_inbox_and_refuses_the_rest() {
    let world = World::start(vec![]).await;
    world.patch_thread(&json!({"spec": {"state": "Closed"}})).await;
    eventually("the session is refused", || async {
        let (status, body) = world.get("coder", SESSION).await;
        (status, body["error"]["code"].as_str()) == (409, Some("thread_closed"))
    })
    .await;
    let (status, body) = world.get("coder", "/v1/inbox?wait=30").await;
    assert_eq!((status, body["closed"].as_bool()), (200, Some(true)));
    let report = json!({"state": "Idle", "turns": 3});
    assert_eq!(world.post("coder", "/v1/runs", &report).await.0, 200);
    assert_eq!(world.thread().await.status.unwrap().roles["coder"].turns, 3);
}

#[tokio::test]
async fn a_session_publishes_the_branch_once_and_says_how_git_is() {
    let world = World::start(vec![]).await;
    let base = world.remote.head("main").await.unwrap();
    let (status, session) = world.get("coder", SESSION).await;
    assert_eq!(status, 200, "{session}");
    assert_eq!(session["branch"], world.branch);
    assert_eq!(session["baseCommit"], base);
    assert_eq!(session["maxTurns"], 50);
    assert_eq!(session["roles"][1]["role"], "coder");
    assert_eq!(world.remote.head(&world.branch).await, Some(base));
    assert_eq!(world.thread().await.status.unwrap().branch.as_ref(), Some(&world.branch));
    assert!(is_true(&world.repo().await.status.unwrap().conditions, GIT_REACHABLE));
    eventually("the branch is known", || async {
        let asked = world.github.seen().len();
        let (status, session) = world.get("pm", SESSION).await;
        status == 200 && session["baseCommit"].is_null() && world.github.seen().len() == asked
    })
    .await;
}

#[tokio::test]
async fn a_repo_that_cannot_be_worked_with_says_what_to_correct() {
    let world = World::start(vec![]).await;
    let git = world.remote.url();
    let token = world.github.token();
    for (url, token, branch, expected) in [
        ("http://elsewhere.example/", token, "main", "codebutler.dev/hosts"),
        (git, "ghp_wrong", "main", "Secret `git`"),
        (git, token, "trunk", "spec.git.branch"),
    ] {
        world.cluster.secret("git", url, &json!({"token": token})).await;
        let spec = json!({"spec": {"git": {"branch": branch}}});
        world.cluster.patch::<Repo>(world.cluster.team(), "shop", &spec).await;
        // A session before that would publish the Thread's branch, which is done once.
        eventually("the gateway has heard of it", || async {
            let known = world.gateway.work.context.repo(world.cluster.team(), "shop");
            known.is_some_and(|repo| repo.spec.git.branch == branch)
        })
        .await;
        eventually(expected, || async {
            let (status, body) = world.get("coder", SESSION).await;
            assert_eq!((status, body["error"]["code"].as_str()), (502, Some("upstream")), "{body}");
            let message = body["error"]["message"].as_str().unwrap().to_owned();
            assert!(!message.contains("ghp_"), "{message}");
            let conditions = world.repo().await.status.unwrap().conditions;
            let condition = conditions.iter().find(|c| c.type_ == GIT_REACHABLE).unwrap();
            assert_eq!((&*condition.status, &condition.message), ("False", &message));
            message.contains(expected)
        })
        .await;
    }
    let spec = json!({"spec": {"git": {"branch": "main"}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &spec).await;
    eventually("it works again", || async { world.get("coder", SESSION).await.0 == 200 }).await;
    assert!(is_true(&world.repo().await.status.unwrap().conditions, GIT_REACHABLE));
}

#[tokio::test]
async fn without_a_slot_there_is_neither_session_nor_mail() {
    let world = World::start(vec![]).await;
    let coder = |fields: serde_json::Value| {
        let patch = json!({"status": {"roles": {"coder": fields}}});
        let world = &world;
        async move { world.patch_thread(&patch).await }
    };
    assert_eq!(world.get("coder", SESSION).await.0, 200);
    coder(json!({"admitted": null, "inbox": world.root})).await;
    eventually("no session without a slot", || async {
        let (status, body) = world.get("coder", SESSION).await;
        (status, body["error"]["code"].as_str()) == (503, Some("unavailable"))
    })
    .await;
    let (status, body) = world.get("coder", "/v1/inbox?wait=1").await;
    assert_eq!((status, &body["messages"]), (200, &json!([])), "{body}");

    coder(json!({"admitted": true})).await;
    eventually("the session comes with the slot", || async {
        world.get("coder", SESSION).await.0 == 200
    })
    .await;
    let (_, body) = world.get("coder", "/v1/inbox?wait=30").await;
    assert_eq!(body["messages"][0]["ts"], json!(world.root), "{body}");

    // Nothing begins while the Repo is suspended; what runs goes on.
    let suspend = json!({"spec": {"suspend": true}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &suspend).await;
    eventually("no session while suspended", || async {
        let (status, body) = world.get("coder", SESSION).await;
        let message = body["error"]["message"].as_str().unwrap_or_default();
        status == 502 && message.contains("spec.suspend")
    })
    .await;
    let (_, body) = world.get("coder", "/v1/inbox?wait=1").await;
    assert_eq!(body["messages"], json!([]), "{body}");
    coder(json!({"state": "Running"})).await;
    eventually("a run goes on", || async { world.get("coder", SESSION).await.0 == 200 }).await;
}
