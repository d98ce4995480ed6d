//! Improvements that a retrospective proposes: each part of it has its own button.

use codebutler_crds::Thread;
use codebutler_crds::thread::ThreadState;
use codebutler_testbed::models::ScriptStep;
use serde_json::json;

use super::{click, looks_back, start, told_last, work};
use crate::support::asks;

#[tokio::test(flavor = "multi_thread")]
async fn each_improvement_is_accepted_by_itself_and_nobody_waits_for_it() {
    let mut looks = looks_back(&[]);
    let skill = json!({"what": "Prices are raised on request", "effect": "a few words suffice",
        "where": "skills/price.md", "severity": "low"});
    let guardrail = json!({"what": "The check runs before each push", "effect": "no float is pushed",
        "where": "policy.json", "severity": "medium"});
    looks.tools[0].arguments.insert("skill".to_owned(), skill);
    looks.tools[0].arguments.insert("guardrail".to_owned(), guardrail);
    let lead = vec![
        looks,
        asks("Ready to merge.", "merge"),
        ScriptStep::say("I put it into words."),
        ScriptStep::tool("CloseThread", json!({"summary": "Raised."})),
    ];
    let team = start(work().and("lead", lead)).await;
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    click(&team, &plan, "plan:approve");
    // The merge is asked for while the improvements are open.
    let ready = team.message(&root, "Ready to merge.").await;
    let better = team.message(&root, "What could go better next time").await;
    let labels: Vec<&str> = better.buttons.iter().map(|button| &*button.text).collect();
    let pair = ["Accept", "Reject"];
    assert_eq!(labels, [&pair[..], &pair, &pair, &["Reject all"]].concat());
    team.settled(&root, "lead").await;
    click(&team, &better, "learning:2:approve");
    team.message(&root, "I put it into words.").await;
    let told = told_last(&team, "lead", 2);
    for said in [
        "accepted improvement 2 of message",
        "(skill)",
        "Prices are raised on request. Expected: a few words suffice.",
        "ProposeMaps",
    ] {
        assert!(told.contains(said), "{said}: {told}");
    }
    team.settled(&root, "lead").await;
    // A no is on record and wakes nobody.
    click(&team, &better, "learning:0:reject");
    let judged = team
        .thread_when(&root, "all to be judged", |thread| {
            let offers = thread.status.as_ref().map(|status| &status.offers);
            offers.is_some_and(|offers| offers.iter().any(|offer| offer.answers.len() == 3))
        })
        .await;
    let status = judged.status.unwrap();
    let offer = status.offers.iter().find(|offer| offer.ts.as_str() == better.ts).unwrap();
    let given: Vec<_> = offer.answers.iter().map(|answer| (answer.item, answer.yes)).collect();
    assert_eq!(given, [(2, true), (1, false), (3, false)]);
    assert!(status.pending.is_empty() && offer.optional, "{:?}", status.pending);
    let shown = || async {
        let messages = team.messages(&root);
        let now = messages.into_iter().find(|message| message.ts == better.ts)?;
        now.buttons.is_empty().then_some(now)
    };
    let shown = team.until("the buttons to go", shown).await;
    assert!(shown.shown.contains("The rest was rejected by"), "{}", shown.shown);
    click(&team, &ready, "merge:merge");
    let closed = |thread: &Thread| thread.spec.state == ThreadState::Closed;
    team.thread_when(&root, "the end", closed).await;
    team.stop().await;
}
