//! Two conversations at the same files: the second one is told before it begins, and again when the
//! first one is merged.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{Setup, asks};

fn script() -> ModelScript {
    let plan = json!({"message": "Plan: raise the price.", "decision": "plan", "workflow": "bugfix",
        "files": ["src/price.txt"], "complexity": "simple"});
    let pm =
        vec![ScriptStep::tool("ListThreads", json!({})), ScriptStep::tool("SendMessage", plan)];
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "src/price.txt", "content": "price = 0.2\n"})),
        ScriptStep::tool("GitCommit", json!({"message": "Raise the price"})),
        ScriptStep::tool("GitPush", json!({})),
        ScriptStep::tool("GHCreatePR", json!({"title": "Raise the price", "body": "Too low."})),
        ScriptStep::say("@codebutler.lead done"),
    ];
    let lead = vec![
        asks("Merge?", "merge"),
        ScriptStep::tool("CloseThread", json!({"summary": "Raised."})),
    ];
    ModelScript::of("pm", pm).and("coder", coder).and("lead", lead)
}

#[tokio::test(flavor = "multi_thread")]
async fn who_plans_at_the_same_files_is_told_and_so_is_who_is_merged_past() {
    let team = Setup::new(script()).start().await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    let first = team.says("ana", None, "the price is too low, says ana in secret words");
    let plan = team.message(&first, "Plan: raise").await;
    assert!(plan.shown.contains("simple · changes `src/price.txt`"), "{}", plan.shown);
    assert!(!plan.shown.contains("is at"), "{}", plan.shown);
    let name = team.thread(&first).await.name_any();
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    let ready = team.message(&first, "Merge?").await;

    let second = team.says("ben", None, "the price is wrong");
    let told = team.message(&second, "Plan: raise").await;
    let warned = format!("Thread {name} (`codebutler/{name}`) is at `src/price.txt` too");
    assert!(told.shown.contains(&warned), "{}", told.shown);
    let requests = team.stack.models.requests();
    let prompts: Vec<String> = requests.iter().map(|request| request.body.to_string()).collect();
    let listed = prompts
        .iter()
        .find(|prompt| prompt.contains("OVERLAPS") || prompt.contains("its branch changes"));
    let listed = listed.expect("the pm sees what the other thread changes");
    assert!(listed.contains("its branch changes: src/price.txt"), "{listed}");
    assert!(!listed.contains("secret words"), "what people say stays in their thread: {listed}");
    let has_details = |thread: &codebutler_crds::Thread| {
        thread.status.as_ref().is_some_and(|status| status.plan_details.is_some())
    };
    let second_thread = team.thread_when(&second, "what its plan names", has_details).await;
    let details = second_thread.status.unwrap().plan_details.unwrap();
    assert_eq!(details.files, ["src/price.txt"]);

    team.stack.slack.click(ana, channel, &ready.ts, "merge:merge").unwrap();
    let merged = team.message(&second, "was merged into").await;
    assert!(merged.shown.contains("It changed `src/price.txt`, which this thread is at too"));
    let messages = team.messages(&first);
    assert!(!messages.iter().any(|message| message.shown.contains("was merged into")));
    team.stop().await;
}
