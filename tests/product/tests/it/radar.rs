//! Branches that get in each other's way, and in that of the base branch: seen while they are worked on.

use codebutler_crds::Thread;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use kube::ResourceExt as _;
use serde_json::json;

use crate::support::{Setup, Team, asks};

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

/// A command that ends once people have made a branch.
fn await_branch(name: &str) -> ScriptStep {
    let command =
        format!("until git ls-remote --exit-code origin refs/heads/{name}; do sleep 0.2; done");
    ScriptStep::tool("Bash", json!({"command": command}))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_do_to_a_branch_is_read_at_the_next_step_of_a_run() {
    let steps = vec![
        edit(),
        commit("Raise it"),
        push(),
        await_branch("pushed"),
        await_branch("rewritten").expecting("Somebody pushed 1 commit to this thread's branch"),
        await_branch("deleted").expecting("`dora` rewrote this thread's branch"),
        ScriptStep::say("Seen.").expecting("`dora` deleted or renamed this thread's branch"),
    ];
    let team = setup(steps).start().await;
    let root = team.says("ana", None, "@codebutler.coder raise the price");
    let name = team.thread(&root).await.name_any();
    let (remote, branch) = (&team.stack.remote, format!("codebutler/{name}"));
    let known = |thread: &Thread| {
        let radar = thread.status.as_ref().and_then(|status| status.radar.as_ref());
        radar.and_then(|radar| radar.tip.clone())
    };
    let base = remote.head("main").await.unwrap();
    let ours = team
        .until("its push", || async { remote.head(&branch).await.filter(|head| *head != base) })
        .await;
    let update = async |name: &str, commit: &str| {
        remote.git().run(&["update-ref", &format!("refs/heads/{name}"), commit]).await.unwrap();
    };
    team.thread_when(&root, "its commit", |thread| known(thread).as_ref() == Some(&ours)).await;

    let theirs =
        remote.commit(&branch, "ben", "Explain it", &[("a.md", Some("a\n"))]).await.unwrap();
    let told = team.message(&root, "Somebody pushed 1 commit").await;
    assert!(told.shown.contains(&format!("{} Explain it (ben", &theirs[..10])), "{}", told.shown);
    update("pushed", &base).await;
    team.thread_when(&root, "their commit", |thread| known(thread).as_ref() == Some(&theirs)).await;

    remote.force_push("dora", &branch, Some(&ours)).await.unwrap();
    let told = team.message(&root, "`dora` rewrote this thread's branch").await;
    assert!(told.shown.contains(&format!("{} Explain it (ben", &theirs[..10])), "{}", told.shown);
    update("rewritten", &base).await;
    team.thread_when(&root, "where it is", |thread| known(thread).as_ref() == Some(&ours)).await;

    update("mine", &ours).await;
    remote.force_push("dora", &branch, None).await.unwrap();
    let told = team.message(&root, "`dora` deleted or renamed").await;
    assert!(told.shown.contains("`mine` is there now"), "{}", told.shown);
    update("deleted", &base).await;
    team.message(&root, "Seen.").await;
    for text in ["Somebody pushed", "`dora` rewrote", "`dora` deleted"] {
        let times = team.messages(&root).iter().filter(|m| m.shown.contains(text)).count();
        assert_eq!(times, 1, "{text}");
    }
    team.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_people_take_off_the_base_branch_comes_back_with_no_merge_unseen() {
    let open = ScriptStep::tool("GHCreatePR", json!({"title": "Raise", "body": "Because."}));
    let coder = vec![edit(), commit("Raise it"), push(), open, ScriptStep::say("Pushed.")];
    let script =
        ModelScript::of("coder", coder).and("lead", vec![asks("Ready to merge?", "merge")]);
    let team = Setup::new(script)
        .file("src/price.rs", PRICE)
        .role(|role| {
            if let Some(push) = &mut role.push {
                push.needs_approved_plan = false;
            }
        })
        .start()
        .await;
    let remote = &team.stack.remote;
    let clean = remote.head("main").await.unwrap();
    let secret = remote
        .commit("main", "ben", "Add the config", &[("config.env", Some("KEY=1\n"))])
        .await
        .unwrap();
    let (root, _) = at_work(&team, "raise the price").await;
    let fork = |thread: &Thread| {
        let radar = thread.status.as_ref().and_then(|status| status.radar.clone());
        radar.and_then(|radar| radar.fork).map(|fork| (fork.commit, fork.removed))
    };
    let at = Some((secret.clone(), 0));
    team.thread_when(&root, "where it left", |thread| fork(thread) == at).await;
    remote.force_push("dora", "main", Some(&clean)).await.unwrap();
    // Whatever is pushed next has all branches looked at.
    at_work(&team, "raise the price more").await;
    let told = team.message(&root, "`dora` rewrote `main`").await;
    let commit = format!("`{} Add the config (ben)`", &secret[..10]);
    assert!(told.shown.contains(&commit), "{}", told.shown);
    let rebase = format!("`git rebase --onto main {}`", &secret[..10]);
    assert!(told.shown.contains(&rebase), "{}", told.shown);
    team.thread_when(&root, "what is back", |thread| fork(thread) == Some((secret.clone(), 1)))
        .await;
    team.says("ana", Some(&root), "@codebutler.lead merge it");
    let asked = team.message(&root, "Ready to merge?").await;
    let warned = format!("Puts back 1 commit that was taken off `main`: {commit}");
    assert!(asked.shown.contains(&warned), "{}", asked.shown);
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
