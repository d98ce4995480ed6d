//! Handover between roles, with models that forget to say who goes on: the conversation never rests in silence while
//! something that people approved is unfinished.

use std::time::Duration;

use codebutler_crds::thread::RoleState;
use codebutler_testbed::models::{FaultKind, ModelScript, ScriptStep};
use serde_json::json;

use crate::support::{Setup, Team, asks};

const PRICE: &str = "src/price.txt";

fn plan() -> ScriptStep {
    asks("Plan: raise the price.", "plan")
}

/// Steps of the coder, from the file to the pull request.
fn work() -> Vec<ScriptStep> {
    vec![
        ScriptStep::tool("Write", json!({"path": PRICE, "content": "price = 0.2\n"})),
        ScriptStep::tool("GitCommit", json!({"message": "Raise the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Raise the price", "body": "Too low."})),
    ]
}

async fn approve(team: &Team, text: &str) -> String {
    let root = team.says("ana", None, text);
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    root
}

/// Number of messages that contain a text.
fn count(team: &Team, root: &str, text: &str) -> usize {
    team.messages(root).iter().filter(|message| message.shown.contains(text)).count()
}

/// True if ✅ is on the conversation's first message.
fn is_done(team: &Team, root: &str) -> bool {
    let messages = team.messages(root);
    let first = messages.iter().find(|message| message.ts == root).unwrap();
    first.reactions.iter().any(|reaction| reaction.name == "white_check_mark")
}

