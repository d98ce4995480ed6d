//! A request that is too large for one pull request: in parts, in one repository and in two.

use codebutler_crds::{Repo, Thread};
use codebutler_testbed::github::{DrivenRepository, FirstCommit};
use codebutler_testbed::models::{
    ModelScript, RoleScript, ScriptStep, ScriptedConversation, TextMatch,
};
use codebutler_testbed::slack::MessageView;
use kube::api::{ListParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};

use crate::support::{Setup, Team, asks, journal_of, looking_back, retrospective_at_any_cost};

const WHOLE: &str = "please build all of it";

fn talk(about: &str, steps: Vec<ScriptStep>) -> ScriptedConversation {
    ScriptedConversation { thread: Some(TextMatch::Contains(about.to_owned())), steps }
}

fn part(file: &str, repo: Option<&str>, after: &[u32]) -> Value {
    json!({"title": format!("Part {file}"), "request": format!("write {file} please"), "repo": repo, "after": after})
}

/// The pm proposes parts; each of these writes a file of its own and asks whether to merge.
fn script(parts: &[Value], files: &[&str]) -> ModelScript {
    let mut pm = vec![talk(
        WHOLE,
        vec![
            ScriptStep::tool("SplitRequest", json!({"parts": parts})),
            ScriptStep::say("As one, then."),
        ],
    )];
    let (mut coder, mut lead) = (Vec::new(), Vec::new());
    for file in files {
        let about = format!("write {file} please");
        pm.push(talk(&about, vec![asks(&format!("Plan: {file}."), "plan")]));
        let work = vec![
            ScriptStep::tool("Write", json!({"path": file, "content": "1\n"})),
            ScriptStep::tool("GitCommit", json!({"message": format!("Write {file}")})),
            ScriptStep::tool("GitPush", json!({})),
            ScriptStep::tool(
                "GHCreatePR",
                json!({"title": format!("Write {file}"), "body": "Planned."}),
            ),
            ScriptStep::say("@codebutler.lead done"),
        ];
        coder.push(talk(&about, work));
        let end = vec![
            asks(&format!("Merge {file}?"), "merge"),
            ScriptStep::tool("CloseThread", json!({"summary": format!("Has {file}.")})),
        ];
        lead.push(talk(&about, end));
    }
    let mut script = ModelScript::default();
    for (role, conversations) in [("pm", pm), ("coder", coder), ("lead", lead)] {
        script.0.insert(role.to_owned(), RoleScript { conversations });
    }
    script
}

fn click(team: &Team, message: &MessageView, action: &str) {
    let (ana, channel) = (&team.stack.users["ana"], &team.stack.channel);
    team.stack.slack.click(ana, channel, &message.ts, action).unwrap();
}

/// A second repository with a Repo of its own, in the same channel and with the same roles.
async fn web(team: &Team) -> DrivenRepository {
    let files = [("README.md".to_owned(), "# web\n".to_owned())].into();
    let owner = team.stack.remote.url().rsplit('/').nth(1).unwrap().to_owned();
    let first = FirstCommit::Files(files);
    let remote = team.stack.github.create_repo(&owner, "web", first, "main").await.unwrap();
    let place = &team.stack.place;
    let api: Api<Repo> = Api::namespaced(team.stack.cluster.client(), &place.team);
    let shop = api.get("shop").await.unwrap();
    let mut spec = shop.spec.clone();
    spec.git.url = remote.url().to_owned();
    let repo = Repo::new("web", spec);
    api.create(&PostParams::default(), &repo).await.unwrap();
    team.until("the second Repo to be ready", || async {
        let repo = api.get("web").await.ok()?;
        let conditions = repo.status?.conditions;
        conditions.iter().any(|c| c.type_ == "GitReachable" && c.status == "True").then_some(())
    })
    .await;
    remote
}

async fn of_part(team: &Team, file: &str) -> Option<Thread> {
    let all = team.stack.threads().list(&ListParams::default()).await.unwrap().items;
    let about = format!("write {file} please");
    let is_it = |thread: &&Thread| {
        let prompt = thread.spec.prompt.as_deref().unwrap_or_default();
        prompt.contains(&about) && thread.spec.parent.is_some()
    };
    all.iter().find(is_it).cloned()
}

/// The conversation of a part, once there is one.
async fn conversation(team: &Team, file: &str) -> String {
    team.until(&format!("a conversation about {file}"), || async {
        Some(of_part(team, file).await?.conversation()?.ts.to_string())
    })
    .await
}

/// A part up to the question whether to merge it.
async fn ready(team: &Team, file: &str) -> (String, MessageView) {
    let root = conversation(team, file).await;
    let plan = team.message(&root, &format!("Plan: {file}.")).await;
    click(team, &plan, "plan:approve");
    let asked = team.message(&root, &format!("Merge {file}?")).await;
    (root, asked)
}

