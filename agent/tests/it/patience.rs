//! Providers that do not answer: they are waited for, and people are told what is waited for.

use axum::http::StatusCode;
use codebutler_wire::{ErrorCode, PendingItem, RoleState};
use serde_json::{Value, json};

use crate::world::{World, calls, in_order, one_by_one, says, until};

type Refusal = (&'static str, StatusCode, ErrorCode, &'static str);

const AWAY: Refusal =
    ("/v1/chat", StatusCode::SERVICE_UNAVAILABLE, ErrorCode::Unavailable, "it is overloaded");
const LOST: Refusal =
    ("/v1/chat", StatusCode::BAD_GATEWAY, ErrorCode::Unanswered, "the connection was lost");
const LONG: Refusal =
    ("/v1/chat", StatusCode::BAD_REQUEST, ErrorCode::ContextOverflow, "maximum context length");

async fn refused(refusals: Vec<Refusal>, answers: Vec<Value>) -> World {
    let world = World::new(one_by_one(answers)).await;
    let mut inner = world.gateway.lock();
    inner.refuse = refusals;
    inner.say("go", true);
    drop(inner);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_asked_for_three_times_more() {
    let mut world = refused(vec![LOST; 3], vec![says("done")]).await;
    world.one_pod().await;
    assert_eq!(world.gateway.lock().post_texts(), ["done"]);
    let mut world = refused(vec![LOST; 4], vec![]).await;
    world.one_pod().await;
    let inner = world.gateway.lock();
    let last = inner.last_report();
    assert_eq!((last.state, inner.posts.len()), (RoleState::Failed, 0));
    let reason = last.reason.as_deref().unwrap();
    assert!(reason.starts_with("the connection was lost. I asked several times"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_is_away_for_long_is_told_of_once_and_waited_for() {
    let mut world = refused(vec![AWAY; 4], vec![says("done")]).await;
    let pod = world.pod_with(None, |agent| {
        agent.env("CODEBUTLER_TELL_AFTER_SECONDS", "0");
    });
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    let told = "I wait for the model `scripted/pm`, for up to 3 min, and go on by myself: it is overloaded.";
    assert_eq!(inner.post_texts(), [told, "done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_has_an_end_and_that_is_said() {
    let mut world = refused(vec![AWAY; 200], vec![]).await;
    let pod = world.pod_with(None, |agent| {
        agent.env("CODEBUTLER_MODEL_PATIENCE_SECONDS", "1");
    });
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    let reason = inner.last_report().reason.clone().unwrap();
    assert!(reason.starts_with("it is overloaded. I waited for up to 1 min"), "{reason}");
    assert!(inner.posts.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_is_no_time_of_the_run() {
    let mut world = refused(vec![AWAY], vec![says("done")]).await;
    {
        let mut inner = world.gateway.lock();
        inner.retry_after = Some(4);
        inner.session.timeout_seconds = 3;
    }
    let began = std::time::Instant::now();
    world.one_pod().await;
    assert!(began.elapsed().as_secs() >= 4, "it was asked to wait");
    assert_eq!(world.gateway.lock().post_texts(), ["done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_heard_while_a_provider_is_waited_for() {
    let mut world = refused(vec![AWAY; 2], vec![]).await;
    world.gateway.lock().retry_after = Some(100);
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it is refused", || gateway.lock().refuse.len() == 1).await;
    gateway.lock().pending.push(PendingItem {
        id: "stop:1:pm".into(),
        role: "pm".into(),
        kind: "stop".into(),
        choice: "stop".into(),
        user: "U1".into(),
        message: "1.000000".parse().unwrap(),
    });
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    let texts = inner.post_texts();
    assert!(texts.last().unwrap().starts_with("Stopped"), "{texts:?}");
    assert_eq!((inner.last_report().state, inner.refuse.len()), (RoleState::Waiting, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_model_can_be_chosen_while_one_is_waited_for() {
    let mut world = refused(vec![AWAY; 3], vec![says("done")]).await;
    {
        let mut inner = world.gateway.lock();
        inner.session.models = vec!["scripted/pm".into(), "scripted/strong".into()];
        inner.retry_after = Some(1);
    }
    let pod = world.pod(None);
    let gateway = world.gateway.clone();
    until("it is refused", || gateway.lock().refuse.len() == 2).await;
    gateway.lock().say("@codebutler.pm model strong", true);
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    assert_eq!(inner.requests[0]["model"], "scripted/strong");
    assert_eq!(inner.post_texts(), ["From now on I think with `scripted/strong`.", "done"]);
}

fn reads(n: usize) -> Value {
    let lines = format!("seq {n}0000 {n}1500");
    calls(&[("Bash", json!({"command": lines}))])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_too_long_is_made_shorter_and_sent_again() {
    let mut answers: Vec<_> = (1..=8).map(reads).collect();
    answers.push(says("done"));
    let size = |messages: &[Value]| Value::from(messages).to_string().len();
    let asks_summary = |messages: &[Value]| {
        let last = messages.last().unwrap()["content"].as_str().unwrap_or_default();
        last.contains("longer than you can be shown")
    };
    let play = in_order(answers);
    let said = std::sync::atomic::AtomicUsize::new(0);
    let mut world = World::new(move |messages| {
        if asks_summary(messages) {
            return says("SUMMARY");
        }
        let at = said.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        play(&vec![json!({"role": "assistant"}); at])
    })
    .await;
    world.gateway.lock().say("go", true);
    let gateway = world.gateway.clone();
    let pod = world.pod(None);
    until("it works", || gateway.lock().asked.len() >= 6).await;
    gateway.lock().refuse = vec![LONG; 2];
    assert!(pod.ended().await.success());
    let inner = world.gateway.lock();
    assert_eq!(inner.post_texts(), ["done"]);
    assert!(inner.refuse.is_empty());
    let sizes: Vec<_> = inner.asked.iter().map(|messages| size(messages)).collect();
    let largest = sizes.iter().max().unwrap();
    assert!(sizes.iter().skip(6).any(|size| size * 2 < *largest), "{sizes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_in_no_way_is_said_with_the_remedy() {
    let mut world = refused(vec![LONG; 9], vec![]).await;
    world.one_pod().await;
    let inner = world.gateway.lock();
    let reason = inner.last_report().reason.clone().unwrap();
    assert!(reason.contains("does not fit into the model `scripted/pm`"), "{reason}");
    assert!(reason.contains("(maximum context length)") && reason.contains("larger"), "{reason}");
    assert_eq!(inner.refuse.len(), 5, "asked four times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_is_what_the_server_says_and_its_remedy_fits_it() {
    let said = "request (46140 tokens) exceeds the available context size (2048 tokens), try increasing it";
    let long = ("/v1/chat", StatusCode::BAD_REQUEST, ErrorCode::ContextOverflow, said);
    let mut world = refused(vec![long; 9], vec![]).await;
    world.one_pod().await;
    let inner = world.gateway.lock();
    let reason = inner.last_report().reason.clone().unwrap();
    assert!(reason.contains("a window of 2048 tokens") && reason.contains("`-c "), "{reason}");
}
