//! Servers in pods that take their time to start, and whose Secrets are replaced while they run.

use std::time::{Duration, Instant};

use codebutler_crds::AgentRole;
use codebutler_mcp::{ServerSession, SessionSetup};
use codebutler_mcp_servers::bridges::{StartPatience, open_pod_link};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use super::server_pods::{IMAGE, LARGE, Node, look, server};
use super::servers::READY;
use super::{World, eventually};
use crate::support::needs_process_kubelet;

const FIRST: &str = "first-pass-phrase-of-tracker";
const SECOND: &str = "second-pass-phrase-of-tracker";

async fn allow_servers(world: &World) {
    let allow = json!({"spec": {"tools": {"allow": ["Read", "mcp__*"]}}});
    world.cluster.patch::<AgentRole>(world.cluster.system(), "coder", &allow).await;
}

impl Node {
    async fn pod_uid(&self, server: &str) -> Option<String> {
        let pods = self.world.cluster.api::<Pod>(self.world.cluster.team());
        pods.get_opt(&self.pod(server)).await.unwrap()?.uid()
    }

    async fn call(&self, key: &str, arguments: Value) -> (u16, Value) {
        let call = json!({"key": key, "tool": "mcp__db__look", "arguments": arguments});
        self.world.post("coder", "/v1/mcp/calls", &call).await
    }

    async fn call_until(
        &self,
        key: &str,
        arguments: Value,
        fits: impl Fn(u16, &Value) -> bool,
    ) -> Value {
        let (begun, mut round) = (Instant::now(), 0);
        loop {
            let (status, answer) = self.call(&format!("{key}-{round}"), arguments.clone()).await;
            if fits(status, &answer) {
                return answer;
            }
            assert!(begun.elapsed() < Duration::from_secs(90), "{status} {answer}");
            tokio::time::sleep(Duration::from_millis(500)).await;
            round += 1;
        }
    }
}

#[tokio::test]
async fn a_large_image_is_waited_for_and_nobody_hears_that_its_server_is_broken() {
    if needs_process_kubelet("it says how long a pull takes") {
        return;
    }
    let large = json!({"name": "db", "image": LARGE, "command": ["python3", "/srv/server.py"], "idleSeconds": 10});
    let node = Node::start(json!([large])).await;
    let world = &node.world;
    allow_servers(world).await;
    let _probing = world.probe_servers();
    // The pull takes longer than a pod of which nothing is known is waited for.
    let mut services = (*world.gateway.bridges).clone();
    services.patience =
        StartPatience { step: Duration::from_secs(12), whole: Duration::from_mins(2) };
    let (repo, thread) = node.known();
    let opening = open_pod_link(&services, &repo, Some(&thread), "db");
    let said = "`db` is starting: its node pulls image `acme/large-tools:1`";
    let ((), opened) = tokio::join!(world.comes_to(READY, "Unknown", said), opening);
    let opened = opened.unwrap_or_else(|e| panic!("{e}"));
    let (session, _events) =
        ServerSession::open(opened.link, SessionSetup::default()).await.unwrap();
    assert_eq!(session.facts().name, "acme");
    session.close().await;
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    assert!(!messages.iter().any(|one| one.shown.contains("can't be used")), "{messages:?}");
    node.end().await;
}

#[tokio::test]
async fn a_call_waits_for_a_large_image_and_is_answered() {
    if needs_process_kubelet("it says how long a pull takes") {
        return;
    }
    let large = json!({"name": "db", "image": LARGE, "command": ["python3", "/srv/server.py"]});
    let node = Node::start(json!([large])).await;
    let world = &node.world;
    allow_servers(world).await;
    eventually("the servers are the role's", || async {
        let (_, tools) = world.get("coder", "/v1/mcp/tools").await;
        tools["notices"].to_string().contains("the server `db` is starting")
    })
    .await;
    let (status, answer) = node.call("k1", json!({"sleep": 0})).await;
    assert!(status == 200 && answer.to_string().contains("slept well"), "{status} {answer}");
    node.end().await;
}

/// A regression: a program with Java's SDK before 0.18 refuses a field of the greeting, and with it the whole.
#[tokio::test]
async fn a_program_that_refuses_what_is_declared_is_started_again_and_told_less() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let strict = json!({
        "name": "db", "image": IMAGE, "command": ["python3", "/srv/server.py"],
        "env": [{"name": "STRICT", "value": "1"}],
    });
    let node = Node::start(json!([strict])).await;
    allow_servers(&node.world).await;
    let slept = |status, answer: &Value| status == 200 && answer.to_string().contains("slept well");
    node.call_until("k", json!({"sleep": 0}), slept).await;
    node.end().await;
}

#[tokio::test]
async fn a_program_that_knows_no_initialize_is_started_again_without() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut newest = server("db");
    newest["env"] = json!([{"name": "NEWEST", "value": "1"}]);
    let node = Node::start(json!([newest])).await;
    allow_servers(&node.world).await;
    let slept = |status, answer: &Value| status == 200 && answer.to_string().contains("slept well");
    node.call_until("k", json!({"sleep": 0}), slept).await;
    node.end().await;
}

