//! Mistakes in the app's setup are told on the Repo, all of them at once.

use std::time::Duration;

use codebutler_crds::Repo;
use codebutler_crds::wire::AskedDecision;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::desk::{Desk, PATIENCE, Setting};
use super::{ask, inbox, post};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_answers_late_is_waited_for() {
    let setting = Setting { slow_lists: Duration::from_secs(1), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let root = desk.says(None, "please plan");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert_eq!(inbox(&desk.thread(&root).await.unwrap(), "pm").unwrap().as_str(), root);
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_missing_scope_is_named_at_once() {
    let setting = Setting { scopes: Some(&["users:read"]), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let said = desk.unreachable().await;
    assert!(said.contains("chat:write, channels:history or groups:history"), "{said}");
    assert!(said.contains("shop-slack") && said.contains("install it again"), "{said}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_own_name_a_role_signs_in_the_text() {
    let scopes: &[&str] =
        &["chat:write", "channels:history", "channels:read", "reactions:write", "reactions:read"];
    let setting = Setting { scopes: Some(scopes), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    let said = desk.reachable().await;
    assert!(said.contains("without chat:write.customize roles speak under the app's"), "{said}");
    assert!(!said.contains("reactions"), "{said}");

    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    let pm = desk.caller(&root, "pm").await;
    let service = desk.service();
    service.post(&pm, &post("one", "@codebutler.coder go"), None).await.unwrap();
    service.post(&pm, &ask("two", "The plan", AskedDecision::Plan), None).await.unwrap();
    let messages = desk.slack.messages(&desk.channel, Some(&root));
    assert_eq!(messages[1].text, "*The pm*\n@codebutler.coder go");
    assert!(messages[2].text.starts_with("*The pm*\nThe plan"), "{}", messages[2].text);
    // The mention is still one.
    let thread = desk.thread(&root).await.unwrap();
    assert!(inbox(&thread, "coder").is_some());
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_installation_with_the_same_app_is_told() {
    let desk = Desk::start().await;
    desk.reachable().await;
    let elsewhere = desk.slack.create_channel("elsewhere", &[&desk.ana, &desk.slack.bot_user_id()]);
    let metadata = json!({"event_type": "codebutler", "event_payload": {"thread": "their-thread"}});
    let body = json!({"channel": elsewhere, "text": "hello there", "metadata": metadata});
    desk.post_as_app(&body).await;
    let said = desk.unreachable().await;
    assert!(said.contains("another installation") && said.contains("an app of its own"), "{said}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_channel_may_be_named_and_created() {
    let setting = Setting { channel: Some("#shop"), ..Setting::default() };
    let desk = Desk::with(setting).await;
    desk.slack.wait_connected(1, PATIENCE).await.unwrap();
    desk.reachable().await;
    assert_eq!(desk.repo().await.channel(), Some(desk.channel.as_str()));
    let root = desk.says(None, "hello");
    desk.slack.wait_acked(&root, PATIENCE).await.unwrap();
    assert_eq!(desk.thread(&root).await.unwrap().conversation().unwrap().channel, desk.channel);
    desk.stop().await;

    let setting = Setting { channel: Some("#größe-ñandú-商店"), ..Setting::default() };
    let desk = Desk::with(setting).await;
    let said = desk.unreachable().await;
    assert!(
        said.contains("#größe-ñandú-商店") && said.contains("spec.slack.createChannel"),
        "{said}"
    );
    let create = Patch::Merge(json!({"spec": {"slack": {"createChannel": true}}}));
    let repos = Api::<Repo>::namespaced(desk.cluster.client(), &desk.place.team);
    repos.patch("shop", &PatchParams::default(), &create).await.unwrap();
    desk.reachable().await;
    let created = desk.repo().await.channel().unwrap().to_owned();
    let world = desk.slack.snapshot();
    assert_eq!(world.channels[&created].name, "größe-ñandú-商店");
    desk.stop().await;
}
