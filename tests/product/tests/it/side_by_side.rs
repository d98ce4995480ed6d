//! Roles that are asked together run side by side, and who asked goes on once.

use codebutler_crds::Thread;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::Setup;

const ROLES: [&str; 3] = ["pm", "coder", "reviewer"];

#[tokio::test(flavor = "multi_thread")]
async fn roles_that_are_asked_together_run_side_by_side_and_the_lead_goes_on_once() {
    let questions: Vec<_> =
        ROLES.map(|role| json!({"role": role, "question": "What is here?"})).to_vec();
    let answers = |step: ScriptStep, role: &&str| step.expecting(&format!("part of {role}"));
    let lead = vec![
        ScriptStep::tool("AskRoles", json!({"questions": questions})),
        ROLES.iter().fold(ScriptStep::say("All of it is read."), answers),
    ];
    let mut script = ModelScript::of("lead", lead);
    for role in ROLES {
        let mut step = ScriptStep::say(&format!("@codebutler.lead part of {role}"));
        // All think at the same time, and end one after the other.
        step.delay_ms = 4000 + 1500 * ROLES.iter().position(|own| *own == role).unwrap() as u64;
        script = script.and(role, vec![step]);
    }
    let team = Setup::new(script).repo(|repo| repo.limits.concurrent_threads = 4).start().await;
    let root = team.says("ana", None, "@codebutler.lead learn this repository");
    let all_run = |thread: &Thread| {
        let status = thread.status.as_ref();
        status.is_some_and(|status| ROLES.iter().all(|role| status.is_running(role)))
    };
    team.thread_when(&root, "all three to run at once", all_run).await;
    team.message(&root, "All of it is read.").await;
    let status = team.settled(&root, "lead").await.status.unwrap();
    assert_eq!(status.roles["lead"].usage.calls, 2, "once for the question, once for all answers");
    assert_eq!(status.joint_question, None);
    team.stop().await;
}