/// Waits until the message that shows the parts says something.
async fn shows(team: &Team, root: &str, part: &str) {
    team.until(&format!("the parts to show `{part}`"), || async {
        let mut all = team.messages(root).into_iter();
        all.find(|m| m.shown.contains("parts merged.") && m.shown.contains(part)).map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_have_threads_of_their_own_and_are_merged_in_order() {
    let parts = [
        part("one.txt", None, &[]),
        part("two.txt", None, &[1]),
        part("three.txt", Some("web"), &[1]),
    ];
    let script = script(&parts, &["one.txt", "two.txt", "three.txt"]);
    let setup = Setup::new(looking_back(script))
        .repo(|repo| repo.retrospective = Some(retrospective_at_any_cost()));
    let team = setup.start().await;
    let web = web(&team).await;
    let root = team.says("ana", None, &format!("[shop] {WHOLE}"));
    let asked = team.message(&root, "Build this in 3 parts?").await;
    for words in ["*2. Part two.txt*; begins when 1 is merged", "in `web`; is merged after 1"] {
        assert!(asked.shown.contains(words), "{words}: {}", asked.shown);
    }
    assert!(of_part(&team, "one.txt").await.is_none(), "nobody has said yes");
    click(&team, &asked, "parts:split");

    // The other repository's half begins at once, and its merge waits.
    let (third, merge_third) = ready(&team, "three.txt").await;
    click(&team, &merge_third, "merge:merge");
    team.message(&third, "is merged after").await;
    let (first, merge_first) = ready(&team, "one.txt").await;
    assert!(of_part(&team, "two.txt").await.is_none(), "it builds on the first");
    shows(&team, &root, "2. Part two.txt: begins after 1").await;
    let page = team.until("the pull request to say what it depends on", || async {
        let pulls = web.pulls().await.unwrap();
        let line = pulls[0].body.lines().find_map(|line| line.strip_prefix("Depends-On: "))?;
        Some(line.trim().to_owned())
    });
    assert!(page.await.ends_with("/shop/pull/1"), "a page of the other repository");
    assert_eq!(web.log("main").await.unwrap().len(), 1, "not before the first");

    click(&team, &merge_first, "merge:merge");
    team.message(&first, "Merged #1").await;
    team.message(&third, "Merged #1").await;
    let commit = web.log("main").await.unwrap().remove(0);
    assert!(commit.message.contains("Depends-On: "), "{commit:?}");
    // Each part is looked back on in its own conversation, and its journal is in its own repository.
    for (part, remote) in [(&first, &team.stack.remote), (&third, &web)] {
        team.message(part, "Retrospective").await;
        let merged = remote.git().files("main").await.unwrap();
        assert!(merged.contains(&journal_of(part)), "{part}: {merged:?}");
    }
    let whole = team.messages(&root);
    assert!(!whole.iter().any(|message| message.shown.contains("Retrospective")), "{whole:?}");
    conversation(&team, "two.txt").await;
    shows(&team, &root, "2 of 3 parts merged").await;
    let parent = team.thread(&root).await;
    let second = of_part(&team, "two.txt").await.unwrap();
    assert_eq!(second.spec.parent, Some(parent.name_any()));
    assert_eq!(second.spec.requested_by.as_ref(), Some(&team.stack.users["ana"]));
    assert!(second.status.unwrap_or_default().plan.is_none_or(|plan| plan.approved_by.is_none()));
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_that_landed_alone_is_asked_about_and_taken_back() {
    let parts = [part("one.txt", None, &[]), part("two.txt", Some("web"), &[1])];
    let team = Setup::new(script(&parts, &["one.txt", "two.txt"])).start().await;
    let _web = web(&team).await;
    let root = team.says("ana", None, &format!("[shop] {WHOLE}"));
    let asked = team.message(&root, "Build this in 2 parts?").await;
    click(&team, &asked, "parts:split");
    let (_, merge_first) = ready(&team, "one.txt").await;
    let (_, merge_second) = ready(&team, "two.txt").await;
    click(&team, &merge_first, "merge:merge");
    shows(&team, &root, "1 of 2 parts merged").await;
    click(&team, &merge_second, "merge:discard");
    let torn = team.message(&root, "Only one half has landed").await;
    assert!(torn.shown.contains("Merged: 1. Part one.txt"), "{}", torn.shown);
    click(&team, &torn, "parts:undo");
    let undo = team.until("a thread that takes it back", || async {
        let all = team.stack.threads().list(&ListParams::default()).await.unwrap().items;
        let undoes = |thread: &Thread| {
            thread.spec.prompt.as_ref().is_some_and(|prompt| prompt.starts_with("Take back"))
        };
        all.into_iter().find(undoes)
    });
    let undo = undo.await;
    let merged = team.stack.remote.log("main").await.unwrap().remove(0).sha;
    assert!(undo.spec.prompt.unwrap().contains(&merged), "it names the commit");
    assert_eq!(undo.spec.repo, "shop");
    shows(&team, &root, "Done.").await;
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_wants_it_whole_says_so_and_the_pm_hears_it() {
    let wrong = [part("one.txt", None, &[]), part("two.txt", Some("nowhere"), &[1])];
    let fine = [part("one.txt", None, &[]), part("two.txt", None, &[1])];
    let steps = vec![
        ScriptStep::tool("SplitRequest", json!({"parts": wrong})),
        ScriptStep::tool("SplitRequest", json!({"parts": fine}))
            .expecting("there is no Repo `nowhere`"),
        ScriptStep::say("As one, then."),
    ];
    let team = Setup::new(ModelScript::of("pm", steps)).start().await;
    let root = team.says("ana", None, WHOLE);
    let asked = team.message(&root, "Build this in 2 parts?").await;
    click(&team, &asked, "parts:whole");
    team.message(&root, "As one, then.").await;
    let all = team.stack.threads().list(&ListParams::default()).await.unwrap().items;
    assert_eq!(all.len(), 1, "nothing else was begun");
    team.stop().await;
}
