//! A plan with its files: what else is under way is seen before, and what goes beyond it is noticed
//! after.

use std::fs;

use codebutler_wire::{ChangeSize, OtherThread, TextMerge, ThreadOverlap};
use serde_json::{Value, json};

use crate::world::{World, calls, git, in_order, results, says, until};

fn decisions(world: &World) -> Vec<Value> {
    let text = fs::read_to_string(world.path("agent/pm/decisions.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn overlap() -> ThreadOverlap {
    ThreadOverlap {
        thread: "shop-2".into(),
        branch: Some("codebutler/shop-2".into()),
        files: vec!["src/price.rs".into()],
        folders: vec![],
        symbols: vec!["src/price.rs: total".into()],
        text: Some(TextMerge::Conflict),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_that_meets_another_thread_is_told_so() {
    let plan = json!({"message": "The plan", "decision": "plan", "files": ["src/price.rs"],
        "workflow": "bugfix", "complexity": "simple"});
    let mut world = World::new(in_order(vec![
        calls(&[("ListThreads", json!({}))]),
        calls(&[("SendMessage", plan)]),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.tools.push("ListThreads".to_owned());
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.others = vec![
            OtherThread {
                name: "shop-2".into(),
                branch: Some("codebutler/shop-2".into()),
                phase: Some("coder".into()),
                approved: Some(true),
                pull_request: Some(7),
                planned: vec!["src/".into()],
                changed: vec!["src/price.rs".into()],
                more: 2,
                size: Some(ChangeSize { lines: 40, files: 3 }),
                overlap: Some(overlap()),
            },
            OtherThread { name: "shop-3".into(), ..OtherThread::default() },
        ];
        inner.overlaps = vec![overlap()];
        inner.say("fix it", true);
    }
    world.one_pod().await;
    let decided = decisions(&world);
    let inner = world.gateway.lock();
    insta::assert_snapshot!(results(&inner.asked[1])[0], @r"
    shop-2: coder, `codebutler/shop-2`, plan approved, pull request #7, changed lines: 40 in 3 files
      its plan names: src/
      its branch changes: src/price.rs and 2 more
      OVERLAPS with this conversation at: src/price.rs
      at these definitions: src/price.rs: total
      what both have pushed CONFLICTS: the second one to be merged has to adapt
    shop-3: not begun, no branch yet, no plan
    ");
    assert_eq!(inner.posts[0].files, ["src/price.rs"]);
    let told = world.transcript();
    let told = told.iter().rfind(|record| record["record"] == "result").unwrap();
    let met = "shop-2 is at src/price.rs too. what both have pushed CONFLICTS: the second one to be merged has \
               to adapt.";
    assert!(told["text"].as_str().unwrap().ends_with(met), "{told}");
    let shown: Vec<_> = decided
        .iter()
        .map(|d| (d["kind"].as_str().unwrap(), d["chosen"].as_str().unwrap()))
        .collect();
    assert_eq!(
        shown,
        [("model", "scripted/pm"), ("visible", "SendMessage"), ("workflow", "bugfix")]
    );
    assert_eq!(decided[0]["alternatives"], json!(["scripted/strong"]));
    assert_eq!(decided[0]["evidence"], "the role's default");
    // The workflows of the seed: the repository has none of its own.
    let others = decided[2]["alternatives"].as_array().unwrap();
    assert!(
        others.contains(&json!("implement")) && !others.contains(&json!("bugfix")),
        "{others:?}"
    );
    assert!(decided[2]["evidence"].as_str().unwrap().contains("src/price.rs"));
}

/// What people approve is to have each of their wishes in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_is_not_posted_before_what_people_wrote_meanwhile_was_read() {
    let wait = "until [ -e $TMPDIR/go ]; do sleep 0.05; done";
    let plan = |text: &str| ("SendMessage", json!({"message": text, "decision": "plan"}));
    let whole = "1. Mend the sum. 2. Rename it, as you added.";
    let mut world = World::new(in_order(vec![
        calls(&[("Bash", json!({"command": wait})), plan("1. Mend the sum.")]),
        calls(&[plan(whole)]),
    ]))
    .await;
    world.gateway.lock().say("mend the sum", true);
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it works", || gateway.lock().requests.len() == 1).await;
    gateway.lock().say("also rename it", true);
    fs::write(world.path("tmp/go"), "").unwrap();
    assert!(pod.ended().await.success());
    let inner = gateway.lock();
    assert_eq!(inner.post_texts(), [whole]);
    let told = results(&inner.asked[1]);
    assert!(told[1].starts_with("Error: not posted, since people wrote"), "{told:?}");
    assert!(json!(inner.asked[1]).to_string().contains("also rename it"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_with_others_is_told_in_the_thread_with_its_files() {
    let write = |path: &str| ("Write", json!({"path": path, "content": "mine\n"}));
    let mut world = World::new(in_order(vec![
        calls(&[
            write("README"),
            write("fine"),
            ("GitCommit", json!({"message": "Mine"})),
            ("Bash", json!({"command": "touch $TMPDIR/committed; while [ ! -e $TMPDIR/go ]; do sleep 0.05; done"})),
            ("GitPush", json!({})),
            ("GitPush", json!({})),
        ]),
        says("I ask."),
    ]))
    .await;
    world.gateway.lock().say("go", true);
    let pod = world.pod(None);
    until("it is committed", || world.path("tmp/committed").exists()).await;
    let seed = world.path("seed");
    fs::write(seed.join("README"), "theirs\n").unwrap();
    git(&seed, &["commit", "-q", "-am", "Theirs"]);
    let remote = world.path("remote");
    git(&seed, &["push", "-q", remote.to_str().unwrap(), "main:codebutler/t"]);
    fs::write(world.path("tmp/go"), "").unwrap();
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    let told = results(&inner.asked[1]);
    assert!(told[4].contains("conflict with yours in README"), "{told:?}");
    let posts = inner.post_texts();
    assert_eq!(posts.len(), 2, "told once: {posts:?}");
    assert!(posts[0].contains("conflict in `README`."), "{posts:?}");
    assert_eq!(fs::read_to_string(world.tree("README")).unwrap(), "mine\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_beside_the_plan_is_noticed_once() {
    let change = |path: &str| {
        calls(&[
            ("Write", json!({"path": path, "content": "x"})),
            ("GitCommit", json!({"message": format!("Change {path}")})),
            ("GitPush", json!({})),
        ])
    };
    let mut world = World::new(in_order(vec![
        change("src/price.rs"),
        change("src/cart.rs"),
        change("src/more/x.rs"),
        says("done"),
    ]))
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.planned = vec!["src/price.rs".into(), "src/more/".into()];
        inner.session.complexity = Some(codebutler_wire::PlanComplexity::Complex);
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.say("go", true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    let pushes: Vec<_> = results(inner.asked.last().unwrap())
        .into_iter()
        .filter(|text| text.starts_with("Pushed"))
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(pushes.len(), 3, "{pushes:?}");
    assert!(!pushes[0].contains("approved plan"), "{pushes:?}");
    assert!(
        pushes[1].contains(
            "The approved plan does not name `src/cart.rs`: when you hand over, name them"
        ),
        "{pushes:?}"
    );
    let decided = decisions(&world);
    assert_eq!(decided[0]["evidence"], "the approved plan says: Complex work");
    let beside: Vec<_> = decided.iter().filter(|d| d["kind"] == "deviation").collect();
    assert_eq!(beside.len(), 1, "{beside:?}");
    assert_eq!(beside[0]["chosen"], "src/cart.rs");
    assert_eq!(beside[0]["alternatives"], json!(["keep to the plan"]));
    assert_eq!(beside[0]["evidence"], "the plan names src/price.rs, src/more/");
}
