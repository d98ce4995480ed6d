//! Many threads, many channels, and what Slack allows in a minute.

use std::time::{Duration, Instant};

use super::desk::{Desk, PATIENCE, Setting};
use super::inbox;

const REPLIES: &str = "conversations.replies";

#[tokio::test(flavor = "multi_thread")]
async fn one_replica_reads_back_and_nobody_waits_for_it() {
    let mut desk = Desk::start().await;
    desk.cursor().await;
    let roots: Vec<String> = (0..60).map(|n| desk.says(None, &format!("number {n}"))).collect();
    for root in &roots {
        desk.slack.wait_acked(root, PATIENCE).await.unwrap();
    }
    let pm = desk.caller(&roots[0], "pm").await;
    desk.gateway.take().unwrap().stop().await;

    // The sweep of a new holder, and one that only hears, look at all of them.
    let standby = desk.standby();
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let root = desk.says(None, "heard by the other one");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let (histories, replies) = ("conversations.history", desk.slack.calls(REPLIES));
    let before = desk.slack.calls(histories);
    desk.restart();
    desk.slack.wait_connected(2, PATIENCE).await.unwrap();
    desk.until("a sweep", || async { desk.slack.calls(REPLIES) >= replies + 15 }).await;
    let start = Instant::now();
    for _ in 0..12 {
        let mail = desk.service().inbox(&pm, None, Duration::ZERO).await.unwrap();
        assert!(!mail.messages.is_empty());
    }
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(desk.slack.calls(histories), before + 1, "one sweep");
    assert_eq!(desk.slack.early_calls(REPLIES), 0);
    standby.cancel();
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_among_fifty_thousand_is_found_while_others_are_served() {
    // Found on page 22, after more calls than a minute allows at once.
    let setting = Setting { channel: Some("#channel-21000"), others: 50_000, ..Setting::default() };
    let desk = Desk::with(setting).await;
    let start = Instant::now();
    desk.second_repo().await;
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
    let named = || async { desk.repo().await.channel().map(str::to_owned) };
    desk.until("the channel's id", || async { named().await.is_some() }).await;
    let id = named().await.unwrap();
    assert_eq!(desk.slack.snapshot().channels[&id].name, "channel-21000");
    desk.reachable().await;
    assert_eq!(desk.slack.early_calls("conversations.list"), 0);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_own_channel_of_fifty_thousand_is_found_with_one_call() {
    let setting = Setting { channel: Some("#shop"), others: 50_000, ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.reachable().await;
    let (own, all) =
        (desk.slack.calls("users.conversations"), desk.slack.calls("conversations.list"));
    assert_eq!((own, all), (1, 0));
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert!(inbox(&desk.thread(&root).await.unwrap(), "pm").is_some());
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_unknown_people_a_page_asks_for_so_many_at_once() {
    let desk = Desk::start().await;
    desk.reachable().await;
    let users: Vec<String> =
        (0..7).map(|n| desk.slack.create_user(&format!("u{n}"), &format!("User {n}"))).collect();
    let repo = desk.repo().await;
    let before = desk.slack.calls("users.info");
    let mut asked = Vec::new();
    for _ in 0..4 {
        let named = desk.service().names(&repo, users.iter(), 3).await;
        asked.push((named.len(), desk.slack.calls("users.info") - before));
    }
    // Whoever is left is known with a later look, and nobody is asked for twice.
    assert_eq!(asked, [(3, 3), (6, 6), (7, 7), (7, 7)]);
    desk.stop().await;
}
