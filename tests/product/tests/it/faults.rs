//! Failures outside while a team works: models, the Git host, and a Thread that is deleted.

use std::time::Duration;

use codebutler_testbed::github::HostFailure;
use codebutler_testbed::models::{FaultKind, ModelScript, ScriptStep};
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::support::Setup;

fn read() -> ScriptStep {
    ScriptStep::tool("Read", json!({"path": "README.md"})).costing(100, 10, "0.25")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_stumbles_is_asked_again() {
    let limited = FaultKind::Status { status: 429, retry_after: Some(1) };
    let broken = FaultKind::Status { status: 500, retry_after: None };
    let pm = vec![
        read().failing(limited, 1),
        read().failing(broken, 1),
        ScriptStep::say("All fine.").costing(100, 10, "0.25"),
        ScriptStep::say("After a cut.").failing(FaultKind::Cut, 1),
        ScriptStep::say("After a hang.").failing(FaultKind::Hang { seconds: 1 }, 1),
    ];
    let team = Setup::new(ModelScript::of("pm", pm)).start().await;
    let root = team.says("ana", None, "hello");
    team.message(&root, "All fine.").await;
    let thread = team.settled(&root, "pm").await;
    // The question and the answer; at most a line that says what is waited for.
    let waits = |line: &String| line.contains("wait");
    team.until("what it was doing to be taken away", || async {
        let said = team.messages(&root).into_iter().map(|message| message.shown);
        let others: Vec<_> = said.filter(|line| line != "hello" && line != "All fine.").collect();
        assert!(others.len() <= 2, "{others:?}");
        others.iter().all(waits).then_some(())
    })
    .await;
    assert_eq!(thread.status.unwrap().cost, Some(team.stack.models.billed().total()));

    // An answer that was lost on the way is asked for again: what it may have cost counts as spent until
    // the provider tells.
    for answer in ["After a cut.", "After a hang."] {
        // At most a line that says what is done or waited for, which goes again, as above.
        let passes = |line: &String| {
            line.contains("wait") || line.starts_with(":hourglass") || line.starts_with("Working ·")
        };
        let heard = || {
            let messages = team.messages(&root).into_iter().map(|message| message.shown);
            messages.partition::<Vec<_>, _>(|line| !passes(line))
        };
        let (known, waits) = heard();
        team.says("ana", Some(&root), "more, please");
        team.message(&root, answer).await;
        team.settled(&root, "pm").await;
        let (now, later) = heard();
        assert_eq!(now.len(), known.len() + 2, "nobody is bothered with it: {now:?}");
        assert!(later.len() <= waits.len() + 1, "{later:?}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_git_host_that_is_away_is_waited_for() {
    let coder = vec![
        ScriptStep::tool("Write", json!({"path": "new.txt", "content": "new\n"})),
        ScriptStep::tool("GitCommit", json!({"message": "Add a file"})),
        ScriptStep::say("Committed."),
    ];
    let team = Setup::new(ModelScript::of("coder", coder)).start().await;
    // Before the first clone.
    team.stack.github.set_away(HostFailure::HangsUp);
    let root = team.says("ana", None, "@codebutler.coder please");
    let asked = || async { (!team.stack.github.seen().is_empty()).then_some(()) };
    team.until("somebody to knock", asked).await;
    assert_eq!(team.stack.models.requests().len(), 0);
    team.stack.github.set_away(HostFailure::No);
    team.message(&root, "Committed.").await;
    team.settled(&root, "coder").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thread_that_is_deleted_in_the_middle_of_a_run_is_cleaned_up_and_told() {
    let script = ModelScript::of("pm", vec![read(), ScriptStep::say("never said")]);
    let team = Setup::new(script).start().await;
    team.stack.models.hold();
    let root = team.says("ana", None, "hello");
    let held = tokio::time::timeout(Duration::from_mins(2), team.stack.models.held());
    held.await.unwrap();
    let name = team.thread(&root).await.name_any();
    team.stack.threads().delete(&name, &DeleteParams::default()).await.unwrap();
    let told = team.message(&root, "was deleted in the cluster").await;
    let remains = format!("remains: branch `codebutler/{name}`");
    assert!(told.shown.contains(&remains), "{}", told.shown);
    team.until("nothing to be left", || async { team.leftovers().await.is_empty().then_some(()) })
        .await;
    assert!(team.stack.threads().get_opt(&name).await.unwrap().is_none());
    team.stack.models.release();
    // A message that is sent afterwards begins anew, on the branch that remains.
    let again = team.says("ana", Some(&root), "please go on");
    team.message(&root, "never said").await;
    let thread = team.settled(&root, "pm").await;
    assert_eq!(thread.status.unwrap().roles["pm"].inbox.as_ref().unwrap().as_str(), again);
    team.stop().await;
}
