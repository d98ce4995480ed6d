//! Models that can't be asked: said in the thread, once, with what to do about it.

use codebutler_crds::names::ANNOTATION_HOSTS;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::{Setup, Team};

async fn set_key(team: &Team, key: &str) {
    let url = team.stack.models.url();
    let host = url.trim_end_matches("/v1");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {
            "name": "model", "namespace": team.stack.place.team, "annotations": {ANNOTATION_HOSTS: host},
        },
        "stringData": {"apiKey": key},
    });
    team.stack.cluster.apply_yaml(&secret.to_string()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_is_said_once_with_the_remedy() {
    let team = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Here I am.")])).start().await;
    set_key(&team, "sk-wrong").await;
    let root = team.says("ana", None, "Hello?");
    let told = "refused the key of Secret `model`: put a valid one into it";
    team.message(&root, told).await;
    team.settled(&root, "pm").await;
    let times = team.messages(&root).iter().filter(|m| m.shown.contains(told)).count();
    assert_eq!(times, 1);
    assert!(team.messages(&root).iter().all(|m| !m.shown.contains("sk-wrong")));

    set_key(&team, team.stack.models.api_key()).await;
    team.says("ana", Some(&root), "And now?");
    team.message(&root, "Here I am.").await;
    team.stack.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_does_not_exist_is_named() {
    let setup = Setup::new(ModelScript::of("pm", vec![ScriptStep::say("Here I am.")]));
    let team = setup.role(|role| role.model.default = "scripted/nobody".to_owned()).start().await;
    let root = team.says("ana", None, "Hello?");
    team.message(&root, "does not know the model `scripted/nobody`").await;
    team.stack.stop().await.unwrap();
}
