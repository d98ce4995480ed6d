//! What goes to Slack, against its real limits.

use codebutler_testbed::models::{Script, Step};
use codebutler_testbed::slack::{Fault, Options, RateLimits};
use futures::future::join_all;
use serde_json::json;

use super::World;

const MESSAGES: &str = "/v1/messages";

async fn world() -> World {
    let workspace = Options { rate_limits: RateLimits::Internal, ..Options::default() };
    let script = Script::of("coder", vec![Step::say("nothing")]);
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
    world.slack.fail_next("chat.postMessage", 2, &Fault::RateLimited { retry_after: 1 });
    for n in 0..3 {
        let message = json!({"key": format!("k{n}"), "text": format!("message {n}")});
        assert_eq!(world.post("coder", MESSAGES, &message).await.0, 200);
    }
    assert_eq!(world.texts(), ["message 0", "message 1", "message 2"]);
    assert_eq!(world.slack.calls("chat.postMessage"), 5);
}
