//! `policy.requireApproval: [Push]`: people are asked about exactly the commits that are pushed.

use codebutler_crds::thread::Approval;
use codebutler_testbed::models::Script;
use serde_json::json;

use super::{World, eventually};

async fn world() -> World {
    world_with(&json!({})).await
}

async fn world_with(policy: &serde_json::Value) -> World {
    let mut spec = json!({"policy": {"requireApproval": ["Push"]}});
    json_patch::merge(&mut spec["policy"], policy);
    let world = World::play(Script::of("coder", vec![]), &spec, &json!({})).await;
    world.approve_plan().await;
    world
}

impl World {
    async fn of_pushes(&self) -> Vec<Approval> {
        self.thread().await.status.unwrap_or_default().approvals
    }

    /// As the gateway's Slack part would after a person's click on the newest question.
    async fn says(&self, answer: &str) {
        let mut asked = json!(self.of_pushes().await);
        let newest = asked.as_array_mut().unwrap().last_mut().unwrap();
        newest["answer"] = json!(answer);
        newest["by"] = json!("U1");
        self.patch_thread(&json!({"status": {"approvals": asked}})).await;
    }
}

#[tokio::test]
async fn a_push_waits_for_people_and_passes_once() {
    let world = world().await;
    let folder = world.clone("coder").await;
    let before = world.remote.branches().await.unwrap();
    let push = ["push", "origin", &world.branch];
    for _ in 0..2 {
        let said = world.refused("coder", &folder, &push).await;
        assert!(said.contains("waits for a person's approval"), "{said}");
        assert!(said.contains("end your run. Their answer wakes you"), "{said}");
    }
    assert_eq!(world.remote.branches().await.unwrap(), before);
    let asked = world.of_pushes().await;
    assert_eq!(asked.len(), 1, "the same is asked once: {asked:?}");
    assert_eq!((&*asked[0].tool, &*asked[0].role), ("Push", "coder"));
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let shown = shown.into_iter().find(|m| m.shown.contains("Push 1 commit to")).unwrap();
    assert!(shown.shown.contains("Add a") && shown.shown.contains("+ a.txt"), "{}", shown.shown);
    assert_eq!(shown.buttons.len(), 2, "{:?}", shown.buttons);

    world.says("approved").await;
    // Other commits were not approved.
    world.ok("coder", &folder, &["commit", "-q", "--amend", "-m", "Something else"]).await;
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("waits for a person's approval"), "{said}");
    world.ok("coder", &folder, &["reset", "-q", "--hard", "HEAD@{1}"]).await;
    world.ok("coder", &folder, &push).await;
    let tip = world.remote.head(&world.branch).await.unwrap();
    assert_ne!(Some(&tip), before.get(&world.branch));

    // Set back by a person, the same push is another one.
    let old = &before[&world.branch];
    let name = format!("refs/heads/{}", world.branch);
    world.remote.git().update_ref(&name, old, &tip).await.unwrap();
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("waits for a person's approval"), "{said}");
    assert!(!said.contains("nobody answered"), "{said}");
    assert_eq!(world.remote.head(&world.branch).await.as_ref(), Some(old));
}

#[tokio::test]
async fn a_denied_push_says_so_and_asks_no_more() {
    let world = world().await;
    let folder = world.clone("coder").await;
    let push = ["push", "origin", &world.branch];
    world.refused("coder", &folder, &push).await;
    world.says("denied").await;
    eventually("git says who denied it", || async {
        let said = world.refused("coder", &folder, &push).await;
        said.contains("a person said no to exactly this: ask in the thread what they want")
    })
    .await;
    assert_eq!(world.of_pushes().await.len(), 1);
}

#[tokio::test]
async fn a_question_about_a_push_that_nobody_answers_is_asked_again() {
    let world = world_with(&json!({"approvalSeconds": 1})).await;
    let folder = world.clone("coder").await;
    let push = ["push", "origin", &world.branch];
    world.refused("coder", &folder, &push).await;
    eventually("expiry is told as expiry", || async {
        let said = world.refused("coder", &folder, &push).await;
        said.contains("nobody answered in time, so people are asked once more")
            || said.contains("asked several times and nobody answered")
    })
    .await;
    assert!(world.of_pushes().await.len() >= 2);
}

#[tokio::test]
async fn what_is_refused_anyway_asks_nobody() {
    let world = world().await;
    let folder = world.clone("coder").await;
    let token = ["ghp", &"a1B2".repeat(9)].join("_");
    std::fs::write(folder.join("key.txt"), token).unwrap();
    world.ok("coder", &folder, &["add", "."]).await;
    world.ok("coder", &folder, &["commit", "-q", "-m", "Add a key"]).await;
    let said = world.refused("coder", &folder, &["push", "origin", &world.branch]).await;
    assert!(said.contains("github-token in key.txt"), "{said}");
    assert!(world.of_pushes().await.is_empty());
}
