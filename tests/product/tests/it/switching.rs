//! A person gives a role another model, in words that Slack lets people type.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn a_role_that_works_goes_on_with_the_model_that_a_person_names() {
    let works = ScriptStep::tool("Bash", json!({"command": "sleep 5"}));
    let coder = vec![works, ScriptStep::say("As I was.")];
    let spare = vec![ScriptStep::say("Never said."), ScriptStep::say("As another.")];
    let setup = Setup::new(ModelScript::of("coder", coder).and("spare", spare));
    let setup = setup.role(|role| role.model.pool = vec!["scripted/spare".to_owned()]);
    let team = setup.start().await;
    let root = team.says("ana", None, "@codebutler.coder look into it");
    let begun = || async { (!team.stack.models.served().is_empty()).then_some(()) };
    team.until("the first call", begun).await;
    team.says("ana", Some(&root), "@codebutler.coder model spare");
    team.message(&root, "From now on I think with `scripted/spare`.").await;
    team.message(&root, "As another.").await;
    team.settled(&root, "coder").await;

    team.says("ana", Some(&root), "@codebutler.coder model");
    let said = || async {
        let all = team.messages(&root);
        all.into_iter().find(|message| message.shown.starts_with("I think with `scripted/spare`."))
    };
    let listed = team.until("the list of models", said).await;
    assert!(listed.shown.contains("`scripted/coder`"), "{}", listed.shown);
    team.settled(&root, "coder").await;
    let requests = team.stack.models.requests();
    let models: Vec<_> = requests.iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(models, ["scripted/coder", "scripted/spare"]);
    team.stack.stop().await.unwrap();
}
