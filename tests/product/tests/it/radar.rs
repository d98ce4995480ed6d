//! Branches that get in each other's way, and in that of the base branch: seen while they are worked on.

use codebutler_crds::Thread;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{Setup, Team};

const PRICE: &str = "pub fn total() -> u32 {\n    1\n}\n";

/// A change of the same line, another one for each branch.
fn edit() -> ScriptStep {
    let command =
        "sed -i \"s/^    1$/    $(git branch --show-current | cksum | cut -c1-6)/\" src/price.rs";
    ScriptStep::tool("Bash", json!({"command": command}))
}

fn commit(message: &str) -> ScriptStep {
    ScriptStep::tool("GitCommit", json!({"message": message}))
}

fn push() -> ScriptStep {
    ScriptStep::tool("GitPush", json!({}))
}

/// A team in which plans are nobody's concern.
fn setup(coder: Vec<ScriptStep>) -> Setup {
    let script =
        ModelScript::of("pm", vec![ScriptStep::say("They fit together.")]).and("coder", coder);
    Setup::new(script).file("src/price.rs", PRICE).role(|role| {
        if let Some(push) = &mut role.push {
            push.needs_approved_plan = false;
        }
    })
}

fn summary(thread: &Thread) -> &str {
    let radar = thread.status.as_ref().and_then(|status| status.radar.as_ref());
    radar.map_or("", |radar| &*radar.summary)
}

async fn at_work(team: &Team, what: &str) -> (String, String) {
    let root = team.says("ana", None, &format!("@codebutler.coder {what}"));
    team.message(&root, "Pushed.").await;
    let name = team.thread(&root).await.name_any();
    (root, name)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_branch_that_somebody_rewrites_is_told_in_its_thread_once() {
    let team =
        setup(vec![edit(), commit("Raise it"), push(), ScriptStep::say("Pushed.")]).start().await;
    let (root, name) = at_work(&team, "raise the price").await;
    let (remote, branch) = (&team.stack.remote, format!("codebutler/{name}"));
    let pushed = remote.head(&branch).await.unwrap();
    let known = |thread: &Thread| {
        let radar = thread.status.as_ref().and_then(|status| status.radar.as_ref());
        radar.and_then(|radar| radar.tip.clone())
    };
    team.thread_when(&root, "its commit", |thread| known(thread).as_ref() == Some(&pushed)).await;
    // A force push of a person's, by which the branch loses what was pushed.
    let base = remote.head("main").await.unwrap();
    let moved = ["update-ref", &format!("refs/heads/{branch}"), &base];
    remote.git().run(&moved).await.unwrap();
    // Whatever is pushed next has all branches looked at.
    at_work(&team, "raise the price more").await;
    let told = team.message(&root, "rewrote this thread's branch").await;
    assert!(told.shown.contains("1 commit that it had is not in it any more"), "{}", told.shown);
    assert!(
        told.shown.contains(&pushed[..10]) && told.shown.contains(&base[..10]),
        "{}",
        told.shown
    );
    team.thread_when(&root, "where it is", |thread| known(thread).as_ref() == Some(&base)).await;
    let times = team.messages(&root).iter().filter(|m| m.shown.contains("rewrote")).count();
    assert_eq!(times, 1);
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_pushes_the_same_lines_is_told_in_both_threads_once() {
    let team =
        setup(vec![edit(), commit("Raise it"), push(), ScriptStep::say("Pushed.")]).start().await;
    let (first, first_name) = at_work(&team, "raise the price").await;
    let (second, second_name) = at_work(&team, "raise the price more").await;
    for (root, other) in [(&first, &second_name), (&second, &first_name)] {
        let told = team.message(root, "change the same lines of `src/price.rs`").await;
        assert!(
            told.shown
                .contains(&format!("Thread {other} (`codebutler/{other}`, 2 lines in 1 file)"))
        );
        assert!(told.shown.contains("`src/price.rs: total`"), "{}", told.shown);
        let seen = format!("conflicts with {other}");
        team.thread_when(root, "the radar", |thread| summary(thread) == seen).await;
    }
    // Of equals the older goes first: who comes second judges whether both fit together.
    let judged = team.message(&second, "They fit together.").await;
    assert_eq!(judged.sender.name, "PM");
    let ordered = team.message(&second, "Proposed order of merging").await;
    assert!(
        ordered
            .shown
            .contains(&format!("the smaller first: {first_name} (2 lines in 1 file), then this"))
    );
    let times = |root: &str| {
        let all = team.messages(root);
        all.iter().filter(|message| message.shown.contains("the same lines")).count()
    };
    assert_eq!((times(&first), times(&second)), (1, 1));
    assert!(!team.messages(&first).iter().any(|message| message.sender.name == "PM"));
    team.stop().await;
}
