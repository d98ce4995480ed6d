//! The way out of a pod, from a command's point of view, on the whole product.

use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::condition::{EGRESS_ENFORCED, is_true};
use codebutler_crds::warm::WarmSpec;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use serde_json::json;

use crate::support::{Setup, Team, needs_process_kubelet};

/// Asks the proxy that the environment names for a connection, and shows its answer.
const ASK: &str = r#"
ask() {
  proxy=${HTTPS_PROXY#http://}
  exec 3<>"/dev/tcp/${proxy%:*}/${proxy#*:}" || return 1
  printf 'CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n' "$1" "$1" >&3
  read -r -t 20 line <&3; printf '%s => %s\n' "$1" "$line"
  exec 3>&-
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_command_reaches_listed_hosts_through_the_gateway_and_no_other() {
    if needs_process_kubelet("the host that is reached is on this loopback") {
        return;
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listed = listener.local_addr().unwrap().to_string();
    let command = format!(
        "{ASK}\nask {listed}; ask 169.254.169.254:80; ask kubernetes.default.svc:443; \
         ask user@crates.io:443; ask 2130706433:80"
    );
    let script = ModelScript::of("pm", vec![ScriptStep::say("@codebutler.coder have a look")]).and(
        "coder",
        vec![ScriptStep::tool("Bash", json!({"command": command})), ScriptStep::say("Looked.")],
    );
    let hosts = vec![listed.clone(), "169.254.169.254".to_owned()];
    let setup = Setup::new(script).repo(move |repo| repo.egress.hosts.clone_from(&hosts));
    let team = setup.start().await;
    let root = team.says("ana", None, "please look");
    team.message(&root, "Looked.").await;
    let requests = team.stack.models.requests();
    let told = requests.iter().map(|r| r.body.to_string()).find(|body| body.contains(" => "));
    let told = told.unwrap_or_default();
    assert!(told.contains(&format!("{listed} => HTTP/1.1 200")), "the listed host: {told}");
    drop(listener);
    for refused in
        ["169.254.169.254:80", "kubernetes.default.svc:443", "user@crates.io:443", "2130706433:80"]
    {
        assert!(told.contains(&format!("{refused} => HTTP/1.1 4")), "{refused}: {told}");
    }
    assert!(told.contains("spec.egress.hosts"), "a refusal says what to do: {told}");

    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let enforced =
        |repo: &Repo| is_true(&repo.status.clone().unwrap_or_default().conditions, EGRESS_ENFORCED);
    team.until("EgressEnforced", || async {
        repos.get(&team.stack.repo).await.ok().filter(|repo| enforced(repo))
    })
    .await;
    team.stop().await;
}

/// Looks around, with a wall that comes so late and a pod that gives it a second.
fn late(after: Duration) -> Setup {
    let script = ModelScript::of("pm", vec![ScriptStep::say("Looked.")]);
    let grace = |_: &Pod, container: &str| {
        let variable = ("CODEBUTLER_WALL_SECONDS".to_owned(), "1".to_owned());
        if container == "agent" { vec![variable] } else { Vec::new() }
    };
    Setup::new(script).late_wall(after).inject_env(Arc::new(grace))
}

async fn enforced(team: &Team) -> Option<Condition> {
    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let conditions = repos.get(&team.stack.repo).await.ok()?.status?.conditions;
    conditions.into_iter().find(|c| c.type_ == EGRESS_ENFORCED)
}

async fn pod_uid(team: &Team, root: &str) -> Option<String> {
    team.thread(root).await.status?.roles.get("pm")?.pod_uid.clone()
}

fn complaints(team: &Team, root: &str) -> usize {
    team.messages(root).iter().filter(|m| m.shown.contains("requireEnforcement")).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_that_is_up_two_seconds_late_costs_nobody_a_word() {
    if needs_process_kubelet("its network lets pods out for a while") {
        return;
    }
    let setup = late(Duration::from_secs(2)).inject_env(Arc::new(|_: &Pod, _: &str| Vec::new()));
    let team = setup.start().await;
    let root = team.says("ana", None, "please look");
    team.message(&root, "Looked.").await;
    assert_eq!(complaints(&team, &root), 0);
    let found = enforced(&team).await.expect("the condition");
    assert_eq!((found.status.as_str(), found.reason.as_str()), ("True", "Enforced"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_that_never_comes_lets_nothing_run_and_is_told_by_name() {
    if needs_process_kubelet("its network lets pods out for a while") {
        return;
    }
    let team = late(Duration::from_hours(1)).start().await;
    let root = team.says("ana", None, "please look");
    let told = team.message(&root, "I don't start here").await.shown;
    for part in ["API server", "the node's own address", "requireEnforcement"] {
        assert!(told.contains(part), "{told}");
    }
    let open = |condition: &Condition| condition.status == "False";
    let found = team.until("the condition", || async { enforced(&team).await.filter(open) }).await;
    assert!(found.message.contains("API server"), "{}", found.message);
    assert!(team.stack.models.requests().is_empty(), "no model was asked");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seat_that_no_wall_keeps_in_lets_nothing_run_once_it_is_taken() {
    if needs_process_kubelet("its network lets pods out for a while") {
        return;
    }
    let warm: WarmSpec = serde_json::from_value(json!({"seats": 1})).unwrap();
    let setup = late(Duration::from_hours(1));
    let team = setup.repo(move |repo| repo.warm = Some(Box::new(warm.clone()))).start().await;
    let repos = Api::<Repo>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    team.until("a seat", || async {
        let warm = repos.get(&team.stack.repo).await.ok()?.status?.warm?;
        (warm.ready == 1).then_some(())
    })
    .await;
    let root = team.says("ana", None, "please look");
    let told = team.message(&root, "I don't start here").await.shown;
    assert!(told.contains("API server"), "{told}");
    let thread = team.thread(&root).await;
    assert!(thread.status.unwrap().volume.is_some(), "it took the seat");
    assert!(team.stack.models.requests().is_empty(), "no model was asked");
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_that_comes_much_later_is_noticed_by_the_pod_that_missed_it() {
    if needs_process_kubelet("its network lets pods out for a while") {
        return;
    }
    let team = late(Duration::from_secs(12)).start().await;
    let root = team.says("ana", None, "please look");
    team.message(&root, "I don't start here").await;
    let refused = pod_uid(&team, &root).await.expect("a pod");
    team.message(&root, "Looked.").await;
    assert_eq!(pod_uid(&team, &root).await, Some(refused), "the same pod");
    assert_eq!(complaints(&team, &root), 1);
    team.until("the condition", || async {
        enforced(&team).await.filter(|found| found.status == "True")
    })
    .await;
    team.stop().await;
}
