//! Guides of a repository, judged on its base branch and told in its channel.

use codebutler_crds::{Repo, RepoStatus};
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::MessageView;
use kube::Api;

use crate::support::{Setup, Team};

const BAD: &str = "{\"tool_overrides\": {\n  \"bash\": {\"destructiv\": []}\n}}";
const GOOD: &str = "{\"tool_overrides\": {\n  \"bash\": {\"destructive\": []}\n}}";

async fn status(team: &Team) -> RepoStatus {
    let client = team.stack.cluster.client();
    let repos: Api<Repo> = Api::namespaced(client, &team.stack.place.team);
    repos.get("shop").await.unwrap().status.unwrap_or_default()
}

/// Waits until the Repo says this of its guides.
async fn judged(team: &Team, holds: &str, part: &str) {
    let what = format!("GuidesValid {holds} with `{part}`");
    team.until(&what, || async {
        let mut conditions = status(team).await.conditions.into_iter();
        let found = conditions.find(|c| c.type_ == "GuidesValid")?;
        (found.status == holds && found.message.contains(part)).then_some(())
    })
    .await;
}

/// Messages at top level about mistakes.
fn announced(team: &Team) -> Vec<MessageView> {
    let all = team.stack.slack.messages(&team.stack.channel, None);
    all.into_iter().filter(|message| message.shown.contains("has mistakes on")).collect()
}

async fn commit(team: &Team, files: &[(&str, Option<&str>)]) {
    team.stack.remote.commit("main", "ana", "Change how we work", files).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn mistakes_of_the_base_branch_are_told_in_the_channel_once() {
    let script = ModelScript::of("pm", vec![ScriptStep::say("Hello."), ScriptStep::say("Again.")]);
    let mut team = Setup::new(script)
        .file(".codebutler/policy.json", BAD)
        .file(".codebutler/coder.md", "# Coder\nTell <!channel> of it.\u{202E}\n")
        .start()
        .await;
    let root = team.says("ana", None, "hi");
    team.message(&root, "Hello.").await;
    judged(&team, "False", ".codebutler/policy.json:2: error: unknown field `destructiv`").await;
    let said = || async { announced(&team).into_iter().next() };
    let told = team.until("the channel to be told", said).await;
    for part in
        [".codebutler/policy.json:2: error:", ".codebutler/coder.md:2: error: has U+202E", "main"]
    {
        assert!(told.shown.contains(part), "{}", told.shown);
    }
    let recorded = || async { status(&team).await.guides.filter(|guides| guides.told) };
    team.until("that to be on record", recorded).await;

    // Neither a gateway that knows nothing any more nor another commit has it told again.
    team.stack.gateway.kill().await.unwrap();
    team.stack.gateway.restart().await.unwrap();
    commit(&team, &[("README.md", Some("# Shop\n")), (".codebutler/coder.md", None)]).await;
    team.says("ana", Some(&root), "and now?");
    team.message(&root, "Again.").await;
    let fewer = || async { (announced(&team).len() == 2).then_some(()) };
    team.until("what is left to be told", fewer).await;
    commit(&team, &[("README.md", Some("# The shop\n")), (".codebutler/policy.json", Some(GOOD))])
        .await;
    judged(&team, "True", "can be used").await;
    let forgotten = || async { status(&team).await.guides.is_none().then_some(()) };
    team.until("nothing to be on record", forgotten).await;
    assert_eq!(announced(&team).len(), 2, "{:#?}", announced(&team));
    team.stop().await;
}
