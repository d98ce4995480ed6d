//! Somebody else's pull request, from the request to review it to the review on its page.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use serde_json::json;

use crate::support::Setup;

const REVIEW: &str = include_str!("../../../../seeds/skills/review-pr.md");
const STATUS: &str = include_str!("../../../../seeds/skills/status.md");

#[tokio::test(flavor = "multi_thread")]
async fn a_reviewer_reads_a_persons_pull_request_asks_and_reviews_it_inline() {
    let review = || {
        let remark = json!({"file": "tax.txt", "line": 1, "body": "Of which country?"});
        let arguments = json!({
            "number": 1, "body": "One question.", "requestChanges": true, "comments": [remark],
        });
        ScriptStep::tool("GHReview", arguments)
    };
    let reviewer = vec![
        ScriptStep::tool("GHPull", json!({"number": 1})),
        ScriptStep::tool("GHPull", json!({"number": 1, "part": "diff"})),
        review(),
        ScriptStep::say("May I leave it there?"),
        review(),
        ScriptStep::say("My review is on its page."),
    ];
    let pm = vec![
        ScriptStep::tool("GHPull", json!({})),
        ScriptStep::say("One pull request of Eve's is open."),
    ];
    let script = ModelScript::of("reviewer", reviewer).and("pm", pm);
    let team = Setup::new(script)
        .file(".codebutler/skills/review-pr.md", REVIEW)
        .file(".codebutler/skills/status.md", STATUS)
        .start()
        .await;
    let files = [("tax.txt", Some("19\n20\n"))];
    let number = team.stack.remote.open_fork_pull("eve", ("tax", "Add tax"), &files).await.unwrap();
    assert_eq!(number, 1);

    let root = team.says("ana", None, "@codebutler.reviewer review pull request 1");
    let question = team.message(&root, "May I do this?").await;
    for part in ["request changes", "One question.", "tax.txt:1", "Of which country?", "Add tax"] {
        assert!(question.shown.contains(part), "{part}: {}", question.shown);
    }
    let pulls = || async { team.stack.remote.pulls().await.unwrap().remove(0) };
    assert!(pulls().await.reviews.is_empty(), "not before a yes");
    team.settled(&root, "reviewer").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &question.ts, "approval:approve").unwrap();
    team.message(&root, "My review is on its page.").await;
    let pull = pulls().await;
    let [(state, body)] = pull.reviews.as_slice() else { panic!("{pull:?}") };
    assert_eq!(state, "CHANGES_REQUESTED");
    assert!(body.starts_with("One question."), "{body}");
    assert_eq!(pull.lines, [("tax.txt".to_owned(), 1, "Of which country?".to_owned())]);
    let asked = team.stack.models.requests();
    let reads = asked.last().unwrap().body["messages"].to_string();
    assert!(reads.contains("from the fork eve/") && reads.contains("+19"), "{reads}");

    let root = team.says("ana", None, "status");
    team.message(&root, "One pull request of Eve's is open.").await;
    let asked = team.stack.models.requests();
    let told = asked.last().unwrap().body["messages"].to_string();
    assert!(told.contains("#1 (open) by eve: Add tax"), "{told}");
    team.stop().await;
}
