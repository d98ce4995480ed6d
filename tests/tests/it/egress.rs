//! The way out of a pod, from a command's point of view, on the whole product.

use codebutler_crds::Repo;
use codebutler_crds::condition::{EGRESS_ENFORCED, is_true};
use codebutler_testbed::models::{Script, Step};
use kube::Api;
use serde_json::json;

use crate::support::Setup;

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
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listed = listener.local_addr().unwrap().to_string();
    let command = format!(
        "{ASK}\nask {listed}; ask 169.254.169.254:80; ask kubernetes.default.svc:443; \
         ask user@crates.io:443; ask 2130706433:80"
    );
    let script = Script::of("pm", vec![Step::say("@codebutler.coder have a look")])
        .and("coder", vec![Step::tool("Bash", json!({"command": command})), Step::say("Looked.")]);
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
