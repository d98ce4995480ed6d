//! Findings of the researcher are kept, land with the work that needed them, and nobody has to look them up again.

use codebutler_testbed::models::{ModelScript, ScriptStep, ScriptedConversation};
use serde_json::json;

use crate::support::Setup;

const PAGE: &str = ".codebutler/research/stripe-webhooks-retries.md";

fn keeps(topic: &str, sources: &[&str]) -> ScriptStep {
    ScriptStep::tool(
        "KeepResearch",
        json!({"topic": topic, "question": "How often is a webhook sent again?", "version": "API 2026-10",
            "findings": "Up to three days, with growing pauses.", "sources": sources}),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_out_lands_with_the_work_and_the_next_conversation_knows_of_it() {
    let pm =
        vec![ScriptStep::say("@codebutler.researcher How often does Stripe send a webhook again?")];
    let source = "https://docs.stripe.com/webhooks";
    let researcher = vec![
        keeps("Stripe webhooks: retries", &["I just know it"]),
        keeps("Stripe webhooks: retries", &[source, "src/price.txt:1"]),
        keeps("Stripe webhooks – retries", &[source]),
        ScriptStep::tool("GHCreatePR", json!({"title": "no"})),
        ScriptStep::say("@codebutler.pm Up to three days."),
    ];
    let mut script = ModelScript::of("pm", pm).and("researcher", researcher);
    let next = ScriptedConversation {
        thread: Some("next:".into()),
        steps: vec![ScriptStep::say("Three days.")],
    };
    script.0.get_mut("pm").unwrap().conversations.insert(0, next);
    let team = Setup::new(script).and_role("researcher").start().await;
    let root = team.says("ana", None, "are our webhooks retried?");
    team.message(&root, "Up to three days.").await;
    let thread = team.thread(&root).await;
    let branch = codebutler_crds::names::branch_name(thread.metadata.name.as_ref().unwrap());
    let git = team.stack.remote.git();
    let names = git.run(&["show", "--name-only", "--format=%an%n%s", &branch]).await.unwrap();
    assert_eq!(
        names.trim(),
        format!("CodeButler Researcher\nKeep research: Stripe webhooks: retries\n\n{PAGE}")
    );
    let page = git.run(&["show", &format!("{branch}:{PAGE}")]).await.unwrap();
    for line in [
        "# Stripe webhooks: retries\n",
        "- Source: https://docs.stripe.com/webhooks\n",
        "for API 2026-10\n",
    ] {
        assert!(page.contains(line), "{line}: {page}");
    }
    let requests = team.stack.models.requests();
    let answers = requests.iter().rfind(|one| one.role.as_deref() == Some("researcher")).unwrap();
    let answers = answers.body.to_string();
    assert!(answers.contains("neither the address of a page nor a place"), "{answers}");
    assert!(answers.contains(&format!("Kept as `{PAGE}`")), "{answers}");
    assert!(
        answers.contains("is about “Stripe webhooks: retries”: take exactly this"),
        "{answers}"
    );
    assert!(answers.contains("there is no tool `GHCreatePR`"), "{answers}");

    // Once it is on the base branch.
    git.run(&["update-ref", "refs/heads/main", &format!("refs/heads/{branch}")]).await.unwrap();
    let next = team.says("ana", None, "next: how often are webhooks retried?");
    team.message(&next, "Three days.").await;
    let requests = team.stack.models.requests();
    let told = requests.last().unwrap().body.to_string();
    assert!(told.contains("# What was found out before"), "{told}");
    assert!(
        told.contains(
            "`research/stripe-webhooks-retries.md`: Stripe webhooks: retries (checked 20"
        ),
        "{told}"
    );
    team.stop().await;
}