/// A regression: each call of a program that hangs waited for its whole time limit, and it was never started anew.
#[tokio::test]
async fn a_program_that_hangs_is_started_anew() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut db = server("db");
    db["callSeconds"] = json!(3);
    db["env"] = json!([]);
    let node = Node::start(json!([db])).await;
    allow_servers(&node.world).await;
    let slept = |status, answer: &Value| status == 200 && answer.to_string().contains("slept well");
    node.call_until("last", json!({"sleep": 0, "hang": true}), slept).await;
    let (status, answer) = node.call("late", json!({"sleep": 0})).await;
    let said = answer.to_string();
    assert!(status == 502 && said.contains("no answer to `tools/call` within 3 s"), "{said}");
    // It is asked whether it still answers, and is replaced.
    let answer = node.call_until("again", json!({"sleep": 0}), slept).await;
    assert!(answer["notes"].to_string().contains("was started anew"), "{answer}");
    let (_, answer) = node.call("after", json!({"sleep": 0})).await;
    assert!(answer.to_string().contains("slept well") && answer["notes"].is_null(), "{answer}");
    node.end().await;
}

/// A regression: a program that wrote a long list anew answered no ping, and was ended as one that hangs.
#[tokio::test]
async fn a_program_that_writes_its_list_anew_does_not_hang() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut db = server("db");
    db["env"] = json!([]);
    let node = Node::start(json!([db])).await;
    allow_servers(&node.world).await;
    let slept = |status, answer: &Value| status == 200 && answer.to_string().contains("slept well");
    node.call_until("first", json!({"sleep": 0}), slept).await;
    // So long that the next call asks for a ping, which has to wait for the list.
    let (_, answer) = node.call("long", json!({"sleep": 31, "changes": 15})).await;
    assert!(answer.to_string().contains("slept well"), "{answer}");
    let answer = node.call_until("next", json!({"sleep": 0}), slept).await;
    assert!(answer["notes"].is_null(), "it was ended: {answer}");
    node.end().await;
}

/// The gateway that comes next has no session of the one before, whose program has ended with it.
#[tokio::test]
async fn a_program_that_begins_anew_with_the_next_gateway_is_told_as_one() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut db = server("db");
    db["env"] = json!([]);
    let node = Node::start(json!([db])).await;
    allow_servers(&node.world).await;
    let slept = |status, answer: &Value| status == 200 && answer.to_string().contains("slept well");
    let answer = node.call_until("first", json!({"sleep": 0}), slept).await;
    assert!(answer["notes"].is_null(), "{answer}");
    eventually("the call is counted", || async {
        let status = node.known().1.status.clone().unwrap_or_default();
        status.mcp.is_some_and(|mcp| mcp.servers.get("db").is_some_and(|known| known.calls > 0))
    })
    .await;
    node.world.gateway.mcp.sessions.forget_all();
    let answer = node.call_until("next", json!({"sleep": 0}), slept).await;
    assert!(answer["notes"].to_string().contains("was started anew"), "{answer}");
    let (_, answer) = node.call("last", json!({"sleep": 0})).await;
    assert!(answer.to_string().contains("slept well") && answer["notes"].is_null(), "{answer}");
    node.end().await;
}

#[tokio::test]
async fn a_replaced_secret_reaches_the_next_call_once_the_running_one_has_ended() {
    if needs_process_kubelet("its image is a script of the test") {
        return;
    }
    let mut db = server("db");
    db["idleSeconds"] = json!(20);
    let node = Node::start(json!([db])).await;
    let world = &node.world;
    allow_servers(world).await;
    let url = "https://allowed.invalid";
    world.cluster.secret("tracker", url, &json!({"token": FIRST})).await;
    let host = json!({"host": "allowed.invalid:443"});
    let seen = node.call_until("first", host.clone(), |status, _| status == 200).await.to_string();
    assert!(seen.contains("[redacted") && !seen.contains(FIRST), "{seen}");
    let before = node.pod_uid("db").await.unwrap();

    // Longer than it takes to notice.
    let begun = Instant::now();
    let running = async {
        let (status, answer) = node.call("long", json!({"sleep": 40})).await;
        assert!(status == 200 && answer.to_string().contains("slept well"), "{status} {answer}");
        assert_eq!(node.pod_uid("db").await.as_ref(), Some(&before), "it runs where it began");
        begun.elapsed()
    };
    let replacing = async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.cluster.secret("tracker", url, &json!({"token": SECOND})).await;
        tokio::time::sleep(Duration::from_secs(33)).await;
        // By now the session with the old one takes no more calls.
        let seen = node.call_until("next", host.clone(), |status, _| status == 200).await;
        (begun.elapsed(), seen.to_string())
    };
    let (ran, (answered, seen)) = tokio::join!(running, replacing);
    assert!(answered > ran, "{answered:?} {ran:?}");
    assert!(!seen.contains(FIRST) && !seen.contains(SECOND), "{seen}");
    let after = node.pod_uid("db").await.unwrap();
    assert_ne!(after, before);
    let opened = node.open("db").await.unwrap_or_else(|e| panic!("{e}"));
    let (session, _events) =
        ServerSession::open(opened.link, SessionSetup::default()).await.unwrap();
    assert_eq!(look(&session, "allowed.invalid:443").await["auth"], format!("Bearer {SECOND}"));
    assert_eq!(node.pod_uid("db").await, Some(after), "the same Secret, the same pod");
    session.close().await;
    let pods = world.cluster.api::<Pod>(world.cluster.team());
    let pod = pods.get(&node.pod("db")).await.unwrap();
    let shown = json!([pod.metadata, world.thread().await.status]).to_string();
    assert!(!shown.contains(FIRST) && !shown.contains(SECOND), "{shown}");

    // One that is taken away is used no more.
    let secrets = world.cluster.api::<Secret>(world.cluster.team());
    secrets.delete("tracker", &DeleteParams::default()).await.unwrap();
    let gone = |status: u16, answer: &Value| {
        status == 502 && answer.to_string().contains("Secret `tracker` does not exist")
    };
    node.call_until("gone", json!({"sleep": 0}), gone).await;
    node.end().await;
}
