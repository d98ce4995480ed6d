//! Arms of experiments, in which the bench starts an agent.

use codebutler_wire::{EditForm, ModelFacts};
use serde_json::{Value, json};

use crate::world::{World, calls, in_order, says};

/// All of them at once.
const ARMS: &str = "keys-sorted,edits-plain,limits-late,voice-old,compaction-old";

/// The first key of what is said of Edit, and its first argument.
fn first_keys(request: &Value) -> [String; 2] {
    let tools = request["tools"].as_array().unwrap();
    let edit = tools.iter().find(|tool| tool["function"]["name"] == "Edit").unwrap();
    ["/function", "/function/parameters/properties"].map(|place| {
        let object = edit.pointer(place).and_then(Value::as_object).unwrap();
        object.keys().next().unwrap().clone()
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_arm_changes_what_a_model_is_sent_and_nothing_that_is_kept() {
    let steps = vec![calls(&[("Glob", json!({"pattern": "*"}))]), says("done"), says("again")];
    let mut world = World::new(in_order(steps)).await;
    {
        let mut inner = world.gateway.lock();
        let claude = ModelFacts { edits: EditForm::ClaudeNames, ..ModelFacts::default() };
        inner.session.facts.insert("scripted/pm".to_owned(), claude);
        inner.say("go", true);
    }
    let in_arms = world.pod_with(None, |agent| {
        agent.env("CODEBUTLER_EXPERIMENT", ARMS);
    });
    assert!(in_arms.ended().await.success());
    world.gateway.lock().say("and again", true);
    world.one_pod().await;
    let inner = world.gateway.lock();
    let [changed, _, usual] = &inner.requests[..] else { panic!("{}", inner.requests.len()) };
    assert_eq!(first_keys(changed), ["description", "edits"]);
    assert_eq!(first_keys(usual), ["name", "file_path"]);
    let (changed, usual) = (changed.to_string(), usual.to_string());
    for (part, in_arms, outside) in [
        ("This run ends after", false, true),
        ("`[note]` explains", false, true),
        ("Only a line that begins with `[decision]` says", true, false),
    ] {
        assert_eq!((changed.contains(part), usual.contains(part)), (in_arms, outside), "{part}");
    }
}
