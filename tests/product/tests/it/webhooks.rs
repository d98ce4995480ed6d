//! An admission webhook that is out of order: nothing stalls without a word, and nothing for good.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::support::{Setup, Team};

/// Sets the failure that the webhook of the team's namespace answers with; null fixes it.
async fn webhook_says(team: &Team, said: Value) {
    let annotations = json!({"testbed.codebutler.dev/webhook-answers-500": said});
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    let namespaces = Api::<Namespace>::all(team.stack.cluster.client());
    namespaces.patch(&team.stack.place.team, &PatchParams::default(), &patch).await.unwrap();
}

/// Looks at Threads that failed.
async fn failed(team: &Team) -> f64 {
    let url = format!("http://{}/metrics", team.stack.metrics.controller);
    let page = reqwest::get(url).await.unwrap().text().await.unwrap();
    let name = "codebutler_reconciles_total{kind=\"Thread\",outcome=\"failed\"} ";
    let value = page.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0.0, |value| value.parse().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_is_told_in_the_thread_and_work_begins_when_it_is_back() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Hello.")])).start().await;
    if !team.stack.cluster.is_embedded() {
        team.stop().await;
        return;
    }
    webhook_says(&team, json!("policy engine is starting")).await;
    let root = team.says("ana", None, "hello");
    let told = team.message(&root, "I can't go on").await;
    for part in ["failed calling webhook", "pods.policy.example.com", "policy engine is starting"] {
        assert!(told.shown.contains(part), "{part}: {}", told.shown);
    }
    let thread = team.thread(&root).await;
    let conditions = thread.status.unwrap().conditions;
    let ready = conditions.iter().find(|c| c.type_ == "Ready").unwrap();
    assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "NotAccepted"));
    // The counter that an alert looks at goes on counting, also now that people know.
    let before = failed(&team).await;
    assert!(before >= 2.0, "{before}");
    team.until("the next attempt", || async { (failed(&team).await > before).then_some(()) }).await;
    webhook_says(&team, Value::Null).await;
    team.message(&root, "Hello.").await;
    team.stop().await;
}
