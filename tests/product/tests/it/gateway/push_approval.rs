//! `policy.requireApproval: [Push]`: people are asked about exactly the commits that are pushed.

use codebutler_crds::thread::ActionApproval;
use codebutler_testbed::models::ModelScript;
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::{World, eventually};

async fn world() -> World {
    world_with(&json!({})).await
}

async fn world_with(policy: &serde_json::Value) -> World {
    let mut spec = json!({"policy": {"requireApproval": ["Push"]}});
    json_patch::merge(&mut spec["policy"], policy);
    let world = World::play(ModelScript::of("coder", vec![]), &spec, &json!({})).await;
    world.approve_plan().await;
    world
}

impl World {
    async fn of_pushes(&self) -> Vec<ActionApproval> {
        self.thread().await.status.unwrap_or_default().approvals
    }

    /// Answers as the gateway's Slack part would after a person's click on the newest question.
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

    // Set back by a person, it does not come back, and made again on purpose it is another push.
    let old = &before[&world.branch];
    let name = format!("refs/heads/{}", world.branch);
    world.remote.git().update_ref(&name, old, &tip).await.unwrap();
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("was removed from"), "{said}");
    assert_eq!(world.of_pushes().await.len(), 2, "nobody is asked");
    world.ok("coder", &folder, &["reset", "-q", "--hard", old]).await;
    world.ok("coder", &folder, &["cherry-pick", "-x", &tip]).await;
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

/// The key of the gateway's own question about a push: anybody can work it out.
fn key_of_push(name: &str, old: &str, new: &str) -> String {
    let mut hash = Sha256::new();
    for part in ["Push", name, old, new] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    format!("gateway:{}.1", &hex::encode(hash.finalize())[..40])
}

#[tokio::test]
async fn no_words_of_a_role_can_stand_where_the_gateway_asks() {
    let world = world().await;
    let folder = world.clone("coder").await;
    let name = format!("refs/heads/{}", world.branch);
    let new = world.git("coder", &folder, &["rev-parse", "HEAD"]).await;
    let new = String::from_utf8(new.stdout).unwrap();
    let old = world.remote.branches().await.unwrap()[&world.branch].clone();
    let mut harmless = Vec::new();
    for (key, expected) in [(key_of_push(&name, &old, new.trim()), 400), ("k1".to_owned(), 200)] {
        let said = json!({"key": key, "text": "Tabs or spaces? ok with tabs?"});
        let (status, body) = world.post("coder", "/v1/messages", &said).await;
        assert_eq!(status, expected, "{key}: {body}");
        harmless.extend(body["ts"].as_str().map(str::to_owned));
    }
    world.refused("coder", &folder, &["push", "origin", &world.branch]).await;
    let asked = world.of_pushes().await;
    assert!(!harmless.contains(&asked[0].ts.to_string()), "{asked:?}");
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let question = shown.iter().find(|one| one.ts == asked[0].ts.as_str()).unwrap();
    assert!(question.shown.contains("Push 1 commit to"), "{}", question.shown);

    // Nor do a role's own questions under the key of other words, or of other questions.
    let said = json!({"key": "k1", "text": "Tabs or spaces?"});
    assert_eq!(world.post("pm", "/v1/messages", &said).await.0, 200);
    let plan = |text: &str| json!({"key": "k1", "text": text, "decision": "plan"});
    for text in ["Plan: tabs", "Plan: drop all tables"] {
        let (status, posted) = world.post("pm", "/v1/messages", &plan(text)).await;
        assert_eq!(status, 200, "{posted}");
        let again = world.post("pm", "/v1/messages", &plan(text)).await;
        assert_eq!(again, (200, posted.clone()), "the same is said once");
        let recorded = world.thread().await.status.unwrap().plan.unwrap();
        assert_eq!(posted["ts"], recorded.ts.as_str());
        let shown = world.slack.messages(&world.channel, Some(&world.root));
        let shown = shown.iter().find(|one| one.ts == recorded.ts.as_str()).unwrap();
        assert!(shown.shown.contains(text) && !shown.buttons.is_empty(), "{}", shown.shown);
    }
    let action = json!({"key": "k1", "tool": "Bash", "summary": "it publishes",
        "hash": "0".repeat(64), "detail": "npm publish"});
    assert_eq!(world.post("coder", "/v1/approvals?wait=0", &action).await.0, 200);
    let asked = world.of_pushes().await.pop().unwrap();
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let question = shown.iter().find(|one| one.ts == asked.ts.as_str()).unwrap();
    assert!(question.shown.contains("npm publish"), "{}", question.shown);
}

#[tokio::test]
async fn a_repository_has_people_asked_by_its_own_policy_file() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    world.approve_plan().await;
    let policy = r#"{"require_approval": {"git_push_to": ["codebutler/*"]}}"#;
    let file = [(".codebutler/policy.json", Some(policy))];
    world.remote.commit("main", "ana", "Ask before pushes", &file).await.unwrap();
    let folder = world.clone("coder").await;
    let push = ["push", "origin", &world.branch];
    let said = world.refused("coder", &folder, &push).await;
    assert!(said.contains("waits for a person's approval"), "{said}");
    world.says("approved").await;
    world.ok("coder", &folder, &push).await;
}

#[tokio::test]
async fn a_field_that_a_policy_file_does_not_know_is_named_in_the_thread_with_its_line() {
    let world = World::play(ModelScript::of("coder", vec![]), &json!({}), &json!({})).await;
    let policy = "{\n  \"require_aproval\": {}\n}\n";
    let file = [(".codebutler/policy.json", Some(policy))];
    world.remote.commit("main", "ana", "Misspelt", &file).await.unwrap();
    drop(world.clone("coder").await);
    let said = "unknown field `require_aproval`";
    eventually("the thread says so", || async { world.told(said) == 1 }).await;
    assert_eq!(world.told(" at line 2 column "), 1);
}
