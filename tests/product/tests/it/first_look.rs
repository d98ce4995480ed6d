//! A cheaper model answers what needs no plan, and thanks start no model at all.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::Setup;

/// A setup with a quick model for the pm, as the roles that ship have it.
fn setup(pm: Vec<ScriptStep>, quick: Vec<ScriptStep>) -> Setup {
    let script = ModelScript::of("pm", pm).and("quick", quick);
    Setup::new(script).role(|role| {
        role.model.first_look = (role.role == "pm").then(|| "scripted/quick".to_owned());
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_and_thanks_cost_no_call_of_the_stronger_model() {
    let look = ScriptStep::tool("Glob", json!({"pattern": "**/*"}));
    let quick = vec![look, ScriptStep::say("Whole cents."), ScriptStep::say("Since the start.")];
    let team = setup(vec![ScriptStep::say("Never said.")], quick).start().await;
    let root = team.says("ana", None, "are prices whole cents?");
    team.message(&root, "Whole cents.").await;
    team.settled(&root, "pm").await;
    let thanks = team.says("ana", Some(&root), "Thanks a lot! :tada:");
    let is_seen = || async {
        let mut all = team.messages(&root).into_iter();
        all.any(|message| message.ts == thanks && message.has_reaction("blush")).then_some(())
    };
    team.until("the thanks to be seen", is_seen).await;
    team.says("ana", Some(&root), "and since when?");
    team.message(&root, "Since the start.").await;
    team.settled(&root, "pm").await;
    let requests = team.stack.models.requests();
    let models: Vec<_> = requests.iter().map(|request| request.body["model"].clone()).collect();
    assert_eq!(models, ["scripted/quick", "scripted/quick", "scripted/quick"]);
    // Messages that came meanwhile are there to be read.
    assert!(requests[2].body["messages"].to_string().contains("Thanks a lot!"));
    team.stack.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_comes_from_the_roles_own_model_which_stays() {
    let plan = || {
        let plan = "Plan:\n1. Write `b.txt`.\n2. Test it.";
        ScriptStep::tool("SendMessage", json!({"message": plan, "decision": "plan"}))
    };
    // The cheaper model's answer is one of the conversation's.
    let pm = vec![ScriptStep::say("Never."), plan(), ScriptStep::say("That is the plan.")];
    let quick = vec![ScriptStep::tool("HandUp", json!({"why": "a file has to be written"}))];
    let team = setup(pm, quick).start().await;
    let root = team.says("ana", None, "please write b.txt");
    team.message(&root, "`scripted/pm` goes on from here: a file has to be written.").await;
    let asked = || async {
        team.thread(&root).await.status.unwrap_or_default().plan.map(|plan| plan.ts.clone())
    };
    team.until("the plan to be asked about", asked).await;
    // Thanks are no answer to a question.
    team.settled(&root, "pm").await;
    let models: Vec<_> =
        team.stack.models.requests().iter().map(|r| r.body["model"].clone()).collect();
    assert_eq!(models[..2], ["scripted/quick", "scripted/pm"]);
    assert!(models[1..].iter().all(|model| model == "scripted/pm"), "{models:?}");
    team.stack.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_team_goes_on_behind_a_hand_over() {
    let reads = |count: usize, last: &str| {
        let read = |n| ScriptStep::tool("Glob", json!({"pattern": format!("**/{n}*")}));
        let mut steps: Vec<ScriptStep> = (0..count).map(read).collect();
        steps.push(ScriptStep::say(last));
        steps
    };
    let mut quick = reads(1, "");
    quick[1] = ScriptStep::tool("HandUp", json!({"why": "code has to change"}));
    let pm = reads(5, "@codebutler.coder the cause is in `1.txt:7`: mend it.");
    let script = ModelScript::of("pm", pm)
        .and("quick", quick)
        .and("coder", reads(9, "@codebutler.reviewer it is done: is it right?"))
        .and("reviewer", reads(5, "@codebutler.lead it is right."))
        .and("lead", reads(2, "All of it is done."));
    let team = Setup::new(script)
        .role(|role| {
            role.model.first_look = (role.role == "pm").then(|| "scripted/quick".to_owned());
        })
        .start()
        .await;
    for n in 0..3 {
        let root = team.says("ana", None, &format!("fix {n}: what about the sums?"));
        team.message(&root, "All of it is done.").await;
    }
    team.stack.stop().await.unwrap();
}
