//! Messages to Slack, against its real limits.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use codebutler_testbed::models::{ModelScript, ScriptStep};
use codebutler_testbed::slack::{CallFault, RateLimits, SlackOptions};
use futures::future::join_all;
use serde_json::json;

use super::World;

const MESSAGES: &str = "/v1/messages";

async fn world() -> World {
    let workspace = SlackOptions { rate_limits: RateLimits::Internal, ..SlackOptions::default() };
    let script = ModelScript::of("coder", vec![ScriptStep::say("nothing")]);
    World::play_in(workspace, script, &json!({}), &json!({})).await
}

impl World {
    fn texts(&self) -> Vec<String> {
        let messages = self.slack.messages(&self.channel, Some(&self.root));
        messages.into_iter().skip(1).map(|message| message.text).collect()
    }
}

#[tokio::test]
async fn a_burst_keeps_within_slacks_limits_and_in_order() {
    let world = world().await;
    let post = |n: usize| {
        let world = &world;
        async move {
            let message = json!({"key": format!("k{n}"), "text": format!("message {n}")});
            let (status, body) = world.post("coder", MESSAGES, &message).await;
            assert_eq!(status, 200, "{n}: {body}");
        }
    };
    // One role says these one after the other; another one talks meanwhile.
    let one = async {
        for n in 0..6 {
            post(n).await;
        }
    };
    let other = join_all((0..3).map(|n| {
        let message = json!({"key": format!("o{n}"), "text": format!("other {n}")});
        let world = &world;
        async move { world.post("pm", MESSAGES, &message).await.0 }
    }));
    let ((), others) = tokio::join!(one, other);
    assert_eq!(others, [200; 3]);
    let texts = world.texts();
    assert_eq!(texts.len(), 9, "{texts:?}");
    let mine: Vec<_> = texts.iter().filter(|text| text.starts_with("message")).collect();
    assert_eq!(
        mine,
        (0..6).map(|n| format!("message {n}")).collect::<Vec<_>>().iter().collect::<Vec<_>>()
    );
    // A call that Slack had turned away would have been made again.
    assert_eq!(world.slack.calls("chat.postMessage"), 9);
}

#[tokio::test]
async fn later_means_later_and_nothing_is_lost_or_doubled() {
    let world = world().await;
    world.slack.fail_next("chat.postMessage", 2, &CallFault::RateLimited { retry_after: 1 });
    for n in 0..3 {
        let message = json!({"key": format!("k{n}"), "text": format!("message {n}")});
        assert_eq!(world.post("coder", MESSAGES, &message).await.0, 200);
    }
    assert_eq!(world.texts(), ["message 0", "message 1", "message 2"]);
    assert_eq!(world.slack.calls("chat.postMessage"), 5);
}

#[tokio::test]
async fn only_pictures_are_shown_and_only_a_few_of_a_fair_size() {
    let world = World::start(vec![]).await;
    let png = |size: usize| {
        let mut bytes = b"\x89PNG\r\n\x1a\n".to_vec();
        bytes.resize(size, 0);
        STANDARD.encode(bytes)
    };
    let fake = STANDARD.encode("<svg onload=alert(1)>");
    let tried = [
        (vec![fake], "PNG, JPEG, GIF or WebP"),
        (vec!["%%".to_owned()], "base64"),
        (vec![png(3 * 1024 * 1024 + 1)], "3 MiB"),
        (vec![png(10); 5], "at most 4"),
        (vec![png(10), STANDARD.encode("#!/bin/sh")], "PNG, JPEG, GIF or WebP"),
    ];
    for (n, (pictures, says)) in tried.into_iter().enumerate() {
        let pictures: Vec<_> = pictures.into_iter().map(|data| json!({"data": data})).collect();
        let message = json!({"key": format!("k{n}"), "text": "look", "pictures": pictures});
        let (status, body) = world.post("coder", MESSAGES, &message).await;
        assert_eq!(status, 400, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains(says), "{body}");
    }
    assert_eq!(world.texts(), [""; 0], "nothing of it was said");
    assert_eq!(world.slack.calls("files.getUploadURLExternal"), 0);

    // The same message twice shows its pictures once.
    let message = json!({"key": "k", "text": "look", "pictures": [{"data": png(10)}]});
    for _ in 0..2 {
        assert_eq!(world.post("coder", MESSAGES, &message).await.0, 200);
    }
    let messages = world.slack.messages(&world.channel, Some(&world.root));
    assert_eq!(messages.iter().flat_map(|message| &message.files).count(), 1, "{messages:?}");
}
