//! An answer that did not help is a friction, and the lead sees it.

use codebutler_testbed::models::{ModelRequest, ModelScript, ScriptStep};

use crate::support::{Setup, Team};

fn last_request(team: &Team, role: &str) -> String {
    let requests = team.stack.models.requests();
    let of_role = |request: &&ModelRequest| request.role.as_deref() == Some(role);
    requests.iter().rfind(of_role).unwrap().body["messages"].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_did_not_help_is_a_friction_that_the_lead_sees() {
    let pm = vec![ScriptStep::say("It stands in `src/price.txt`.")];
    let lead = vec![ScriptStep::say("I see what went wrong.")];
    let team = Setup::new(ModelScript::of("pm", pm).and("lead", lead)).start().await;
    let root = team.says("ana", None, "where is the price?");
    let answer = team.message(&root, "It stands in").await;
    let (ana, ben) = (&team.stack.users["ana"], &team.stack.users["ben"]);
    let (slack, channel) = (&team.stack.slack, &team.stack.channel);
    slack.rate(ben, channel, &answer.ts, true).unwrap();
    slack.rate(ana, channel, &answer.ts, false).unwrap();
    let modal = team.until("a modal", || async { slack.modals(ana).pop() }).await;
    slack.submit_modal(ana, &modal.id, "No line is named").unwrap();
    team.message(&root, "No line is named").await;
    let thread = team
        .thread_when(&root, "both to be on record", |thread| {
            let feedback = thread.status.as_ref().map(|status| &status.feedback);
            feedback.is_some_and(|said| said.len() == 2 && said.iter().any(|one| one.why.is_some()))
        })
        .await;
    let feedback = thread.status.unwrap().feedback;
    let why = feedback.iter().find_map(|one| one.why.clone()).unwrap();
    team.says("ana", Some(&root), "@codebutler.lead what went wrong?");
    team.message(&root, "I see what went wrong.").await;
    let told = last_request(&team, "lead");
    let friction = format!(
        "these answers did not help them: message {} of pm (user {ana}; message {why} says why)",
        answer.ts
    );
    assert!(told.contains(&friction) && told.contains("No line is named"), "{told}");
    let requests = team.stack.models.requests();
    let of_pm = requests.iter().filter(|request| request.role.as_deref() == Some("pm"));
    assert_eq!(of_pm.count(), 1, "nobody was woken by it");
    let page = format!("http://{}/metrics", team.stack.metrics.gateway);
    let page = reqwest::get(page).await.unwrap().text().await.unwrap();
    let counted = |answer: &str| {
        let mut lines = page.lines().filter(|line| line.starts_with("codebutler_slack_feedback"));
        let label = format!("answer=\"{answer}\"");
        lines.any(|line| line.contains(&label) && line.contains("\"pm\"") && line.ends_with(" 1"))
    };
    assert!(counted("yes") && counted("no"), "{page}");
    team.stop().await;
}
