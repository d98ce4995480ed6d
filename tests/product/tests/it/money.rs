//! A role at its cap, as a team meets it.

use codebutler_crds::thread::RoleState;
use codebutler_crds::{NanoUsd, condition};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::Setup;

const DOLLAR: u64 = 1_000_000_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_role_at_its_cap_asks_and_goes_on_with_a_click() {
    let pm = vec![
        ScriptStep::tool("Glob", json!({"pattern": "*"})).costing(900, 20, "0.6"),
        ScriptStep::say("Two files.").costing(900, 20, "0.6"),
    ];
    let team = Setup::new(ModelScript::of("pm", pm))
        .repo(|repo| repo.limits.budget.per_thread = Some(NanoUsd(DOLLAR)))
        .start()
        .await;
    let root = team.says("ana", None, "look");
    let question = team.message(&root, "waits: ").await;
    assert!(question.shown.contains("$0.60 of $1.00"), "{}", question.shown);
    let waits = |thread: &codebutler_crds::Thread| {
        thread.status.as_ref().is_some_and(|status| {
            status.roles["pm"].state == Some(RoleState::Waiting)
                && condition::is_true(&status.conditions, condition::BUDGET_EXCEEDED)
        })
    };
    team.thread_when(&root, "the pm to wait for money", waits).await;
    assert_eq!(team.stack.models.requests().len(), 1, "nothing is spent while it waits");

    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &question.ts, "budget:raise-1").unwrap();
    team.message(&root, "Two files.").await;
    let status = team.settled(&root, "pm").await.status.unwrap();
    assert_eq!(status.cost, Some(NanoUsd(DOLLAR * 12 / 10)));
    assert_eq!(status.cost, Some(team.stack.models.billed().total()));
    assert_eq!(team.stack.models.requests().len(), 2, "it went on from where it was");
    let budget = status.budget.unwrap();
    assert_eq!((budget.raised, budget.ask, budget.flagged), (NanoUsd(DOLLAR), None, NanoUsd::ZERO));
    assert_eq!(status.speaker.as_ref(), Some(ana));
    team.message(&root, "Raised by $1 by").await;
    let asked = team.messages(&root).iter().filter(|m| m.shown.contains("waits: ")).count();
    assert_eq!(asked, 1);
    team.thread_when(&root, "the condition to go", |thread| {
        let conditions = thread.status.iter().flat_map(|status| &status.conditions);
        conditions.into_iter().all(|c| c.type_ != condition::BUDGET_EXCEEDED)
    })
    .await;
    team.stop().await;
}
