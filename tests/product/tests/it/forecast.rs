//! Cost forecast of a plan, said under it, from what the Repo's own conversations came to.

use codebutler_crds::Thread;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::support::{Setup, Team};

/// A conversation of simple work that was merged at this cost, so many minutes after its plan.
async fn merged(team: &Team, number: u64, cost: &str, minutes: u64) {
    let threads = team.stack.threads();
    let name = format!("past-{number}");
    let thread: Thread = serde_json::from_value(json!({
        "apiVersion": "codebutler.dev/v1alpha1", "kind": "Thread", "metadata": {"name": name},
        "spec": {"repo": "shop", "prompt": "p", "requestedBy": "U0ANA", "state": "Closed"},
    }))
    .unwrap();
    threads.create(&PostParams::default(), &thread).await.unwrap();
    let (planned, asked) = (1_767_268_700, 1_767_268_700 + minutes * 60);
    let status = json!({"status": {
        "plan": {"ts": format!("{planned}.000100"), "role": "pm", "hash": "aa", "approvedBy": "U0BEN"},
        "planDetails": {"plan": format!("{planned}.000100"), "complexity": "simple"},
        "closing": {"ts": format!("{asked}.000100"), "role": "lead", "choice": "merge"},
        "pullRequest": {"number": number, "url": "https://git.example/acme/shop/pull/7", "mergeCommit": "abc"},
        "roles": {"coder": {"usage": {"calls": 3, "cost": cost}}},
    }});
    threads.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_says_what_work_like_it_came_to() {
    let plan = |text: &str, complexity: &str| {
        let arguments = json!({"message": text, "decision": "plan", "complexity": complexity});
        ScriptStep::tool("SendMessage", arguments)
    };
    let pm = vec![
        plan("Plan: first.", "simple"),
        plan("Plan: second.", "simple"),
        plan("Plan: third.", "complex"),
    ];
    let team = Setup::new(ModelScript::of("pm", pm)).start().await;
    let root = team.says("ana", None, "the price is too low");
    let first = team.message(&root, "Plan: first.").await;
    // As long as nothing like it was merged, people read of the model alone.
    let note = first.shown.lines().find(|line| line.contains("Coder: `scripted/coder`"));
    assert!(note.is_some_and(|note| !note.contains("estimate")), "{}", first.shown);
    assert!(!first.shown.contains("minutes until"), "{}", first.shown);
    for (number, cost, minutes) in [(1, "0.5", 30), (2, "0.1", 5), (3, "0.231", 7)] {
        merged(&team, number, cost, minutes).await;
    }
    team.settled(&root, "pm").await;
    team.says("ana", Some(&root), "plan it anew");
    let second = team.message(&root, "Plan: second.").await;
    let told = "about $0.23 and 7 minutes until the merge question (median of 3 similar threads)";
    assert!(second.shown.contains(told), "{}", second.shown);
    // The message comes before its record.
    let estimate_of = |thread: &Thread| {
        let details = thread.status.as_ref()?.plan_details.as_ref()?;
        details.estimate
    };
    let recorded = |thread: &Thread| estimate_of(thread).is_some();
    let planned = team.thread_when(&root, "the estimate to be on record", recorded).await;
    let estimate = estimate_of(&planned).unwrap();
    assert_eq!((estimate.cost, estimate.minutes, estimate.of), ("0.231".parse().unwrap(), 7, 3));
    team.settled(&root, "pm").await;
    team.says("ana", Some(&root), "it is harder than that");
    let third = team.message(&root, "Plan: third.").await;
    assert!(third.shown.contains("Coder: `scripted/coder`"), "{}", third.shown);
    assert!(!third.shown.contains("minutes until"), "nothing complex yet: {}", third.shown);
    team.stop().await;
}
