//! A pod that no Thread has taken: what its token opens, and what it opens once one has.

use codebutler_crds::condition::SEATS_SET_UP;
use codebutler_crds::{Repo, Thread, names};
use codebutler_gateway::api;
use serde_json::json;
use tokio::net::TcpListener;

use super::cluster::ACCOUNT;
use super::{AUDIENCE, World, answer, eventually, set_tools};

const SEAT: &str = "/v1/seat";

/// A seat of the Repo: its pod's name, UID and token.
async fn seat(world: &World) -> (String, String, String) {
    let cluster = &world.cluster;
    let pod = names::pod_name(&names::seat_name("shop", 7), "pm");
    let uid = cluster.pod(cluster.team(), &pod, ACCOUNT).await;
    let token = cluster.token(cluster.team(), ACCOUNT, AUDIENCE, Some((&pod, &uid))).await;
    assert_eq!(world.get(&token, SEAT).await.0, 403, "nobody has named it yet");
    let spec = json!({"spec": {"warm": {"seats": 1}}});
    cluster.patch::<Repo>(cluster.team(), "shop", &spec).await;
    let status = json!({"status": {"warm": {"wanted": 1, "ready": 1, "pods": {&pod: uid}}}});
    cluster.patch::<Repo>(cluster.team(), "shop", &status).await;
    eventually("the gateway knows the seat", || async { world.get(&token, SEAT).await.0 == 200 })
        .await;
    (pod, uid, token)
}

#[tokio::test]
async fn the_token_of_a_seat_opens_a_question_and_fetches_and_nothing_else() {
    let world = World::start(vec![]).await;
    let (_, _, token) = seat(&world).await;
    let (status, said) = world.get(&token, SEAT).await;
    assert_eq!((status, said), (200, json!({"baseBranch": "main"})));
    for (method, path) in api::agent_calls() {
        let url = format!("{}{path}", world.url);
        let request = world.http.request(method.clone(), url).bearer_auth(&token);
        let (status, said) = answer(request.json(&json!({}))).await;
        match path.as_str() {
            SEAT => assert_eq!(status, 200),
            // Git's own protocol, of which these are no requests.
            "/v1/git/info/refs" | "/v1/git/git-upload-pack" => {
                assert!(status == 403 || status == 400 || status == 200, "{path}: {status} {said}");
            }
            _ => {
                let code = said["error"]["code"].as_str().unwrap_or_default();
                assert_eq!((status, code), (403, "forbidden"), "{method} {path}: {said}");
            }
        }
    }
    let metrics = world.metrics().await;
    let counted = r#"codebutler_identity_refused_total{reason="waiting_seat"}"#;
    assert!(metrics.contains(counted), "{metrics}");

    // The repository that it reads has none of the branches of Threads, and it can't push.
    let refs = |service: &str, token: &str| {
        let url = format!("{}/v1/git/info/refs?service={service}", world.url);
        world.http.get(url).bearer_auth(token)
    };
    assert_eq!(world.get("pm", "/v1/session").await.0, 200, "which makes the branch");
    let (status, listed) = answer(refs("git-upload-pack", &token)).await;
    let listed = listed.as_str().unwrap();
    assert!(status == 200 && listed.contains("refs/heads/main"), "{status} {listed}");
    assert!(!listed.contains("codebutler/"), "{listed}");
    let (_, own) = answer(refs("git-upload-pack", world.token("pm"))).await;
    assert!(own.as_str().unwrap().contains("codebutler/"), "{own}");
    assert_eq!(answer(refs("git-receive-pack", &token)).await.0, 403);
}

