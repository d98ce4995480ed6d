//! A cheaper model looks at a conversation first, and the role's own one goes on where more is needed.

use axum::http::StatusCode;
use codebutler_wire::{ErrorCode, RoleDecision};
use serde_json::{Value, json};

use crate::world::{World, calls, in_order, says};

const QUICK: &str = "scripted/quick";
const OWN: &str = "scripted/pm";

async fn world(answers: Vec<Value>) -> World {
    let world = World::new(in_order(answers)).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.first_look = Some(QUICK.to_owned());
        inner.session.models = vec![OWN.into(), QUICK.into()];
    }
    world
}

/// The models that were asked, and whether each was offered the way up.
fn asked(world: &World) -> Vec<(String, bool)> {
    let inner = world.gateway.lock();
    let offers = |body: &Value| {
        let tools = body["tools"].as_array().cloned().unwrap_or_default();
        tools.iter().any(|tool| tool["function"]["name"] == "HandUp")
    };
    let model = |body: &Value| body["model"].as_str().unwrap().to_owned();
    inner.requests.iter().map(|body| (model(body), offers(body))).collect()
}

fn quick() -> (String, bool) {
    (QUICK.to_owned(), true)
}

fn own() -> (String, bool) {
    (OWN.to_owned(), false)
}

fn plan() -> Value {
    calls(&[("SendMessage", json!({"message": "Plan:\n1. a\n2. b", "decision": "plan"}))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_is_answered_by_the_cheaper_model_alone() {
    let look = calls(&[("GitLog", json!({})), ("Bash", json!({"command": "ls"}))]);
    let mut world = world(vec![look, says("It is `a`."), says("And `b`.")]).await;
    world.gateway.lock().say("what is it?", true);
    world.one_pod().await;
    world.gateway.lock().say("and the other?", true);
    world.one_pod().await;
    assert_eq!(asked(&world), [quick(), quick(), quick()]);
    assert_eq!(world.gateway.lock().post_texts(), ["It is `a`.", "And `b`."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_the_stronger_models_which_goes_on_once_with_all_that_was_said() {
    let look = calls(&[("GitLog", json!({}))]);
    let answers = vec![look, plan(), plan(), says("Wait for their word."), says("Later.")];
    let mut world = world(answers).await;
    world.gateway.lock().session.decisions = vec![RoleDecision::Plan];
    world.gateway.lock().say("make it blue", true);
    world.one_pod().await;
    world.gateway.lock().say("how long will it take?", true);
    world.one_pod().await;
    let models = asked(&world);
    assert_eq!(models[..3], [quick(), quick(), own()]);
    assert!(models[3..].iter().all(|one| *one == own()), "{models:?}");
    let inner = world.gateway.lock();
    let texts = inner.post_texts();
    assert_eq!(texts[0], "`scripted/pm` goes on from here: a plan is needed.");
    assert_eq!(texts.iter().filter(|text| text.contains("goes on from here")).count(), 1);
    assert_eq!(texts.iter().filter(|text| text.starts_with("Plan:")).count(), 1, "{texts:?}");
    let kept = inner.asked[2].iter().filter(|message| message["role"] == "tool").count();
    assert_eq!(kept, 2, "what the first one read, and that its plan was not carried out");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_step_it_hands_up_once_and_the_plan_is_the_stronger_models() {
    for step in 1.. {
        let answers = vec![calls(&[("GitLog", json!({}))]), plan(), plan(), says("Wait for it.")];
        let mut world = world(answers).await;
        world.gateway.lock().session.decisions = vec![RoleDecision::Plan];
        world.gateway.lock().say("make it blue", true);
        let ended = world.settle(Some(step)).await;
        let texts = |words: &str| {
            let inner = world.gateway.lock();
            inner.post_texts().iter().filter(|text| text.contains(words)).count()
        };
        assert_eq!((texts("goes on from here"), texts("Plan:")), (1, 1), "step {step}");
        let models = asked(&world);
        assert_eq!(models.last(), Some(&own()), "step {step}: {models:?}");
        if ended[0].success() {
            assert!(step > 10, "{step}");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_hands_up_for_whatever_is_not_an_answer() {
    let hand_up = calls(&[("HandUp", json!({"why": "this is a question\nof taste."}))]);
    let speaks = calls(&[("SendMessage", json!({"message": "@codebutler.coder please fix it"}))]);
    let edits = calls(&[("Write", json!({"path": "a.txt", "content": "a"}))]);
    let words = says("@codebutler.coder please fix it");
    for (first, why) in [
        (hand_up, "this is a question of taste"),
        (speaks, "another role is needed"),
        (edits, "`Write` is needed"),
        (words, "another role is needed"),
    ] {
        let mut world = world(vec![first, says("Done as wished.")]).await;
        world.gateway.lock().say("do something", true);
        world.one_pod().await;
        assert_eq!(asked(&world), [quick(), own()], "{why}");
        let told = format!("`scripted/pm` goes on from here: {why}.");
        assert_eq!(world.gateway.lock().post_texts(), [told.as_str(), "Done as wished."]);
        assert!(!world.tree("a.txt").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_model_that_the_provider_does_not_have_is_replaced_by_the_roles_own() {
    let mut world = world(vec![says("Here.")]).await;
    {
        let mut inner = world.gateway.lock();
        let why = "the provider does not know the model `scripted/quick`";
        inner.refuse = vec![("/v1/chat", StatusCode::BAD_GATEWAY, ErrorCode::Upstream, why)];
        inner.say("where is it?", true);
    }
    world.one_pod().await;
    let texts = ["`scripted/pm` goes on from here: `scripted/quick` can't be used here.", "Here."];
    assert_eq!(world.gateway.lock().post_texts(), texts);
    assert_eq!(asked(&world).last(), Some(&own()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_finds_nothing_ends_after_six_calls() {
    let look = |n: u32| calls(&[("GitLog", json!({"limit": n}))]);
    let mut answers: Vec<Value> = (1..=6).map(look).collect();
    answers.push(says("It is there."));
    let mut world = world(answers).await;
    world.gateway.lock().say("where is it?", true);
    world.one_pod().await;
    let models = asked(&world);
    assert_eq!(models.iter().filter(|one| **one == quick()).count(), 6);
    assert_eq!(models.last(), Some(&own()));
    assert_eq!(models.len(), 7);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_asked_by_a_role_or_named_by_a_person_looks_with_its_own_model() {
    let mut asked_by_role = world(vec![says("Here.")]).await;
    let role = codebutler_wire::MessageAuthor::Role { role: "coder".into() };
    asked_by_role.gateway.lock().say_as(role, "@codebutler.pm which file?", true);
    asked_by_role.one_pod().await;
    assert_eq!(asked(&asked_by_role), [own()]);

    let mut chosen = world(vec![says("Here.")]).await;
    chosen.gateway.lock().say("@codebutler.pm model scripted/pm", true);
    chosen.gateway.lock().say("which file?", true);
    chosen.one_pod().await;
    assert_eq!(asked(&chosen), [own()]);
}
