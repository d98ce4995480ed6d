//! Conversations that are longer than any window, and models that sum them up badly: what people want stays
//! before every model that is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::world::{World, calls, cut_off, says, until};

/// Summaries of weak models.
fn weak_summary(n: usize) -> Value {
    match n % 5 {
        0 => says("Results seen (1)."),
        1 => says("## Goal\n(none)\n\n## Decisions\n(none)\n\n## Open questions\n- none\n"),
        2 => says(""),
        3 => says("\u{fffd}\u{1}\u{fffd}\u{7}"),
        _ => cut_off("The user"),
    }
}

fn is_summary(messages: &[Value]) -> bool {
    let last = messages.last().unwrap()["content"].as_str().unwrap_or_default();
    last.contains("longer than you can be shown")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn task_rules_and_questions_stand_in_every_request_of_300_messages() {
    let (sums, asked) = (Arc::new(AtomicUsize::new(0)), AtomicUsize::new(0));
    let summed = sums.clone();
    let mut world = World::new(move |messages| {
        if is_summary(messages) {
            return weak_summary(summed.fetch_add(1, Ordering::SeqCst));
        }
        match asked.fetch_add(1, Ordering::SeqCst) {
            3 => calls(&[(
                "SendMessage",
                json!({"message": "QUESTION-GAMMA: which currency?",
                "waitForReply": true}),
            )]),
            5 => says("PROMISE-EPSILON: the tests will be in the same pull request."),
            n => says(&format!("Noted ({n}). {}", "fine ".repeat(60))),
        }
    })
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.context_tokens = Some(24_000);
        inner.session.idle_timeout_seconds = 60;
    }
    let _pod = world.pod(None);
    let gateway = world.gateway.clone();
    let mut stands: Vec<(usize, &str)> = Vec::new();
    for n in 0..60 {
        let newest = {
            let mut inner = gateway.lock();
            let before = inner.asked.len();
            for part in 0..5 {
                let text = match (n, part) {
                    (0, 0) => "TASK-ALPHA: port the shop to the new API".to_owned(),
                    (0, 1) => "RULE-BETA: never touch legal.txt".to_owned(),
                    (0, 2) => "RULE-ZETA: fass legal.txt nie an".to_owned(),
                    (0, 3) => "RULE-ETA: legal.txtには触らないでください".to_owned(),
                    (30, 2) => "RULE-DELTA: from now on you must write in English".to_owned(),
                    _ => format!("chatter {n}.{part} {}", "and so on ".repeat(40)),
                };
                inner.say(&text, part == 4);
            }
            match n {
                0 => stands.extend(
                    ["TASK-ALPHA", "RULE-BETA", "RULE-ZETA", "RULE-ETA"].map(|part| (before, part)),
                ),
                4 => stands.push((before, "QUESTION-GAMMA")),
                6 => stands.push((before, "PROMISE-EPSILON")),
                30 => stands.push((before, "RULE-DELTA")),
                _ => {}
            }
            (before, format!("chatter {n}.4"))
        };
        until("it answers", || gateway.lock().posts.len() > n).await;
        let inner = gateway.lock();
        for request in &inner.asked[newest.0..] {
            let text = json!(request).to_string();
            assert!(text.contains(&newest.1), "what is to be answered: {}", newest.1);
        }
    }
    let inner = gateway.lock();
    for (from, part) in stands {
        for (at, request) in inner.asked.iter().enumerate().skip(from) {
            let text = json!(request).to_string();
            assert!(text.contains(part), "{part} is not in request {at}: {text}");
        }
    }
    let sums = sums.load(Ordering::SeqCst);
    assert!(sums >= 5, "summed up {sums} times");
    let offered = |at: usize| inner.requests[at]["tools"].to_string().contains("ReadConversation");
    assert!(!offered(0) && offered(inner.requests.len() - 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_no_window_holds_is_shown_in_part_and_can_be_read() {
    let long = (0..30_000).map(|n| format!("item{n} ")).collect::<Vec<_>>().concat();
    let mut world = World::new(move |messages| {
        let last = messages.last().unwrap();
        let text = last["content"].as_str().unwrap_or_default();
        if last["role"] == "tool" {
            return says(if text.contains("item16500 ") { "found" } else { "lost" });
        }
        let ts = text.split("[message ").nth(1).unwrap().split(' ').next().unwrap();
        let from = json!({"message": ts, "from": 150_000});
        calls(&[("ReadConversation", from)])
    })
    .await;
    {
        let mut inner = world.gateway.lock();
        inner.session.context_tokens = Some(16_000);
        inner.say(&long, true);
    }
    world.one_pod().await;
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["found"]);
    let size = json!(inner.asked[0]).to_string().len();
    assert!(size < 70_000, "{size}");
    assert!(json!(inner.asked[0]).to_string().contains("ReadConversation shows messages whole"));
}
