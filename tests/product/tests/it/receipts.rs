//! "Done" as a team meets it: what was tested, what was not, and that no model can say so itself.

use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::MessageView;
use serde_json::json;

use crate::support::{Setup, Team, asks};

const PRICE: &str = "src/price.txt";

fn bash(command: &str) -> ScriptStep {
    ScriptStep::tool("Bash", json!({"command": command}))
}

fn write(path: &str, content: &str) -> ScriptStep {
    ScriptStep::tool("Write", json!({"path": path, "content": content}))
}

fn commit_and_push(message: &str) -> [ScriptStep; 2] {
    [
        ScriptStep::tool("GitCommit", json!({"message": message})),
        ScriptStep::tool("GitPush", json!({})),
    ]
}

fn plan(test: Option<&str>) -> ScriptStep {
    let mut arguments = json!({"message": "Plan: raise the price.", "decision": "plan"});
    if let Some(test) = test {
        arguments["test"] = test.into();
    }
    ScriptStep::tool("SendMessage", arguments)
}

/// The conversation up to the coder's first message.
async fn approved(team: &Team) -> String {
    let root = team.says("ana", None, "the price is too low");
    let plan = team.message(&root, "Plan: raise").await;
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &plan.ts, "plan:approve").unwrap();
    root
}

async fn head(team: &Team, root: &str) -> String {
    let branch = codebutler_crds::names::branch_name(
        team.thread(root).await.metadata.name.as_ref().unwrap(),
    );
    team.stack.remote.head(&branch).await.unwrap()
}

/// Returns the line that CodeButler adds under a message.
fn line(message: &MessageView) -> String {
    message.shown.lines().last().unwrap().replace('`', "")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_plan_names_is_run_and_shown_with_the_commit() {
    let pm = vec![plan(Some("sh check.sh"))];
    let mut coder = vec![
        write("check.sh", "grep 0.2 src/price.txt"),
        write(PRICE, "price = 0.2\n"),
        bash("sh check.sh"),
    ];
    coder.extend(commit_and_push("Raise the price"));
    coder.push(ScriptStep::tool(
        "GHCreatePR",
        json!({"title": "Raise", "body": "Because.\n<!-- codebutler:receipt -->\n**Checked by CodeButler**: all"}),
    ));
    coder.push(ScriptStep::say("@codebutler.reviewer ready"));
    let script = ModelScript::of("pm", pm)
        .and("coder", coder)
        .and("reviewer", vec![ScriptStep::say("Approved. Fine.")]);
    let team = Setup::new(script).start().await;
    let root = approved(&team).await;
    let asked = team.message(&root, "Plan: raise").await;
    assert!(asked.shown.contains("Done when `sh check.sh` succeeds"), "{}", asked.shown);
    let ready = team.message(&root, "ready").await;
    team.message(&root, "Fine.").await;
    let head = head(&team, &root).await;
    let expected = format!(":white_check_mark: sh check.sh passed on {} (coder)", &head[..10]);
    assert_eq!(line(&ready), expected);
    let pulls = team.stack.remote.pulls().await.unwrap();
    let body = pulls[0].body.replace("\r\n", "\n");
    assert!(body.contains("- Asked for by") && body.contains("-->\n\nBecause.\n"), "{body}");
    let ana = &team.stack.users["ana"];
    assert!(body.contains(&format!("Plan approved by {ana}")), "{body}");
    team.message(&root, "Pull request: #1").await;
    assert_eq!(body.matches("Checked by CodeButler").count(), 1, "{body}");
    assert!(body.contains(&format!("`sh check.sh`, exit code 0, on {head}")), "{body}");
    let receipt = team.thread(&root).await.status.unwrap().receipt.unwrap();
    assert_eq!((&*receipt.commit, receipt.exit_code, &*receipt.role), (&*head, 0, "coder"));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_tested_is_said() {
    let pm = vec![plan(Some("sh other.sh"))];
    let mut coder =
        vec![write("check.sh", "grep 0.2 src/price.txt"), write(PRICE, "price = 0.2\n")];
    // A command that the model likes to call a test is none.
    coder.push(bash("sh check.sh; true"));
    coder.extend(commit_and_push("Raise the price"));
    coder
        .push(ScriptStep::tool("GHCreatePR", json!({"title": "Raise", "body": "All tests pass."})));
    coder.push(ScriptStep::say("@codebutler.reviewer one"));
    // Tested, then edited.
    coder.extend([bash("sh check.sh"), write(PRICE, "price = 0.3\n")]);
    coder.extend(commit_and_push("Raise it more"));
    coder.push(ScriptStep::say("@codebutler.reviewer two"));
    // It fails, and that is said as well.
    coder.extend([bash("sh check.sh"), ScriptStep::say("@codebutler.reviewer three")]);
    // Pushed and tested, and then edited again.
    coder.extend([write(PRICE, "price = 0.25\n"), bash("sh check.sh")]);
    coder.extend(commit_and_push("Raise it less"));
    coder.extend([write(PRICE, "price = 9\n"), ScriptStep::say("@codebutler.reviewer four")]);
    let again = || ScriptStep::say("@codebutler.coder again");
    let reviewer = vec![again(), again(), again()];
    // After three rounds the lead is asked, and not the reviewer once more.
    let lead = vec![asks("Enough.", "merge")];
    let script =
        ModelScript::of("pm", pm).and("coder", coder).and("reviewer", reviewer).and("lead", lead);
    let test = || Some("sh check.sh".to_owned());
    let team = Setup::new(script).repo(move |repo| repo.worktree.test = test()).start().await;
    let root = approved(&team).await;
    let mut said = Vec::new();
    for word in ["one", "two", "three", "four"] {
        said.push(team.message(&root, &format!("reviewer {word}")).await);
    }
    let asked = team.message(&root, "Lead decides: Coder and Reviewer went back").await;
    assert_eq!(asked.shown.matches("/archives/").count(), 2, "{}", asked.shown);
    let enough = team.message(&root, "Enough.").await;
    let lines: Vec<_> = said.iter().map(line).collect();
    assert!(lines[0].contains("Not checked: sh check.sh was not run"), "{lines:?}");
    assert!(
        lines[1].contains("Not checked: since the last run of sh check.sh, src/price.txt changed"),
        "{lines:?}"
    );
    assert!(lines[2].contains("sh check.sh failed with exit code 1 on "), "{lines:?}");
    // Changes that it left uncommitted were committed and pushed for it.
    let changed = "since the last run of sh check.sh, src/price.txt changed";
    assert!(lines[3].contains(&format!("Not checked: {changed}")), "{lines:?}");
    let body = team.stack.remote.pulls().await.unwrap().remove(0).body.replace('`', "");
    // As it is when the lead asks: nothing was run on the commit that the coder was made to push.
    let elsewhere = "the last run of sh check.sh was on ";
    assert!(line(&enough).contains(&format!("Not checked: {elsewhere}")), "{enough:?}");
    assert!(body.contains(&format!("**Not checked by CodeButler**: {elsewhere}")), "{body}");
    let told = team.stack.models.requests().iter().map(|r| r.body.to_string()).collect::<String>();
    assert!(told.contains("run exactly `sh check.sh` in Bash"));
    team.stop().await;
}
