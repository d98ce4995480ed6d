//! Searches of the web, which cost money: made once, whatever dies on the way.

use axum::http::StatusCode;
use codebutler_wire::ErrorCode;
use futures::{StreamExt as _, stream};
use serde_json::json;

use crate::world::{World, calls, in_order, results, says};

const SEARCH: &str = "/v1/web/search";

async fn searching() -> World {
    let search = ("WebSearch", json!({"query": "release notes"}));
    let world = World::new(in_order(vec![calls(&[search]), says("done")])).await;
    let mut inner = world.gateway.lock();
    inner.session.tools = ["Read", "WebSearch", "SendMessage"].map(Into::into).to_vec();
    inner.say("look it up", true);
    drop(inner);
    world
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_whose_answer_is_lost_is_asked_for_and_not_made_again() {
    let mut world = searching().await;
    world.gateway.lock().cut = vec![SEARCH];
    world.one_pod().await;
    let inner = world.gateway.lock();
    let sent: Vec<_> = inner.searches.iter().map(|one| (one.key.as_str(), one.again)).collect();
    assert!(sent.len() == 2 && sent[0].0 == sent[1].0 && !sent[0].0.is_empty(), "{sent:?}");
    assert!(!sent[0].1 && sent[1].1, "the second one only asks: {sent:?}");
    assert_eq!(inner.searched.len(), 1, "paid once");
    let told = results(inner.asked.last().unwrap())[0].to_owned();
    assert!(told.starts_with("1. Guide\n   https://docs.invalid/"), "{told}");
    assert_eq!(inner.post_texts(), ["done"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_is_refused_is_an_error_for_the_role() {
    for (status, code) in [
        (StatusCode::PAYMENT_REQUIRED, ErrorCode::BudgetExceeded),
        (StatusCode::BAD_GATEWAY, ErrorCode::Unanswered),
        (StatusCode::BAD_GATEWAY, ErrorCode::Upstream),
        (StatusCode::FORBIDDEN, ErrorCode::ContentRefused),
    ] {
        let mut world = searching().await;
        world.gateway.lock().refuse = vec![(SEARCH, status, code, "ask a person")];
        world.one_pod().await;
        let inner = world.gateway.lock();
        assert_eq!(results(inner.asked.last().unwrap()), ["Error: ask a person"], "{code:?}");
        assert_eq!(inner.post_texts(), ["done"], "{code:?}");
    }
}

/// A search with a pod that dies at `step`; true if it was killed.
async fn die_at(step: u64) -> bool {
    let mut world = searching().await;
    let ended = world.settle(Some(step)).await;
    assert!(ended.len() < 4, "step {step}: {ended:?}");
    let inner = world.gateway.lock();
    assert!(inner.searched.len() <= 1, "paid twice, killed at step {step}: {:?}", inner.searches);
    assert_eq!(inner.post_texts(), ["done"], "killed at step {step}");
    ended.len() > 1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_step_pays_for_no_search_twice() {
    let mut walk = stream::iter(1..200u64).map(die_at).buffered(3);
    let mut walked = 0;
    while walk.next().await.unwrap() {
        walked += 1;
    }
    assert!((5..150).contains(&walked), "{walked} steps");
}