#[tokio::test]
async fn a_seat_hears_at_once_who_took_it_and_is_then_that_role() {
    let world = World::start(vec![]).await;
    let (_, uid, token) = seat(&world).await;
    let url = format!("{}{SEAT}?wait=50", world.url);
    let asking = tokio::spawn(answer(world.http.get(url).bearer_auth(&token)));
    let named = json!({"status": {"roles": {"pm": {"podUID": uid, "admitted": true}}}});
    world.cluster.patch::<Thread>(world.cluster.team(), &world.name, &named).await;
    let (status, said) = asking.await.unwrap();
    assert_eq!((status, said["thread"].as_str()), (200, Some(&*world.name)), "{said}");
    let (status, session) = world.get(&token, "/v1/session").await;
    assert_eq!((status, session["role"].as_str()), (200, Some("pm")), "{session}");

    // Another one takes its place: it is nobody then, and no seat either, though the Repo may still name it.
    let other = json!({"status": {"roles": {"pm": {"podUID": "another"}}}});
    world.cluster.patch::<Thread>(world.cluster.team(), &world.name, &other).await;
    let gone = json!({"status": {"warm": {"pods": null}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &gone).await;
    eventually("the pod is nobody", || async {
        world.get(&token, "/v1/session").await.1["error"]["code"] == "not_registered"
    })
    .await;
}

#[tokio::test]
async fn a_seat_reaches_the_repos_hosts_where_its_clone_will_be_set_up() {
    let world = World::start(vec![]).await;
    let (_, _, token) = seat(&world).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let to = listener.local_addr().unwrap().to_string();
    let tunnel = || async {
        let request = world.http.get(format!("{}/v1/connect", world.url)).query(&[("to", &to)]);
        let request = request.header("connection", "upgrade").bearer_auth(&token);
        let answer = request.header("upgrade", "codebutler-tunnel").send().await.unwrap();
        let status = answer.status().as_u16();
        (status, if status == 101 { String::new() } else { answer.text().await.unwrap() })
    };
    let list = json!({"spec": {"egress": {"hosts": [&to]}, "worktree": {"setup": "make deps"}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &list).await;
    let (status, why) = tunnel().await;
    assert!(status == 403 && why.contains("not set up"), "nobody runs commands: {status} {why}");

    set_tools(&world, "coder", &["Bash", "Read"]).await;
    let set_up = json!({"command": "make deps", "requiresEnforcement": true});
    eventually("the seat is told of its set-up", || async {
        world.get(&token, SEAT).await.1 == json!({"baseBranch": "main", "setUp": set_up})
    })
    .await;
    eventually("a listed host is reached", || async { tunnel().await.0 == 101 }).await;
    let none = json!({"spec": {"egress": {"hosts": []}}});
    world.cluster.patch::<Repo>(world.cluster.team(), "shop", &none).await;
    eventually("and no other one", || async {
        let (status, why) = tunnel().await;
        status == 403 && why.contains("spec.egress.hosts")
    })
    .await;
}

#[tokio::test]
async fn how_a_seats_set_up_ended_is_on_the_repo() {
    let world = World::start(vec![]).await;
    let (_, _, token) = seat(&world).await;
    let said = async || {
        let conditions = world.repo().await.status.unwrap().conditions;
        let found = conditions.into_iter().find(|c| c.type_ == SEATS_SET_UP);
        found.map(|found| (found.status, found.reason, found.message))
    };
    assert_eq!(world.get(&token, SEAT).await.0, 200);
    assert_eq!(said().await, None, "nothing was told");
    assert_eq!(world.get(&token, "/v1/seat?setUp=failed").await.0, 200);
    let (status, reason, message) = said().await.unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "SetUpFailed"));
    let select = format!("-l {}=shop,{}", names::LABEL_REPO, names::LABEL_SEAT);
    assert!(message.contains(&select), "of any seat, so that the next one's is no news: {message}");
    assert_eq!(world.get(&token, "/v1/seat?setUp=obey").await.0, 400);
    assert_eq!(world.get(&token, "/v1/seat?setUp=done").await.0, 200);
    assert_eq!(said().await.unwrap().1, "SetUpDone");
    // A role can't say it of a seat.
    assert_eq!(world.get("pm", "/v1/seat?setUp=failed").await.0, 200);
    assert_eq!(said().await.unwrap().1, "SetUpDone");
}