#[tokio::test(flavor = "multi_thread")]
async fn models_that_address_nobody_still_come_to_the_question_whether_to_merge() {
    let mut coder = vec![ScriptStep::say("Now I will raise the price.")];
    coder.push(work().remove(0).expecting("there is no pull request"));
    coder.extend(work().into_iter().skip(1));
    coder.push(ScriptStep::say("Done, all tests pass."));
    let reviewer = vec![ScriptStep::say("Approved. It does what the plan says.")];
    let lead = vec![
        ScriptStep::say("Everything is fine."),
        asks("Merge?", "merge").expecting("decision: merge"),
    ];
    let script = ModelScript::of("pm", vec![plan()])
        .and("coder", coder)
        .and("reviewer", reviewer)
        .and("lead", lead);
    let team = Setup::new(script).start().await;
    let root = approve(&team, "the price is too low").await;
    team.message(&root, "Merge?").await;
    team.settled(&root, "lead").await;
    for (text, times) in [
        ("→ Coder goes on: the plan is approved", 1),
        ("→ Reviewer goes on: the pull request waits for a review", 1),
        ("→ Lead goes on: the review found nothing that has to change", 1),
        ("→ ", 3),
        // Words that were not said yet were not posted.
        ("Now I will", 0),
        ("Everything is fine", 0),
        ("Done, all tests pass.", 1),
    ] {
        assert_eq!(count(&team, &root, text), times, "{text}: {:#?}", team.messages(&root));
    }
    assert!(!is_done(&team, &root));
    let served = team.stack.models.served();
    assert!(!served.iter().any(|answer| answer.repeat), "{:?}", team.stack.models.failures());
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn decorated_and_midway_addresses_hand_over() {
    let mut coder = work();
    coder.push(ScriptStep::say("It is open.\n\n- **@codebutler.reviewer**, please look"));
    let reviewer = vec![ScriptStep::say("Nothing to add here, so over to @codebutler.lead.")];
    let script = ModelScript::of("pm", vec![plan()])
        .and("coder", coder)
        .and("reviewer", reviewer)
        .and("lead", vec![asks("Merge?", "merge")]);
    let team = Setup::new(script).start().await;
    // A thumb approves like the button.
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.react_as(ana, channel, &plan.ts, "+1").unwrap();
    team.message(&root, "Merge?").await;
    // Nothing had to be decided but who carries the plan out.
    assert_eq!(count(&team, &root, "→ "), 1, "{:#?}", team.messages(&root));
    team.stop().await;
}

/// Both only pass the work on: after two rounds people are told, and no third one begins.
#[tokio::test(flavor = "multi_thread")]
async fn two_roles_with_nothing_to_say_end_with_a_sentence_to_people() {
    let pm = ["@codebutler.coder go ahead", "@codebutler.coder please continue"];
    let coder = || ScriptStep::say("@codebutler.pm ok, your turn");
    let pm = vec![ScriptStep::say(pm[0]), ScriptStep::say(pm[1]), ScriptStep::say(pm[0])];
    let pm =
        [pm, vec![ScriptStep::say("Which price do you want?").expecting("ten cents")]].concat();
    let script = ModelScript::of("pm", pm).and("coder", vec![coder(), coder()]);
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "hello");
    let told = "→ Nobody goes on: PM and Coder have nothing new to say to each other.";
    team.message(&root, told).await;
    // Once its run has ended, it waits for people, and what they write is for it.
    let waits = |thread: &codebutler_crds::Thread| {
        let roles = thread.status.as_ref().map(|status| &status.roles);
        let pm = roles.and_then(|roles| roles.get("pm"));
        pm.is_some_and(|pm| pm.state == Some(RoleState::Waiting) && !pm.ended)
    };
    team.thread_when(&root, "the pm to wait for people", waits).await;
    team.says("ana", Some(&root), "ten cents");
    team.message(&root, "Which price do you want?").await;
    team.settled(&root, "pm").await;
    assert_eq!(count(&team, &root, "→ "), 1, "{:#?}", team.messages(&root));
    assert_eq!(team.stack.models.served().len(), 6, "{:?}", team.stack.models.failures());
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_roles_the_second_one_waits_for_its_turn() {
    let asked = "@codebutler.coder what is the price?\n@codebutler.reviewer is that right?";
    let pm = vec![ScriptStep::say(asked), ScriptStep::say("Thanks.")];
    let coder = vec![
        ScriptStep::tool("Bash", json!({"command": "sleep 1; cat src/price.txt"})),
        ScriptStep::say("It is 0.1."),
    ];
    let reviewer = vec![ScriptStep::say("It is right.").expecting("It is 0.1.")];
    let script = ModelScript::of("pm", pm).and("coder", coder).and("reviewer", reviewer);
    let team = Setup::new(script).start().await;
    let root = team.says("ana", None, "is the price right?");
    team.message(&root, "→ Reviewer goes on: PM addressed it too").await;
    team.message(&root, "It is right.").await;
    assert_eq!(count(&team, &root, "It is 0.1."), 1);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_in_plain_text_gets_its_buttons() {
    let text = "The price is too low.\n\nPlan:\n1. Raise it\n2. Test it";
    let pm = vec![ScriptStep::say(text), plan().expecting("decision: plan")];
    let team = Setup::new(ModelScript::of("pm", pm)).start().await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    assert!(!plan.buttons.is_empty());
    assert_eq!(count(&team, &root, "Test it"), 0);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_stops_without_a_pull_request_is_told_to_the_people_and_hears_their_reply() {
    let coder = vec![
        ScriptStep::say("Done."),
        ScriptStep::say("I could not find the price.").expecting("there is no pull request"),
        ScriptStep::say("Then I look there.").expecting("in src"),
        ScriptStep::say("Still nothing."),
    ];
    let team = Setup::new(ModelScript::of("pm", vec![plan()]).and("coder", coder)).start().await;
    let root = approve(&team, "the price is too low").await;
    let told = team.message(&root, "→ Nobody goes on").await;
    assert!(told.shown.contains("Coder stopped without a pull request"), "{}", told.shown);
    // As Slack has to get it, so that she is called.
    let called = format!("<@{}>", team.stack.users["ana"]);
    assert!(told.text.contains(&called), "{}", told.text);
    team.thread_when(&root, "the coder to wait", |thread| {
        thread.status.as_ref().unwrap().roles["coder"].state == Some(RoleState::Waiting)
    })
    .await;
    assert!(!is_done(&team, &root));
    // A plain reply is for the coder, and the pm sleeps on.
    team.says("ana", Some(&root), "it is in src");
    team.message(&root, "Still nothing.").await;
    team.until("people to be told again", || async {
        (count(&team, &root, "→ Nobody goes on") == 2).then_some(())
    })
    .await;
    let status = team.thread(&root).await.status.unwrap();
    assert_eq!(status.roles["pm"].usage.calls, 1);
    assert!(!is_done(&team, &root));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plain_reply_goes_to_the_role_that_failed() {
    let refused = FaultKind::Status { status: 400, retry_after: None };
    let coder = vec![ScriptStep::say("It is 0.1.").failing(refused, 2)];
    let team = Setup::new(ModelScript::of("coder", coder)).start().await;
    let root = team.says("ana", None, "@codebutler.coder what is the price?");
    team.message(&root, "Coder stopped").await;
    team.settled(&root, "coder").await;
    assert!(!is_done(&team, &root));
    team.says("ben", Some(&root), "go on please");
    team.message(&root, "It is 0.1.").await;
    team.until("✅", || async { is_done(&team, &root).then_some(()) }).await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_addresses_nobody_goes_back_to_the_role_that_asked() {
    let pm = vec![
        ScriptStep::say("@codebutler.reviewer what is the price?"),
        ScriptStep::say("The price is 0.1.").expecting("PM goes on: Reviewer has answered"),
    ];
    let reviewer = vec![ScriptStep::say("0.1, as the file says.")];
    let team = Setup::new(ModelScript::of("pm", pm).and("reviewer", reviewer)).start().await;
    let root = team.says("ana", None, "what is the price?");
    team.message(&root, "The price is 0.1.").await;
    team.until("✅", || async { is_done(&team, &root).then_some(()) }).await;
    assert_eq!(count(&team, &root, "→ "), 1);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_say_to_nobody_reaches_the_role_at_work() {
    let wait = json!({"command": "sleep 8", "timeout": 60});
    let mut coder = vec![
        ScriptStep::tool("Bash", wait),
        ScriptStep::tool("SendMessage", json!({"message": "Then 0.3."})).expecting("make it 0.3"),
    ];
    coder.extend(work());
    coder.push(ScriptStep::say("@codebutler.lead done"));
    let lead = vec![asks("Merge?", "merge")];
    let script = ModelScript::of("pm", vec![plan()]).and("coder", coder).and("lead", lead);
    let team = Setup::new(script).start().await;
    let root = approve(&team, "the price is too low").await;
    team.thread_when(&root, "the coder to run", |thread| {
        thread.status.as_ref().is_some_and(|status| status.is_running("coder"))
    })
    .await;
    team.says("ben", Some(&root), "make it 0.3");
    team.thread_when(&root, "the reply to be stored", |thread| {
        thread.status.as_ref().unwrap().routed.iter().any(|routed| routed.role == "coder")
    })
    .await;
    team.message(&root, "Merge?").await;
    assert_eq!(count(&team, &root, "Then 0.3."), 1);
    assert_eq!(team.thread(&root).await.status.unwrap().roles["pm"].usage.calls, 1);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_carried_out_once_whenever_the_gateway_dies() {
    let mut coder = work();
    coder.push(ScriptStep::say("@codebutler.lead All done."));
    coder.push(ScriptStep::say("One too many."));
    let lead = vec![asks("Merge?", "merge"), ScriptStep::say("Twice.")];
    let script = ModelScript::of("pm", vec![plan()]).and("coder", coder).and("lead", lead);
    let mut team = Setup::new(script).start().await;
    for take in 0..6 {
        let root = team.says("ana", None, &format!("the price is too low, take {take}"));
        let plan = team.message(&root, "Plan: raise").await;
        let approved = team.stack.slack.click(
            &team.stack.users["ana"],
            &team.stack.channel,
            &plan.ts,
            "plan:approve",
        );
        approved.unwrap();
        tokio::time::sleep(Duration::from_millis(take * 120)).await;
        team.stack.gateway.kill().await.unwrap();
        team.stack.gateway.restart().await.unwrap();
        // Slack tells whoever clicked when nobody takes it.
        team.until("the plan to be approved", || async {
            let status = team.thread(&root).await.status.unwrap_or_default();
            let approved = status.plan.is_some_and(|plan| plan.approved_by.is_some());
            if !approved {
                let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
                let _ = team.stack.slack.click(ana, channel, &plan.ts, "plan:approve");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            approved.then_some(())
        })
        .await;
        team.message(&root, "Merge?").await;
        team.settled(&root, "lead").await;
        for text in ["→ Coder goes on: the plan is approved", "All done.", "Merge?"] {
            assert_eq!(count(&team, &root, text), 1, "take {take}: {text}");
        }
        for text in ["One too many.", "Twice."] {
            assert_eq!(count(&team, &root, text), 0, "take {take}: {text}");
        }
        // No model had to pass it on.
        let served = team.stack.models.served();
        let passed = served.iter().filter(|answer| answer.role == "pm" && answer.step > 0).count();
        assert_eq!(passed, 0, "take {take}: {served:?}");
    }
    team.stop().await;
}
