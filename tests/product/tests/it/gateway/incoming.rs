//! What comes with a message: recordings, and links to what is said elsewhere.

use codebutler_crds::NanoUsd;
use codebutler_testbed::models::ModelScript;
use serde_json::{Value, json};

use super::{World, eventually};

impl World {
    /// The coder's mail, with this message as the newest.
    async fn mail(&self, ts: &str) -> Vec<String> {
        self.patch_thread(&json!({"status": {"roles": {"coder": {"inbox": ts}}}})).await;
        let texts = |body: &Value| -> Vec<String> {
            let messages = body["messages"].as_array().cloned().unwrap_or_default();
            messages.iter().map(|m| m["text"].as_str().unwrap_or_default().to_owned()).collect()
        };
        let (status, body) = self.get("coder", "/v1/inbox?wait=20").await;
        assert_eq!(status, 200, "{body}");
        texts(&body)
    }

    fn writes(&self, text: &str) -> String {
        let user = self.slack.ensure_user("ana");
        self.slack.post_as(&user, &self.channel, Some(&self.root), text).unwrap()
    }
}

#[tokio::test]
async fn a_recording_is_written_down_once_and_shown_in_the_thread() {
    let price = json!({"model": {"prices": {"scripted/ear": {"audioMinute": "0.006"}}}});
    let own = json!({"audio": "scripted/ear"});
    let world = World::play(ModelScript::of("coder", vec![]), &price, &own).await;
    let user = world.slack.ensure_user("ana");
    let sound = vec![7_u8; 60_000];
    let file = ("voice.m4a", sound.as_slice());
    let (ts, _) =
        world.slack.upload_as(&user, &world.channel, Some(&world.root), "listen", file).unwrap();
    for _ in 0..2 {
        let mail = world.mail(&ts).await;
        let heard = mail.iter().find(|text| text.contains("[recording voice.m4a")).unwrap();
        assert!(heard.contains("fix the total"), "{heard}");
    }
    let shown = world.slack.messages(&world.channel, Some(&world.root));
    let shown: Vec<_> = shown.iter().filter(|m| m.text.contains("What I understood")).collect();
    assert_eq!(shown.len(), 1);
    assert!(shown[0].shown.contains("fix the total"), "{}", shown[0].shown);
    assert_eq!(world.models.requests().len(), 1, "paid once");
    eventually("metered", || async {
        world.thread().await.status.unwrap().cost.is_some_and(|cost| cost > NanoUsd::ZERO)
    })
    .await;
}

#[tokio::test]
async fn links_bring_read_only_context_from_the_own_workspace_and_repository() {
    let world = super::pull_request::with_a_commit().await;
    world.approve_plan().await;
    let body = "Because. A token ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let (status, pull) =
        world.post("coder", "/v1/pull-request", &json!({"title": "Add a", "body": body})).await;
    assert_eq!(status, 200, "{pull}");
    let user = world.slack.ensure_user("ana");
    let bot = world.slack.bot_user_id();
    let public = world.slack.create_channel("design", &[&user, &bot]);
    let said = world.slack.post_as(&user, &public, None, "Prices are decimals.\n```\nx").unwrap();
    let private = world.slack.create_private_channel("board", &[&user, &bot]);
    let secret = world.slack.post_as(&user, &private, None, "We sell the company.").unwrap();
    let permalink = |channel: &str, ts: &str| {
        format!("{}/archives/{channel}/p{}", world.slack.origin(), ts.replace('.', ""))
    };
    let ts = world.writes(&format!(
        "see {} and {} and {}",
        permalink(&public, &said),
        permalink(&private, &secret),
        pull["url"].as_str().unwrap()
    ));
    let mail = world.mail(&ts).await.join("\n");
    assert!(mail.contains("Prices are decimals."), "{mail}");
    assert!(mail.contains("read-only context"), "{mail}");
    assert!(mail.contains("in a private channel") && !mail.contains("We sell"), "{mail}");
    assert!(mail.contains("linked pull request #") && mail.contains("Because."), "{mail}");
    assert!(!mail.contains("ghp_0123"), "{mail}");
}
