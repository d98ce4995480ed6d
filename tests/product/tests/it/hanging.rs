//! Pods that run and can't work: agents that say nothing, and nodes that can't confine commands.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use codebutler_crds::names::{pod_name, volume_claim};
use codebutler_testbed::kubelet::sandbox::spec::WITHOUT_LANDLOCK;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, ResourceExt as _};
use nix::sys::signal::Signal;
use serde_json::json;

use crate::support::{Setup, Team};

/// Shortest limit that is possible: an agent in a run tells every ten seconds.
const SILENCE: Duration = Duration::from_secs(15);

/// A coder in the middle of a command that lasts so long the first time; the conversation and its pod.
async fn at_work(seconds: u32) -> (Team, String, Pod) {
    let command = format!("if [ ! -e begun ]; then touch begun; sleep {seconds}; fi; echo through");
    let coder = vec![
        ScriptStep::tool("Bash", json!({"command": command})),
        ScriptStep::say("The build is through."),
    ];
    let team = Setup::new(ModelScript::of("coder", coder)).agent_silence(SILENCE).start().await;
    let root = team.says("ana", None, "@codebutler.coder build");
    let claim = volume_claim(&team.thread(&root).await.name_any());
    team.until("the command to begin", || async {
        let folder = team.kubelet().volume_path(&team.stack.place.team, &claim).await;
        let begun = folder.is_ok_and(|at: PathBuf| at.join("work/tree/begun").exists());
        begun.then_some(())
    })
    .await;
    let pod = pods(&team).get(&pod_of(&team, &root).await).await.unwrap();
    (team, root, pod)
}

async fn pod_of(team: &Team, root: &str) -> String {
    pod_name(&team.thread(root).await.name_any(), "coder")
}

fn pods(team: &Team) -> Api<Pod> {
    Api::namespaced(team.stack.cluster.client(), &team.stack.place.team)
}

/// Events of this reason, each with what it says.
async fn events(team: &Team, reason: &str) -> Vec<String> {
    let all = Api::<Event>::namespaced(team.stack.cluster.client(), &team.stack.place.team);
    let all = all.list(&ListParams::default()).await.unwrap();
    let told = all.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
    told.filter_map(|event| event.note).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_is_replaced_and_its_work_goes_on() {
    let (team, root, hung) = at_work(600).await;
    let (name, namespace) = (hung.name_any(), &team.stack.place.team);
    team.kubelet().kill(namespace, &name, "agent", Signal::SIGSTOP).unwrap();
    let told = team.message(&root, "has said nothing for").await;
    assert!(told.shown.contains("`coder`") && told.shown.contains("is replaced"), "{}", told.shown);
    team.message(&root, "The build is through.").await;
    assert_ne!(pods(&team).get(&name).await.unwrap().uid(), hung.uid());
    let events = events(&team, "AgentHung").await;
    assert!(events.len() == 1 && events[0].contains(&name), "{events:?}");
    team.thread_when(&root, "the mark to be taken back", |thread| {
        let coder = thread.status.as_ref().and_then(|status| status.roles.get("coder"));
        coder.is_some_and(|coder| coder.silent.is_none() && coder.failures == 0)
    })
    .await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_that_was_away_blames_no_agent_and_a_long_command_is_life() {
    let (mut team, root, pod) = at_work(50).await;
    team.stack.gateway.kill().await.unwrap();
    // It is away for longer than an agent may be silent, and then the command goes on as long again.
    tokio::time::sleep(SILENCE + Duration::from_secs(5)).await;
    team.stack.gateway.restart().await.unwrap();
    team.message(&root, "The build is through.").await;
    assert_eq!(pods(&team).get(&pod.name_any()).await.unwrap().uid(), pod.uid());
    assert_eq!(events(&team, "AgentHung").await, [""; 0]);
    team.stop().await;
}

/// Environment by which the testbed plays a kernel without Landlock, for the toolbox that runs commands.
fn old_kernel(_: &Pod, container: &str) -> Vec<(String, String)> {
    let toolbox = container == "toolbox";
    toolbox.then(|| (WITHOUT_LANDLOCK.to_owned(), "1".to_owned())).into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_landlock_is_named_in_the_thread_and_no_model_is_asked() {
    let coder =
        vec![ScriptStep::tool("Bash", json!({"command": "true"})), ScriptStep::say("Done.")];
    let setup = Setup::new(ModelScript::of("coder", coder)).inject_env(Arc::new(old_kernel));
    let team = setup.start().await;
    let root = team.says("ana", None, "@codebutler.coder build");
    let told = team.message(&root, "I can't go on").await;
    for part in ["`coder`", "node `", "its kernel ", "no Landlock", "workspace.sandbox: Runtime"] {
        assert!(told.shown.contains(part), "{part}: {}", told.shown);
    }
    let thread = team.thread(&root).await;
    let conditions = thread.status.unwrap().conditions;
    let stalled = conditions.iter().find(|c| c.type_ == "Stalled").unwrap();
    assert_eq!(stalled.reason, "SandboxUnavailable");
    assert!(team.stack.models.requests().is_empty(), "nobody pays for refused commands");
    // The node is a newer one by now.
    team.kubelet().inject_env(None);
    pods(&team).delete(&pod_of(&team, &root).await, &DeleteParams::default()).await.unwrap();
    team.message(&root, "Done.").await;
    team.stop().await;
}
